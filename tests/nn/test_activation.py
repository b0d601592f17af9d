"""Activations against their formulas in plain Python, finite differences, and PyTorch, also at their kinks."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from nn import functional as F


def clipped(x, low, high):
    return min(max(x, low), high)


def elu(x, alpha=1.0):
    return x if x > 0 else alpha * (math.exp(x) - 1)


ACTIVATIONS = [  # (the module in both libraries, formula of one element, where it has kinks)
    ("ReLU()", lambda x: max(x, 0.0), [0]),
    ("LeakyReLU()", lambda x: x if x > 0 else 0.01 * x, [0]),
    ("LeakyReLU(0.5)", lambda x: x if x > 0 else 0.5 * x, [0]),
    ("SiLU()", lambda x: x * naive.sigmoid(x), []),
    ("Mish()", lambda x: x * math.tanh(math.log(1 + math.exp(x))), []),
    ("ELU()", elu, [0]),
    ("ELU(alpha=0.5)", lambda x: elu(x, 0.5), [0]),
    ("SELU()", lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), [0]),
    ("CELU()", elu, [0]),
    ("CELU(alpha=0.5)", lambda x: x if x > 0 else 0.5 * (math.exp(2 * x) - 1), [0]),
    ("ReLU6()", lambda x: clipped(x, 0, 6), [0, 6]),
    ("Hardtanh()", lambda x: clipped(x, -1, 1), [-1, 1]),
    ("Hardtanh(-0.5, 2.0)", lambda x: clipped(x, -0.5, 2), [-0.5, 2]),
    ("Hardsigmoid()", lambda x: clipped(x + 3, 0, 6) / 6, [-3, 3]),
    ("Hardswish()", lambda x: x * clipped(x + 3, 0, 6) / 6, []),
    ("Tanhshrink()", lambda x: x - math.tanh(x), []),
    ("Softsign()", lambda x: x / (1 + abs(x)), [0]),
    ("LogSigmoid()", lambda x: math.log(naive.sigmoid(x)), []),
    ("Softplus()", lambda x: math.log(1 + math.exp(x)), []),
    ("Softplus(beta=2.0, threshold=1.0)", lambda x: x if 2 * x > 1 else math.log(1 + math.exp(2 * x)) / 2, []),
]
over_activations = pytest.mark.parametrize("text, formula, kinks", ACTIVATIONS, ids=[row[0] for row in ACTIVATIONS])
X = np.concatenate([np.linspace(-7.3, 7.1, 29), [-0.3, 0.2, 0.6, 1.4, -2.9, 2.7]])


@over_activations
def test_value_is_the_formula_and_gradient_its_derivative(text, formula, kinks):
    layer, x = eval(text, vars(nn)), mg.tensor(X, requires_grad=True)
    np.testing.assert_allclose(layer(x).detach().numpy(), [formula(v) for v in X], rtol=1e-12, atol=1e-15)
    assert mg.gradcheck(layer, x) and repr(eval(repr(layer), vars(nn))) == repr(layer)
    far = mg.tensor([-1e30, 1e30, math.nan], requires_grad=True)  # where nothing overflows, and NaN stays
    with np.errstate(over="raise"):
        y = layer(far)
        y.backward(mg.tensor([2.0, 3.0, 1.0]))
    assert np.isfinite(y.data[:2]).all() and np.isfinite(far.grad.data[:2]).all() and math.isnan(y.data[2])
    assert y.dtype == far.grad.dtype == mg.float32


@over_activations
def test_value_and_gradient_are_pytorchs_also_at_kinks(text, formula, kinks):
    torch = pytest.importorskip("torch")
    array = np.concatenate([X, kinks, [-80.0, 80.0]])
    upstream = np.random.default_rng(0).normal(size=array.shape)
    x, x_torch = mg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    y, y_torch = eval(text, vars(nn))(x), eval(text, vars(torch.nn))(x_torch)
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
    similarity = F.cosine_similarity(x, y)
    similarity.backward(mg.ones(1))
    assert similarity.tolist() == [0.0] and np.isfinite(x.grad.data).all()
    assert F.cosine_similarity(y, y, eps=6.0).item() == pytest.approx(0.25)  # 9 / (6 * 6)


@pytest.mark.parametrize("call", [
    "nn.ReLU(True)", "nn.LeakyReLU(0.1, True)", "nn.ELU(inplace=True)", "nn.CELU(2.0, True)", "nn.SELU(True)", "nn.ReLU6(True)",
    "nn.Hardtanh(-1.0, 1.0, True)", "nn.SiLU(inplace=True)", "nn.Mish(True)", "nn.Dropout(0.0, True)",
])
def test_inplace_changes_nothing(call):
    x, layer = mg.tensor([-1.0, 2.0]), eval(call)
    assert layer(x).tolist() == eval(call.replace("True", "False"))(x).tolist()
    assert x.tolist() == [-1.0, 2.0] and "True" not in repr(layer)
