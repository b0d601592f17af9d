"""Order: sorting, the largest elements, the different ones. What they find are indices; values are then picked."""
import functools
from typing import Any, NamedTuple

import numpy as np

from .operands import check_dim


class ValuesAndIndices(NamedTuple):
    """What max(dim), min(dim), sort and topk give."""

    values: Any
    indices: Any


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


class SortingMethods:
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
