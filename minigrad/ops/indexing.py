"""Taking elements by index, and its transpose, adding them back: an index that is used twice gets two gradients."""
import numpy as np

from ..kernels.embedding import embedding_backward
from ..kernels.reduce import FEW
from ..tape import Op


def is_basic(index) -> bool:
    """Only ints, slices, ... and None: NumPy returns a view, and no element is taken twice."""
    parts = index if isinstance(index, tuple) else (index,)
    kinds = int, np.integer, slice, type(None), type(Ellipsis)
    return all(isinstance(part, kinds) and not isinstance(part, bool) for part in parts)


def add_at(out, index, x) -> None:
    """out[index] += x, where an index that repeats adds each time, in float64 if it may repeat often: np.add.at, but
    faster in the two usual cases"""
    parts = index if isinstance(index, tuple) else (index,)
    integers = all(isinstance(part, np.ndarray) and part.dtype.kind == "i" for part in parts)
    if integers and len(parts) == out.ndim:  # an index for every axis: one into the flat array, 7 times as fast
        places = np.ravel_multi_index(np.broadcast_arrays(*parts), out.shape, mode="wrap")
        out, index, x = out.reshape(-1), places.reshape(-1), np.broadcast_to(x, places.shape).reshape(-1)
        if x.dtype.kind == "f" and x.size > FEW:
            out += np.bincount(index, x, len(out))  # float64 sums
        else:
            np.add.at(out, index, x)
    elif integers and len(parts) == 1 and x.dtype.kind == "f" and x.size:  # whole rows
        rows, ids = out.reshape(len(out), -1), parts[0].astype(np.int64) % len(out)
        embedding_backward(np.broadcast_to(x, ids.shape + out.shape[1:]).reshape(ids.size, -1), ids.reshape(-1), rows)
    elif x.dtype.kind == "f" and x.size > FEW:
        sums = np.zeros(out.shape)
        np.add.at(sums, index, x)
        out += sums
    else:
        np.add.at(out, index, x)


class Index(Op):
    """out = x[index]:  dx[index] += dout, zero elsewhere"""

    def forward(self, x, *, index):
        self.index, self.x_shape = index, x.shape
        out = x[index]
        if type(out) is np.ndarray or not is_basic(index):
            return out
        return x[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of one element, not its value

    def backward(self, dout):
        return AddAt.call(dout, index=self.index, shape=self.x_shape)


class Diagonal(Op):
    """out[..., i] = x[..., i, i + offset], a view:  dx is dout there, zero elsewhere"""

    def forward(self, x, *, offset):
        self.offset, self.x_shape = offset, x.shape
        out = np.diagonal(x, offset, -2, -1)
        out.flags.writeable = x.flags.writeable  # NumPy's is read-only
        return out

    def backward(self, dout):
        i = np.arange(dout.shape[-1])
        index = (..., i + max(0, -self.offset), i + max(0, self.offset))
        return AddAt.call(dout, index=index, shape=self.x_shape)


class AddAt(Op):
    """out = zeros(shape), then out[index] += x:  dx = dout[index]"""

    def forward(self, x, *, index, shape):
        self.index = index
        out = np.zeros(shape, x.dtype)
        if is_basic(index) or isinstance(index, np.ndarray) and index.dtype == bool:
            out[index] = x
        else:
            add_at(out, index, x)
        return out

    def backward(self, dout):
        return Index.call(dout, index=self.index)
