"""What ops need of arrays: kernels give what NumPy gives, in all layouts, for sizes on both sides of their thresholds."""
import numpy as np
import pytest

import minigrad as mg
from layouts import LAYOUTS
from minigrad import backend

SHAPES = [(), (0, 3), (3, 5), (70, 60), (4, 50, 51), (300, 450)]  # on both sides of the sizes from which kernels take over
MOVES = {  # of x: exact
    "copied": backend.copied,
    "copy": lambda x: copied_to(np.empty(x.shape, x.dtype), x),
    "copy to another order": lambda x: copied_to(np.empty(x.shape[::-1], x.dtype).T, x),
    "copy of a broadcast row": lambda x: copied_to(np.empty((20, *x.shape), x.dtype), x),
    **{f"astype {dtype}": lambda x, dtype=np.dtype(dtype): backend.astype(x, dtype, "K") for dtype in ("f4", "f8", "i8", "?")},
}
OF_AXES = {  # of x and axes, with keepdims or without
    "sum": backend.sum, "wide_sum": backend.wide_sum, "count_nonzero": lambda x, axes, _: backend.count_nonzero(x, axes),
}
OF_AN_AXIS = {
    "argmax": backend.argmax, "argmin": backend.argmin,
    "running_sum": lambda x, axis, reverse: backend.running_sum(x, 0 if axis is None else axis, reverse),
}


def copied_to(out, x):
    backend.copy(x, out)
    return out


def assert_same(function, *arguments):
    with np.errstate(invalid="ignore"):
        found = np.asarray(function(*arguments))
        with mg.textbook():
            expected = np.asarray(function(*arguments))
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    finite = np.isfinite(expected)
    x, tolerance = arguments[0], 1e-6 if found.dtype == np.float32 else 1e-12
    size = np.max(np.abs(x), initial=0, where=np.isfinite(x)) * x.size ** 0.5 if x.dtype.kind == "f" else 0
    np.testing.assert_allclose(found[finite], expected[finite], rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("dtype, is_finite", [("f4", True), ("f4", False), ("f8", True), ("f8", False), ("i8", True), ("?", True)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_give_what_numpy_gives(shape, dtype, is_finite):
    values = (2 * np.random.default_rng(0).standard_normal(shape)).round(1)  # some are equal, some are 0
    values = np.asarray(values, dtype)
    if not is_finite:
        values.reshape(-1)[7::50], values.reshape(-1)[31::700] = np.inf, np.nan
    for layout in LAYOUTS.values():
        x = layout(values)
        for function in MOVES.values():
            assert_same(function, x)
        for axis in (None, *range(x.ndim)):
            for flag in (False, True):
                for function in OF_AXES.values():
                    assert_same(function, x, axis, flag)
                if x.ndim and x.size:
                    for function in OF_AN_AXIS.values():
                        assert_same(function, x, axis, flag)
        if x.ndim == 3:
            for function in OF_AXES.values():
                assert_same(function, x, (0, 2), True)
