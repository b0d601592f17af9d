"""Integer keys that sort like numbers and contain their places: sorting them in NumPy is a stable argsort."""
import numpy as np

from .buffers import empty
from .copying import in_order
from .jit import jit
from .rows import as_rows, row_kernel
from .simd import bits_of, shift

SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)
PLACE = np.uint64(0xFFFFFFFF)  # the bits of a key that hold the place
LAST_KEY = np.uint64((1 << 64) - 1)
RUN = 32  # elements


@jit
def _key(x, j, flip):
    """The key of x[j], float32: bits that sort like the number, flipped if `flip` is ALL, and then its place.

    Positive floats sort like their bits, negative ones in reverse. 0 and -0 are equal; NaN is the largest.
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
    """Insert a key into `count` sorted ones, dropping the last. Without branches, as they could not be predicted."""
    for k in range(count):
        other = keys[k]
        keys[k] = min(key, other)
        key = max(key, other)


@row_kernel
def least_keys_forward(row, size, x, keys, count, descending):
    """x (N, C) float32, C < 2**32 -> keys (N, count) uint64, 0 < count <= C: the smallest keys of each row, in order

    Most runs have no element that comes before the last key kept so far, so comparing with that is enough.
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
    """A key for each element along the last axis of a float32 array; they sort like the elements, equal ones by place. Or,
    faster, only the first `least` of the sorted keys.

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
    """The places of the elements of these keys along the axis; overwrites the keys."""
    keys &= PLACE
    return keys.view(np.int64)
