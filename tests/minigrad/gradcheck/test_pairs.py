"""A forward and a backward in NumPy are checked as a function of Tensors is."""
import numpy as np
import pytest
from tables import each

from minigrad.gradcheck import gradcheck, gradcheck_report, gradgradcheck


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def linear(x, weight, bias):
    return x @ weight.T + bias


def linear_backward(dout, x, weight, bias):
    return dout @ weight, dout.T @ x, dout.sum(0)


def cached(x, weight, bias):
    return linear(x, weight, bias), (x, weight)


def cached_backward(dout, cache):
    x, weight = cache
    return dout @ weight, dout.T @ x, dout.mean(0)


def changes_its_cache(dout, cache):
    cache[0][...] *= 1.5
    return linear_backward(dout, *cache, None)


def raises(dout, x):
    raise KeyError("weight")


def square_and_double(x):
    return x * x, 2 * x


def in_float32(x):
    return np.tanh(x.astype(np.float32))


X, LINEAR = drawn(3, 4), (drawn(3, 4), drawn(2, 4, seed=1), drawn(2, seed=2))
PAIRS = {  # forward, backward, inputs, the verdict, the names of the inputs, what the report says
    "inputs": (linear, linear_backward, LINEAR, "pass", "x weight bias", "gradcheck of linear"),
    "a cache": (cached, cached_backward, LINEAR, "fail", "x weight bias",
                "this is linear: dbias is averaged instead of added up"),
    "a cache that backward changes": (cached, changes_its_cache, LINEAR, "fail", "x weight bias", "x has been changed"),
    "an array of its own that backward changes": (
        lambda x: (np.tanh(x), [np.tanh(x)]), lambda dout, cache: dout * (1 - np.square(cache[0], out=cache[0])), X, "fail", "x",
        "changes an array that forward saved"),
    "two outputs": (square_and_double, lambda first, second, x: 2 * x * first + 2 * second, X, "pass", "x", "square_and_double"),
    "two outputs mixed up": (square_and_double, lambda first, second, x: 2 * x * second + 2 * first, X, "fail", "x",
                             "derivatives are wrong"),
    "ids": (lambda table, ids: table[ids], lambda dout, table, ids: np.eye(3)[ids].T @ dout, (X, np.array([0, 1, 1])), "pass",
            "table", "all 7 that apply pass"),
    "None for ids": (lambda table, ids: table[ids], lambda dout, table, ids: (np.eye(3)[ids].T @ dout, None),
                     (X, np.array([0, 1, 1])), "pass", "table", "all 7 that apply pass"),
    "too large for a diagnosis": (np.square, lambda dout, x: x * dout, np.ones(5001), "fail", "x",
                                  "diagnosis: none at this size: give smaller inputs, of at most 5000 numbers"),
    "a number": (lambda x, scale: x * scale, lambda dout, x, scale: dout * scale, (X, 3.0), "pass", "x", "all 7 that apply pass"),
    "unsummed": (linear, lambda dout, x, weight, bias: (dout @ weight, dout.T @ x, dout), LINEAR, "fail", "",
                 "dbias has shape (3, 2), and bias has shape (2,): sum it over axis 0"),
    "a gradient is missing": (linear, lambda dout, x, weight, bias: (dout @ weight, dout.T @ x), LINEAR, "fail", "",
                              "backward returned 2 gradients, and there are 3 to return: dx, dweight, dbias"),
    "float32 within": (in_float32, lambda dout, x: dout * (1 - in_float32(x) ** 2), X, "pass", "x", "as in float32"),
    "float32 within, and wrong": (in_float32, lambda dout, x: dout * (1 - in_float32(x)), X, "fail", "x", "are wrong"),
    "float32 in the backward alone": (np.tanh, lambda dout, x: (dout * (1 - np.tanh(x) ** 2)).astype("f"), X, "fail", "",
                                      "dx is float32, and x is float64"),
    "raises": (np.tanh, raises, X, "fail", "", "KeyError: 'weight', in line"),
    "assumes a contiguous upstream": (
        np.tanh, lambda dout, x: (dout if dout.flags.c_contiguous else 0 * dout) * (1 - np.tanh(x) ** 2), X, "fail", "x",
        "when the upstream lies in memory"),
}


def test_pairs():
    def judged(name, row):
        forward, backward, inputs, verdict, names, said = row
        before = [np.array(x) for x in (inputs if isinstance(inputs, tuple) else (inputs,))]
        report = gradcheck_report((forward, backward), inputs)
        assert report.verdict == verdict and said in str(report)
        assert [entry.name for entry in report.inputs] == names.split()
        assert all(map(np.array_equal, before, inputs if isinstance(inputs, tuple) else (inputs,)))

    each(PAIRS, judged)


def test_float32():
    """Checked in float64, and compared with that."""
    def rounds(dout, x):
        return np.round(dout * 2 * x, 3) if x.dtype == np.float32 else dout * 2 * x

    right = gradcheck_report((np.square, lambda dout, x: dout * 2 * x), X.astype(np.float32))
    wrong = gradcheck_report((np.square, rounds), X.astype(np.float32))
    assert [(entry.name, entry.verdict) for entry in right.inputs] == [("x", "pass"), ("x in float32", "pass")]
    assert [(entry.name, entry.verdict) for entry in wrong.inputs] == [("x", "pass"), ("x in float32", "fail")]


def test_a_pair_has_no_gradients_of_gradients():
    assert gradcheck((linear, linear_backward), LINEAR)
    with pytest.raises(RuntimeError, match="linear: a backward in NumPy cannot itself be differentiated"):
        gradgradcheck((linear, linear_backward), LINEAR)
