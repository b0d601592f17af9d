"""Copies between arrays of any strides, against NumPy."""
import itertools

import numpy as np
import pytest

from layouts import EXPANDED, LAYOUTS
from minigrad.fast.kernels import copying

VIEWS = LAYOUTS | EXPANDED | {
    "outer axes exchanged, reversed": lambda x: np.swapaxes(x, 0, -1)[::-1],
    "middle axis first": lambda x: np.moveaxis(x, x.ndim // 2, 0),
}


def test_squares_are_transposed_where_the_fastest_axes_differ():
    x, out = np.empty((60, 2, 70), np.float32).T, np.empty((70, 2, 60), np.float32)
    loops = copying.common_loops(x.shape, x.strides, out.strides, x.itemsize)
    assert loops.shape == (1, 2, 70, 60) and loops.strides == ((0, 70, 1, 140), (0, 60, 120, 1))


@pytest.mark.parametrize("shape", [(150, 230), (7, 30, 5, 19), (2, 9000), (9000, 3), (40_000,)], ids=str)
def test_copies_are_those_of_numpy(shape, monkeypatch):
    monkeypatch.setattr(copying, "COPIED", 1 << 14)  # smaller arrays take less time
    numbers = np.random.default_rng(0).integers(-100, 100, shape)
    for dtype, view in itertools.product((np.float32, np.float64, np.int64, np.bool_), VIEWS.values()):
        x = view(numbers.astype(dtype))
        out = copying.copied(x)
        np.testing.assert_array_equal(out, x)
        assert out.flags.c_contiguous and out.dtype == dtype
        scattered = np.zeros((*x.shape[::-1], 2), dtype)
        copying.copy(x, scattered[..., 0].T)
        np.testing.assert_array_equal(scattered[..., 0].T, x)
        assert not scattered[..., 1].any()


def test_a_number_fills():
    for number in np.float32(2.5), np.full((), 2.5, np.float32):
        out = np.zeros(copying.COPIED, np.float32)
        copying.copy(number, out)
        assert (out == 2.5).all()
