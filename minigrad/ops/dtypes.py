"""Dtypes and the one device: to(dtype), to("cpu") and their short forms."""
import functools
import operator
from typing import Any

from ..arrays import as_array, bfloat16, bool_, float16, float32, float64, int32, int64
from ..devices import CPU, dtype_of_to
from ..kernels import formulas
from ..kernels.pointwise import computed
from ..protocol import is_tensor
from ..tape import Op


class Cast(Op):
    """out = x in another floating dtype:  dx = dout, which the tape casts back"""

    def forward(self, x, *, dtype):
        return computed(formulas.CASTS.get((x.dtype, dtype)), operator.methodcaller("astype", dtype), x)

    def backward(self, dout):
        return dout


class DtypeMethods:
    device = CPU
    is_cuda = False

    def to(
        self, target: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False, *, device: Any = None
    ):
        """This tensor in another dtype, or in that of another tensor; itself if it is of that dtype. A device is "cpu".

        >>> from minigrad import float64, tensor
        >>> tensor([1, 2]).to(float64).to("cpu").dtype
        dtype('float64')
        """
        dtype = dtype_of_to(target.dtype if is_tensor(target) else target, dtype, device)
        if dtype is None or dtype == self.dtype:
            return self.clone() if copy else self
        if dtype.kind == "f" and self.dtype.kind == "f":
            return self.apply_op(Cast, self, dtype=dtype)
        return self.constant(functools.partial(as_array, dtype=dtype), self)

    astype = to

    def type(self, dtype): return self.to(dtype)
    def type_as(self, other): return self.to(other.dtype)
    def float(self): return self.to(float32)
    def double(self): return self.to(float64)
    def long(self): return self.to(int64)
    def bool(self): return self.to(bool_)
    def int(self): return self.to(int32)
    def half(self): return self.to(float16)
    def bfloat16(self): return self.to(bfloat16)
    def cpu(self): return self
    def cuda(self, device=None): return self.to("cuda")
    def is_floating_point(self): return self.dtype.kind == "f"
