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


# ------------------------------------------------------------------------------------------------ tensor.data

WRITERS = {  # functions that write to their first argument, and what they call it
    np.copyto: ("dst",), np.put: ("a",), np.place: ("arr",), np.putmask: ("a",), np.put_along_axis: ("arr",),
    np.fill_diagonal: ("a",),
}  # fmt: skip


def _writing(name: str):
    """ndarray's method of this name, which writes to the array."""
    method = getattr(np.ndarray, name)

    def noting(self, *arguments, **options):
        result = method(self, *arguments, **options)
        note_write(self)
        return result

    return noting


def _with_out(name: str):
    """ndarray's method of this name, which makes a new array, or writes to `out`."""
    method = getattr(np.ndarray, name)

    def noting(self, *arguments, **options):
        result = method(self, *arguments, **options)
        _note(*(value for value in (*arguments, *options.values()) if value is result))
        return _versioned_or_own(result)

    return noting


class VersionedArray(np.ndarray):
    """`tensor.data`: an array over memory that an operation may have saved for backward.

    Writing to it through NumPy (items, `+=`, `out=`, `flat`, `fill`, `np.copyto`, ...) changes the memory and tells the
    tape: a backward that needs the old values is an error then, not a wrong gradient. What is computed from it is a
    plain array; views of it do so too. What NumPy does not tell of is not seen, such as writing through
    np.asarray(data), np.from_dlpack(data), a memoryview, np.nditer, or a random generator's `out=`.
    """

    def __setitem__(self, index, value):
        super().__setitem__(index, value)
        note_item_written(_plain(self), index)

    def __getitem__(self, index):
        return _versioned_or_own(super().__getitem__(index))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if any(map(is_tensor, inputs)):
            return NotImplemented  # Tensors know what to do, also with an array as `out`
        outputs = options.get("out", ())
        if outputs:
            options["out"] = tuple(map(_plain, outputs))
        if "where" in options:
            options["where"] = _plain(options["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        _note(*outputs, *(inputs[:1] if method == "at" else ()))
        return outputs[0] if len(outputs) == 1 else result

    def __array_function__(self, function, types, arguments, options):
        result = super().__array_function__(function, types, arguments, options)
        if function in WRITERS:
            _note(*arguments[:1], *(options.get(name) for name in WRITERS[function]))
        _note(*(value for value in (*arguments, *options.values()) if value is result))  # an `out`
        return _versioned_or_own(result)

    fill, put, sort, partition, byteswap = map(_writing, ("fill", "put", "sort", "partition", "byteswap"))
    take, dot, choose, compress = map(_with_out, ("take", "dot", "choose", "compress"))
    copy, astype, flatten, repeat = map(_with_out, ("copy", "astype", "flatten", "repeat"))

    @property
    def flat(self) -> "VersionedElements":
        return VersionedElements(self)

    @flat.setter
    def flat(self, values) -> None:
        _plain(self).flat = values
        note_write(self)

    def __repr__(self):
        return repr(_plain(self))

    def __reduce__(self):
        return _plain(self).__reduce__()


class VersionedElements:
    """`VersionedArray.flat`: all elements in order, as if in one row."""

    def __init__(self, array: VersionedArray):
        self._array, self._flat = array, array.view(np.ndarray).flat

    def __setitem__(self, index, value):
        self._flat[index] = value
        note_write(self._array)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._flat, name)

    __hash__ = None

    def __eq__(self, other): return self._flat == other
    def __ne__(self, other): return self._flat != other
    def __getitem__(self, index): return self._flat[index]
    def __iter__(self): return iter(self._flat)
    def __next__(self): return next(self._flat)
    def __len__(self): return len(self._flat)
    def __array__(self, dtype=None, copy=None): return np.array(self._flat, dtype=dtype)


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, VersionedArray) else value


def _versioned_or_own(result):
    """What owns its memory is a plain array: nobody has saved it."""
    return _plain(result) if isinstance(result, VersionedArray) and result.base is None else result


def _note(*arrays) -> None:
    for array in arrays:
        if isinstance(array, VersionedArray):
            note_write(array)
