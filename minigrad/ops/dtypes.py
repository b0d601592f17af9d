"""Dtypes: to(dtype) and its short forms."""
import functools
from typing import Any


from ..arrays import as_array, as_dtype, bool_, float32, float64, int64
from ..tape import Op


class Cast(Op):
    """out = x in another floating dtype:  dx = dout, which the tape casts back"""

    def forward(self, x, *, dtype):
        return x.astype(dtype)

    def backward(self, dout):
        return dout


class DtypeMethods:
    def to(self, dtype: Any):
        """This tensor in another dtype; itself if it is of that dtype."""
        dtype = as_dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype.kind == "f" and self.dtype.kind == "f":
            return self.apply_op(Cast, self, dtype=dtype)
        return self.constant(functools.partial(as_array, dtype=dtype), self)

    astype = to

    def float(self): return self.to(float32)
    def double(self): return self.to(float64)
    def long(self): return self.to(int64)
    def bool(self): return self.to(bool_)
    def cpu(self): return self
