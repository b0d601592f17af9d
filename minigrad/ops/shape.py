"""Functions that move elements and compute nothing: backward moves them back. They give views where NumPy does."""
import numpy as np

from ..tape import Op


class Clone(Op):
    """out = a copy of x:  dx = dout"""

    def forward(self, x):
        return x.copy()

    def backward(self, dout):
        return dout


class Reshape(Op):
    """out = x in another shape, same order of elements:  dx = dout in x's shape"""

    def forward(self, x, *, shape):
        self.x_shape = x.shape
        return np.reshape(x, shape)

    def backward(self, dout):
        return np.reshape(dout, self.x_shape)


class Permute(Op):
    """out[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]: the inverse permutation brings dout back"""

    def forward(self, x, *, axes):
        self.axes = axes
        return np.transpose(x, axes)

    def backward(self, dout):
        inverse = tuple(int(i) for i in np.argsort(self.axes))
        return np.transpose(dout, inverse)


class Expand(Op):
    """out = x repeated along axes of length 1, without a copy: the tape sums dout over the repetitions"""

    def forward(self, x, *, shape):
        return np.broadcast_to(x, shape)

    def backward(self, dout):
        return dout


class Concatenate(Op):
    """out = the inputs one after the other along axis: each gets its piece of dout"""

    def forward(self, *arrays, axis):
        self.axis = axis
        self.ends = np.cumsum([a.shape[axis] for a in arrays]).tolist()
        return np.concatenate(arrays, axis=axis)

    def backward(self, dout):
        before = (slice(None),) * (self.axis % dout.ndim)
        starts = [0] + self.ends[:-1]
        return tuple(dout[before + (slice(start, end),)] for start, end in zip(starts, self.ends))
