"""Dtypes and the only device: to(dtype), to("cpu") and their short forms."""
from __future__ import annotations

import builtins
from typing import Final, Generic

import numpy as np

from ..arrays.annotations import DType, Device, Tensor
from ..arrays.devices import CPU, dtype_of_to
from ..arrays.dtypes import bfloat16, bool_, converted, float16, float32, float64, int32, int64
from ..backend import is_tensor
from ..tape import Op


class Cast(Op):
    """out = x in another floating dtype:  dx = dout, which the tape casts back"""

    def forward(self, x, *, dtype):
        return converted(x, dtype)

    def backward(self, dout):
        return dout


def in_dtype(x, dtype: np.dtype | None):
    """The Tensor in another dtype; itself if it has that dtype, or if dtype is None."""
    own = x.dtype
    if dtype is None or dtype == own:
        return x
    if dtype.kind == "f" and own.kind == "f":
        return x.apply_op(Cast, x, dtype=dtype)
    return x.constant(converted, x, dtype)


class DtypeMethods(Generic[Tensor]):
    device: Final = CPU
    is_cuda: Final = False

    def to(
        self: Tensor, target: Tensor | DType | Device = None, dtype: DType = None, non_blocking: builtins.bool = False,
        copy: builtins.bool = False, *, device: Device = None,
    ) -> Tensor:
        """This tensor in another dtype, or in that of another tensor; itself if nothing changes. A device must be "cpu".

        >>> from minigrad import float64, tensor
        >>> tensor([1, 2]).to(float64).to("cpu").dtype
        dtype('float64')
        """
        dtype = dtype_of_to(target.dtype if is_tensor(target) else target, dtype, device)
        return self.clone() if copy and dtype in (None, self.dtype) else in_dtype(self, dtype)

    astype = to

    def type(self: Tensor, dtype: DType) -> Tensor:
        """This tensor in another dtype; itself if it has that dtype."""
        return self.to(dtype)

    def type_as(self: Tensor, other: Tensor) -> Tensor:
        """This tensor in the dtype of other."""
        return self.to(other.dtype)

    def float(self: Tensor) -> Tensor:
        """This tensor in float32."""
        return in_dtype(self, float32)

    def double(self: Tensor) -> Tensor:
        """This tensor in float64."""
        return in_dtype(self, float64)

    def long(self: Tensor) -> Tensor:
        """This tensor in int64."""
        return in_dtype(self, int64)

    def bool(self: Tensor) -> Tensor:
        """self != 0, as booleans."""
        return in_dtype(self, bool_)

    def int(self: Tensor) -> Tensor:
        """TypeError: tensors do not hold int32; use long()."""
        return self.to(int32)

    def half(self: Tensor) -> Tensor:
        """TypeError: tensors do not hold float16."""
        return self.to(float16)

    def bfloat16(self: Tensor) -> Tensor:
        """TypeError: tensors do not hold bfloat16."""
        return self.to(bfloat16)

    def cpu(self: Tensor) -> Tensor:
        """This tensor itself."""
        return self

    def cuda(self: Tensor, device: Device = None) -> Tensor:
        """RuntimeError: "cpu" is the only device."""
        return self.to("cuda")

    def is_floating_point(self: Tensor) -> builtins.bool:
        """Is the dtype float32 or float64?"""
        return self.dtype.kind == "f"
