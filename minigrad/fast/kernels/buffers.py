"""Memory for results and scratch memory, from the pool and the workspaces of the calling Python thread."""
from collections.abc import Callable, Sequence

import numpy as np

from ..pool import SMALL, aligned, empty, own


def with_strides_of(array: np.ndarray, make: Callable = np.empty) -> np.ndarray:
    """An uninitialised array with the shape, dtype and strides of this one, in memory from make(shape, dtype).

    >>> with_strides_of(np.zeros((4, 6))[::-1, ::2].T).strides
    (16, -48)
    """
    if not array.size:
        return make(array.shape, array.dtype)
    first, end = np.lib.array_utils.byte_bounds(array)
    memory = make((end - first,), np.dtype(np.uint8))
    return np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - first, array.strides)


def are_contiguous(arrays: Sequence) -> bool:
    """Can kernels take all arrays among these without a copy: in C order, aligned, writeable, not empty?"""
    for array in arrays:
        if isinstance(array, np.ndarray) and not (array.flags.carray and array.size):
            return False
    return True


def copied(x: np.ndarray) -> np.ndarray:
    """A copy in C order.

    >>> copied(np.arange(6).reshape(2, 3).T).strides
    (16, 8)
    """
    if x.nbytes < SMALL:  # as a scalar
        return np.copy(x, "C")
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def in_order(x: np.ndarray) -> np.ndarray:
    """The array itself if it is in C order, else a copy in C order."""
    return x if x.flags.c_contiguous else copied(x)


def workspace(purpose: str, count: int, dtype: np.dtype) -> np.ndarray:
    """An uninitialised vector of at least `count` elements, kept for this Python thread, and grown when needed; pages
    that are never touched take no memory."""
    kept, key = own.workspaces, (purpose, dtype.char)
    vector = kept.get(key)
    if vector is None or vector.size < count:
        owner, start = aligned(count * dtype.itemsize)
        vector = kept[key] = np.ndarray(count, dtype, owner, start)
    return vector
