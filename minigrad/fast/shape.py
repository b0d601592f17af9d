"""Many elements are copied on all threads, in memory that is used again."""
from typing import Sequence

import numpy as np

from .. import backend
from ..backend import replaced_by
from ..ops import shape
from ..tape import implements
from .kernels.buffers import empty
from .kernels.copying import copied, copy
from .kernels.thresholds import TAKEN


@implements(shape.Reshape)
class Reshape(shape.Reshape):
    @classmethod
    def takes(cls, arrays):
        return arrays[0].size >= TAKEN

    def forward(self, x, *, shape):
        self.x_shape = x.shape
        return reshaped(x, shape)

    def backward(self, dout):
        return reshaped(dout, self.x_shape)


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """np.reshape"""
    if x.size < TAKEN or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return np.reshape(x, shape, copy=False)
    except ValueError:
        return copied(x).reshape(shape)


def concatenate(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    size = sum([a.size for a in arrays])
    if size < TAKEN * len(arrays):
        return backend.concatenate.__wrapped__(arrays, axis)
    shapes = [a.shape[:axis] + a.shape[axis + 1 :] for a in arrays]
    if shapes.count(shapes[0]) < len(shapes):
        raise ValueError(f"all axes but {axis} must agree, got {[a.shape for a in arrays]}")
    first, length = arrays[0], sum([a.shape[axis] for a in arrays])
    out, end = empty(first.shape[:axis] + (length,) + first.shape[axis + 1 :], first.dtype), 0
    for a in arrays:
        start, end = end, end + a.shape[axis]
        copy(a, out[(slice(None),) * axis + (slice(start, end),)])
    return out


replaced_by(concatenate=concatenate)
