"""Versions of memory: what was written when, so that a gradient is never computed from values that are gone.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0], requires_grad=True)
>>> y = (x * x).sum()       # the product saves x for its backward, at some time of the clock
>>> x.data[0] = 5.0         # x's memory is written to, later: `note_write`
>>> y.backward()            # the product asks `last_write`, which is later than the product: its x is gone
Traceback (most recent call last):
...
RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: ...

All tensors and all writes get their time from one clock. Writes are noted by memory, not by tensor: for the array that
owns it, by the bytes from the first to the last that changed. So a view that is written to counts for all that overlap it,
and writes to neighbouring memory do not affect it. A write that is itself to be differentiated (x += w, on the
tape) is noted as such: tensors made before, which see the new values but have the old place on the tape, are out of date.
"""
import itertools
import weakref
from collections.abc import Sequence

import numpy as np

from ..backend import is_tensor

_clock = itertools.count(1)  # what happens later has the larger number: tensors made, and arrays written in place
tick = _clock.__next__
latest = 0  # the time of the most recent write
on_tape: set[int] = set()  # the memories, by id, of which a value on the tape has been changed in place; most often none


class _Memory:
    """When the parts of an array that owns memory were last written: at all, and as part of a graph on the tape."""

    def __init__(self, array: np.ndarray):
        self.reference = weakref.ref(array, lambda _, key=id(array): _forget(key))
        self.writes: dict[tuple[float, float], tuple[int, int]] = {}  # by first byte and end

    def last_write(self, asked: tuple[float, float]) -> tuple[int, int]:
        found = [times for (start, end), times in self.writes.items() if start < asked[1] and asked[0] < end]
        return tuple(map(max, zip(*found))) if found else (0, 0)


_memories: dict[int, _Memory] = {}  # by id of the array


def _forget(key: int) -> None:
    """The memory is gone."""
    _memories.pop(key, None)
    on_tape.discard(key)


MANY_PARTS = 64  # after so many parts of one memory, they count as one
WHOLE = (-float("inf"), float("inf"))


def owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory this is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def part(array: np.ndarray) -> tuple[float, float]:
    """Where in its owner's memory an array begins and ends."""
    return np.lib.array_utils.byte_bounds(array) if isinstance(array.base, np.ndarray) else WHOLE


def note_write(*arrays: np.ndarray, is_on_tape: bool = False) -> None:
    """The arrays' memory has been changed in place: what has saved it before must not use it any more.

    `is_on_tape` says that the change is to be differentiated, so that only the tensor it was made through is current.
    """
    global latest
    latest = tick()
    for array in arrays:
        memory, changed = owner(array), part(array)
        known = _memories.get(id(memory))
        if known is None:
            known = _memories[id(memory)] = _Memory(memory)
        writes = known.writes
        if len(writes) > MANY_PARTS:
            writes = known.writes = {WHOLE: known.last_write(WHOLE)}
        writes[changed] = latest, latest if is_on_tape else writes.get(changed, (0, 0))[1]
        if is_on_tape:
            on_tape.add(id(memory))


def note_item_written(array: np.ndarray, index) -> None:
    """array[index] has been changed in place: only that, if the index picks a part of the memory."""
    item = array[index]
    if not isinstance(item, np.ndarray):
        item = array[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of one element
    note_write(item if np.may_share_memory(item, array) else array)


def latest_write() -> int:
    """When any array was last changed in place."""
    return latest


def last_write(array: np.ndarray) -> tuple[int, int]:
    """(when the array's memory was last changed in place, when last on the tape); 0 for never."""
    if not _memories:
        return 0, 0
    known = _memories.get(id(owner(array)))
    return known.last_write(part(array)) if known else (0, 0)


def check_current(name: str, inputs: Sequence) -> None:
    """RuntimeError if an input shares memory with a tensor that was changed in place on the tape after it was made."""
    if not on_tape:
        return
    for i, value in enumerate(inputs):
        if not is_tensor(value):
            continue
        age = value.made if value.node is None else value.node.order
        if last_write(value._array)[1] > age:
            raise RuntimeError(
                f"{name}, input {i}: its memory was changed by an inplace operation on another tensor, so its place on "
                "the tape is out of date. Write through the tensor that is used afterwards (x[i] += y, not row = x[i]; "
                "row += y), take views of it anew, or clone() before writing"
            )
