"""Diagonals, and the triangles above and below them."""
from __future__ import annotations

from typing import Generic

import numpy as np

from ..arrays.annotations import Tensor
from .. import backend
from ..backend import in_order
from .kinds import View
from ..tape import Op
from .numpy_protocol import answers
from .operands import call


class Diagonal(View):
    """out[..., i] = x[..., i, i + offset], a view:  dx[..., i, i + offset] = dout[..., i], else 0"""

    def forward(self, x, *, offset):
        self.offset, self.x_shape = offset, x.shape
        return diagonal(x, offset)

    def backward(self, dout):
        return call(FromDiagonal, dout, offset=self.offset, shape=self.x_shape)


class FromDiagonal(Op):
    """out[..., i, i + offset] = x[..., i], else 0:  dx[..., i] = dout[..., i, i + offset]"""

    def forward(self, x, *, offset, shape):
        self.offset = offset
        out = backend.zeros(shape, x)
        diagonal(out, offset)[...] = x
        return out

    def backward(self, dout):
        return call(Diagonal, dout, offset=self.offset)


def diagonal(x: np.ndarray, offset: int) -> np.ndarray:
    """A view of the diagonal of the last two axes, as writeable as x."""
    view = x.diagonal(offset, -2, -1)
    view.flags.writeable = x.flags.writeable  # NumPy's is read-only
    return view


class Triangle(Op):
    """out[..., i, j] = x[..., i, j] where j - i <= diagonal (or >= if upper), else 0:  dx = the same of dout"""

    def forward(self, x, *, diagonal, upper):
        self.diagonal, self.upper = diagonal, upper
        return in_order((np.triu if upper else np.tril)(x, diagonal))

    def backward(self, dout):
        return call(Triangle, dout, diagonal=self.diagonal, upper=self.upper)


class DiagonalMethods(Generic[Tensor]):
    @answers(np.tril, k="diagonal")
    def tril(self: Tensor, diagonal: int = 0) -> Tensor:
        """Zero above the diagonal of the last two axes."""
        return self.apply_op(Triangle, _matrices("tril", self), diagonal=diagonal, upper=False)

    @answers(np.triu, k="diagonal")
    def triu(self: Tensor, diagonal: int = 0) -> Tensor:
        """Zero below the diagonal of the last two axes."""
        return self.apply_op(Triangle, _matrices("triu", self), diagonal=diagonal, upper=True)

    def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements x[i, i + offset] of axes dim1 and dim2, as a new last axis: a view."""
        is_matrix = self.ndim == 2 and (dim1, dim2) == (0, 1)
        x = self if is_matrix else self.movedim((dim1, dim2), (-2, -1))
        return self.apply_op(Diagonal, x, offset=offset)

    @answers(np.trace)
    def trace(self: Tensor) -> Tensor:
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ValueError(f"trace: expected a matrix, got shape {self.shape}")
        return self.diagonal().sum()

    @answers(np.diag, k="diagonal")
    def diag(self: Tensor, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or a matrix of zeros with this vector as its diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        if self.ndim != 1:
            raise ValueError(f"diag: expected a vector or a matrix, got shape {self.shape}")
        n = len(self) + abs(diagonal)
        return self.apply_op(FromDiagonal, self, offset=diagonal, shape=(n, n))


def _matrices(name: str, x):
    if x.ndim < 2:
        raise ValueError(f"{name}: input tensor must have at least 2 dimensions, got shape {x.shape}")
    return x
