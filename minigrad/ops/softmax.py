"""Softmax and its logarithm, along one axis (dim).

    y_j = e^(x_j) / Z,  Z = sum_k e^(x_k)

By the quotient rule, dy_j/dx_i = ([i = j] e^(x_j) Z - e^(x_j) e^(x_i)) / Z^2 = y_j ([i = j] - y_i): raising x_i takes from
all other y_j. Summing over j, dx_i = sum_j dout_j dy_j/dx_i = y_i (dout_i - sum_j dout_j y_j).
Kernels work along the last axis; other axes are moved there.
"""
import numpy as np

from ..kernels import softmax as kernels
from ..kernels.buffers import empty_like
from ..kernels.copying import in_order, with_axis_last, with_last_axis_at
from ..kernels.rows import as_rows
from ..tape import Fused, are_contiguous
from .operands import check_dim, floating, methods_with_numpy_names


def shifted(x, dim):
    """x minus its maximum along dim: it changes no softmax and keeps e^x finite; a row of -inf stays that"""
    if 0 in x.shape:
        return x
    largest = np.max(x, axis=dim, keepdims=True)
    return x - np.where(largest == -np.inf, 0.0, largest)


class Softmax(Fused):
    """out = e^x / sum(e^x), sums along dim:  dx = out * (dout - sum(dout * out))

    A row of -inf has no softmax: NaN, as in PyTorch. Saves x (for the definition) and out.
    """

    @staticmethod
    def definition(x, *, dim):
        e = np.exp(shifted(x, dim))
        return e / np.sum(e, axis=dim, keepdims=True)

    def forward(self, x, *, dim):
        self.dim = dim
        out = in_order(along_last_axis(kernels.softmax_forward, dim, x))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        return along_last_axis(kernels.softmax_backward, self.dim, dout, out)


class LogSoftmax(Fused):
    """out = x - log(sum(e^x)), sums along dim:  dx = dout - e^out * sum(dout)"""

    @staticmethod
    def definition(x, *, dim):
        z = shifted(x, dim)
        return z if 0 in x.shape else z - np.log(np.sum(np.exp(z), axis=dim, keepdims=True))

    def forward(self, x, *, dim):
        self.dim = dim
        out = in_order(along_last_axis(kernels.log_softmax_forward, dim, x))
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        return along_last_axis(kernels.log_softmax_backward, self.dim, dout, out)


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


@methods_with_numpy_names
class SoftmaxMethods:
    def softmax(self, dim: int):
        """e^x / sum of e^x along dim. In float32, where e^(x - max) is below 2^-126 it is 0: denormals would be slow."""
        dim, x = check_dim("softmax", self, dim), floating(self)
        return self.apply_op(Softmax, x, dim=dim) if x.ndim else x.reshape(1).softmax(0).reshape(())

    def log_softmax(self, dim: int):
        """x - log(sum of e^x along dim)."""
        dim, x = check_dim("log_softmax", self, dim), floating(self)
        return self.apply_op(LogSoftmax, x, dim=dim) if x.ndim else x.reshape(1).log_softmax(0).reshape(())
