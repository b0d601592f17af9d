"""Slices or elements taken along one axis by their positions, and their transposes, which put or add them there."""
from __future__ import annotations

from typing import Any, Generic

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.dtypes import bool_
from ..backend import along, copied_with_range, is_tensor, takes_twice
from ..runner import compute
from ..tape import Op
from .indexing import OCCURS_TWICE, AddAt, add_at, passed_on, started
from .operands import at, call, check_dim, common_dtype, operand, promote, scaled


class Gather(Op):
    """out[i, j] = x[i, indices[i, j]] for dim = 1, and so on:  dx = zeros, then dx[i, indices[i, j]] += dout[i, j]"""

    def forward(self, x, *, dim, indices):
        self.dim, self.indices, self.x_shape = dim, indices, x.shape
        return x[along(dim, indices)]

    def backward(self, dout):
        return call(ScatterAdd, dout, dim=self.dim, indices=self.indices, shape=self.x_shape)


class ScatterAdd(Op):
    """out = onto, by default zeros(shape), then out[i, indices[i, j]] += x[i, j] for dim = 1:
    dx[i, j] = dout[i, indices[i, j]],  donto = dout
    """

    def forward(self, x, onto=None, *, dim, indices, shape):
        self.dim, self.indices = dim, indices
        out = started(onto, shape, x)
        add_at(out, along(dim, indices), x)
        return out

    def backward(self, dout):
        dx = call(Gather, dout, dim=self.dim, indices=self.indices)
        return dx if len(self.parents) == 1 else (dx, passed_on(dout) if self.needs(1) else None)


class Scatter(Op):
    """out = x, but out[i, indices[i, j]] = value[i, j] for dim = 1:
    dx = dout, but dx[i, indices[i, j]] = 0,  dvalue[i, j] = dout[i, indices[i, j]]

    As for `SetAt`, no element may be set twice.
    """

    def forward(self, x, value, *, dim, indices, is_checked=False):
        self.dim, self.indices = dim, indices
        index = along(dim, indices)
        if not is_checked and takes_twice(x.shape, index):
            raise ValueError(OCCURS_TWICE)
        out = backend.copied(x)
        out[index] = value
        return out

    def backward(self, dout):
        dx = call(Scatter, dout, 0.0, dim=self.dim, indices=self.indices, is_checked=True)
        return dx, call(Gather, dout, dim=self.dim, indices=self.indices) if self.needs(1) else None


def checked_indices(name: str, x, dim: int, index) -> tuple[int, np.ndarray]:
    """A valid axis, and indices that fit x: valid positions, in an array no longer than x along the other axes."""
    dim = check_dim(name, x, dim)
    return dim, compute(_checked_indices, name, x.shape, dim, index)


def _checked_indices(name: str, shape: tuple[int, ...], dim: int, index) -> np.ndarray:
    given = np.asarray(index)
    if given.dtype.kind != "i":
        raise TypeError(f"{name}: expected integers as index, got {given.dtype}")
    indices, lowest, highest = copied_with_range(given)  # which nothing overwrites before backward
    indices = indices if indices.ndim else indices.reshape(1)  # a number counts as a vector, as in PyTorch
    if indices.ndim != len(shape) or any(indices.shape[i] > n for i, n in enumerate(shape) if i != dim):
        raise ValueError(
            f"{name}: expected an index with {len(shape)} axes, no longer than {shape} except along dim {dim}, got "
            f"{indices.shape}"
        )
    if lowest < 0 or highest >= shape[dim]:
        bad = given[(given < 0) | (given >= shape[dim])]
        raise IndexError(f"{name}: index {bad[0]} is out of bounds for dimension {dim} with size {shape[dim]}")
    return indices


def _used(name: str, indices: np.ndarray, src):
    """The part of src that the indices refer to; a number counts as a vector."""
    src = src if src.ndim else src.reshape(1)
    if src.ndim != indices.ndim or any(n > m for n, m in zip(indices.shape, src.shape)):
        raise ValueError(f"{name}: an index of shape {indices.shape} does not fit into src, {src.shape}")
    return src if src.shape == indices.shape else src[tuple(slice(n) for n in indices.shape)]


def _checked_positions(name: str, shape: tuple[int, ...], dim: int, index) -> np.ndarray:
    positions = np.array(index).reshape(-1)  # a copy, which nothing overwrites
    if np.ndim(index) > 1 or positions.dtype.kind != "i":
        raise ValueError(f"{name}: expected a vector of integers, got {positions.dtype} {np.shape(index)}")
    bad = (positions < 0) | (positions >= (shape or (1,))[dim])
    if bad.any():
        raise IndexError(f"{name}: index {positions[bad][0]} is out of bounds for dim {dim} of {shape}")
    return positions


class GatherMethods(Generic[Tensor]):
    def gather(self: Tensor, dim: int, index: TensorLike) -> Tensor:
        """out[i, j] = self[i, index[i, j]] for dim = 1, and so on; an index used twice gets two gradients."""
        if not self.ndim:
            return self.reshape(1).gather(dim, index)
        dim, indices = checked_indices("gather", self, dim, index)
        picked = self.apply_op(Gather, self, dim=dim, indices=indices)
        return picked if getattr(index, "ndim", 0) else picked.reshape(())

    def scatter(
        self: Tensor, dim: int, index: TensorLike, src: Any = None, *, value: float | None = None, reduce: str | None = None
    ) -> Tensor:
        """A copy of self with out[i, index[i, j]] = src[i, j] for dim = 1, and so on; a number is src or value.

        With a tensor as src, no element may be set twice, as the gradient would be undefined.

        >>> from minigrad import tensor, zeros
        >>> zeros(2, 3).scatter(1, tensor([[2], [0]]), 1.0).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        """
        if reduce is not None:
            raise ValueError(f"scatter: reduce={reduce!r} is left out; use scatter_add, whose src is a Tensor")
        if (src is None) == (value is None):
            raise TypeError("scatter: expected either src or value")
        src = value if src is None else src
        if not self.ndim:
            return self.reshape(1).scatter(dim, index, src).reshape(())
        dim, indices = checked_indices("scatter", self, dim, index)
        if not is_tensor(src):
            if common_dtype(self, operand(src)) != self.dtype != bool_:
                raise TypeError(f"scatter: {src!r} does not fit into a tensor of {self.dtype}")
            return self.apply_op(Scatter, self, src, dim=dim, indices=indices, is_checked=True)
        if src.dtype != self.dtype:
            raise TypeError(f"scatter: expected src of {self.dtype}, got {src.dtype}; convert with .to(dtype)")
        return self.apply_op(Scatter, self, _used("scatter", indices, src), dim=dim, indices=indices)

    def scatter_add(self: Tensor, dim: int, index: TensorLike, src: Tensor) -> Tensor:
        """A copy of self with out[i, index[i, j]] += src[i, j] for dim = 1, and so on: the transpose of gather."""
        if not self.ndim:
            return self.reshape(1).scatter_add(dim, index, src).reshape(())
        dim, indices = checked_indices("scatter_add", self, dim, index)
        used = _used("scatter_add", indices, src)
        return self.apply_op(ScatterAdd, *promote(used, self), dim=dim, indices=indices, shape=self.shape)

    def index_select(self: Tensor, dim: int, index: TensorLike) -> Tensor:
        """The slices of self at the positions `index` (a 1-d tensor) along dim."""
        dim, indices = check_dim("index_select", self, dim), compute(np.atleast_1d, index)
        if indices.ndim != 1 or indices.dtype.kind != "i":
            raise ValueError(f"index_select: expected a vector of integers, got {indices.dtype} {indices.shape}")
        if self.ndim:
            return self[at(dim, indices)]
        if indices.size != 1:
            raise ValueError(f"index_select: a single number has one position, got {indices.size} indices")
        return self.reshape(1)[indices].reshape(())

    def index_add(self: Tensor, dim: int, index: TensorLike, source: Tensor, *, alpha: float = 1) -> Tensor:
        """A copy of self with alpha * source added to the slices at the positions `index` (a vector) along dim."""
        dim = check_dim("index_add", self, dim)
        indices = compute(_checked_positions, "index_add", self.shape, dim, index)
        shape = self.shape[:dim] + indices.shape + self.shape[dim + 1 :] if self.ndim else ()
        if source.shape != shape or not self.ndim and indices.size != 1:
            raise ValueError(
                f"index_add: {indices.size} positions along dim {dim} of {self.shape} need a source of shape {shape}, got "
                f"{source.shape}"
            )
        if not self.ndim:
            return self + source * alpha
        return self.apply_op(AddAt, *promote(scaled(source, alpha), self), index=at(dim, indices), shape=self.shape)
