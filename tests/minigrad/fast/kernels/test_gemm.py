"""The matrix product against float64 NumPy: odd sizes, all layouts, bias, accumulation, threads, bad input."""
import ctypes
import itertools
import mmap

import numpy as np
import pytest

import layouts
from minigrad.fast.kernels import gemm
from minigrad.fast.kernels.gemm import STRIP_COLUMNS, batched_matmul, matmul

SIZES = [(1, 1, 1), (5, 17, 3), (1, 65, 130), (17, 1, 65), (65, 5, 17), (7, 200, 66), (70, 330, 70), (100, 161, 600),
         (4, 300, 1100)]
DTYPES = [np.float32, np.float64]
LAYOUTS = layouts.LAYOUTS | {"big-endian": lambda x: x.astype(x.dtype.newbyteorder(">"))}
IN_PLACE = ["offset", "column by column", "rows with gaps", "last axes swapped"]


def random(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def assert_close(actual, expected, K):
    assert actual.shape == expected.shape
    epsilon = np.finfo(actual.dtype).eps
    np.testing.assert_allclose(actual, expected, rtol=0, atol=40 * epsilon * np.sqrt(K + 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_layouts_read_in_place(size, dtype):
    M, K, N = size
    a, b, c, bias = (random(*shape, dtype=dtype) for shape in ((M, K), (K, N), (M, N), (N,)))
    product = a.astype(np.float64) @ b.astype(np.float64)
    for layout_a in IN_PLACE:
        for layout_b in IN_PLACE:
            x, y = LAYOUTS[layout_a](a), LAYOUTS[layout_b](b)
            assert_close(matmul(x, y), product, K)
            assert_close(matmul(x, y, bias=bias), product + bias, K)
            assert_close(matmul(x, y, out=c.copy(), accumulate=True), product + c, K)
            assert_close(matmul(x, y, out=c.copy(), accumulate=True, bias=bias), product + c + bias, K)


def test_any_layout():
    a, b = random(13, 20), random(20, 33)
    for layout in LAYOUTS.values():
        assert_close(matmul(layout(a), layout(b)), a.astype(np.float64) @ b, 20)
        assert matmul(layout(a), layout(b)).dtype == np.float32


def test_broadcast_rows_and_sliced_bias():
    row, b, bias = random(20), random(20, 5), random(10)
    rows = np.broadcast_to(row, (6, 20))
    assert_close(matmul(rows, b, bias=bias[::2]), np.broadcast_to(row @ b + bias[::2], (6, 5)), 20)


def test_out_between_other_columns():
    a, b = random(9, 40), random(40, 21)
    wide = np.full((9, 30), 7, np.float32)
    result = matmul(a, b, out=wide[:, 4:25])
    assert result.base is wide and np.array_equal(wide[:, 4:25], matmul(a, b))
    assert (wide[:, :4] == 7).all() and (wide[:, 25:] == 7).all()


@pytest.mark.parametrize("M, K, N", [(3, 0, 4), (0, 3, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(M, K, N):
    a, b, c, bias = random(M, K), random(K, N), random(M, N), random(N)
    assert np.array_equal(matmul(a, b), np.zeros((M, N)))
    assert np.array_equal(matmul(a, b, bias=bias), np.broadcast_to(bias, (M, N)))
    assert np.array_equal(matmul(a, b, out=c.copy(), accumulate=True), c)


def test_nan_and_infinity_go_through():
    a = np.array([[1, np.inf], [np.nan, 1], [0, 2]], np.float32)
    np.testing.assert_array_equal(matmul(a, np.ones((2, 1), np.float32)), [[np.inf], [np.nan], [2]])


@pytest.mark.parametrize("size", [(70, 330, 90), (13, 400, 229), (2, 800, 700), (1, 1000, 1100), (300, 300, 300),
                                  (8, 400, 400)])
def test_same_bits_for_any_number_of_threads(size, thread_counts):
    M, K, N = size
    for layout_a, layout_b in itertools.combinations_with_replacement(("offset", "column by column"), 2):
        a, b, bias = LAYOUTS[layout_a](random(M, K)), LAYOUTS[layout_b](random(K, N)), random(N)
        results = [(matmul(a, b, bias=bias), batched_matmul(np.stack([a] * 3), b)) for _ in thread_counts()]
        assert all(np.array_equal(x, y) for x, y in zip(results[0], results[-1]))


@pytest.mark.parametrize("M", [60, 96, 300])
def test_the_last_strip_may_be_narrower_than_a_tile(M):
    """With a transposed A, which tiles pack as they go; and nothing is written beyond C."""
    beyond = [1, 8, 17, 33, 48, 65]
    for columns in (*beyond, *(STRIP_COLUMNS + more for more in beyond)):
        a, b = random(20, M).T, random(20, columns)
        memory = np.full((M + 1, columns), 7, np.float32)
        assert_close(matmul(a, b, out=memory[:M]), a.astype(np.float64) @ b, 20)
        assert (memory[M] == 7).all()


BATCHES = [((3, 5, 7), (3, 7, 4)), ((2, 1, 5, 7), (3, 7, 4)), ((7, 9), (4, 9, 3)), ((4, 33, 40), (40, 50)),
           ((3, 100, 90), (3, 90, 80)), ((2, 3, 0, 4), (4, 5)), ((0, 3, 4), (4, 5)), ((2, 3, 4, 0), (2, 3, 0, 6)),
           ((2, 4, 0), (0, 5)), ((5, 1, 1, 3), (3, 1)), ((40, 20, 30), (40, 30, 20)), ((3, 4), (4, 5))]


@pytest.fixture(params=[0, gemm.TINY_BATCH], ids=["the kernel", "NumPy, if the batch is tiny"])
def who_multiplies(request, monkeypatch):
    monkeypatch.setattr(gemm, "TINY_BATCH", request.param)


def test_batches(who_multiplies):
    for shape_a, shape_b in BATCHES:
        a, b = random(*shape_a), random(*shape_b)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        for layout in ("offset", "last axes swapped", "rows with gaps", "backwards", "big-endian"):
            assert_close(batched_matmul(LAYOUTS[layout](a), LAYOUTS[layout](b)), expected, a.shape[-1])
        out = np.empty((*expected.shape[:-1], expected.shape[-1] + 2), np.float32)[..., 1:-1]
        assert batched_matmul(a, b, out=out) is out
        assert_close(out, expected, a.shape[-1])


def test_reversed_and_broadcast_batch_axes_are_read_in_place(who_multiplies):
    a, b = random(4, 6, 5, 7), random(1, 6, 7, 3)
    assert_close(batched_matmul(a[::-1, ::2], b[:, ::-2]), a[::-1, ::2].astype(np.float64) @ b[:, ::-2], 7)


@pytest.mark.parametrize("arguments, error, words", [
    ((np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)), ValueError, r"cannot be multiplied: \(2, 3\) and"),
    ((np.ones((2, 3), np.float32), np.ones((3, 2))), TypeError, "float32 and float64"),
    ((np.ones((2, 3), int), np.ones((3, 2), int)), TypeError, "int64"),
    ((np.ones((2, 3)), np.ones((3, 2)), np.ones((3, 2))), ValueError, r"out of shape \(2, 2\)"),
    ((np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2)).T), ValueError, "contiguous rows"),
    ((np.ones((2, 3)), np.ones((3, 2)), None, np.ones(3)), ValueError, r"bias of shape \(2,\)"),
])
def test_bad_input(arguments, error, words):
    with pytest.raises(error, match=words):
        matmul(*arguments)


@pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="needs mprotect")
@pytest.mark.parametrize("rows, columns", [(4, 5), (4, 70), (100, 5), (100, 70), (100, 64), (1, 16)])
def test_nothing_past_the_end_of_a_matrix_is_read(rows, columns):
    """An unreadable page follows the matrices: reading it would end the process."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 64 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 63 * page), ctypes.c_size_t(page), 0)
    readable = np.frombuffer(memory, np.float32, 63 * page // 4)
    for shape in ((columns, rows), (rows, columns)):
        at_end = readable[-rows * columns :].reshape(shape)
        other = random(rows, 50)
        for x in (at_end, at_end.T):
            if x.shape[0] == rows:
                assert_close(matmul(x.T, other), x.T.astype(np.float64) @ other, rows)
                assert_close(matmul(other.T, x), other.T.astype(np.float64) @ x, rows)
