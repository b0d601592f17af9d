"""Keys that sort as numbers do, and know where they stood: with them, NumPy's sort of integers is a stable argsort."""
import numpy as np

from .buffers import empty
from .copying import in_order
from .jit import jit
from .rows import as_rows, row_kernel
from .simd import bits_of, shift

SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)
PLACE = np.uint64(0xFFFFFFFF)  # the bits of a key that are a place
LAST_KEY = np.uint64((1 << 64) - 1)
RUN = 32  # elements


@jit
def _key(x, j, flip):
    """Of x[j], float32: the number's bits, so that they sort as it does, all flipped if `flip` is ALL, and its place.

    Positive floats sort as their bits do, negative ones the other way round. 0 and -0 are equal; NaN is the largest.
    """
    bits = np.uint32(bits_of(x[j]))
    ordered = bits ^ ALL if bits & SIGN else bits | SIGN
    ordered = SIGN if x[j] == 0 else ordered
    ordered = ordered if x[j] == x[j] else ALL
    return np.uint64(ordered ^ flip) << np.uint64(32) | np.uint64(j)


@row_kernel
def keys_forward(row, size, x, keys, descending):
    """x (N, C) float32, C < 2**32 -> keys (N, C) uint64"""
    x, keys = shift(x, row * size), shift(keys, row * size)
    flip = ALL if descending else np.uint32(0)
    for j in range(size):
        keys[j] = _key(x, j, flip)


@jit
def _insert(key, keys, count):
    """Put a key among `count`, which are in order; the last is lost. Without branches, which nobody could foretell."""
    for k in range(count):
        other = keys[k]
        keys[k] = min(key, other)
        key = max(key, other)


@row_kernel
def least_keys_forward(row, size, x, keys, count, descending):
    """x (N, C) float32, C < 2**32 -> keys (N, count) uint64, 0 < count <= C: the least of each row, in order

    Most runs have nothing that comes before the last of those kept so far, and are only compared with that.
    """
    x, keys = shift(x, row * size), shift(keys, row * count)
    flip, sign = (ALL, np.float32(1)) if descending else (np.uint32(0), np.float32(-1))
    for j in range(count):
        keys[j] = LAST_KEY
        _insert(_key(x, j, flip), keys, j + 1)
    last = sign * x[np.int64(keys[count - 1] & PLACE)]
    for start in range(count, size, RUN):
        end, found = min(start + RUN, size), np.int32(0)
        for j in range(start, end):
            found += np.int32(0) if sign * x[j] <= last else np.int32(1)  # 1 if one of the two is NaN
        if found:
            for j in range(start, end):
                if not sign * x[j] <= last:
                    _insert(_key(x, j, flip), keys, count)
                    last = sign * x[np.int64(keys[count - 1] & PLACE)]


def sorting_keys(x: np.ndarray, descending: bool = False, least: int | None = None) -> np.ndarray:
    """A key for each element along the last axis of a float32 array: they sort as the elements do, equal ones by place.

    Or the `least` first of the sorted keys, if there is such a number: the fewer, the faster.

    >>> places(sorting_keys(np.array([[2.0, -1.0, np.nan, 2.0]], np.float32), True, 3))
    array([[2, 0, 3]])
    """
    keys = empty(x.shape[:-1] + (least or x.shape[-1],), np.dtype(np.uint64))
    rows = as_rows(in_order(x)), as_rows(keys)
    if least:
        least_keys_forward(*rows, least, int(descending))
    else:
        keys_forward(*rows, int(descending))
    return keys


def places(keys: np.ndarray) -> np.ndarray:
    """Where the elements of these keys stood along their axis; the keys are lost."""
    keys &= PLACE
    return keys.view(np.int64)
