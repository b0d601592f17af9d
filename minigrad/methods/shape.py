"""Moving, joining, cutting and picking elements."""
import math
from typing import Sequence

import numpy as np

from .. import ops
from .elementwise import where
from .operands import check_dim, data_of, sizes


def plain_index(index):
    """An index without Tensors in it."""
    return tuple(data_of(part) for part in index) if isinstance(index, tuple) else data_of(index)


def cat(tensors: Sequence, dim: int = 0):
    """The tensors one after the other along dim."""
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat: expected a non-empty sequence of tensors")
    dim = check_dim("cat", tensors[0], dim)
    try:
        return ops.Concatenate.call(*tensors, axis=dim)
    except ValueError:
        raise ValueError(f"cat: sizes must match except along dim {dim}, got {[t.shape for t in tensors]}") from None


def stack(tensors: Sequence, dim: int = 0):
    """The tensors side by side along a new axis."""
    return cat([t.unsqueeze(dim) for t in tensors], dim)


def take_along_dim(x, indices, dim: int):
    """out[i, j] = x[i, indices[i, j]] for dim = 1, and so on."""
    dim = check_dim("take_along_dim", x, dim)
    if x.ndim == 0:
        return x
    index = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    index[dim] = data_of(indices)
    return x[tuple(index)]


class ShapeMethods:
    def reshape(self, *shape):
        shape = sizes(shape)
        try:
            return self.apply_op(ops.Reshape, self, shape=shape)
        except ValueError:
            raise ValueError(
                f"shape {shape} is invalid for a tensor of shape {self.shape} ({self.numel()} elements)"
            ) from None

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1):
        if self.ndim == 0:
            return self.reshape(1)
        start, end = check_dim("flatten", self, start_dim), check_dim("flatten", self, end_dim)
        return self.reshape(self.shape[:start] + (math.prod(self.shape[start : end + 1]),) + self.shape[end + 1 :])

    def squeeze(self, dim: int | None = None):
        drop = range(self.ndim) if dim is None else (check_dim("squeeze", self, dim),)
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if n != 1 or i not in drop))

    def unsqueeze(self, dim: int):
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexError(f"unsqueeze: dim {dim} is out of range for a tensor of shape {self.shape}")
        dim %= self.ndim + 1
        return self.reshape(self.shape[:dim] + (1,) + self.shape[dim:])

    def permute(self, *dims):
        axes = tuple(check_dim("permute", self, d) for d in sizes(dims))
        if sorted(axes) != list(range(self.ndim)):
            raise ValueError(f"permute: {sizes(dims)} is no permutation of the {self.ndim} axes of {self.shape}")
        return self.apply_op(ops.Permute, self, axes=axes)

    def transpose(self, dim0: int, dim1: int):
        axes = list(range(self.ndim))
        dim0, dim1 = check_dim("transpose", self, dim0), check_dim("transpose", self, dim1)
        if axes:
            axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
        return self.apply_op(ops.Permute, self, axes=tuple(axes))

    swapaxes = transpose

    @property
    def T(self):
        """All axes reversed."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self):
        """The last two axes swapped."""
        return self.transpose(-2, -1)

    def expand(self, *shape):
        """Repeat axes of length 1, without a copy; -1 keeps an axis as it is."""
        shape = sizes(shape)
        lead = len(shape) - self.ndim
        wanted = tuple(self.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(shape))
        try:
            return self.apply_op(ops.Expand, self, shape=wanted)
        except ValueError:
            raise ValueError(f"expand: shape {self.shape} does not broadcast to {shape}") from None

    def contiguous(self):
        return self if self.data.flags.c_contiguous else self.clone()

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple:
        """Pieces along dim: of one size (the last may be smaller), or of the given sizes."""
        dim = check_dim("split", self, dim)
        n = self.shape[dim]
        if isinstance(split_size, int):
            if split_size <= 0:
                raise ValueError(f"split: expected a positive size, got {split_size}")
            split_size = [min(split_size, n - start) for start in range(0, n, split_size)] or [0]
        if sum(split_size) != n:
            raise ValueError(f"split: sizes {list(split_size)} do not add up to {n}, axis {dim} of {self.shape}")
        ends = np.cumsum(split_size).tolist()
        before = (slice(None),) * dim
        return tuple(self[before + (slice(end - size, end),)] for size, end in zip(split_size, ends))

    def chunk(self, chunks: int, dim: int = 0) -> tuple:
        """At most `chunks` pieces of equal size along dim; the last may be smaller."""
        return self.split(max(1, -(-self.shape[dim] // chunks)), dim)

    def tril(self, diagonal: int = 0):
        """Zero above the diagonal of the last two axes."""
        return where(np.tril(np.ones(self.shape[-2:], bool), diagonal), self, 0)

    def triu(self, diagonal: int = 0):
        """Zero below the diagonal of the last two axes."""
        return where(np.triu(np.ones(self.shape[-2:], bool), diagonal), self, 0)

    def __getitem__(self, index):
        return self.apply_op(ops.Index, self, index=plain_index(index))
