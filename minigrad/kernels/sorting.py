"""Keys that sort as numbers do, and know where they stood: with them, NumPy's sort of integers is a stable argsort."""
import numpy as np

from .buffers import empty
from .copying import in_order
from .rows import as_rows, row_kernel
from .simd import bits_of, shift

SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)
NAN_KEY = np.uint64(0xFFFFFFFF << 32)  # the least of NaN's
PLACE = np.uint64(0xFFFFFFFF)  # the bits of a key that are a place


@row_kernel
def keys_forward(row, size, x, keys, descending):
    """x (N, C) float32, C < 2**32 -> keys (N, C) uint64: the number's bits, so that they sort as it does, and its place.

    Positive floats sort as their bits do, negative ones the other way round. 0 and -0 are equal; NaN is the largest.
    """
    x, keys = shift(x, row * size), shift(keys, row * size)
    flip = ALL if descending else np.uint32(0)
    for j in range(size):
        bits = np.uint32(bits_of(x[j]))
        ordered = bits ^ ALL if bits & SIGN else bits | SIGN
        ordered = SIGN if x[j] == 0 else ordered
        ordered = ordered if x[j] == x[j] else ALL
        keys[j] = np.uint64(ordered ^ flip) << np.uint64(32) | np.uint64(j)


def sorting_keys(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """A key for each element along the last axis of a float32 array: they sort as the elements do, equal ones by place.

    >>> keys = sorting_keys(np.array([[2.0, -1.0, np.nan, 2.0]], np.float32))
    >>> keys.sort()
    >>> places(keys)
    array([[1, 0, 3, 2]])
    """
    keys = empty(x.shape, np.dtype(np.uint64))
    keys_forward(as_rows(in_order(x)), as_rows(keys), int(descending))
    return keys


def places(keys: np.ndarray) -> np.ndarray:
    """Where the elements of these keys stood along their axis; the keys are lost."""
    keys &= PLACE
    return keys.view(np.int64)
