"""Running sums and products, along one axis."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, overload

import numpy as np

from ..backend import in_order
from ..tape import Op
from .numpy_protocol import answers
from .operands import as_dtype, check_dim, methods_with_numpy_names

if TYPE_CHECKING:
    from ..arrays.annotations import DType, Tensor


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
        return CumSum.call(dout, axis=self.axis, reverse=not self.reverse)


def carried_back(dout, ratio):
    """g_i = dout_i + ratio_i g_(i+1) along the last axis: out_i's whole gradient if ratio_i = d out_(i+1) / d out_i"""
    if not dout.shape[-1]:
        return dout
    g = [dout[..., -1]]
    for i in reversed(range(dout.shape[-1] - 1)):
        g.append(dout[..., i] + ratio[..., i] * g[-1])
    return np.stack(g[::-1], axis=-1)


class CumProd(Op):
    """out_i = x_0 * ... * x_i along the last axis:  dx_i = out_(i-1) * g_i,  g_i = dout_i + x_(i+1) g_(i+1)

    g_i is the whole gradient of out_i, as out_(i+1) = out_i x_(i+1). Nothing is divided, so zeros do no harm.
    """

    is_in_order = True

    def forward(self, x):
        out = np.cumprod(x, axis=-1, dtype=np.float64).astype(x.dtype)
        self.save(x, out)
        return out

    def backward(self, dout, x, out):
        g = carried_back(dout.astype(np.float64), x[..., 1:])
        return np.concatenate([g[..., :1], g[..., 1:] * out[..., :-1]], axis=-1).astype(dout.dtype)


def along_last(operation, x, dim: int):
    """Along dim, an operation that runs along the last axis."""
    if dim == x.ndim - 1:
        return x.apply_op(operation, x).contiguous()
    x = x.movedim(dim, -1)
    return x.apply_op(operation, x).movedim(-1, dim).contiguous()


@methods_with_numpy_names
class CumulativeMethods:
    @overload
    def cumsum(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor: ...
    @overload
    def cumsum(self: Tensor, *, axis: int, dtype: DType = None) -> Tensor: ...
    @answers(np.cumsum)
    def cumsum(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor:
        """The running sums along dim."""
        self, dim = as_dtype(self, dtype), check_dim("cumsum", self, dim)
        return self.apply_op(CumSum, self, axis=dim) if self.ndim else self.sum()

    @overload
    def cumprod(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor: ...
    @overload
    def cumprod(self: Tensor, *, axis: int, dtype: DType = None) -> Tensor: ...
    @answers(np.cumprod)
    def cumprod(self: Tensor, dim: int, *, dtype: DType = None) -> Tensor:
        """The running products along dim. The gradient is right even where elements are zero."""
        self, dim = as_dtype(self, dtype), check_dim("cumprod", self, dim)
        if self.dtype.kind != "f":
            return self.constant(functools.partial(np.cumprod, axis=dim), self).reshape(self.shape)
        return along_last(CumProd, self, dim) if self.ndim else self.clone()
