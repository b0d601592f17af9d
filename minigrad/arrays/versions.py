"""Versions of memory: when each part was written, so that no gradient is computed from overwritten values.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0], requires_grad=True)
>>> y = (x * x).sum()       # the product saves x for its backward, at some time of the clock
>>> x.data[0] = 5.0         # x's memory is written to, at a later time: `note_write`
>>> y.backward()            # the product calls `last_write`, which is later than the product: its x is gone
Traceback (most recent call last):
...
RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: ...

One clock times all tensors and all writes. Writes are noted by memory, not by tensor: for the array that owns the memory,
the range of bytes that changed. So a write to a view affects all views that overlap it, and none of neighbouring memory.
"""
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_clock = itertools.count(1)  # numbers both new tensors and writes in place, in order of time
tick: Callable[[], int] = _clock.__next__
latest: int = 0  # the time of the most recent write

Range = tuple[float, float]  # the first byte and the end
MANY_PARTS = 64  # more parts of one memory than this are merged
WHOLE: Range = (-float("inf"), float("inf"))
_writes: dict[int, dict[Range, int]] = {}  # when parts of memory were last written, by id of the array that owns it


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of this one."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def part(array: np.ndarray) -> Range:
    """The addresses at which an array begins and ends within its owner's memory."""
    return np.lib.array_utils.byte_bounds(array) if isinstance(array.base, np.ndarray) else WHOLE


def note_write(*arrays: np.ndarray) -> None:
    """Note that the arrays have been changed in place: operations that saved them before must not use them any more."""
    global latest
    latest = tick()
    for array in arrays:
        memory = owner(array)
        writes = _writes.get(id(memory))
        if writes is None:
            writes = _writes[id(memory)] = {}
            weakref.finalize(memory, _writes.pop, id(memory)).atexit = False
        elif len(writes) > MANY_PARTS:
            last = max(writes.values())
            writes.clear()
            writes[WHOLE] = last
        writes[part(array)] = latest


def note_item_written(array: np.ndarray, index: Any) -> None:
    """Note that array[index] has been changed in place: only that part, if the index gives a view."""
    item = array[index]
    if isinstance(item, np.generic):
        item = array[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of one element
    note_write(item if np.may_share_memory(item, array) else array)


def latest_write() -> int:
    """When any array was last changed in place."""
    return latest


def last_write(array: np.ndarray) -> int:
    """When the array's memory was last changed in place; 0 means never."""
    writes, (start, end) = _writes.get(id(owner(array))), part(array)
    return max((time for (first, stop), time in writes.items() if first < end and start < stop), default=0) if writes else 0


def check_unchanged(title: str, arrays: Sequence[Any], since: int) -> None:
    """RuntimeError if one of these, which an op of this title saved then, was written to afterwards."""
    for array in arrays:
        if isinstance(array, np.ndarray) and last_write(array) > since:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                               f"operation: {title} saved an array of shape {array.shape} that was written to "
                               "afterwards; clone() it before writing, or compute it again")
