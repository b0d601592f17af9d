"""Picking elements: by index, along an axis, by mask, in order of size, at random."""
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .. import ops, random
from ..ops.indexing import is_basic
from ..runner import compute
from .operands import check_dim, is_tensor, values_of


class ValuesAndIndices(NamedTuple):
    """What max(dim), min(dim), sort and topk give."""

    values: Any
    indices: Any


def plain_index(index):
    """An index of ints, slices, None, ... and arrays of its own, which nobody writes to; a single integer is an int."""
    if isinstance(index, tuple):
        return tuple(plain_index(list(part) if isinstance(part, tuple) else part) for part in index)
    if isinstance(index, list):
        return np.array([values_of(part) for part in index], dtype=None if index else np.int64)
    if isinstance(index, (bool, np.bool_)):
        return np.array(index)
    if isinstance(index, range):
        return np.array(index, np.int64)
    if not is_tensor(index) and not isinstance(index, (np.ndarray, np.integer)):
        return index
    if index.dtype.kind not in "iu":  # what a mask picks depends on its values
        return np.array(values_of(index))
    return compute(np.array, index) if index.ndim else values_of(index).item()


def integers_apart(index) -> tuple:
    """(basic, advanced) so that x[basic][advanced] is what PyTorch gives for x[index]: it picks integers first.

    NumPy would treat an integer beside an array like an array: x[0, :, [1, 2]] has the axis of [1, 2] in front there.
    """
    is_mixed = isinstance(index, tuple) and any(isinstance(part, int) for part in index)
    if not is_mixed or is_basic(index):
        return None, index
    basic, advanced = [], []
    for part in index:
        if part is Ellipsis:
            basic.append(part), advanced.append(part)
        elif is_basic(part):
            basic.append(part)
            if isinstance(part, slice) or part is None:
                advanced.append(slice(None))
        else:
            basic.extend([slice(None)] * (part.ndim if part.dtype == bool else 1))
            advanced.append(part)
    return tuple(basic), tuple(advanced)


def joined_index(basic: tuple, advanced: tuple, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """One index for x[basic][advanced]."""
    return np.unravel_index(np.arange(math.prod(shape)).reshape(shape)[basic][advanced], shape)


def along(dim: int, indices: np.ndarray) -> tuple:
    """The index with which x[index][i, j] = x[i, indices[i, j]], for dim = 1, and so on."""
    index = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    index[dim] = indices
    return tuple(index)


def checked_indices(name: str, x, dim: int, index) -> tuple[int, np.ndarray]:
    """A valid axis, and indices that fit x: a position each, no longer than x along the other axes."""
    dim = check_dim(name, x, dim)
    return dim, compute(_checked_indices, name, x.shape, dim, index)


def _checked_indices(name: str, shape: tuple[int, ...], dim: int, index) -> np.ndarray:
    indices = np.array(index)  # a copy, which nobody writes to
    if indices.dtype.kind != "i":
        raise TypeError(f"{name}: expected integers as index, got {indices.dtype}")
    if shape and not indices.ndim:  # a number is a vector of one, as in PyTorch
        indices = indices.reshape(1)
    lengths, size = shape or (1,), indices.shape or (1,)
    if len(size) != len(lengths) or any(size[i] > n for i, n in enumerate(lengths) if i != dim):
        raise ValueError(
            f"{name}: expected an index with {len(shape)} axes, no longer than {shape} except along dim {dim}, got "
            f"{indices.shape}"
        )
    bad = (indices < 0) | (indices >= lengths[dim])
    if bad.any():
        raise IndexError(
            f"{name}: index {indices[bad][0]} is out of bounds for dimension {dim} with size {lengths[dim]}"
        )
    return indices


def _checked_positions(name: str, shape: tuple[int, ...], dim: int, index) -> np.ndarray:
    positions = np.array(index).reshape(-1)  # a copy, which nobody writes to
    if np.ndim(index) > 1 or positions.dtype.kind != "i":
        raise ValueError(f"{name}: expected a vector of integers, got {positions.dtype} {np.shape(index)}")
    bad = (positions < 0) | (positions >= (shape or (1,))[dim])
    if bad.any():
        raise IndexError(f"{name}: index {positions[bad][0]} is out of bounds for dim {dim} of {shape}")
    return positions


def take_along_dim(x, indices, dim: int | None = None):
    """out[i, j] = x[i, indices[i, j]] for dim = 1, and so on, the other axes broadcast; without dim, x is flattened."""
    if dim is None:
        return take_along_dim(x.reshape(-1), indices.reshape(-1), 0)
    dim = check_dim("take_along_dim", x, dim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_dim: expected as many axes as {x.shape} has, got {indices.shape}")
    if x.ndim == 0:
        return x.gather(dim, indices)
    before, after = (
        np.broadcast_shapes(x.shape[part], indices.shape[part]) for part in (slice(dim), slice(dim + 1, None))
    )
    x, indices = (np.broadcast_to(a, before + (a.shape[dim],) + after) for a in (x, indices))
    return x.gather(dim, indices)


def descending_order(x: np.ndarray, dim: int) -> np.ndarray:
    """The indices that sort x from large to small; equal elements stay in order, NaN counts as the largest."""
    ascending_from_behind = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - ascending_from_behind, dim)


def top_indices(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    """The indices of the k largest or smallest elements along dim, in order of size: only those are sorted."""
    n, before = x.shape[dim], (slice(None),) * dim
    if 0 < k < n:
        parts = np.argpartition(x, n - k if largest else k - 1, axis=dim)
    else:
        parts = np.argsort(x, axis=dim)
    parts = np.sort(parts[before + (slice(n - k, n) if largest else slice(k),)], axis=dim)  # equal ones in order
    chosen = np.take_along_axis(x, parts, dim)
    order = descending_order(chosen, dim) if largest else np.argsort(chosen, axis=dim, kind="stable")
    return np.take_along_axis(parts, order, dim)


def _order(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    row = np.atleast_1d(x)
    order = descending_order(row, dim) if descending else np.argsort(row, axis=dim, kind="stable")
    return order.reshape(x.shape)


def _top(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    chosen = top_indices(np.atleast_1d(x), k, dim, largest)
    return chosen if x.ndim else chosen.reshape(())


def _drawn(weights: np.ndarray, num_samples: int, replacement: bool) -> np.ndarray:
    """Positions along the last axis, drawn in proportion to the weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = np.cumsum(weights, axis=-1, dtype=np.float64)
    if not (np.isfinite(ends).all() and (weights >= 0).all()):
        raise ValueError("multinomial: expected weights that are finite and not negative, got an inf, NaN or one below 0")
    needed = 1 if replacement else num_samples
    if (np.count_nonzero(weights, axis=-1) < needed).any():
        raise ValueError(f"multinomial: a row of weights has fewer than {needed} that are not zero")
    shape, generator = weights.shape[:-1] + (num_samples,), random.generator()
    if not replacement:  # the first to come, if these are the rates at which they come: waiting is exponential then
        with np.errstate(divide="ignore"):
            log_waiting = np.log(generator.standard_exponential(weights.shape)) - np.log(weights)
        return np.argsort(log_waiting, axis=-1)[..., :num_samples]
    points = generator.random(shape) * ends[..., -1:]
    rows = zip(ends.reshape(-1, weights.shape[-1]), points.reshape(-1, num_samples))
    found = [np.searchsorted(row, drawn, side="right") for row, drawn in rows]
    return np.array(found, np.int64).reshape(shape)


class IndexingMethods:
    def __getitem__(self, index):
        basic, advanced = integers_apart(plain_index(index))
        x = self if basic is None else self.apply_op(ops.Index, self, index=basic)
        return self.apply_op(ops.Index, x, index=advanced)

    def gather(self, dim: int, index):
        """out[i, j] = self[i, index[i, j]] for dim = 1, and so on; an index used twice gets two gradients."""
        dim, indices = checked_indices("gather", self, dim, index)
        if not self.ndim:
            return self.expand(indices.shape).clone()
        picked = self.apply_op(ops.Index, self, index=along(dim, indices))
        return picked if getattr(index, "ndim", 0) else picked.reshape(())

    def scatter_add(self, dim: int, index, src):
        """A copy of self with out[i, index[i, j]] += src[i, j] for dim = 1, and so on: the transpose of gather."""
        dim, indices = checked_indices("scatter_add", self, dim, index)
        src = src.reshape(1) if self.ndim and not src.ndim else src
        if src.ndim != indices.ndim or any(n > m for n, m in zip(indices.shape, src.shape)):
            raise ValueError(f"scatter_add: an index of shape {indices.shape} does not fit into src, {src.shape}")
        used = src[tuple(slice(n) for n in indices.shape)] if src.ndim else src
        if self.ndim == 0:
            return self + used.sum()
        return self + self.apply_op(ops.AddAt, used, index=along(dim, indices), shape=self.shape)

    def index_select(self, dim: int, index):
        """The slices of self at the positions `index` (a 1-d tensor) along dim."""
        dim, indices = check_dim("index_select", self, dim), compute(np.atleast_1d, index)
        if indices.ndim != 1 or indices.dtype.kind != "i":
            raise ValueError(f"index_select: expected a vector of integers, got {indices.dtype} {indices.shape}")
        if self.ndim:
            return self[(slice(None),) * dim + (indices,)]
        if indices.size != 1:
            raise ValueError(f"index_select: a single number has one position, got {indices.size} indices")
        return self.reshape(1)[indices].reshape(())

    def index_add(self, dim: int, index, source, *, alpha: float = 1):
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
        index = (slice(None),) * dim + (indices,)
        added = source if alpha == 1 else source * alpha
        return self + self.apply_op(ops.AddAt, added, index=index, shape=self.shape)

    def repeat_interleave(self, repeats, dim: int | None = None):
        """Each element along dim (of self flattened, without dim) `repeats` times: a number for all, or one for each.

        >>> from minigrad import tensor
        >>> tensor([1, 2, 3]).repeat_interleave(tensor([2, 0, 1])).tolist()
        [1, 1, 3]
        """
        x = self.reshape(-1) if dim is None or not self.ndim else self
        dim = check_dim("repeat_interleave", x, dim or 0)
        counts = repeats._values() if is_tensor(repeats) else np.asarray(repeats)
        n = x.shape[dim]
        if counts.dtype.kind not in "iu" or counts.ndim > 1 or counts.size not in (1, n) or (counts < 0).any():
            raise ValueError(
                f"repeat_interleave: expected one number, or one for each of {n} positions, none negative, got "
                f"{np.array2string(counts, threshold=8)}"
            )
        return x.index_select(dim, np.repeat(np.arange(n), counts))

    def unfold(self, dimension: int, size: int, step: int):
        """All windows of `size` elements along a dimension, one every `step`, as a new last axis.

        >>> from minigrad import tensor
        >>> tensor([1, 2, 3, 4, 5]).unfold(0, 3, 2).tolist()
        [[1, 2, 3], [3, 4, 5]]
        """
        dim = check_dim("unfold", self, dimension)
        x = self if self.ndim else self.reshape(1)
        if not 0 <= size <= x.shape[dim]:
            raise ValueError(f"unfold: windows of {size} do not fit into dim {dim} of shape {self.shape}")
        if step <= 0:
            raise ValueError(f"unfold: step must be > 0, got {step}")
        starts = np.arange(0, x.shape[dim] - size + 1, step)
        windows = x[(slice(None),) * dim + (starts[:, None] + np.arange(size),)].movedim(dim + 1, -1)
        return windows if self.ndim else windows[0]

    def nonzero(self, as_tuple: bool = False):
        """The positions of the elements that are not zero, (count, ndim); as a tuple, one vector for each axis."""
        values = self._values()
        if not as_tuple:
            return self.constant(np.argwhere, values)
        return tuple(self.constant(np.asarray, positions) for positions in np.nonzero(np.atleast_1d(values)))

    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ):
        """The different elements, or the different slices along dim; always sorted, each NaN by itself.

        With the place of each element among them, and how often each occurs, if asked for. The gradient goes to the
        first of equal ones.
        """
        axis = None if dim is None else check_dim("unique", self, dim)
        _, first, inverse, counts = np.unique(
            np.atleast_1d(self._values()), True, True, True, axis=axis, equal_nan=False
        )
        values = self.reshape(-1)[first] if axis is None else self.index_select(axis, first)
        inverse = inverse.reshape(self.shape if axis is None else -1)
        extras = [x for x, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
        return (values, *(self.constant(np.asarray, x) for x in extras)) if extras else values

    def multinomial(self, num_samples: int, replacement: bool = False):
        """Positions drawn at random, with these weights: of a vector, or of each row of a matrix. They have no gradient.

        Without replacement no position is drawn twice, and an error says if too few have a weight. The weights need not
        sum to 1.
        """
        if self.dtype.kind != "f":
            raise TypeError(f"multinomial: expected weights of a floating dtype, got {self.dtype}")
        if self.ndim not in (1, 2):
            raise ValueError(f"multinomial: expected a vector or a matrix of weights, got shape {self.shape}")
        if num_samples < 1:
            raise ValueError(f"multinomial: expected at least one sample, got {num_samples}")
        if not replacement and num_samples > self.shape[-1]:
            raise ValueError(f"multinomial: cannot draw {num_samples} of {self.shape[-1]} without replacement")
        return self.constant(functools.partial(_drawn, num_samples=num_samples, replacement=replacement), self)

    def masked_select(self, mask):
        """The elements where mask holds, as a vector; both broadcast."""
        shape = np.broadcast_shapes(self.shape, mask.shape)
        return self.expand(shape)[np.broadcast_to(values_of(mask), shape)]

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True):
        """(values, indices) in order of size along dim; NaN counts as the largest. Equal elements stay in order."""
        indices = self.argsort(dim, descending, stable)
        return ValuesAndIndices(self.gather(dim, indices), indices)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True):
        """The indices that sort self along dim. Always stable."""
        dim = check_dim("sort", self, dim)
        return self.constant(functools.partial(_order, dim=dim, descending=descending), self)

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
        """(values, indices) of the k largest (or smallest) elements along dim; always sorted."""
        dim = check_dim("topk", self, dim)
        if not (self.ndim == 0) <= k <= (self.shape or (1,))[dim]:
            raise IndexError(f"topk: selected index k out of range: {k} of shape {self.shape} along dim {dim}")
        indices = self.constant(functools.partial(_top, k=k, dim=dim, largest=largest), self)
        return ValuesAndIndices(self.gather(dim, indices), indices)
