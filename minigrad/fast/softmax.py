"""Softmax by kernels, which work along the last axis; other axes are moved there.

In float32, where e^(x - max) is below 2^-126 it is 0: denormals would be slow.
"""
import numpy as np

from ..backend import with_axis_last, with_last_axis_at
from ..ops import softmax
from ..tape import implements
from .kernels import softmax as kernels
from .kernels.buffers import empty_like
from .kernels.copying import are_contiguous, in_order
from .kernels.rows import as_rows


@implements(softmax.Softmax)
class Softmax(softmax.Softmax):
    kernels = kernels.softmax_forward, kernels.softmax_backward

    def forward(self, x, *, dim):
        self.dim = dim
        out = in_order(along_last_axis(self.kernels[0], dim, x))
        self.save(out)
        return out

    def backward(self, dout, out):
        return along_last_axis(self.kernels[1], self.dim, dout, out)


@implements(softmax.LogSoftmax)
class LogSoftmax(Softmax, softmax.LogSoftmax):
    kernels = kernels.log_softmax_forward, kernels.log_softmax_backward


def along_last_axis(kernel, dim: int, *arrays: np.ndarray) -> np.ndarray:
    """Run a kernel of (rows in, ..., rows out) with axis `dim` moved to the end, and move it back: a view."""
    if dim in (-1, arrays[0].ndim - 1) and are_contiguous(arrays):  # no need to move
        out = empty_like(arrays[0])
        kernel(*map(as_rows, arrays), as_rows(out))
        return out
    moved = [in_order(with_axis_last(a, dim)) for a in arrays]
    out = empty_like(moved[0])
    if out.size:
        kernel(*map(as_rows, moved), as_rows(out))
    return with_last_axis_at(out, dim)
