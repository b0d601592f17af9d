"""Dtypes and the only device: to(dtype), to("cpu") and their short forms."""
from typing import Any

import numpy as np

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


class DtypeMethods:
    device = CPU
    is_cuda = False

    def to(
        self, target: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False, *, device: Any = None
    ):
        """This tensor in another dtype, or in that of another tensor; itself if nothing changes. A device must be "cpu".

        >>> from minigrad import float64, tensor
        >>> tensor([1, 2]).to(float64).to("cpu").dtype
        dtype('float64')
        """
        dtype = dtype_of_to(target.dtype if is_tensor(target) else target, dtype, device)
        return self.clone() if copy and dtype in (None, self.dtype) else in_dtype(self, dtype)

    astype = to

    def type(self, dtype): return self.to(dtype)
    def type_as(self, other): return self.to(other.dtype)
    def float(self): return in_dtype(self, float32)
    def double(self): return in_dtype(self, float64)
    def long(self): return in_dtype(self, int64)
    def bool(self): return in_dtype(self, bool_)
    def int(self): return self.to(int32)
    def half(self): return self.to(float16)
    def bfloat16(self): return self.to(bfloat16)
    def cpu(self): return self
    def cuda(self, device=None): return self.to("cuda")
    def is_floating_point(self): return self.dtype.kind == "f"
