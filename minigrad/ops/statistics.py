"""Statistics: variance, standard deviation, median."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, overload

import numpy as np

from .. import backend
from ..backend import in_order
from ..tape import Op
from .arithmetic import Sub
from .numpy_protocol import answers
from .operands import check_dim, floating, methods_with_numpy_names, with_numpy_names
from .reduce import Max, Mean, Norm, count, keep_axes, reduce, values_and_indices
from .sorting import order

if TYPE_CHECKING:
    from ..arrays.annotations import Axes, Tensor
    from .sorting import ValuesAndIndices


def centred(x, axis):
    """x - mean over axis, twice: the mean of large numbers is rounded, so the difference has a small mean too"""
    for _ in range(2):
        x = Sub.call(x, Mean.call(x, axis=axis, keepdims=True))
    return x


def divisor(x, axis, correction: float) -> float:
    """n - correction, of a variance over axis; 0 if it would be negative"""
    return max(count(x.shape, axis) - correction, 0)


class Var(Op):
    """out = sum of (x - mean)^2 over axis / (n - correction):  dx = dout * 2 (x - mean) / (n - correction)

    The mean depends on x too, but the sum of x - mean is 0, so that adds nothing.
    """

    def forward(self, x, *, axis=None, keepdims=False, correction=1):
        self.axis, self.divisor = axis, divisor(x, axis, correction)
        self.save(x)
        squares = np.square(centred(x, axis), dtype=np.float64)  # that of 1e20 does not fit float32
        return in_order(np.divide(backend.sum(squares, axis, keepdims), self.divisor).astype(x.dtype))

    def backward(self, dout, x):
        share = keep_axes(dout, x.shape, self.axis) * (2 / self.divisor if self.divisor else math.nan)
        return share * centred(x, self.axis)


class Std(Op):
    """out = sqrt(variance over axis):  dx = dout / out * (x - mean) / (n - correction), 0 where out is 0"""

    def forward(self, x, *, axis=None, keepdims=False, correction=1):
        self.axis, self.divisor = axis, divisor(x, axis, correction)
        out = Norm.call(centred(x, axis), axis=axis, keepdims=keepdims) / math.sqrt(self.divisor)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out, dout = keep_axes(out, x.shape, self.axis), keep_axes(dout, x.shape, self.axis)
        is_zero = out == 0
        share = np.where(is_zero, 0.0, dout) * (1 / self.divisor if self.divisor else math.nan)
        return share * (centred(x, self.axis) / np.where(is_zero, 1.0, out))


class Median(Max):
    """out = the middle element of x in order of size:  dx = dout / n at the n elements equal to it, else 0

    Of two in the middle, it is the smaller one. It is NaN if any element is, or if there are none.
    """

    @staticmethod
    def reduction(x, axis, keepdims):
        if not x.size:
            return np.array(math.nan, x.dtype)
        ascending = np.sort(x, axis=None)  # NaN comes last
        return ascending[-1] if np.isnan(ascending[-1]) else ascending[(x.size - 1) // 2]


def variance(operation, x, dim, unbiased: bool, keepdim: bool, correction: float | None):
    """All forms of var and std: a boolean in place of dim is `unbiased`, as in PyTorch."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    correction = int(unbiased) if correction is None else float(correction)
    return reduce(operation, floating(x), dim, keepdim, correction=correction)


@with_numpy_names
def var_mean(
    input: Tensor, dim: Axes | bool | None = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: float | None = None, axis: Axes | None = None, keepdims: bool = False,
) -> tuple[Tensor, Tensor]:
    """(input.var(...), input.mean(...))"""
    mean = input.mean(None if isinstance(dim, bool) else dim, keepdim)
    return input.var(dim, unbiased, keepdim, correction=correction), mean


def middle(x: np.ndarray, dim: int) -> np.ndarray:
    """The index along dim of the middle element in order of size, or of the smaller of two; or that of the first NaN."""
    row = np.atleast_1d(x)
    half = (row.shape[dim] - 1) // 2
    found = order(row, dim, False, half, half + 1)
    is_nan = np.isnan(row)
    if is_nan.any():
        found = np.where(is_nan.any(dim, keepdims=True), is_nan.argmax(dim, keepdims=True), found)
    return found if x.ndim else found.reshape(())


@methods_with_numpy_names
class StatisticsMethods:
    def var(
        self: Tensor, dim: Axes | bool | None = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: float | None = None, axis: Axes | None = None, keepdims: bool = False,
    ) -> Tensor:
        """The sum of (x - mean)^2 divided by n - correction, where correction is 1, or 0 if not unbiased.

        var(False) is the biased variance of all elements.
        """
        return variance(Var, self, dim, unbiased, keepdim, correction)

    def std(
        self: Tensor, dim: Axes | bool | None = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: float | None = None, axis: Axes | None = None, keepdims: bool = False,
    ) -> Tensor:
        """The square root of var; its gradient is 0 where all elements are equal."""
        return variance(Std, self, dim, unbiased, keepdim, correction)

    @overload
    def median(self: Tensor) -> Tensor: ...
    @overload
    def median(self: Tensor, dim: int, keepdim: bool = False) -> ValuesAndIndices: ...
    @overload
    def median(self: Tensor, *, axis: int, keepdims: bool = False) -> ValuesAndIndices: ...
    def median(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | ValuesAndIndices:
        """median(): the middle element, or the smaller of two. median(dim): (values, indices). NaN if any element is.

        The gradient of median() is shared by the elements equal to it; that of median(dim) goes to the one at its index.
        """
        if dim is None:
            if not self.numel() and self.dtype.kind != "f":
                raise ValueError(f"median: expected at least one integer, got shape {self.shape}")
            return self.apply_op(Median, self)
        dim = check_dim("median", self, dim)
        if self.ndim and not self.shape[dim]:
            raise IndexError(f"median: dim {dim} of shape {self.shape} has no elements")
        indices = self.constant(functools.partial(middle, dim=dim), self)
        return values_and_indices(self, indices, dim, keepdim)


@answers(np.var, correction="ddof")
def _var(x: Tensor, dim: Axes | None = None, *, ddof: float = 0, keepdim: bool = False) -> Tensor:
    """NumPy's var, which divides by n - ddof."""
    return x.var(dim, keepdim=keepdim, correction=ddof)


@answers(np.std, correction="ddof")
def _std(x: Tensor, dim: Axes | None = None, *, ddof: float = 0, keepdim: bool = False) -> Tensor:
    """NumPy's std, which divides by n - ddof."""
    return x.std(dim, keepdim=keepdim, correction=ddof)
