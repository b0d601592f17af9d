"""Sliding windows along an axis, and their transpose, which adds them up where they overlap."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import backend
from ..tape import Op
from .operands import check_dim

if TYPE_CHECKING:
    from ..arrays.annotations import Tensor


class Unfold(Op):
    """out[..., w, j] = x[..., w * step + j], j < size:  dx_i = the sum of dout over all windows and places that show x_i"""

    def forward(self, x, *, size, step):
        self.step, self.length = step, x.shape[-1]
        return backend.copied(windows_of(x, size, step))

    def backward(self, dout):
        return Fold.call(dout, length=self.length, step=self.step)


class Fold(Op):
    """out[..., i] = sum of x[..., w, j] over w * step + j = i:  dx[..., w, j] = dout[..., w * step + j]"""

    def forward(self, x, *, length, step):
        count, self.size = x.shape[-2:]
        self.step, is_summed = step, self.size > step and x.dtype.kind == "f"
        sums = np.zeros(x.shape[:-2] + (length,), np.dtype(np.float64) if is_summed else x.dtype)
        for j in range(self.size):  # the j-th elements of different windows do not overlap
            sums[..., j : j + step * (count - 1) + 1 : step] += x[..., j]
        return sums.astype(x.dtype, copy=False)

    def backward(self, dout):
        return Unfold.call(dout, size=self.size, step=self.step)


def windows_of(x: np.ndarray, size: int, step: int) -> np.ndarray:
    """All windows of the last axis, one every `step`: a view."""
    *before, stride = x.strides
    shape = (*x.shape[:-1], (x.shape[-1] - size) // step + 1, size)
    return np.lib.stride_tricks.as_strided(x, shape, (*before, step * stride, stride), writeable=False)


class WindowMethods:
    def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
        """All windows of `size` elements along a dimension, one every `step`, as a new last axis.

        >>> from minigrad import tensor
        >>> tensor([1, 2, 3, 4, 5]).unfold(0, 3, 2).tolist()
        [[1, 2, 3], [3, 4, 5]]
        """
        dim = check_dim("unfold", self, dimension)
        x = self if self.ndim else self.reshape(1)
        if not 0 <= size <= x.shape[dim]:
            raise ValueError(f"unfold: windows of {size} do not fit into dim {dim} of shape {self.shape}")
        if step <= 0:
            raise ValueError(f"unfold: step must be > 0, got {step}")
        if dim == x.ndim - 1:
            windows = x.apply_op(Unfold, x, size=size, step=step)
        else:
            windows = x.apply_op(Unfold, x.movedim(dim, -1), size=size, step=step).movedim(-2, dim)
        return windows if self.ndim else windows[0]
