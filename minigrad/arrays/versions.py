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
A write that will itself be differentiated (x += w, on the tape) is noted as such: tensors made before it see the new
values at their old place on the tape, so they are out of date.
"""
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import is_tensor

_clock = itertools.count(1)  # numbers both new tensors and writes in place, in order of time
tick: Callable[[], int] = _clock.__next__
latest: int = 0  # the time of the most recent write
on_tape: set[int] = set()  # the memories, by id, in which a value on the tape has been changed in place; usually none


class _Memory:
    """When each part of an array that owns memory was last written: at all, and on the tape."""

    def __init__(self, array: np.ndarray):
        self.reference = weakref.ref(array, lambda _, key=id(array): _forget(key))  # type: ignore[misc]
        self.writes: dict[tuple[float, float], tuple[int, int]] = {}  # by first byte and end

    def last_write(self, asked: tuple[float, float]) -> tuple[int, int]:
        found = [times for (start, end), times in self.writes.items() if start < asked[1] and asked[0] < end]
        return tuple(map(max, zip(*found))) if found else (0, 0)


_memories: dict[int, _Memory] = {}  # by id of the array


def _forget(key: int) -> None:
    """The memory is gone."""
    _memories.pop(key, None)
    on_tape.discard(key)


MANY_PARTS = 64  # more parts of one memory than this are merged
WHOLE = (-float("inf"), float("inf"))


def owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of this one."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def part(array: np.ndarray) -> tuple[float, float]:
    """The addresses at which an array begins and ends within its owner's memory."""
    return np.lib.array_utils.byte_bounds(array) if isinstance(array.base, np.ndarray) else WHOLE


def note_write(*arrays: np.ndarray, is_on_tape: bool = False) -> None:
    """Note that the arrays have been changed in place: operations that saved them before must not use them any more.

    `is_on_tape` says that the change will be differentiated, so that only the tensor it was made through is up to date.
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


def note_item_written(array: np.ndarray, index: Any) -> None:
    """Note that array[index] has been changed in place: only that part, if the index gives a view."""
    item = array[index]
    if isinstance(item, np.generic):
        item = array[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of one element
    note_write(item if np.may_share_memory(item, array) else array)


def latest_write() -> int:
    """When any array was last changed in place."""
    return latest


def last_write(array: np.ndarray) -> tuple[int, int]:
    """When the array's memory was last changed in place, and when on the tape; 0 means never."""
    if not _memories:
        return 0, 0
    known = _memories.get(id(owner(array)))
    return known.last_write(part(array)) if known else (0, 0)


def check_unchanged(title: str, arrays: Sequence[Any], since: int) -> None:
    """RuntimeError if one of these, which an op of this title saved then, was written to afterwards."""
    for array in arrays:
        if isinstance(array, np.ndarray) and last_write(array)[0] > since:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                               f"operation: {title} saved an array of shape {array.shape} that was written to "
                               "afterwards; clone() it before writing, or compute it again")


def _age(tensor: Any) -> int:
    """When the tensor came to its place on the tape, or if it has none, when it was made."""
    return tensor.made if tensor.node is None else tensor.node.order


def changed_only_at(item: np.ndarray, tensor: Any) -> bool:
    """Since the tensor took its place on the tape, did all writes there to its memory go to this item of it?"""
    known, (start, end) = _memories.get(id(owner(tensor._array))), part(tensor._array)
    return known is not None and all(
        on_tape <= _age(tensor) or changed == part(item) or changed[1] <= start or end <= changed[0]
        for changed, (_, on_tape) in known.writes.items())


def check_current(name: str, inputs: Sequence[Any]) -> None:
    """RuntimeError if an input shares memory with a tensor that was changed in place on the tape after it was made."""
    if not on_tape:
        return
    for i, value in enumerate(inputs):
        if not is_tensor(value):
            continue
        if last_write(value._array)[1] > _age(value):
            raise RuntimeError(
                f"{name}, input {i}: its memory was changed by an inplace operation on another tensor, so its place on "
                "the tape is out of date. Write through the tensor that you use afterwards (x[i] += y, not row = x[i]; "
                "row += y), take new views of it, or clone() before writing"
            )
