"""Running sums along one axis."""
from __future__ import annotations

from typing import Generic, overload

import numpy as np

from ..arrays.annotations import DType, Tensor
from ..backend import in_order
from ..tape import Op
from .numpy_protocol import answers
from .operands import as_dtype, call, check_dim, methods_with_numpy_names


class CumSum(Op):
    """out_i = x_0 + ... + x_i along axis:  dx_i = dout_i + dout_(i+1) + ..., as x_i goes into all later sums

    So its gradient is the sum in reverse, from the last element to the first, and the other way round.
    """

    def forward(self, x, *, axis, reverse=False):
        self.axis, self.reverse = axis, reverse
        x = np.flip(x, axis) if reverse else x
        out = np.cumsum(x, axis=axis, dtype=np.float64).astype(x.dtype) if x.dtype.kind == "f" else np.cumsum(x, axis=axis)
        return in_order(np.flip(out, axis) if reverse else out)

    def backward(self, dout):
        return call(CumSum, dout, axis=self.axis, reverse=not self.reverse)


@methods_with_numpy_names
class CumulativeMethods(Generic[Tensor]):
    @overload
    def cumsum(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor: ...
    @overload
    def cumsum(self: Tensor, *, axis: int, dtype: DType = None) -> Tensor: ...
    @answers(np.cumsum)
    def cumsum(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor:
        """The running sums along dim."""
        self, dim = as_dtype(self, dtype), check_dim("cumsum", self, dim)
        return self.apply_op(CumSum, self, axis=dim) if self.ndim else self.sum()
