"""Activations against their formulas in plain Python, against differences, and against PyTorch, at their kinks too."""
import math

import numpy as np
import pytest

import minigrad as mg
import nn
from nn import functional as F


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def clipped(x, low, high):
    return low if x < low else high if x > high else x


# name: constructor, the same in both libraries; formula of one element; where it has kinks
ACTIVATIONS = {
    "ReLU": (lambda nn: nn.ReLU(), lambda x: x if x > 0 else 0.0, [0]),
    "LeakyReLU": (lambda nn: nn.LeakyReLU(), lambda x: x if x > 0 else 0.01 * x, [0]),
    "LeakyReLU 0.5": (lambda nn: nn.LeakyReLU(0.5), lambda x: x if x > 0 else 0.5 * x, [0]),
    "SiLU": (lambda nn: nn.SiLU(), lambda x: x * sigmoid(x), []),
    "Mish": (lambda nn: nn.Mish(), lambda x: x * math.tanh(math.log(1 + math.exp(x))), []),
    "ELU": (lambda nn: nn.ELU(), lambda x: x if x > 0 else math.exp(x) - 1, [0]),
    "ELU 0.5": (lambda nn: nn.ELU(alpha=0.5), lambda x: x if x > 0 else 0.5 * (math.exp(x) - 1), [0]),
    "SELU": (lambda nn: nn.SELU(),
             lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)), [0]),
    "CELU": (lambda nn: nn.CELU(), lambda x: x if x > 0 else math.exp(x) - 1, [0]),
    "CELU 0.5": (lambda nn: nn.CELU(alpha=0.5), lambda x: x if x > 0 else 0.5 * (math.exp(2 * x) - 1), [0]),
    "ReLU6": (lambda nn: nn.ReLU6(), lambda x: clipped(x, 0, 6), [0, 6]),
    "Hardtanh": (lambda nn: nn.Hardtanh(), lambda x: clipped(x, -1, 1), [-1, 1]),
    "Hardtanh -0.5 2": (lambda nn: nn.Hardtanh(-0.5, 2.0), lambda x: clipped(x, -0.5, 2), [-0.5, 2]),
    "Hardsigmoid": (lambda nn: nn.Hardsigmoid(), lambda x: clipped(x + 3, 0, 6) / 6, [-3, 3]),
    "Hardswish": (lambda nn: nn.Hardswish(), lambda x: x * clipped(x + 3, 0, 6) / 6, []),
    "Tanhshrink": (lambda nn: nn.Tanhshrink(), lambda x: x - math.tanh(x), []),
    "Softsign": (lambda nn: nn.Softsign(), lambda x: x / (1 + abs(x)), [0]),
    "LogSigmoid": (lambda nn: nn.LogSigmoid(), lambda x: math.log(sigmoid(x)), []),
    "Softplus": (lambda nn: nn.Softplus(), lambda x: math.log(1 + math.exp(x)), []),
    "Softplus 2 1": (lambda nn: nn.Softplus(beta=2.0, threshold=1.0),
                     lambda x: x if 2 * x > 1 else math.log(1 + math.exp(2 * x)) / 2, []),
}
over_activations = pytest.mark.parametrize("make, formula, kinks", ACTIVATIONS.values(), ids=ACTIVATIONS)
X = np.concatenate([np.linspace(-7.3, 7.1, 29), [-0.3, 0.2, 0.6, 1.4, -2.9, 2.7]])


@over_activations
def test_value_is_the_formula_and_gradient_its_derivative(make, formula, kinks):
    layer, x = make(nn), mg.tensor(X, requires_grad=True)
    np.testing.assert_allclose(layer(x).detach().numpy(), [formula(v) for v in X], rtol=1e-12, atol=1e-15)
    assert mg.gradcheck(layer, x) and repr(eval(repr(layer), vars(nn))) == repr(layer)
    far = mg.tensor([-1e30, 1e30, math.nan], requires_grad=True)  # where nothing overflows, and NaN stays
    with np.errstate(over="raise"):
        y = layer(far)
        y.backward(mg.tensor([2.0, 3.0, 1.0]))
    assert np.isfinite(y.data[:2]).all() and np.isfinite(far.grad.data[:2]).all() and math.isnan(y.data[2])
    assert y.dtype == far.grad.dtype == mg.float32


@over_activations
def test_value_and_gradient_are_pytorchs_at_kinks_too(make, formula, kinks):
    torch = pytest.importorskip("torch")
    array = np.concatenate([X, kinks, [-80.0, 80.0]])
    upstream = np.random.default_rng(0).normal(size=array.shape)
    x, x_torch = mg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    y, y_torch = make(nn)(x), make(torch.nn)(x_torch)
    y.backward(mg.tensor(upstream))
    y_torch.backward(torch.tensor(upstream))
    np.testing.assert_allclose(y.detach().numpy(), y_torch.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), x_torch.grad.numpy(), rtol=1e-7)  # PyTorch's Hardsigmoid has a float32 1 / 6


@pytest.mark.parametrize("name, sign, takes_log", [("Softmax", 1, False), ("Softmin", -1, False), ("LogSoftmax", 1, True)])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_softmin_and_log_softmax(name, sign, takes_log, dim):
    array = np.random.default_rng(0).normal(size=(3, 4))
    powers = np.exp(sign * array)
    expected = powers / powers.sum(dim, keepdims=True)
    layer, x = getattr(nn, name)(dim=dim), mg.tensor(array, requires_grad=True)
    np.testing.assert_allclose(layer(x).detach().numpy(), np.log(expected) if takes_log else expected, rtol=1e-12)
    assert mg.gradcheck(layer, x) and repr(layer) == f"{name}(dim={dim})"


def test_an_option_may_be_changed_later():
    layer = nn.LeakyReLU(0.5)
    layer.negative_slope = 0.25
    assert layer(mg.tensor([-2.0, 4.0])).tolist() == [-0.5, 4.0]
    assert repr(nn.Hardtanh(-0.5, 2.0)) == "Hardtanh(min_val=-0.5, max_val=2.0)"


def test_cosine_similarity_of_zeros_is_zero():
    x, y = mg.zeros(1, 3, requires_grad=True), mg.tensor([[1.0, 2.0, 2.0]])
    similarity = nn.functional.cosine_similarity(x, y)
    similarity.backward(mg.ones(1))
    assert similarity.tolist() == [0.0] and np.isfinite(x.grad.data).all()
    assert nn.functional.cosine_similarity(y, y, eps=6.0).item() == pytest.approx(0.25)  # 9 / (6 * 6)


def test_a_module_of_a_function_has_its_docstring():
    assert nn.ReLU.__doc__ == F.relu.__doc__ and nn.LeakyReLU.__doc__ == F.leaky_relu.__doc__


def test_inplace_changes_nothing():
    x = mg.tensor([-1.0, 2.0])
    for layer in (nn.ReLU(inplace=True), nn.LeakyReLU(0.1, inplace=True), nn.ELU(inplace=True), nn.Hardtanh(inplace=True),
                  nn.SiLU(inplace=True), nn.Dropout(0.5, inplace=True), lambda x: F.relu(x, inplace=True),
                  lambda x: F.dropout(x, 0.5, True, True)):
        assert layer(x).shape == (2,) and x.tolist() == [-1.0, 2.0]
    assert nn.ReLU(inplace=True)(x).tolist() == [0.0, 2.0]
    assert nn.LeakyReLU(0.5, True)(x).tolist() == [-0.5, 2.0]
