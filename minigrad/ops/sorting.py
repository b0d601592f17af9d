"""Order: sorting, the largest elements, the different ones. What they find are indices; values are then picked."""
import functools
from typing import Any, NamedTuple

import numpy as np

from ..kernels.copying import copied, in_order, with_axis_last, with_last_axis_at
from ..kernels.sorting import least_keys, places, sorting_keys
from ..runner import compute
from .gather import Gather
from .operands import check_dim

LARGE = 1 << 12  # elements, from which sorting keys is faster than sorting indices
FEW = 8  # least keys, up to which keeping them in order is faster than to partition all


class ValuesAndIndices(NamedTuple):
    """What max(dim), min(dim), sort and topk give."""

    values: Any
    indices: Any


def has_keys(x: np.ndarray) -> bool:
    """Is it worth it to sort keys in the place of x?"""
    return x.dtype == np.float32 and x.size >= LARGE


def keys_along(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """Keys of x with axis dim moved to the end."""
    return sorting_keys(with_axis_last(x, dim), descending)


def descending_order(x: np.ndarray, dim: int) -> np.ndarray:
    """The indices that sort x from large to small; equal elements stay in order, NaN counts as the largest."""
    backwards = (slice(None),) * dim + (slice(None, None, -1),)
    ascending_from_behind = x[backwards].argsort(axis=dim, kind="stable")
    return (x.shape[dim] - 1 - ascending_from_behind)[backwards]


def top_indices(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    """The indices of the k largest or smallest elements along dim, in order of size.

    Only those are sorted: of 50,000 elements, the 20 largest are found in 0.07 ms, where sorting all takes 3.6.
    """
    n, before = x.shape[dim], (slice(None),) * dim
    if x.size < LARGE:
        return _order(x, dim, largest)[before + (slice(k),)]
    if has_keys(x):
        if 0 < k <= FEW:
            first = least_keys(with_axis_last(x, dim), k, largest)
        else:
            keys = keys_along(x, dim, largest)
            if 0 < k < n:
                keys.partition(k - 1)
            first = np.sort(keys[..., :k])
        return with_last_axis_at(places(first), dim)
    if 0 < k < n:
        parts = np.argpartition(x, n - k if largest else k - 1, axis=dim)
    else:
        parts = np.argsort(x, axis=dim)
    parts = np.sort(parts[before + (slice(n - k, n) if largest else slice(k),)], axis=dim)  # equal ones in order
    chosen = np.take_along_axis(x, parts, dim)
    order = descending_order(chosen, dim) if largest else np.argsort(chosen, axis=dim, kind="stable")
    return np.take_along_axis(parts, order, dim)


def _order(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if has_keys(x):
        keys = keys_along(x, dim, descending)
        keys.sort()
        return in_order(with_last_axis_at(places(keys), dim))
    row = np.atleast_1d(x)
    order = descending_order(row, dim) if descending else row.argsort(axis=dim, kind="stable")
    return order.reshape(x.shape)


def _top(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    chosen = in_order(top_indices(np.atleast_1d(x), k, dim, largest))
    return chosen if x.ndim else chosen.reshape(())


def picked(x, dim: int, indices):
    """x.gather(dim, indices) of indices that were found in x: nobody has to look whether they are in range."""
    return x.apply_op(Gather, x, dim=dim, indices=compute(copied, indices)) if x.ndim else x.gather(dim, indices)


class SortingMethods:
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True):
        """(values, indices) in order of size along dim; NaN counts as the largest. Equal elements stay in order."""
        indices = self.argsort(dim, descending, stable)
        dim = check_dim("sort", self, dim)
        return ValuesAndIndices(picked(self, dim, indices), indices)

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
        return ValuesAndIndices(picked(self, dim, indices), indices)

    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ):
        """The different elements, or the different slices along dim; always sorted, each NaN by itself.

        With the place of each element among them, and how often each occurs, if asked for. The gradient goes to the
        first of equal ones.
        """
        axis = None if dim is None else check_dim("unique", self, dim)
        if axis is None and not (return_inverse or return_counts or self.requires_grad):
            return self.constant(functools.partial(np.unique, equal_nan=False), self._values())
        _, first, inverse, counts = np.unique(
            np.atleast_1d(self._values()), True, True, True, axis=axis, equal_nan=False
        )
        values = self.reshape(-1)[first] if axis is None else self.index_select(axis, first)
        inverse = inverse.reshape(self.shape if axis is None else -1)
        extras = [x for x, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
        return (values, *(self.constant(np.asarray, x) for x in extras)) if extras else values
