"""Functions that reduce axes: sum, mean, max, min. `axis` is None (all), an int, or a tuple of ints.

Backward puts the reduced axes back with length 1 (`keep_axes`), so that dout lines up with the input again.
"""
import math

import numpy as np

from ..tape import Op


def keep_axes(reduced, shape: tuple[int, ...], axis):
    """Give a reduced array its axes back, with length 1, so that it broadcasts against an array of `shape`."""
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % max(len(shape), 1)
    return reduced.reshape(tuple(1 if i in axes else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], axis) -> int:
    """How many elements go into one element of the reduction."""
    if axis is None:
        return math.prod(shape)
    return math.prod(shape[a] for a in (axis if isinstance(axis, tuple) else (axis,)))


class Sum(Op):
    """out = sum of x over axis:  dx = dout, for each element added. NumPy adds pairwise, so errors stay small"""

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        return np.sum(x, axis=axis, keepdims=keepdims)

    def backward(self, dout):
        return np.broadcast_to(keep_axes(dout, self.x_shape, self.axis), self.x_shape)


class Mean(Op):
    """out = sum of x over axis / n:  dx = dout / n"""

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis, self.x_shape = axis, x.shape
        with np.errstate(invalid="ignore", divide="ignore"):  # the mean of nothing is NaN, without a warning
            return np.sum(x, axis=axis, keepdims=keepdims) / count(x.shape, axis)

    def backward(self, dout):
        share = dout / max(count(self.x_shape, self.axis), 1)
        return np.broadcast_to(keep_axes(share, self.x_shape, self.axis), self.x_shape)


class Max(Op):
    """out = max of x over axis: the largest elements share dout evenly (as PyTorch's amax and max())"""

    reduction = staticmethod(np.max)

    def forward(self, x, *, axis=None, keepdims=False):
        self.axis = axis
        out = self.reduction(x, axis=axis, keepdims=keepdims)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        is_extreme = x == keep_axes(out, x.shape, self.axis)
        ties = np.sum(is_extreme, axis=self.axis, keepdims=True)
        share = keep_axes(dout, x.shape, self.axis) / ties.astype(dout.dtype)
        return np.where(is_extreme, share, 0.0)


class Min(Max):
    """out = min of x over axis: the smallest elements share dout evenly"""

    reduction = staticmethod(np.min)
