"""Reductions of axes. For an Op, `axis` is None (all), an int, or a tuple of ints.

Backward puts the reduced axes back with length 1 (`keep_axes`), so that dout lines up with the input again. Sums use
`backend.sum`, accurate to a few roundings along any axis, while NumPy's long sums lose digits.
Methods take PyTorch's `dim` and `keepdim`, and NumPy's `axis` and `keepdims`, which mean the same.
"""
from __future__ import annotations

import functools
import math
from typing import Callable, Generic, overload

import numpy as np

from .. import backend
from ..arrays.annotations import Axes, DType, Tensor
from ..backend import in_order, normalized
from ..tape import Op
from .comparison import select
from .numpy_protocol import answers
from .operands import as_dtype, call, check_dim, checked_axes, floating, methods_with_numpy_names, rows_of
from .sorting import ValuesAndIndices, picked


def keep_axes(reduced, shape: tuple[int, ...], axis):
    """Give a reduced array its axes back, with length 1, so that it broadcasts to `shape`."""
    axes = normalized(axis, max(len(shape), 1))
    return reduced.reshape(tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def count(shape: tuple[int, ...], axis) -> int:
    """The number of elements that are reduced to one."""
    if axis is None:
        return math.prod(shape)
    return math.prod([shape[a] for a in axis]) if isinstance(axis, tuple) else shape[axis]


def spread(reduced, shape: tuple[int, ...], axis):
    """The transpose of a sum: each element of `shape` gets the value that it was reduced to."""
    kept = reduced if axis is None else keep_axes(reduced, shape, axis)
    if not isinstance(kept, np.ndarray):
        return np.broadcast_to(kept, shape)
    out = backend.empty(shape, kept.dtype)
    out[...] = kept
    return out


class Sum(Op):
    """out = sum of x over axis:  dx = dout, for each element added"""

    is_in_order = True

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        return backend.sum(x, axis, keepdims)

    def backward(self, dout):
        return spread(dout, self.x_shape, self.axis)


class Mean(Op):
    """out = sum of x over axis / n:  dx = dout / n"""

    is_in_order = True

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        return backend.sum(x, axis, keepdims) / count(x.shape, axis)

    def backward(self, dout):
        share = dout / max(count(self.x_shape, self.axis), 1)
        return spread(share, self.x_shape, self.axis)


def column_sum(x):
    """(..., C) -> (C,): the sum over all rows"""
    return call(Sum, rows_of(x), axis=0)


def row_mean(x):
    """(..., C) -> (..., 1): the mean of each row"""
    return call(Mean, x, axis=-1, keepdims=True)


class Max(Op):
    """out = max of x over axis:  dx = dout / n at the n elements that are largest, else 0 (as PyTorch's amax and max())"""

    reduction = staticmethod(np.maximum.reduce)

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        out = in_order(self.reduction(x, axis=axis, keepdims=keepdims))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        is_extreme = (x == keep_axes(out, x.shape, self.axis)) | (x != x)  # if there is a NaN, the result is NaN
        ties = np.maximum(np.sum(is_extreme, axis=self.axis, keepdims=True), 1)  # at least 1 even without elements
        share = keep_axes(dout, x.shape, self.axis) / ties.astype(dout.dtype)
        return select(is_extreme, share, 0.0)


class Min(Max):
    """out = min of x over axis:  dx = dout / n at the n elements that are smallest, else 0"""

    reduction = staticmethod(np.minimum.reduce)


class LogSumExp(Op):
    """out = log(sum of e^x over axis), the maximum taken out first:  dx = dout * e^(x - out) = dout * softmax(x)

    Around 1e6, e^(x - out) is off by the rounding of out, 3%, so backward divides it by its own sum. Where all x are -inf
    (or there are none), out is -inf, with gradient 0.
    """

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        out = np.log(backend.sum(np.exp(x - shift), axis, True)) + shift
        out = in_order(out if keepdims else np.squeeze(out, axis=axis))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out = keep_axes(out, x.shape, self.axis)
        weights = np.exp(x - np.where(out == -np.inf, 0.0, out))
        total = call(Sum, weights, axis=self.axis, keepdims=True)
        return keep_axes(dout, x.shape, self.axis) * (weights / np.where(total == 0, 1.0, total))


class Norm(Op):
    """out = (sum of |x|^p over axis)^(1/p), 0 < p < inf:  dx = dout * sign(x) * (|x| / out)^(p - 1)

    The largest |x| is taken out first, as |x|^p may leave the range of floats. Where out is 0, which has no direction,
    dx = 0 (and for p < 1 where x is 0).
    """

    def forward(self, x, *, p=2.0, axis=None, keepdims=False):
        self.p, self.axis = p, axis
        largest = np.max(np.abs(x), axis=axis, keepdims=True, initial=0.0)
        size = np.where((largest == 0) | np.isinf(largest), 1.0, largest)
        out = size * backend.sum((np.abs(x) / size) ** p, axis, True) ** (1 / p)
        out = in_order(out if keepdims else np.squeeze(out, axis=axis))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out, dout = keep_axes(out, x.shape, self.axis), keep_axes(dout, x.shape, self.axis)
        is_zero = out == 0
        dout, out = np.where(is_zero, 0.0, dout), np.where(is_zero, 1.0, out)
        if self.p == 2:  # which has a second derivative where x is 0
            return dout * (x / out)
        return dout * np.sign(x) * (np.abs(np.where(x == 0, 1.0, x)) / out) ** (self.p - 1)


def reduce(operation, x, dim, keepdim: bool, **options):
    name = operation.__name__.lower()
    axis = None if dim is None else checked_axes(name, x, dim)
    if issubclass(operation, Max):
        check_some(name, x, axis)
    return x.apply_op(operation, x, axis=axis, keepdims=keepdim, **options)


def reduce_constant(name: str, function: np.ufunc, x, dim, keepdim: bool):
    """A reduction by a ufunc, without gradient."""
    axes = checked_axes(name, x, dim)
    return x.constant(lambda array: in_order(function.reduce(array, axis=axes, keepdims=keepdim)), x)


def check_some(name: str, x, axis) -> None:
    """ValueError, or IndexError if there is an axis, where there is nothing of which one could be the largest."""
    if not x.numel() and not count(x.shape, axis):
        what = "a tensor" if axis is None else f"dim {axis if isinstance(axis, int) else ', '.join(map(str, axis))}"
        raise (ValueError if axis is None else IndexError)(f"{name}: {what} of shape {x.shape} has no elements")


def position(name: str, function: Callable, x, dim: int | None, keepdim: bool):
    """np.argmax or np.argmin: the first of equal ones."""
    dim = None if dim is None else check_dim(name, x, dim)
    check_some(name, x, dim)
    return x.constant(functools.partial(function, axis=dim if x.ndim else None, keepdims=keepdim), x)


def extreme(operation, elementwise, arg_function, x, dim, keepdim: bool):
    """The three forms of max and min."""
    if dim is None:
        return reduce(operation, x, None, False)
    if not isinstance(dim, (int, np.integer)):
        return elementwise(x, dim)
    dim = check_dim(operation.__name__.lower(), x, int(dim))
    return values_and_indices(x, position(operation.__name__.lower(), arg_function, x, dim, True), dim, keepdim)


def values_and_indices(x, indices, dim: int, keepdim: bool):
    """The elements at these indices, one along dim, with the indices."""
    values = picked(x, dim, indices)
    return ValuesAndIndices(*(part if keepdim or not x.ndim else part.squeeze(dim) for part in (values, indices)))


@methods_with_numpy_names
class ReduceMethods(Generic[Tensor]):
    @answers(np.sum)
    def sum(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, dtype: DType = None, axis: Axes | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The sum over dim, by default of all elements, accurate to a few roundings; of the elements as dtype, if given."""
        if dtype is not None:
            return reduce(Sum, self.to(dtype), dim, keepdim).to(dtype)
        return reduce(Sum, self, dim, keepdim)

    @answers(np.mean)
    def mean(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, dtype: DType = None, axis: Axes | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The sum divided by the number of elements; for integers and booleans in float32.

        >>> from minigrad import tensor
        >>> tensor([1, 2]).mean()
        tensor(1.5)
        """
        return reduce(Mean, floating(as_dtype(self, dtype)), dim, keepdim)

    @answers(np.max)
    def amax(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, axis: Axes | None = None, keepdims: bool = False
    ) -> Tensor:
        """The maximum; equal largest elements share the gradient."""
        return reduce(Max, self, dim, keepdim)

    @answers(np.min)
    def amin(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, axis: Axes | None = None, keepdims: bool = False
    ) -> Tensor:
        """The minimum; equal smallest elements share the gradient."""
        return reduce(Min, self, dim, keepdim)

    @overload
    def max(self: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def max(self: Tensor, dim: int, keepdim: bool = False) -> ValuesAndIndices[Tensor]: ...
    @overload
    def max(self: Tensor, *, axis: int, keepdims: bool = False) -> ValuesAndIndices[Tensor]: ...
    def max(self: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesAndIndices[Tensor]:
        """max(): the maximum. max(dim): (values, indices), the first of equal ones. max(other): elementwise."""
        return extreme(Max, type(self).maximum, np.argmax, self, dim, keepdim)

    @overload
    def min(self: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: Tensor) -> Tensor: ...
    @overload
    def min(self: Tensor, dim: int, keepdim: bool = False) -> ValuesAndIndices[Tensor]: ...
    @overload
    def min(self: Tensor, *, axis: int, keepdims: bool = False) -> ValuesAndIndices[Tensor]: ...
    def min(self: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesAndIndices[Tensor]:
        """min(): the minimum. min(dim): (values, indices), the first of equal ones. min(other): elementwise."""
        return extreme(Min, type(self).minimum, np.argmin, self, dim, keepdim)

    @answers(np.argmax)
    def argmax(
        self: Tensor, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None, keepdims: bool = False
    ) -> Tensor:
        """The index of the largest element along dim, or in the flattened tensor: the first of equal ones."""
        return position("argmax", np.argmax, self, dim, keepdim)

    @answers(np.argmin)
    def argmin(
        self: Tensor, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None, keepdims: bool = False
    ) -> Tensor:
        """The index of the smallest element along dim, or in the flattened tensor: the first of equal ones."""
        return position("argmin", np.argmin, self, dim, keepdim)

    @answers(np.any)
    def any(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, axis: Axes | None = None, keepdims: bool = False
    ) -> Tensor:
        """Is any element along dim nonzero?"""
        return reduce_constant("any", np.logical_or, self, dim, keepdim)

    @answers(np.all)
    def all(
        self: Tensor, dim: Axes | None = None, keepdim: bool = False, *, axis: Axes | None = None, keepdims: bool = False
    ) -> Tensor:
        """Are all elements along dim nonzero?"""
        return reduce_constant("all", np.logical_and, self, dim, keepdim)

    @overload
    def logsumexp(self: Tensor, dim: Axes, keepdim: bool = False) -> Tensor: ...
    @overload
    def logsumexp(self: Tensor, *, axis: Axes, keepdims: bool = False) -> Tensor: ...
    def logsumexp(self: Tensor, dim: Axes, keepdim: bool = False) -> Tensor:
        """log(sum of e^x), without overflow."""
        return reduce(LogSumExp, floating(self), dim, keepdim)

    def norm(
        self: Tensor, p: float | str = "fro", dim: Axes | None = None, keepdim: bool = False, *, dtype: DType = None,
        axis: Axes | None = None, keepdims: bool = False,
    ) -> Tensor:
        """(sum of |x|^p)^(1/p), by default with p = 2; inf and -inf give the extremes of |x|, 0 counts nonzero elements.

        The gradient is 0 where the norm is 0; equal largest elements share it.
        """
        if isinstance(p, str) and p != "fro":
            raise ValueError(f"norm: p is a number or 'fro', got {p!r}")
        self, p = floating(as_dtype(self, dtype)), 2.0 if p == "fro" else float(p)
        if p == math.inf or p == -math.inf:
            return self.abs().amax(dim, keepdim) if p > 0 else self.abs().amin(dim, keepdim)
        if p == 0:
            return self.sign().abs().sum(dim, keepdim)
        if p == 1:
            return self.abs().sum(dim, keepdim)
        return reduce(Norm, self, dim, keepdim, p=p)
