"""Positions and counts of extremes and the like, along axes where NumPy is slow."""
from collections.abc import Callable

import numpy as np

from ..backend import replaced_by, with_axis_last, with_last_axis_at
from .kernels import formulas
from .kernels.copying import in_order
from .kernels.pointwise import computed, is_apart
from .kernels.reduce import wide_sum

LARGE = 1 << 13  # elements


def count_nonzero(x: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """np.count_nonzero, which along axes takes longer than this."""
    if axis is None:
        if x.dtype == bool and x.ndim and is_apart(x):  # which NumPy counts one by one
            return x.size - np.count_nonzero(computed(formulas.logical_not, np.logical_not, x))
        return np.count_nonzero(x)
    ones = x.view(np.uint8) if x.dtype == bool else (x != 0).view(np.uint8)
    if x.size >= LARGE:
        return wide_sum(ones, axis).astype(np.int64)
    return np.add.reduce(ones, axis=axis, dtype=np.int64)


def along_the_last_axis(function: Callable) -> Callable:
    """np.argmax or np.argmin: along another axis, NumPy is slow."""

    def position(x: np.ndarray, axis: int | None = None, keepdims: bool = False) -> np.ndarray:
        if axis is None or axis == x.ndim - 1 or x.size < LARGE:
            return function(x, axis, keepdims=keepdims)
        found = function(in_order(with_axis_last(x, axis)), -1, keepdims=keepdims)
        return with_last_axis_at(found, axis) if keepdims else found

    return position


replaced_by(count_nonzero=count_nonzero, argmax=along_the_last_axis(np.ndarray.argmax),
            argmin=along_the_last_axis(np.ndarray.argmin))
