"""Loops through arrays of any strides, with as many axes as possible in one loop."""
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


def in_memory_order(strides: Sequence[int]) -> list[int]:
    """The axes, slowest first: by descending distance between neighbouring elements."""
    return sorted(range(len(strides)), key=lambda i: -abs(strides[i]))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order of axes that undoes another one, which may have only some axes.

    >>> inverse((2, 0, 1)), inverse((7, 3))
    ((1, 2, 0), (1, 0))
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def runs(shape: Sequence[int], order: Iterable[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """The axes in this order, grouped so that one loop can run through each group: in all arrays, a step of the outer axis
    is the whole inner one.

    >>> runs((2, 3, 4), (0, 1, 2), (12, 4, 1), (24, 4, 1))
    [(0,), (1, 2)]
    """
    found = []
    for i in order:
        if found and all(own[found[-1][-1]] == shape[i] * own[i] for own in strides):
            found[-1] += (i,)
        else:
            found.append((i,))
    return found


class Loops(NamedTuple):
    """Four nested loops through arrays of one shape."""

    axes: tuple[tuple[int, ...], ...]  # of each loop
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # of each array, in elements

    @classmethod
    def of(
        cls, axes: list[tuple[int, ...]], shape: tuple[int, ...], itemsize: int, *strides: tuple[int, ...]
    ) -> "Loops | None":
        """The loops through these axes, for strides in bytes; None if four are too few, or a stride is no whole element."""
        axes = [()] * (4 - len(axes)) + axes
        if len(axes) > 4 or any(own[run[-1]] % itemsize for own in strides for run in axes if run):
            return None
        return cls(tuple(axes), tuple([math.prod([shape[i] for i in run]) for run in axes]),
                   tuple([tuple([own[run[-1]] // itemsize if run else 0 for run in axes]) for own in strides]))
