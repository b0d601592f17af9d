"""Taking elements by index, and its transpose, adding them back: an index that is used twice gets two gradients."""
import numpy as np

from ..tape import Op


def is_basic(index) -> bool:
    """Only ints, slices, ... and None: NumPy returns a view, and no element is taken twice."""
    parts = index if isinstance(index, tuple) else (index,)
    kinds = int, np.integer, slice, type(None), type(Ellipsis)
    return all(isinstance(part, kinds) and not isinstance(part, bool) for part in parts)


class Index(Op):
    """out = x[index]:  dx[index] += dout, zero elsewhere"""

    def forward(self, x, *, index):
        self.index, self.x_shape = index, x.shape
        return x[index]

    def backward(self, dout):
        return AddAt.call(dout, index=self.index, shape=self.x_shape)


class AddAt(Op):
    """out = zeros(shape), then out[index] += x:  dx = dout[index]"""

    fresh_gradients = True

    def forward(self, x, *, index, shape):
        self.index = index
        out = np.zeros(shape, x.dtype)
        if is_basic(index):
            out[index] = x
        else:
            np.add.at(out, index, x)  # out[index] += x would add only once where an index repeats
        return out

    def backward(self, dout):
        return Index.call(dout, index=self.index)
