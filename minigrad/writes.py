"""Writing in place: which part of which memory was changed when, and whether that was to be differentiated.

An operation that saved an array before it was written to must not use it any more. It asks here.
"""
import itertools
import weakref

import numpy as np

_clock = itertools.count(1)  # what happens later has the larger number: tensors made, and arrays written in place
now = _clock.__next__
latest = 0  # when anything was written
on_tape: set[int] = set()  # the memories, by id, of which a value on the tape has been changed in place; most often none


class _Memory:
    """When the parts of an array that owns memory were last written: at all, and as part of a graph on the tape."""

    def __init__(self, array: np.ndarray):
        self.reference = weakref.ref(array, lambda _, key=id(array): _forget(key))
        self.writes: dict[tuple[float, float], tuple[int, int]] = {}  # by first byte and end

    def last_write(self, part: tuple[float, float]) -> tuple[int, int]:
        found = [times for (start, end), times in self.writes.items() if start < part[1] and part[0] < end]
        return tuple(map(max, zip(*found))) if found else (0, 0)


_memories: dict[int, _Memory] = {}  # by id of the array


def _forget(key: int) -> None:
    """The memory is gone."""
    _memories.pop(key, None)
    on_tape.discard(key)


MANY_PARTS = 64  # after so many parts of one memory, they count as one
WHOLE = (-float("inf"), float("inf"))


def owner_and_part(array: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """The array whose memory this is a view of, and where in memory the view begins and ends."""
    if array.base is None or not isinstance(array.base, np.ndarray):
        return array, WHOLE
    part = np.lib.array_utils.byte_bounds(array)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array, part


def note_write(array: np.ndarray, is_on_tape: bool = False) -> None:
    """The array's memory has been changed in place: what has saved it before must not use it any more.

    `is_on_tape` says that the change is to be differentiated, so that only the tensor it was made through is current.
    """
    global latest
    memory, part = owner_and_part(array)
    known = _memories.get(id(memory))
    if known is None:
        known = _memories[id(memory)] = _Memory(memory)
    if len(known.writes) > MANY_PARTS:
        known.writes = {WHOLE: known.last_write(WHOLE)}
    latest = now()
    known.writes[part] = latest, latest if is_on_tape else known.writes.get(part, (0, 0))[1]
    if is_on_tape:
        on_tape.add(id(memory))


def note_item_written(array: np.ndarray, index) -> None:
    """array[index] has been changed in place: only that, if the index picks a part of the memory."""
    part = array[index]
    if not isinstance(part, np.ndarray):
        part = array[(*index, ...) if isinstance(index, tuple) else (index, ...)]  # a view of one element
    note_write(part if np.may_share_memory(part, array) else array)


def last_write(array: np.ndarray) -> tuple[int, int]:
    """When the array's memory was last changed in place, and when last on the tape; 0 for never."""
    if not _memories:
        return 0, 0
    memory, part = owner_and_part(array)
    known = _memories.get(id(memory))
    return known.last_write(part) if known else (0, 0)
