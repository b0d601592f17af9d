"""New tensors like a given one."""
from __future__ import annotations

from typing import Generic, Unpack

from ..arrays.annotations import DType, Device, Options, Size, Tensor, TensorLike
from ..arrays.devices import dtype_of_to
from ..arrays.dtypes import as_array, filled
from ..ops.operands import sizes


class NewMethods(Generic[Tensor]):
    def new_tensor(
        self: Tensor, data: TensorLike, dtype: DType = None, requires_grad: bool = False, device: Device = None
    ) -> Tensor:
        """A tensor with a copy of the data; this and the methods below use this tensor's dtype by default."""
        dtype = dtype_of_to(dtype or self.dtype, to_device=device)
        return self.constant(as_array, data, dtype, True).requires_grad_(requires_grad)

    def new_full(
        self: Tensor, size: Size, fill_value: float, dtype: DType = None, requires_grad: bool = False, device: Device = None
    ) -> Tensor:
        """A tensor of this size in which all elements are fill_value."""
        dtype = dtype_of_to(dtype or self.dtype, to_device=device) or self.dtype
        return self.constant(filled, sizes((size,)), fill_value, dtype).requires_grad_(requires_grad)

    def new_zeros(self: Tensor, *size: Size, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
        """A tensor of zeros."""
        return self.new_full(sizes(size), 0, dtype, **options)

    def new_ones(self: Tensor, *size: Size, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
        """A tensor of ones."""
        return self.new_full(sizes(size), 1, dtype, **options)

    new_empty = new_zeros
