"""Long float32 sums: as good as rounded float64 sums, along every axis and in every memory layout."""
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import layouts
import minigrad as mg
from minigrad.backend import running_sum
from minigrad.fast import reduce
from minigrad.fast.kernels.jit import get_num_threads, set_num_threads
from minigrad.fast.kernels.reduce import COLUMNS
from nn import functional as F

LONG = 300_000  # terms; so many that adding them one by one in float32 is off by more than 1e-5
SHAPES = [(LONG,), (LONG, 3), (3, LONG), (60, 500, 10), (2, LONG // 100, 3, 4),
          (400, COLUMNS + 1)]  # the last block of columns has one
FUNCTIONS = {
    "sum": lambda x, axis: x.sum(axis),
    "mean": lambda x, axis: x.mean(axis),
    "var": lambda x, axis: x.var(axis),
    "std": lambda x, axis: x.std(axis),
    "norm": lambda x, axis: x.norm(dim=axis),
    "norm, p = 3": lambda x, axis: x.norm(3, axis),
    "logsumexp": lambda x, axis: x.logsumexp(axis),
}
LAYOUTS = layouts.LAYOUTS | {
    "middle axes exchanged": lambda x: np.ascontiguousarray(np.swapaxes(x, 0, x.ndim // 2)).swapaxes(0, x.ndim // 2),
    "unaligned, and column by column": lambda x: layouts.unaligned(x.T).T,  # the copy's axes lie in another order in memory
}


def numbers(shape) -> np.ndarray:
    """Float32 numbers near 0.1: rounding errors have the same sign for long stretches, so that they add up."""
    noise = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return np.float32(0.1) + np.float32(1e-3) * noise


def sets_of_axes(ndim: int) -> list:
    """None, and all non-empty sets of axes"""
    sets = [tuple(i for i in range(ndim) if bits >> i & 1) for bits in range(1, 2**ndim)]
    return [None] + sets


def assert_close(actual, expected, tolerance=2e-7, what=""):
    """Relative to the largest"""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape and actual.dtype == np.float32, what
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=what)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum_along_all_axes_in_every_layout(shape):
    x = numbers(shape)
    laid_out = {name: layout(x) for name, layout in LAYOUTS.items()}
    for number, axis in enumerate(sets_of_axes(len(shape))):
        expected = np.sum(x, axis, np.float64, keepdims=bool(number % 2))
        tolerance = 1e-6 if reduce.count(x.shape, reduce.normalized(axis, x.ndim)) <= reduce.FEW else 1e-7
        for name, view in laid_out.items():
            assert_close(reduce.sum(view, axis, bool(number % 2)), expected, tolerance, f"{name}: {axis}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_sum(name):
    function = FUNCTIONS[name]
    for shape, axis in ((LONG, 3), 0), ((60, 500, 10), (0, 1)), ((3, LONG), 1), ((LONG,), (0,)):
        x = numbers(shape)
        expected = function(mg.tensor(x.astype(np.float64)), axis).data
        assert_close(function(mg.tensor(x), axis).data, expected, what=str(shape))


@pytest.mark.parametrize("mean", [0.0, 1e4, -1e6])
@pytest.mark.parametrize("size", [100, LONG])
def test_variance_far_from_zero(mean, size, random):
    x = (random.standard_normal((size, 2)) + mean).astype(np.float32)
    upstream = random.standard_normal((1, 2))
    results = []
    for dtype in (np.float32, np.float64):
        leaf = mg.tensor(x.astype(dtype), requires_grad=True)
        out = leaf.var(0, keepdim=True)
        out.backward(mg.tensor(upstream.astype(dtype)))
        results.append((out.data, leaf.grad.data))
    (out, dx), (exact, exact_dx) = results
    assert_close(out, exact)
    assert_close(dx, exact_dx, 5e-7)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_sums_and_their_gradient(shape):
    x = numbers(shape)
    laid_out = {name: layout(x) for name, layout in LAYOUTS.items()}
    for axis in range(x.ndim):
        expected = np.cumsum(x, axis, np.float64)
        of_reversed = np.flip(np.cumsum(np.flip(x, axis), axis, np.float64), axis)
        for name, view in laid_out.items():
            leaf = mg.from_numpy(view).requires_grad_()
            out = leaf.cumsum(axis)
            out.backward(mg.from_numpy(view))
            np.testing.assert_allclose(out.data, expected, rtol=1e-7, err_msg=name)
            np.testing.assert_allclose(leaf.grad.data, of_reversed, rtol=1e-7, err_msg=name)


def gradients(function, arrays, upstream, dtype):
    leaves = [mg.tensor(array.astype(dtype), requires_grad=True) for array in arrays]
    function(*leaves).backward(mg.tensor(upstream.astype(dtype)))
    return [leaf.grad.data for leaf in leaves]


IDS = mg.tensor(np.zeros((LONG, 1), np.int64))
SUMMED_BY_BACKWARD = {  # a function, the shapes of its inputs, and that of its output
    "bias": (lambda b: mg.zeros(LONG, 3, dtype=b.dtype) + b, [(3,)], (LONG, 3)),
    "bias in the middle": (lambda b: mg.zeros(60, 500, 10, dtype=b.dtype) * 2 + b, [(500, 1)], (60, 500, 10)),
    "scalar": (lambda a: mg.ones(LONG, dtype=a.dtype) * a, [()], (LONG,)),
    "expand": (lambda a: a.expand(LONG, 3), [(1, 3)], (LONG, 3)),
    "linear": (lambda b: F.linear(mg.zeros(LONG, 2, dtype=b.dtype), mg.zeros(3, 2, dtype=b.dtype), b), [(3,)], (LONG, 3)),
    "layer norm": (lambda w, b: F.layer_norm(mg.tensor([[1.0, 2, 4]], dtype=w.dtype).expand(LONG, 3), 3, w, b),
                   [(3,), (3,)], (LONG, 3)),
    "embedding": (lambda w: F.embedding(IDS, w), [(2, 3)], (LONG, 1, 3)),
    "positions": (lambda p: F.embedding(mg.zeros(LONG // 2, 2, dtype=np.int64), mg.ones(1, 3, dtype=p.dtype), positions=p), [(4, 3)],
                  (LONG // 2, 2, 3)),
    "index of rows": (lambda x: x[mg.zeros(LONG, dtype=np.int64)], [(2, 3)], (LONG, 3)),
    "index of elements": (lambda x: x[mg.zeros(LONG, dtype=np.int64), mg.zeros(LONG, dtype=np.int64)], [(2, 3)], (LONG,)),
    "index of columns": (lambda x: x[:, mg.zeros(LONG, dtype=np.int64)], [(2, 3)], (2, LONG)),
}


@pytest.mark.parametrize("name", SUMMED_BY_BACKWARD)
def test_gradients_that_sum_over_many_uses(name):
    function, shapes, out = SUMMED_BY_BACKWARD[name]
    upstream, inputs = numbers(out), [numbers(shape) for shape in shapes]
    found, exact = (gradients(function, inputs, upstream, dtype) for dtype in (np.float32, np.float64))
    for a, b in zip(found, exact):
        assert_close(a, b, 1e-6)


@pytest.mark.parametrize("function, tolerance", [  # of the gradient, which is a small difference of large numbers
    (lambda x: x.softmax(-1), 4e-6),
    (lambda x: x.log_softmax(-1), 5e-7),
    (lambda x: F.layer_norm(x, x.shape[-1]), 4e-6),
    (lambda x: F.cross_entropy(x, mg.tensor([1]), label_smoothing=0.3).reshape(1, 1), 5e-7),
], ids=["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_very_long_rows(function, tolerance, random):
    x = random.standard_normal((1, 10 * LONG)).astype(np.float32)
    out, dx = {}, {}
    for dtype in (np.float32, np.float64):
        leaf = mg.tensor(x.astype(dtype), requires_grad=True)
        y = function(leaf)
        y.backward(mg.tensor(numbers(y.shape).astype(dtype)))
        out[dtype], dx[dtype] = y.data, leaf.grad.data
    assert_close(out[np.float32], out[np.float64])
    assert_close(dx[np.float32], dx[np.float64], tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [5, 100, 10_000])
def test_special_numbers_are_summed_as_in_numpy(size, dtype):
    for special, shape in itertools.product((-0.0, np.inf, -np.inf, np.nan), ((size, 2), (2, size))):
        x = np.full(shape, special, dtype)
        pairs = [(reduce.sum(x, axis), np.sum(x, axis)) for axis in (None, 0, 1, (0, 1))]
        pairs += [(running_sum(x, 0, step < 0), np.cumsum(x, 0)[::step]) for step in (1, -1)]
        for found, expected in pairs:
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    both = np.zeros((size, 2), dtype)
    both[1], both[2] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(reduce.sum(both, 0)).all() and np.isnan(running_sum(both, 0)[2:]).all()


def test_shapes_and_dtypes_are_those_of_numpy():
    for shape, axis in (((), ()), ((0,), 0), ((5000, 0, 3), (0, 2)), ((100, 100), None), ((100, 100), ()), ((1, 5000, 1), (0, 2)),
                        ((1, 5000, 1), -2), ((5000, 3), (-2, -1)), ((5000, 3), (1, 0))):
        for dtype, keepdims in itertools.product((np.float32, np.int64, np.bool_), (False, True)):
            x = np.ones(shape, dtype)
            expected, found = np.sum(x, axis, keepdims=keepdims), reduce.sum(x, axis, keepdims)
            np.testing.assert_array_equal(found, expected)
            assert found.shape == expected.shape and found.dtype == expected.dtype


@pytest.mark.parametrize("shape", [(LONG, 3), (3, LONG), (60, 500, 10)], ids=str)
def test_the_bits_do_not_depend_on_the_number_of_threads(shape):
    x, threads, found = numbers(shape), get_num_threads(), []
    for count in (1, threads):
        set_num_threads(count)
        found.append([f(x, axis).tobytes() for axis in range(x.ndim) for f in (reduce.sum, running_sum)])
    assert found[0] == found[1]


def test_each_replay_sums_again():
    b = mg.zeros(3, requires_grad=True)

    @mg.compile
    def step(x):
        out = (x + b).cumsum(0).mean(0)
        out.backward(mg.ones(3))
        return out

    for seed in range(3):
        x = numbers((20_000, 3)) + np.float32(seed)
        b.grad = None
        out = step(mg.tensor(x))
        assert_close(out.data, x.cumsum(0, np.float64).mean(0))
        assert_close(b.grad.data, np.full(3, 10_000.5))


USE_ALL_WORKSPACES = """
import numpy as np
from minigrad.fast import reduce
from minigrad.fast.kernels import embedding, gather, rows
x = np.ones((40_000, 10), np.float32)
assert (rows.sum_rows(x) == 40_000).all()
table, ids = np.empty((3, 10), np.float32), np.arange(40_000) % 2
embedding.embedding_backward(x, ids, table)
assert table.tolist() == [[20_000.0] * 10] * 2 + [[0.0] * 10]
embedding.positions_backward(x.reshape(20_000, 2, 10), table)
assert table.tolist() == [[20_000.0] * 10] * 2 + [[0.0] * 10]
assert (reduce.sum(x[:, ::2], 0) == 40_000).all() and reduce.sum(x) == 400_000
x, places = x.reshape(1000, 400), np.tile(np.arange(400), (1000, 1))
assert (gather.add_along(x, 1, places, False, 400) == 1).all()
assert not gather.put_along(x, 1, places, x) and gather.put_along(x, 1, places // 2, x)
"""


def test_no_kernel_reads_memory_that_it_has_freed():
    overwritten = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "4096"}  # the GNU C library overwrites freed memory
    subprocess.run([sys.executable, "-c", USE_ALL_WORKSPACES], check=True, env=os.environ | overwritten)
