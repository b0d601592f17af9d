"""Activations against their formulas in plain Python, finite differences, and PyTorch, also at their kinks."""
import math

import numpy as np
import pytest

import minigrad as mg
import naive
import nn
from nn import functional as F


ACTIVATIONS = [  # (the module in both libraries, formula of one element, where it has kinks)
    ("ReLU()", lambda x: max(x, 0.0), [0]),
    ("LeakyReLU()", lambda x: x if x > 0 else 0.01 * x, [0]),
    ("LeakyReLU(0.5)", lambda x: x if x > 0 else 0.5 * x, [0]),
    ("SiLU()", lambda x: x * naive.sigmoid(x), []),
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
    np.testing.assert_allclose(x.grad.numpy(), x_torch.grad.numpy(), rtol=1e-7)


def test_an_option_may_be_changed_later():
    layer = nn.LeakyReLU(0.5)
    layer.negative_slope = 0.25
    assert layer(mg.tensor([-2.0, 4.0])).tolist() == [-0.5, 4.0]


def test_cosine_similarity_of_zeros_is_zero():
    x, y = mg.zeros(1, 3, requires_grad=True), mg.tensor([[1.0, 2.0, 2.0]])
    similarity = F.cosine_similarity(x, y)
    similarity.backward(mg.ones(1))
    assert similarity.tolist() == [0.0] and np.isfinite(x.grad.data).all()
    assert F.cosine_similarity(y, y, eps=6.0).item() == pytest.approx(0.25)  # 9 / (6 * 6)


@pytest.mark.parametrize("call", [
    "nn.ReLU(True)", "nn.LeakyReLU(0.1, True)", "nn.SiLU(inplace=True)", "nn.Dropout(0.0, True)",
])
def test_inplace_changes_nothing(call):
    x, layer = mg.tensor([-1.0, 2.0]), eval(call)
    assert layer(x).tolist() == eval(call.replace("True", "False"))(x).tolist()
    assert x.tolist() == [-1.0, 2.0] and "True" not in repr(layer)
