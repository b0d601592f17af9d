"""Reshape on all threads, where it needs a copy of many elements."""
import numpy as np

from ..ops import shape
from ..tape import implements
from .kernels.copying import copied
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
