"""Sorting, and the largest elements. These find indices, and then pick the values."""
from __future__ import annotations

import functools
from typing import Generic, NamedTuple

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor
from ..backend import in_order
from ..runner import compute
from .gather import Gather
from .operands import check_dim


class ValuesAndIndices(NamedTuple, Generic[Tensor]):
    """The result of max(dim), min(dim), sort and topk."""

    values: Tensor
    indices: Tensor


def order(x: np.ndarray, dim: int, descending: bool = False, end: int | None = None) -> np.ndarray:
    """The indices that sort x along dim, or the first `end` of them; 0 for a single number.

    Equal elements stay in order; NaN counts as the largest.

    >>> x = np.array([3.0, 1.0, 3.0, 2.0])
    >>> order(x, 0), order(x, 0, True), order(x, 0, True, 2)
    (array([1, 3, 0, 2]), array([0, 2, 3, 1]), array([0, 2]))
    """
    if not x.ndim:
        return np.zeros((), np.int64)
    before = (slice(None),) * dim
    backwards = (*before, slice(None, None, -1))
    if descending:
        found = (x.shape[dim] - 1 - x[backwards].argsort(dim, kind="stable"))[backwards]
    else:
        found = x.argsort(dim, kind="stable")
    return in_order(found[(*before, slice(end))])


def picked(x, dim: int, indices):
    """x.gather(dim, indices) for indices that come from x, so that their range need not be checked."""
    return x.apply_op(Gather, x, dim=dim, indices=compute(backend.copied, indices)) if x.ndim else x.gather(dim, indices)


class SortingMethods(Generic[Tensor]):
    def sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesAndIndices[Tensor]:
        """(values, indices) in order of size along dim; NaN counts as the largest. Equal elements stay in order."""
        indices = self.argsort(dim, descending, stable)
        dim = check_dim("sort", self, dim)
        return ValuesAndIndices(picked(self, dim, indices), indices)

    def argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """The indices that sort self along dim. Always stable."""
        dim = check_dim("sort", self, dim)
        return self.constant(functools.partial(order, dim=dim, descending=descending), self)

    def topk(
        self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> ValuesAndIndices[Tensor]:
        """(values, indices) of the k largest (or smallest) elements along dim; always sorted."""
        dim = check_dim("topk", self, dim)
        if not (self.ndim == 0) <= k <= (self.shape or (1,))[dim]:
            raise IndexError(f"topk: selected index k out of range: {k} of shape {self.shape} along dim {dim}")
        indices = self.constant(functools.partial(order, dim=dim, descending=largest, end=k), self)
        return ValuesAndIndices(picked(self, dim, indices), indices)
