"""Sorting, the largest elements, the distinct ones. These find indices, and then pick the values."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from .. import backend
from ..backend import in_order
from ..runner import compute
from .gather import Gather
from .operands import check_dim

if TYPE_CHECKING:
    from ..arrays.annotations import Tensor


class ValuesAndIndices(NamedTuple):
    """The result of max(dim), min(dim), median(dim), sort and topk."""

    values: Tensor
    indices: Tensor


def order(x: np.ndarray, dim: int, descending: bool = False, start: int = 0, end: int | None = None) -> np.ndarray:
    """The indices that sort x along dim, or the slice of them from `start` to `end`; 0 for a single number.

    Equal elements stay in order; NaN counts as the largest.

    >>> x = np.array([3.0, 1.0, 3.0, 2.0])
    >>> order(x, 0), order(x, 0, True), order(x, 0, True, 1, 3)
    (array([1, 3, 0, 2]), array([0, 2, 3, 1]), array([2, 3]))
    """
    if not x.ndim:
        return np.zeros((), np.int64)
    before = (slice(None),) * dim
    backwards = (*before, slice(None, None, -1))
    if descending:
        found = (x.shape[dim] - 1 - x[backwards].argsort(dim, kind="stable"))[backwards]
    else:
        found = x.argsort(dim, kind="stable")
    return in_order(found[(*before, slice(start, end))])


def picked(x, dim: int, indices):
    """x.gather(dim, indices) for indices that come from x, so that their range need not be checked."""
    return x.apply_op(Gather, x, dim=dim, indices=compute(backend.copied, indices)) if x.ndim else x.gather(dim, indices)


class SortingMethods:
    def sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesAndIndices:
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
    ) -> ValuesAndIndices:
        """(values, indices) of the k largest (or smallest) elements along dim; always sorted."""
        dim = check_dim("topk", self, dim)
        if not (self.ndim == 0) <= k <= (self.shape or (1,))[dim]:
            raise IndexError(f"topk: selected index k out of range: {k} of shape {self.shape} along dim {dim}")
        indices = self.constant(functools.partial(order, dim=dim, descending=largest, end=k), self)
        return ValuesAndIndices(picked(self, dim, indices), indices)

    @overload
    def unique(self: Tensor, sorted: bool = True, *, dim: int | None = None) -> Tensor: ...
    @overload
    def unique(
        self: Tensor, sorted: bool = True, return_inverse: bool = ..., return_counts: bool = ..., dim: int | None = ...
    ) -> tuple[Tensor, ...]: ...
    def unique(
        self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """The distinct elements, or the distinct slices along dim; always sorted, and no two NaN are equal.

        Optionally also the index of each element among them, and how often each occurs. The gradient goes to the first of
        equal ones.
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
