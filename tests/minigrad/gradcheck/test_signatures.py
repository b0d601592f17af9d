"""How people write a forward and a backward: each way passes if the gradients are right, and fails if one is not."""
import numpy as np
import pytest

from minigrad.gradcheck import gradcheck_report
from tables import each

RANDOM = np.random.default_rng(0)
X, W, B = (RANDOM.normal(size=shape) for shape in ((3, 4), (4, 2), (2,)))


def gradients(dout, x, w, out, factor):
    """Of out = tanh(x @ w + b)."""
    dz = dout * (1 - out * out)
    return dz @ w.T, x.T @ dz * factor, dz.sum(0)


def out_of(x, w, b):
    return np.tanh(x @ w + b)


def with_inputs(factor):
    return out_of, lambda dout, x, w, b: gradients(dout, x, w, out_of(x, w, b), factor)


def with_cache(factor, backward=None):
    def forward(x, w, b):
        out = out_of(x, w, b)
        return out, (x, w, out)

    return forward, backward or (lambda dout, cache: gradients(dout, *cache, factor))


def with_dict(factor):
    def forward(x, w, b):
        out = out_of(x, w, b)
        return out, {"x": x, "w": w, "out": out}

    return forward, lambda cache, dout: dict(zip(("dx", "dw", "db"), gradients(dout, **cache, factor=factor)))


def with_more_outputs(factor):
    def forward(x, w, b):
        out = out_of(x, w, b)
        return out, "what it is", (x, w, out)

    return forward, lambda dout, cache: gradients(dout, *cache, factor)


def loss_and_gradients(factor):
    def loss(x, w, b):
        out = out_of(x, w, b)
        dx, dw, db = gradients(2 * out, x, w, out, factor)
        return np.sum(out * out), dx, dw, db

    return loss


def loss_and_dict(factor):
    def loss(x, w, b):
        value, *found = loss_and_gradients(factor)(x, w, b)
        return value, dict(zip("xwb", found))

    return loss


def in_another_order(factor):
    def backward(dout, x, w, b):
        dx, dw, db = gradients(dout, x, w, out_of(x, w, b), factor)
        return dw, db, dx

    return out_of, backward


class Layer:
    """Keeps its parameters, cache and gradients."""

    def __init__(self, factor):
        self.W, self.b, self.factor = W.copy(), B.copy(), factor

    def forward(self, x):
        self.x, self.out = x, out_of(x, self.W, self.b)
        return self.out

    def backward(self, dout):
        dx, self.dW, self.db = gradients(dout, self.x, self.W, self.out, self.factor)
        return dx


class WithDicts:
    def __init__(self, factor):
        self.params, self.grads, self.factor = {"W": W.copy(), "b": B.copy()}, {}, factor

    def forward(self, x):
        self.cache = x, self.params["W"], out_of(x, self.params["W"], self.params["b"])
        return self.cache[-1]

    def backward(self, dout):
        dx, self.grads["W"], self.grads["b"] = gradients(dout, *self.cache, self.factor)
        return dx


class Static:
    @staticmethod
    def forward(x, w, b):
        return out_of(x, w, b)

    @staticmethod
    def backward(dout, x, w, b, factor=1.0):
        return gradients(dout, x, w, out_of(x, w, b), factor)


def bound(factor):
    layer = Layer(factor)
    return layer.forward, layer.backward


WAYS = {  # (a function of the factor of dw, inputs, what a note says)
    "inputs": (with_inputs, (X, W, B), ""),
    "cache": (with_cache, (X, W, B), ""),
    "cache first, a dict of gradients": (with_dict, (X, W, B), "called as backward(cache, dout)"),
    "the cache's parts": (lambda factor: with_cache(factor, lambda dout, x, w, out: gradients(dout, x, w, out, factor)), (X, W, B), "backward(dout, *cache)"),
    "several outputs and a cache": (with_more_outputs, (X, W, B), "forward returns (out, ..., cache)"),
    "a list of gradients": (lambda factor: (out_of, lambda dout, x, w, b: list(with_inputs(factor)[1](dout, x, w, b))), (X, W, B), ""),
    "loss and gradients": (loss_and_gradients, (X, W, B), "(value, gradients)"),
    "loss and a dict": (loss_and_dict, (X, W, B), "(value, gradients)"),
    "another order, said by the names": (in_another_order, (X, W, B), "in the order that backward's return names: dw, db, dx"),
    "a layer": (Layer, X, "parameters: W, b"),
    "a layer's methods": (bound, X, "parameters: W, b"),
    "a layer with dicts": (WithDicts, X, "parameters: params.W, params.b"),
    "static methods": (lambda factor: (Static.forward, lambda *given: Static.backward(*given, factor=factor)), (X, W, B), ""),
}


def test_each_way_is_judged_by_its_numbers():
    def judged(name, row):
        make, inputs, said = row
        report = gradcheck_report(make(1.0), inputs)
        assert report.verdict == "pass" and said in str(report), report
        assert gradcheck_report(make(1.5), inputs).verdict == "fail"

    each(WAYS, judged)


def test_gradients_that_are_mixed_up_are_no_convention():
    report = gradcheck_report((lambda a, b: a * b, lambda dout, a, b: (dout * a, dout * b)), (X, X + 1))
    assert report.verdict == "fail" and "convention" not in str(report)


def test_two_outputs_are_no_cache():
    """As h and c of an LSTM."""
    def forward(x, w):
        return np.tanh(x @ w), np.sin(x @ w)

    def backward(dh, dc, x, w):
        dz = dh * (1 - np.tanh(x @ w) ** 2) + dc * np.cos(x @ w)
        return dz @ w.T, x.T @ dz

    assert gradcheck_report((forward, backward), (X, W)).verdict == "pass"
    assert gradcheck_report((forward, lambda dh, dc, x, w: backward(dh, 0 * dc, x, w)), (X, W)).verdict == "fail"


def test_a_layer_is_left_as_it_was():
    layer = Layer(1.0)
    before = {key: np.copy(value) for key, value in vars(layer).items()}
    gradcheck_report(layer, X)
    assert vars(layer).keys() == before.keys() and all(np.array_equal(vars(layer)[key], value) for key, value in before.items())


def test_what_fits_no_convention_is_told_in_a_line():
    report = gradcheck_report((out_of, lambda a, b, c, d, e, f, g: None), (X, W, B))
    (said,) = [line for line in str(report).splitlines() if "takes none of" in line]
    assert report.verdict == "fail" and "backward(dout, cache) after forward returns (out, cache)" in said


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_pairs_of_other_libraries(package):
    if package == "torch":
        torch = pytest.importorskip("torch")
        x, w = (torch.from_numpy(a).requires_grad_() for a in (X, W))
        numpy = torch
    else:
        numpy = pytest.importorskip("jax").numpy
        x, w = (numpy.asarray(a) for a in (X, W))

    def forward(x, w):
        return numpy.tanh(x @ w)

    def backward(factor):
        return lambda dout, x, w: ((dout * (1 - forward(x, w) ** 2)) @ w.T, x.T @ (dout * (1 - forward(x, w) ** 2)) * factor)

    assert gradcheck_report((forward, backward(1.0)), (x, w)).verdict == "pass"
    assert gradcheck_report((forward, backward(1.5)), (x, w)).verdict == "fail"
