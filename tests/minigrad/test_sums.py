"""Long float32 sums: as good as rounded float64 sums, along every axis and in every memory layout."""
import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from nn import functional as F

LONG = 300_000  # terms; so many that adding them one by one in float32 is off by more than 1e-5
FUNCTIONS = {  # of tensors, and of float64 arrays
    "sum": (lambda x, axis: x.sum(axis), np.sum),
    "mean": (lambda x, axis: x.mean(axis), np.mean),
    "var": (lambda x, axis: x.var(axis), lambda x, axis: x.var(axis, ddof=1)),
    "std": (lambda x, axis: x.std(axis), lambda x, axis: x.std(axis, ddof=1)),
    "norm": (lambda x, axis: x.norm(dim=axis), lambda x, axis: (x * x).sum(axis) ** 0.5),
    "norm, p = 3": (lambda x, axis: x.norm(3, axis), lambda x, axis: (abs(x) ** 3).sum(axis) ** (1 / 3)),
    "logsumexp": (lambda x, axis: x.logsumexp(axis), lambda x, axis: np.log(np.exp(x).sum(axis))),
    "softmax": (lambda x, axis: x.softmax(np.min(axis)), lambda x, axis: np.exp(x) / np.exp(x).sum(np.min(axis), keepdims=True)),
    "cumsum": (lambda x, axis: x.cumsum(np.min(axis)), lambda x, axis: x.cumsum(np.min(axis))),
    "einsum": (lambda x, axis: mg.einsum(f"{'abc'[: x.ndim]}->{''.join(np.delete([*'abc'[: x.ndim]], axis))}", x), np.sum),
}
in_both_ways = pytest.mark.parametrize("block", [contextlib.nullcontext, mg.textbook])
def numbers(shape) -> np.ndarray:
    """Float32 numbers near 0.1: rounding errors have the same sign for long stretches, so that they add up."""
    noise = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return np.float32(0.1) + np.float32(1e-3) * noise


def assert_close(actual, expected, tolerance=2e-7, what=""):
    """Relative to the largest"""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape and actual.dtype == np.float32, what
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=what)


@in_both_ways
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_sum(name, block):
    function, exact = FUNCTIONS[name]
    for shape, axis in ((LONG, 3), 0), ((60, 500, 10), (0, 1)), ((3, LONG), 1), ((LONG,), (0,)):
        x = numbers(shape)
        with block():
            found = function(mg.tensor(x), axis).array
        assert_close(found, exact(x.astype(np.float64), axis), 4e-7, str(shape))


@pytest.mark.parametrize("mean", [0.0, 1e4, -1e6])
@pytest.mark.parametrize("size", [100, LONG])
def test_variance_far_from_zero(mean, size, random):
    x = (random.standard_normal((size, 2)) + mean).astype(np.float32)
    upstream = random.standard_normal((1, 2))
    leaf, exact = mg.tensor(x, requires_grad=True), x.astype(np.float64)
    out = leaf.var(0, keepdim=True)
    out.backward(mg.tensor(upstream.astype(np.float32)))
    assert_close(out.array, exact.var(0, ddof=1, keepdims=True))
    assert_close(leaf.grad.array, upstream * 2 * (exact - exact.mean(0)) / (size - 1), 5e-7)


def at_first(shape, total):
    """The gradient of what is used at its first place alone."""
    return np.pad(total, [(0, n - m) for n, m in zip(shape, total.shape)])


ZEROS, ROW = mg.zeros(LONG, dtype=np.int64), np.array([1.0, 2, 4])
SUMMED_BY_BACKWARD = {  # a function, the shapes of its inputs and of its output, and the gradients, of upstream's
    "bias": (lambda b: mg.zeros(LONG, 3) + b, [(3,)], (LONG, 3), lambda up: [up.sum(0)]),
    "bias in the middle": (lambda b: mg.zeros(60, 500, 10) * 2 + b, [(500, 1)], (60, 500, 10), lambda up: [up.sum((0, 2))[:, None]]),
    "scalar": (lambda a: mg.ones(LONG) * a, [()], (LONG,), lambda up: [up.sum()]),
    "expand": (lambda a: a.expand(LONG, 3), [(1, 3)], (LONG, 3), lambda up: [up.sum(0, keepdims=True)]),
    "cumsum": (lambda x: x.cumsum(0), [(LONG,)], (LONG,), lambda up: [up[::-1].cumsum()[::-1]]),
    "linear": (lambda b: F.linear(mg.zeros(LONG, 2), mg.zeros(3, 2), b), [(3,)], (LONG, 3), lambda up: [up.sum(0)]),
    "layer norm": (lambda w, b: F.layer_norm(mg.tensor([ROW], dtype=mg.float32).expand(LONG, 3), 3, w, b), [(3,), (3,)], (LONG, 3),
                   lambda up: [(up * (ROW - ROW.mean()) / np.sqrt(ROW.var() + 1e-5)).sum(0), up.sum(0)]),
    "embedding": (lambda w: F.embedding(ZEROS[:, None], w), [(2, 3)], (LONG, 1, 3), lambda up: [at_first((2, 3), up.sum(0))]),
    "positions": (lambda p: F.embedding(ZEROS.reshape(-1, 2), mg.ones(1, 3), positions=p), [(4, 3)], (LONG // 2, 2, 3),
                  lambda up: [at_first((4, 3), up.sum(0))]),
    "index of rows": (lambda x: x[ZEROS], [(2, 3)], (LONG, 3), lambda up: [at_first((2, 3), up.sum(0, keepdims=True))]),
    "index of elements": (lambda x: x[ZEROS, ZEROS], [(2, 3)], (LONG,), lambda up: [at_first((2, 3), up.sum(keepdims=True)[None])]),
    "index of columns": (lambda x: x[:, ZEROS], [(2, 3)], (2, LONG), lambda up: [at_first((2, 3), up.sum(1, keepdims=True))]),
}


@in_both_ways
@pytest.mark.parametrize("name", SUMMED_BY_BACKWARD)
def test_gradients_that_sum_over_many_uses(name, block):
    function, shapes, out, exact = SUMMED_BY_BACKWARD[name]
    upstream, leaves = numbers(out), [mg.tensor(numbers(shape), requires_grad=True) for shape in shapes]
    with block():
        function(*leaves).backward(mg.tensor(upstream))
    for leaf, expected in zip(leaves, exact(upstream.astype(np.float64)), strict=True):
        assert_close(leaf.grad.array, expected, 1e-6)


def of_softmax(x, dout):
    p = np.exp(x) / np.exp(x).sum()
    return p, p * (dout - (p * dout).sum())


def of_log_softmax(x, dout):
    return x - np.log(np.exp(x).sum()), dout - np.exp(x) / np.exp(x).sum() * dout.sum()


def of_layer_norm(x, dout):
    deviation = np.sqrt(x.var() + 1e-5)
    out = (x - x.mean()) / deviation
    return out, (dout - dout.mean() - out * (dout * out).mean()) / deviation


def of_cross_entropy(x, dout):
    target = 0.7 * (np.arange(x.size) == 1) + 0.3 / x.size
    return -(target * of_log_softmax(x, dout)[0]).sum(keepdims=True), (np.exp(x) / np.exp(x).sum() - target) * dout


@pytest.mark.parametrize("function, exact, tolerance", [  # of the gradient, which is a small difference of large numbers
    (lambda x: x.softmax(-1), of_softmax, 4e-6),
    (lambda x: x.log_softmax(-1), of_log_softmax, 5e-7),
    (lambda x: F.layer_norm(x, x.shape[-1]), of_layer_norm, 4e-6),
    (lambda x: F.cross_entropy(x, mg.tensor([1]), label_smoothing=0.3).reshape(1, 1), of_cross_entropy, 5e-7),
], ids=["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_very_long_rows(function, exact, tolerance, random):
    leaf = mg.tensor(random.standard_normal((1, 10 * LONG)), dtype=mg.float32, requires_grad=True)
    y = function(leaf)
    dout = numbers(y.shape)
    y.backward(mg.tensor(dout))
    out, dx = exact(leaf.array.astype(np.float64), dout.astype(np.float64))
    assert_close(y.array, out)
    assert_close(leaf.grad.array, dx, tolerance)


USE_ALL_WORKSPACES = """
import numpy as np
from minigrad.fast.kernels import embedding, rows
x = np.ones((40_000, 10), np.float32)
assert (rows.sum_rows(x) == 40_000).all()
table, ids = np.empty((3, 10), np.float32), np.arange(40_000) % 2
embedding.embedding_backward(x, ids, table)
assert table.tolist() == [[20_000.0] * 10] * 2 + [[0.0] * 10]
embedding.positions_backward(x.reshape(20_000, 2, 10), table)
assert table.tolist() == [[20_000.0] * 10] * 2 + [[0.0] * 10]
"""


def test_no_kernel_reads_memory_that_it_has_freed():
    overwritten = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "4096"}  # the GNU C library overwrites freed memory
    subprocess.run([sys.executable, "-c", USE_ALL_WORKSPACES], check=True, env=os.environ | overwritten)
