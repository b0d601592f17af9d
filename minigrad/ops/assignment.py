"""Setting items: what `x[index] = value` computes, as a function of both."""
import numpy as np

from ..tape import Op
from .indexing import Index


class SetAt(Op):
    """out = x, but out[index] = value:  dvalue = dout[index], dx = dout, zero at index

    Where an index repeats, the last value stays, and only that one has a gradient in truth; that case is refused.
    """

    def forward(self, x, value, *, index):
        self.index = index
        marks = np.zeros(x.shape, np.int64)
        np.add.at(marks, index, 1)
        if marks.max(initial=0) > 1:
            raise ValueError("setting items: an index occurs twice, so the gradient would not be defined")
        self.is_kept = marks == 0
        self.value_ndim = np.ndim(value)
        out = x.copy()
        out[index] = value
        return out

    def backward(self, dout):
        dvalue = Index.call(dout, index=self.index)
        leading = (None,) * self.value_ndim  # the value may have leading axes of length 1; the tape sums what is too much
        return np.where(self.is_kept, dout, 0.0), dvalue[leading]
