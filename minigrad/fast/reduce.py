"""Reductions of many elements, with kernels."""
from collections.abc import Callable

import numpy as np

from .. import backend
from ..backend import normalized, replaced_by
from ..ops import reduce, statistics
from ..ops.arithmetic import product
from ..ops.reduce import count, keep_axes
from ..ops.statistics import divisor
from ..tape import implements
from .kernels import row_reductions as kernels
from .kernels.axes import inverse
from .kernels.buffers import empty
from .kernels.copying import in_order
from .kernels.reduce import WIDE, exact_sum
from .kernels.rows import LEAST_SQUARES, as_rows
from .kernels.thresholds import FEW, LARGE, SMALL_TO_SUM
from .last_axis import with_axis_last, with_last_axis_at


def sum(x: np.ndarray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """np.sum in the dtype of x, exact to a few roundings even for long sums.

    >>> x = np.full((1_000_000, 2), 0.1, np.float32)
    >>> sum(x, axis=0), np.sum(x, axis=0)
    (array([100000., 100000.], dtype=float32), array([100958.34, 100958.34], dtype=float32))
    """
    if x.dtype.kind != "f" or x.size <= FEW:
        return np.add.reduce(x, axis=axis, keepdims=keepdims)
    axes = normalized(axis, x.ndim)
    is_pairwise = x.size <= SMALL_TO_SUM and axes in ((x.ndim - 1,), tuple(range(x.ndim))) and x.flags.c_contiguous
    if is_pairwise or count(x.shape, axes) <= FEW and (x.size <= SMALL_TO_SUM or not _lie_inside(x, axes)):
        return np.add.reduce(x, axis=axes, keepdims=keepdims)
    return exact_sum(x, axes, keepdims, x.dtype)


def _lie_inside(x: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Are the terms of a sum closer together in memory than the sums? Then NumPy takes 3 to 10 times as long as the
    kernel if they are few."""
    inside = [abs(x.strides[i]) for i in axes if x.shape[i] > 1]
    return bool(inside) and min(inside) < min(abs(x.strides[i]) for i in range(x.ndim) if i not in axes and x.shape[i] > 1)


def wide_sum(x: np.ndarray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """The sum of floats, in float64."""
    axes = normalized(axis, x.ndim)
    if x.size <= SMALL_TO_SUM or count(x.shape, axes) <= FEW:
        return np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=WIDE)
    return exact_sum(x, axes, keepdims, WIDE)


def count_nonzero(x: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """Along an axis of 1e7 booleans, in a tenth of NumPy's time."""
    if axis is None or x.size < LARGE:
        return backend.in_numpy.count_nonzero(x, axis)
    return wide_sum((x if x.dtype == bool else x != 0).view(np.uint8), axis).astype(np.int64)


def along_the_last_axis(name: str) -> Callable:
    """NumPy's method argmax or argmin, which are slow along other axes."""

    def position(x: np.ndarray, axis: int | None = None, keepdims: bool = False) -> np.ndarray:
        if axis is None or axis == x.ndim - 1 or x.size < LARGE:
            return getattr(x, name)(axis, keepdims=keepdims)
        found = getattr(in_order(with_axis_last(x, axis)), name)(-1, keepdims=keepdims)
        return with_last_axis_at(found, axis) if keepdims else found

    return position


class OfMany:
    @classmethod
    def takes(cls, arrays):
        return arrays[0].size >= LARGE


@implements(reduce.Max)
class Max(OfMany, reduce.Max):
    """Backward looks only at the extremes: half the time for 1e7 elements."""

    def backward(self, dout, x, out):
        kept = keep_axes(out, x.shape, self.axis)
        places = np.flatnonzero((x == kept) | (x != x) if np.isnan(out).any() else x == kept)
        results = np.broadcast_to(np.arange(out.size).reshape(kept.shape), x.shape)
        to = results[np.unravel_index(places, x.shape)]  # the result that each place belongs to
        ties = np.maximum(np.bincount(to, minlength=out.size), 1).astype(dout.dtype)
        dx = np.zeros(x.shape, dout.dtype)
        dx.reshape(-1)[places] = (dout.reshape(-1) / ties)[to]
        return dx


@implements(reduce.Min)
class Min(Max, reduce.Min):
    reduction = reduce.Min.reduction


def rows_along(x: np.ndarray, axis) -> tuple[np.ndarray, list[int]]:
    """x as (N, C), with all reduced axes in C, and the order of x's axes in it."""
    axes = normalized(axis, x.ndim)
    order = [i for i in range(x.ndim) if i not in axes] + list(axes)
    return in_order(x.transpose(order)).reshape(-1, count(x.shape, axes)), order


@implements(reduce.LogSumExp)
class LogSumExp(OfMany, reduce.LogSumExp):
    """0.3 of the textbook's time for 256 rows of 256."""

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        rows, _ = rows_along(x, axis)
        out = np.empty(rows.shape[0], x.dtype)
        self.rest = np.empty(rows.shape[0])  # what out has lost by rounding
        kernels.logsumexp_forward(rows, out, self.rest)
        out = keep_axes(out, x.shape, axis)
        out = out if keepdims else np.squeeze(out, axis=axis)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        rows, order = rows_along(x, self.axis)
        dx = empty(rows.shape, x.dtype)
        slope = (dout.reshape(-1) * np.exp(-self.rest)).astype(dx.dtype)
        kernels.logsumexp_backward(rows, out.reshape(-1), slope, dx)
        return dx.reshape([x.shape[i] for i in order]).transpose(inverse(order))


@implements(reduce.Prod)
class Prod(reduce.Prod):
    """0.3 of the textbook's time for 256 rows of 256."""

    @classmethod
    def takes(cls, arrays):
        return arrays[0].size >= LARGE and arrays[0].dtype == np.float32

    def forward(self, x):
        self.save(x)
        out = np.empty(x.shape[:-1], x.dtype)
        kernels.prod_forward(as_rows(in_order(x)), out.reshape(-1))
        return out

    def backward(self, dout, x):
        dx = empty(x.shape, x.dtype)
        kernels.prod_backward(as_rows(in_order(x)), dout.reshape(-1), as_rows(dx))
        return dx


def are_in_range(squares: np.ndarray) -> np.bool:
    """Are these sums of squares neither too small nor too large for float32?"""
    return np.all((squares > LEAST_SQUARES) & (squares < np.inf))


@implements(reduce.Norm)
class Norm(reduce.Norm):
    """With p = 2, a pass over x each way, as long as the squares are in range."""

    def forward(self, x, *, p=2.0, axis=None, keepdims=False):
        squares = in_order(backend.sum(product(x, x), axis, keepdims)) if p == 2 else np.zeros(1)
        self.is_in_range = are_in_range(squares)
        if not self.is_in_range:
            return super().forward(x, p=p, axis=axis, keepdims=keepdims)
        self.p, self.axis, out = p, axis, np.sqrt(squares)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        if not self.is_in_range:
            return super().backward(dout, x, out)
        return product(keep_axes(dout / out, x.shape, self.axis), x)


def squared_error(x, mean):
    return np.square(x - mean)


def scaled_difference(share, x, high, low):
    return share * ((x - high) - low)


class OfDifferences:
    """Makes no copy: half the time for 1e7 elements. Rounding a large mean to float32 would cost digits of x - mean, so it
    is kept in two parts, `high` and the rest, `low`; with high alone, the sum of (x - high)^2 is too large by n low^2."""

    @classmethod
    def takes(cls, arrays):
        return arrays[0].dtype == np.float32

    def forward(self, x, *, axis=None, keepdims=False, correction=1):
        n = count(x.shape, axis)
        mean = wide_sum(x, axis, True) / n
        high = mean.astype(x.dtype)
        squares = wide_sum(backend.elementwise(squared_error, x, high), axis, True) - n * np.square(mean - high)
        self.axis, self.divisor = axis, divisor(x, axis, correction)
        self.mean = (high, (mean - high).astype(x.dtype)) if self.divisor and are_in_range(squares) else None
        if self.mean is None:
            return self.textbook.forward(self, x, axis=axis, keepdims=keepdims, correction=correction)
        out = self.of_variance(squares / self.divisor).astype(x.dtype)
        out = in_order(out if keepdims else np.squeeze(out, axis=axis))
        self.save(x, *([out] if isinstance(self, statistics.Std) else []))
        return out

    def backward(self, dout, x, *out):
        if self.mean is None:
            return self.textbook.backward(self, dout, x, *out)
        share = dout / out[0] / self.divisor if out else dout * (2 / self.divisor)
        return backend.elementwise(scaled_difference, keep_axes(share, x.shape, self.axis), x, *self.mean)


@implements(statistics.Var)
class Var(OfDifferences, statistics.Var):
    of_variance = staticmethod(np.positive)


@implements(statistics.Std)
class Std(OfDifferences, statistics.Std):
    of_variance = staticmethod(np.sqrt)


replaced_by(sum=sum, wide_sum=wide_sum, count_nonzero=count_nonzero, argmax=along_the_last_axis("argmax"),
            argmin=along_the_last_axis("argmin"))
