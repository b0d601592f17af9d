"""Softmax and its logarithm, along one axis (dim).

    y_j = e^(x_j) / Z,  Z = sum_k e^(x_k)

By the quotient rule, dy_j/dx_i = ([i = j] e^(x_j) Z - e^(x_j) e^(x_i)) / Z^2 = y_j ([i = j] - y_i): raising x_i lowers all
other y_j. Summing over j, dx_i = sum_j dout_j dy_j/dx_i = y_i (dout_i - sum_j dout_j y_j).
"""
from __future__ import annotations

from typing import Generic, overload

import numpy as np

from ..arrays.annotations import DType, Tensor
from .kinds import Fused
from .operands import as_dtype, call, check_dim, floating, methods_with_numpy_names
from .reduce import Sum


def shifted(x, dim):
    """x minus its maximum along dim, which leaves softmax unchanged and keeps e^x finite; a row of -inf stays as it is"""
    if 0 in x.shape:
        return x
    largest = np.max(x, axis=dim, keepdims=True)
    return x - np.where(largest == -np.inf, 0.0, largest)


class Softmax(Fused):
    """out = e^x / sum(e^x), sums along dim:  dx = out * (dout - sum(dout * out))

    A row of -inf has no softmax: NaN, as in PyTorch. Saves out.
    """

    def forward(self, x, *, dim):
        self.dim = dim
        e = np.exp(shifted(x, dim))
        out = e / call(Sum, e, axis=dim, keepdims=True)
        self.save(out)
        return out

    def backward(self, dout, out):
        total = call(Sum, dout * out, axis=self.dim, keepdims=True)  # every output depends on every input of its row
        return out * (dout - total)


class LogSoftmax(Fused):
    """out = x - log(sum(e^x)), sums along dim:  dx = dout - e^out * sum(dout)"""

    def forward(self, x, *, dim):
        self.dim = dim
        z = shifted(x, dim)
        out = z - np.log(call(Sum, np.exp(z), axis=dim, keepdims=True))
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout - np.exp(out) * call(Sum, dout, axis=self.dim, keepdims=True)


@methods_with_numpy_names
class SoftmaxMethods(Generic[Tensor]):
    @overload
    def softmax(self: Tensor, dim: int, dtype: DType = None) -> Tensor: ...
    @overload
    def softmax(self: Tensor, *, axis: int, dtype: DType = None) -> Tensor: ...
    def softmax(self: Tensor, dim: int, dtype: DType = None) -> Tensor:
        """e^x / sum of e^x along dim."""
        dim, x = check_dim("softmax", self, dim), floating(as_dtype(self, dtype))
        return self.apply_op(Softmax, x, dim=dim) if x.ndim else x.reshape(1).softmax(0).reshape(())

    @overload
    def log_softmax(self: Tensor, dim: int, dtype: DType = None) -> Tensor: ...
    @overload
    def log_softmax(self: Tensor, *, axis: int, dtype: DType = None) -> Tensor: ...
    def log_softmax(self: Tensor, dim: int, dtype: DType = None) -> Tensor:
        """x - log(sum of e^x along dim)."""
        dim, x = check_dim("log_softmax", self, dim), floating(as_dtype(self, dtype))
        return self.apply_op(LogSoftmax, x, dim=dim) if x.ndim else x.reshape(1).log_softmax(0).reshape(())
