"""Diagonals, and the triangles beside them."""
import numpy as np

from ..tape import Op
from .comparison import where
from .indexing import AddAt
from .numpy_protocol import answers


class Diagonal(Op):
    """out[..., i] = x[..., i, i + offset], a view:  dx[..., i, i + offset] = dout[..., i], else 0"""

    fresh_gradients = True

    def forward(self, x, *, offset):
        self.offset, self.x_shape = offset, x.shape
        out = np.diagonal(x, offset, -2, -1)
        out.flags.writeable = x.flags.writeable  # NumPy's is read-only
        return out

    def backward(self, dout):
        i = np.arange(dout.shape[-1])
        index = (..., i + max(0, -self.offset), i + max(0, self.offset))
        return AddAt.call(dout, index=index, shape=self.x_shape)


class DiagonalMethods:
    @answers(np.tril, k="diagonal")
    def tril(self, diagonal: int = 0):
        """Zero above the diagonal of the last two axes."""
        return where(np.tril(np.ones(_matrix_shape("tril", self), bool), diagonal), self, False)

    @answers(np.triu, k="diagonal")
    def triu(self, diagonal: int = 0):
        """Zero below the diagonal of the last two axes."""
        return where(np.triu(np.ones(_matrix_shape("triu", self), bool), diagonal), self, False)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1):
        """The elements x[i, i + offset] of axes dim1 and dim2, as a new last axis: a view."""
        return self.apply_op(Diagonal, self.movedim((dim1, dim2), (-2, -1)), offset=offset)

    @answers(np.trace)
    def trace(self):
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ValueError(f"trace: expected a matrix, got shape {self.shape}")
        return self.diagonal().sum()

    def diag(self, diagonal: int = 0):
        """The diagonal of a matrix, or a matrix of zeros with this vector as diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        if self.ndim != 1:
            raise ValueError(f"diag: expected a vector or a matrix, got shape {self.shape}")
        i = np.arange(len(self))
        n = len(i) + abs(diagonal)
        index = (i + max(0, -diagonal), i + max(0, diagonal))
        return self.apply_op(AddAt, self, index=index, shape=(n, n))


def _matrix_shape(name: str, x) -> tuple[int, int]:
    if x.ndim < 2:
        raise ValueError(f"{name}: input tensor must have at least 2 dimensions, got shape {x.shape}")
    return x.shape[-2:]
