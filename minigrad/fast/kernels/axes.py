"""Axes that one loop can run through, whatever the strides of the arrays."""
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


def in_memory_order(strides: Sequence[int]) -> list[int]:
    """The axes, those first along which elements are furthest apart."""
    return sorted(range(len(strides)), key=lambda i: -abs(strides[i]))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes another one, of axes: these may be a part of all.

    >>> inverse((2, 0, 1)), inverse((7, 3))
    ((1, 2, 0), (1, 0))
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def runs(shape: Sequence[int], order: Iterable[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """The axes in this order, those together that one loop can run through, as in all arrays the outer one steps over the
    inner one as a whole.

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

    axes: tuple[tuple[int, ...], ...]  # that each runs through
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # of each array, in elements

    @classmethod
    def of(
        cls, axes: list[tuple[int, ...]], shape: tuple[int, ...], itemsize: int, *strides: tuple[int, ...]
    ) -> "Loops | None":
        """The loops through these axes, for strides in bytes; None if four are not enough, or steps aren't elements."""
        axes = [()] * (4 - len(axes)) + axes
        if len(axes) > 4 or any(own[run[-1]] % itemsize for own in strides for run in axes if run):
            return None
        return cls(tuple(axes), tuple([math.prod([shape[i] for i in run]) for run in axes]),
                   tuple([tuple([own[run[-1]] // itemsize if run else 0 for run in axes]) for own in strides]))
