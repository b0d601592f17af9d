"""Functions that reduce axes (sum, mean, max, ...) or run along one. `axis` is None (all), an int, or a tuple of ints.

Backward puts the reduced axes back with length 1 (`keep_axes`), so that dout lines up with the input again. Sums are
those of kernels/reduce.py: exact to a rounding or a few along any axis, where NumPy's lose digits if they are long.
"""
import math

import numpy as np

from ..kernels.reduce import running_sum, sum, wide_sum
from ..tape import Fused, Op
from .elementwise import LogAddExp, select


def keep_axes(reduced, shape: tuple[int, ...], axis):
    """Give a reduced array its axes back, with length 1, so that it broadcasts against an array of `shape`."""
    if axis is None:
        return reduced.reshape((1,) * len(shape))
    axes = np.atleast_1d(axis) % max(len(shape), 1)
    return reduced.reshape(tuple(1 if i in axes else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], axis) -> int:
    """How many elements go into one element of the reduction."""
    if axis is None:
        return math.prod(shape)
    return math.prod(shape[a] for a in (axis if isinstance(axis, tuple) else (axis,)))


def spread(reduced, shape: tuple[int, ...], axis):
    """The transpose of a sum: each element of `shape` gets the value that it was reduced to."""
    kept = keep_axes(reduced, shape, axis)
    if not isinstance(kept, np.ndarray):
        return np.broadcast_to(kept, shape)
    out = np.empty(shape, kept.dtype)  # np.broadcast_to would take four times as long for a small array
    out[...] = kept
    return out


class Sum(Op):
    """out = sum of x over axis:  dx = dout, for each element added"""

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        return sum(x, axis, keepdims)

    def backward(self, dout):
        return spread(dout, self.x_shape, self.axis)


class Mean(Op):
    """out = sum of x over axis / n:  dx = dout / n"""

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        return sum(x, axis, keepdims) / count(x.shape, axis)

    def backward(self, dout):
        share = dout / max(count(self.x_shape, self.axis), 1)
        return spread(share, self.x_shape, self.axis)


def centred(x, axis):
    """x - mean over axis, twice: the mean of large numbers is rounded, and what it leaves is a mean too"""
    for _ in range(2):
        x = x - Mean.call(x, axis=axis, keepdims=True)
    return x


class Var(Op):
    """out = sum of (x - mean)^2 over axis / (n - correction):  dx = dout * 2 (x - mean) / (n - correction)

    The mean moves with x too, but the sum of x - mean is 0, so that adds nothing. Where the mean is large, its rounding
    to the dtype of x, `low`, is not small beside x - mean: out is less by low^2, and `centred` takes the mean out twice.
    """

    def forward(self, x, *, axis=None, keepdims=False, correction=1):
        self.axis = axis
        self.save(x)
        n = count(x.shape, axis)
        self.divisor = max(n - correction, 0)
        mean = np.divide(wide_sum(x, axis, keepdims=True), n)
        high = mean.astype(x.dtype)
        centred = np.asarray(x - high)
        squares = wide_sum(np.square(centred, out=centred), axis, keepdims=True) - n * np.square(mean - high)
        out = np.divide(np.maximum(squares, 0.0), self.divisor).astype(x.dtype)
        return out if keepdims else np.squeeze(out, axis=axis)

    def backward(self, dout, x):
        share = keep_axes(dout, x.shape, self.axis) * (2.0 / self.divisor if self.divisor else math.nan)
        return share * centred(x, self.axis)


class Std(Var):
    """out = sqrt(variance over axis):  dx = dout / out * (x - mean) / (n - correction), 0 where out is 0"""

    def forward(self, x, **options):
        out = np.sqrt(super().forward(x, **options))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        is_zero = out == 0
        return super().backward(np.where(is_zero, 0.0, dout) * 0.5 / np.where(is_zero, 1.0, out), x)


class Max(Op):
    """out = max of x over axis: the largest elements share dout evenly (as PyTorch's amax and max())"""

    reduction = staticmethod(np.max)

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        out = self.reduction(x, axis=axis, keepdims=keepdims)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        is_extreme = (x == keep_axes(out, x.shape, self.axis)) | (x != x)  # NaN, if there is any, is the result
        ties = np.maximum(np.sum(is_extreme, axis=self.axis, keepdims=True), 1)  # none among no elements
        share = keep_axes(dout, x.shape, self.axis) / ties.astype(dout.dtype)
        return select(is_extreme, share, 0.0)


class Min(Max):
    """out = min of x over axis: the smallest elements share dout evenly"""

    reduction = staticmethod(np.min)


class Median(Max):
    """out = the middle element of x in order of size, of two the smaller; NaN if there is one, or if there is nothing

    Elements equal to it share dout evenly.
    """

    @staticmethod
    def reduction(x, axis, keepdims):
        if not x.size:
            return np.array(math.nan, x.dtype)
        ascending = np.sort(x, axis=None)  # NaN comes last
        return ascending[-1] if np.isnan(ascending[-1]) else ascending[(x.size - 1) // 2]


class LogSumExp(Op):
    """out = log(sum of e^x over axis), the maximum taken out first:  dx = dout * e^(x - out) = dout * softmax(x)

    The sum over nothing but -inf (or over nothing) is -inf, with gradient 0.
    """

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        out = np.log(sum(np.exp(x - shift), axis, keepdims=True)) + shift
        out = out if keepdims else np.squeeze(out, axis=axis)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out = keep_axes(out, x.shape, self.axis)
        weights = np.exp(x - np.where(out == -np.inf, 0.0, out))
        return keep_axes(dout, x.shape, self.axis) * weights


class Norm(Op):
    """out = (sum of |x|^p over axis)^(1/p), 0 < p < inf:  dx = dout * sign(x) * (|x| / out)^(p - 1)

    No direction leads out of 0: dx = 0 where out is 0 (and for p < 1 where x is 0).
    """

    def forward(self, x, *, p=2.0, axis=None, keepdims=False):
        self.p, self.axis = p, axis
        if p == 2:
            out = np.sqrt(sum(x * x, axis, keepdims))
        else:
            out = sum(np.abs(x) ** p, axis, keepdims) ** (1 / p)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        out, dout = keep_axes(out, x.shape, self.axis), keep_axes(dout, x.shape, self.axis)
        is_zero = out == 0
        dout, out = np.where(is_zero, 0.0, dout), np.where(is_zero, 1.0, out)
        if self.p == 2:
            return dout / out * x
        return dout * np.sign(x) * (np.abs(np.where(x == 0, 1.0, x)) / out) ** (self.p - 1)


class Prod(Fused):
    """out = product of x along the last axis:  dx_i = dout * product of all other x_j

    Dividing out by x_i would fail at zeros. The others are the elements before i and those after it, so two running
    products give dx, whatever x holds. The definition multiplies halves with each other until one element is left.
    """

    @staticmethod
    def definition(x):
        x = np.concatenate([x, np.ones(x.shape[:-1] + (1,), x.dtype)], axis=-1)  # the product of nothing is 1
        while (n := x.shape[-1]) > 1:
            x = np.concatenate([x[..., : n // 2] * x[..., n // 2 : 2 * (n // 2)], x[..., 2 * (n // 2) :]], axis=-1)
        return x[..., 0]

    def forward(self, x):
        self.save(x)
        return np.prod(x, axis=-1)

    def backward(self, dout, x):
        one = np.ones(x.shape[:-1] + (1,), x.dtype)
        before = np.cumprod(np.concatenate([one, x], axis=-1)[..., :-1], axis=-1)
        after = np.flip(np.cumprod(np.concatenate([one, np.flip(x, -1)], axis=-1)[..., :-1], axis=-1), -1)
        return dout[..., None] * before * after


def scan(combine, x):
    """out_i = x_0 combined with x_1 ... x_i along the last axis: each round doubles how many elements are combined"""
    span = 1
    while span < x.shape[-1]:
        x = np.concatenate([x[..., :span], combine(x[..., span:], x[..., :-span])], axis=-1)
        span *= 2
    return x


def carried_back(dout, ratio):
    """g_i = dout_i + ratio_i g_(i+1) along the last axis: all of out_i's gradient, if ratio_i is d out_(i+1) / d out_i"""
    g = dout.copy()
    for i in reversed(range(g.shape[-1] - 1)):
        g[..., i] += ratio[..., i] * g[..., i + 1]
    return g


class CumProd(Fused):
    """out_i = x_0 * ... * x_i along the last axis:  dx_i = out_(i-1) * g_i,  g_i = dout_i + x_(i+1) g_(i+1)

    g_i is the whole gradient of out_i, as out_(i+1) = out_i x_(i+1). Nothing is divided, so zeros do no harm.
    """

    @staticmethod
    def definition(x):
        return scan(lambda a, b: a * b, x)

    def forward(self, x):
        out = np.cumprod(x, axis=-1)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        dx = carried_back(dout, x[..., 1:])
        dx[..., 1:] *= out[..., :-1]
        return dx


class LogCumSumExp(Fused):
    """out_i = log(e^(x_0) + ... + e^(x_i)) along the last axis:  dx_i = e^(x_i - out_i) g_i,
    g_i = dout_i + e^(out_i - out_(i+1)) g_(i+1)

    g_i is the whole gradient of out_i, as out_(i+1) = log(e^(out_i) + e^(x_(i+1))). No exponent is positive. Where out is
    -inf, the gradient is 0.
    """

    @staticmethod
    def definition(x):
        return scan(LogAddExp.call, x)

    def forward(self, x):
        out = np.logaddexp.accumulate(x, axis=-1)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        finite = np.where(out == -np.inf, 0.0, out)
        ratio, weights = np.exp(out[..., :-1] - finite[..., 1:]), np.exp(x - finite)
        return weights * carried_back(dout, ratio)


class CumSum(Op):
    """out_i = x_0 + ... + x_i along axis:  dx_i = dout_i + dout_(i+1) + ..., as x_i goes into all later sums

    The sums in reverse, from the last element to the first, are each other's gradient with these.
    """

    def forward(self, x, *, axis, reverse=False):
        self.axis, self.reverse = axis, reverse
        return running_sum(x, axis, reverse)

    def backward(self, dout):
        return CumSum.call(dout, axis=self.axis, reverse=not self.reverse)
