"""Softmax with kernels, which work along the last axis; other axes are moved there.

In float32, e^(x - max) below 2^-126 becomes 0, as denormals would be slow.
"""
from collections.abc import Callable

import numpy as np

from ..ops import softmax
from ..implementations import implements
from .kernels.buffers import are_contiguous, in_order
from .pool import empty_like
from .kernels.rows import as_rows
from .kernels.softmax import softmax_backward, softmax_forward


def along_last_axis(kernel: Callable, dim: int, *arrays: np.ndarray) -> np.ndarray:
    """Run a kernel of (rows in, ..., rows out) with axis `dim` moved to the end; the result is a view, moved back."""
    if dim in (-1, arrays[0].ndim - 1) and are_contiguous(arrays):  # no need to move
        out = empty_like(arrays[0])
        kernel(*map(as_rows, arrays), as_rows(out))
        return out
    moved = [in_order(np.moveaxis(a, dim, -1)) for a in arrays]
    out = empty_like(moved[0])
    if out.size:
        kernel(*map(as_rows, moved), as_rows(out))
    return np.moveaxis(out, -1, dim)


@implements(softmax.Softmax)
class Softmax(softmax.Softmax):
    def forward(self, x, *, dim):
        self.dim = dim
        out = in_order(along_last_axis(softmax_forward, dim, x))
        self.save(out)
        return out

    def backward(self, dout, out):
        return along_last_axis(softmax_backward, self.dim, dout, out)
