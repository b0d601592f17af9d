"""The same values in other memory layouts, surrounded by poison.

Code that reads such an array as if it were contiguous, or as if it began where its memory begins, reads the poison: NaN,
which spreads to the result. (For ids it is 0, which is in the range of every table.)
"""
from typing import Callable, Sequence

import numpy as np

POISON = {"f": np.nan, "i": 0, "b": True}


def surrounded(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Contiguous memory full of poison, with as much again before and after it."""
    size = int(np.prod(shape)) + 16
    return np.full(3 * size, POISON[dtype.kind], dtype)[size : 2 * size - 16].reshape(shape)


def cut_out(array: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """A slice of a larger array, with poison between the rows. Steps are per axis: above 1, there is poison between the
    elements as well; negative ones go backwards."""
    sizes = list(zip(array.shape, map(abs, steps)))
    around = surrounded(tuple(n * step + 2 for n, step in sizes), array.dtype)
    view = around[(..., *(slice(1, 1 + n * step, step) for n, step in sizes))]
    view = view[(..., *(slice(None, None, int(np.sign(step))) for _, step in zip(array.shape, steps)))]
    view[...] = array
    return view


def offset(array: np.ndarray) -> np.ndarray:
    """Contiguous, but the memory begins earlier and ends later."""
    view = surrounded(array.shape, array.dtype)
    view[...] = array
    return view


def read_only(array: np.ndarray) -> np.ndarray:
    view = offset(array)
    view.flags.writeable = False
    return view


def unaligned(array: np.ndarray) -> np.ndarray:
    """At an odd address."""
    around = surrounded((array.size + 1,), array.dtype)
    view = around.view(np.uint8)[1 : 1 + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def one_for_all(array: np.ndarray, axis: int) -> np.ndarray:
    """The first element along an axis in place of all others: with stride 0, and read-only, as from expand."""
    if not array.ndim or 0 in array.shape:
        return read_only(array)
    first = [slice(None)] * array.ndim
    first[axis] = slice(1)
    view = surrounded(array.shape, array.dtype)[tuple(first)]
    view[...] = array[tuple(first)]
    return np.broadcast_to(view, array.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "offset": offset,
    "column by column": lambda a: offset(a.T).T,
    "rows with gaps": lambda a: cut_out(a, [1] * a.ndim),
    "last axes swapped": lambda a: cut_out(a.swapaxes(-1, -2), [1] * a.ndim).swapaxes(-1, -2) if a.ndim > 1 else offset(a),
    "every other element": lambda a: cut_out(a, [2] * a.ndim),
    "backwards": lambda a: cut_out(a, [-1] * a.ndim),
    "rows from behind": lambda a: cut_out(a, [-1] * (a.ndim - 1) + [1]),
    "read-only": read_only,
    "unaligned": unaligned,
}
EXPANDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # with other values
    "one row for all": lambda a: one_for_all(a, 0),
    "one column for all": lambda a: one_for_all(a, -1),
}


def enlarge(array: np.ndarray) -> None:
    """Make all values a quarter larger, in place, even if the array itself is read-only."""
    distinct = array[(..., *(slice(1) if stride == 0 else slice(None) for stride in array.strides))]
    distinct.flags.writeable = True
    distinct *= 1.25


def mapped(function: Callable, value):
    """The function of an array, or of the arrays in a tuple; other values as they are."""
    if isinstance(value, tuple):
        return tuple(mapped(function, part) for part in value)
    return function(value) if isinstance(value, np.ndarray) else value
