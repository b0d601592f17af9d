"""Reductions of many elements: by kernels, and maxima by looking only at what is extreme."""
from collections.abc import Callable

import numpy as np

from ..backend import replaced_by, with_axis_last, with_last_axis_at
from ..ops import reduce
from ..ops.reduce import count, keep_axes
from ..tape import implements
from .kernels import formulas, row_reductions as kernels
from .kernels.buffers import empty
from .kernels.copying import copy, in_order
from .kernels.pointwise import computed, is_apart
from .kernels.reduce import normalized, wide_sum
from .kernels.rows import as_rows

LARGE = 1 << 13  # elements


class OfMany:
    @classmethod
    def takes(cls, arrays):
        return arrays[0].size >= LARGE


@implements(reduce.Max)
class Max(OfMany, reduce.Max):
    def backward(self, dout, x, out):
        is_extreme = x == keep_axes(out, x.shape, self.axis)
        if np.isnan(out).any():
            is_extreme |= x != x
        places = np.flatnonzero(is_extreme)
        results = np.arange(out.size).reshape(keep_axes(out, x.shape, self.axis).shape)
        to = np.broadcast_to(results, x.shape)[np.unravel_index(places, x.shape)]  # which result each of them is
        ties = np.bincount(to, minlength=out.size)
        dx = empty(x.shape, dout.dtype)
        copy(np.zeros((), dout.dtype), dx)
        dx.reshape(-1)[places] = (dout.reshape(-1) / np.maximum(ties, 1).astype(dout.dtype))[to]
        return dx


@implements(reduce.Min)
class Min(Max, reduce.Min):
    reduction = reduce.Min.reduction


def rows_along(x: np.ndarray, axis) -> tuple[np.ndarray, list[int]]:
    """x (N, C) with all axes that are reduced in C, and the order of x's axes that they come in."""
    axes = normalized(axis, x.ndim)
    order = [i for i in range(x.ndim) if i not in axes] + list(axes)
    return in_order(x.transpose(order)).reshape(-1, count(x.shape, axes)), order


def from_rows(rows: np.ndarray, shape: tuple[int, ...], order: list[int]) -> np.ndarray:
    """The view with the shape of before of what `rows_along` has made."""
    return rows.reshape([shape[i] for i in order]).transpose(np.argsort(order))


@implements(reduce.LogSumExp)
class LogSumExp(OfMany, reduce.LogSumExp):
    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        rows, _ = rows_along(x, axis)
        out = np.empty(rows.shape[0], x.dtype)
        kernels.logsumexp_forward(rows, out)
        out = keep_axes(out, x.shape, axis)
        out = out if keepdims else np.squeeze(out, axis=axis)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        rows, order = rows_along(x, self.axis)
        dx = empty(rows.shape, x.dtype)
        kernels.logsumexp_backward(rows, out.reshape(-1), dout.reshape(-1), dx)
        return from_rows(dx, x.shape, order)


@implements(reduce.Prod)
class Prod(OfMany, reduce.Prod):
    def forward(self, x):
        if x.dtype != np.float32:
            return super().forward(x)
        self.save(x)
        out = np.empty(x.shape[:-1], x.dtype)
        kernels.prod_forward(as_rows(in_order(x)), out.reshape(-1))
        return out

    def backward(self, dout, x):
        dx = empty(x.shape, x.dtype)
        kernels.prod_backward(as_rows(in_order(x)), dout.reshape(-1), as_rows(dx))
        return dx


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
