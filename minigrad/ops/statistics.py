"""Statistics: variance and standard deviation."""
from __future__ import annotations

import math
from typing import Generic

import numpy as np

from .. import backend
from ..arrays.annotations import Axes, Tensor
from ..backend import in_order
from ..tape import Op
from .arithmetic import Sub
from .numpy_protocol import answers
from .operands import call, floating, methods_with_numpy_names
from .reduce import Mean, Norm, count, keep_axes, reduce


def centred(x, axis):
    """x - mean over axis, twice: the mean of large numbers is rounded, so the difference has a small mean too"""
    for _ in range(2):
        x = call(Sub, x, call(Mean, x, axis=axis, keepdims=True))
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
        out = call(Norm, centred(x, axis), axis=axis, keepdims=keepdims) / math.sqrt(self.divisor)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out, dout = keep_axes(out, x.shape, self.axis), keep_axes(dout, x.shape, self.axis)
        is_zero = out == 0
        share = np.where(is_zero, 0.0, dout) * (1 / self.divisor if self.divisor else math.nan)
        return share * (centred(x, self.axis) / np.where(is_zero, 1.0, out))


def variance(operation, x, dim, unbiased: bool, keepdim: bool, correction: float | None):
    """All forms of var and std: a boolean in place of dim is `unbiased`, as in PyTorch."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    correction = int(unbiased) if correction is None else float(correction)
    return reduce(operation, floating(x), dim, keepdim, correction=correction)


@methods_with_numpy_names
class StatisticsMethods(Generic[Tensor]):
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


@answers(np.var, correction="ddof")
def _var(x: Tensor, dim: Axes | None = None, *, ddof: float = 0, keepdim: bool = False) -> Tensor:
    """NumPy's var, which divides by n - ddof."""
    return x.var(dim, keepdim=keepdim, correction=ddof)


@answers(np.std, correction="ddof")
def _std(x: Tensor, dim: Axes | None = None, *, ddof: float = 0, keepdim: bool = False) -> Tensor:
    """NumPy's std, which divides by n - ddof."""
    return x.std(dim, keepdim=keepdim, correction=ddof)
