"""Indexing of many elements: kernels take or add slices along one axis."""
import math

import numpy as np

from .. import backend
from ..backend import replaced_by
from ..ops import indexing
from ..ops.indexing import is_basic, started
from ..tape import implements
from .kernels.copying import copy
from .kernels.embedding import embedding_backward
from .kernels.gather import add_along, take
from .kernels.thresholds import FEW, TAKEN


def taken_axis(index) -> int | None:
    """The axis along which an index takes slices by position, if it does nothing else: 1 for x[:, positions]."""
    last = last_of(index)
    if not isinstance(last, np.ndarray) or last.dtype != np.int64:
        return None
    before = index[:-1] if isinstance(index, tuple) else ()
    return len(before) if all(type(part) is slice and part == slice(None) for part in before) else None


def last_of(index):
    return index[-1] if isinstance(index, tuple) and index else index


def from_zero(indices: np.ndarray, length: int) -> np.ndarray:
    """Positions along an axis with negative ones counted from the beginning; IndexError if one is out of range."""
    if not indices.size:
        return indices
    lowest, highest = indices.min(), indices.max()
    if lowest < -length or highest >= length:
        raise IndexError(f"index {lowest if lowest < -length else highest} is out of bounds for an axis of size {length}")
    return indices if lowest >= 0 else np.where(indices < 0, indices + length, indices)


@implements(indexing.Index)
class Index(indexing.Index):
    """Adds to the gradient that has already arrived for x: of a thousand slices, only the first makes zeros."""

    accumulates_into, accumulates_in_place = 0, True

    def forward(self, x, *, index):
        dim = taken_axis(index) if x.size >= TAKEN and x.ndim > 1 and type(x) is np.ndarray else None
        if dim is None:
            return super().forward(x, index=index)
        self.index, self.x_shape = index, x.shape
        return take(x, dim, from_zero(last_of(index), x.shape[dim]), True)

    def backward(self, dout, accumulated=None):
        if accumulated is not None and is_basic(self.index):
            part = accumulated[self.index]
            if type(part) is np.ndarray:
                part += dout
            else:  # a single element
                accumulated[self.index] += dout
            return accumulated
        dx = super().backward(dout)
        return dx if accumulated is None else np.add(accumulated, dx, out=accumulated)


@implements(indexing.AddAt)
class AddAt(indexing.AddAt):
    def forward(self, x, onto=None, *, index, shape):
        self.index = index
        dim = taken_axis(index) if max(x.size, math.prod(shape)) >= TAKEN and x.dtype.kind == "f" else None
        if dim is not None and len(shape) > 1:
            return add_along(x, dim, from_zero(last_of(index), shape[dim]), True, shape[dim], onto)
        out = started(onto, shape, x.dtype)
        part = out[index] if onto is None and is_basic(index) else None
        if type(part) is np.ndarray:
            copy(x, part)
        elif is_basic(index) or isinstance(index, np.ndarray) and index.dtype == bool:
            out[index] = x if onto is None else out[index] + x
        else:
            add_at(out, index, x)
        return out


def add_at(out, index, x) -> None:
    """np.add.at, faster in the two usual cases; sums are in float64 where an index may repeat often."""
    parts = index if isinstance(index, tuple) else (index,)
    is_usual = x.dtype.kind == "f" and all(isinstance(part, np.ndarray) and part.dtype.kind == "i" for part in parts)
    if x.size <= FEW:
        np.add.at(out, index, x)
    elif is_usual and len(parts) == out.ndim:  # an index for every axis: one index into the flat array is 7 times as fast
        places = np.ravel_multi_index(np.broadcast_arrays(*parts), out.shape, mode="wrap")
        x = np.broadcast_to(x, places.shape).reshape(-1)
        out += np.bincount(places.reshape(-1), x, out.size).reshape(out.shape)  # float64 sums
    elif is_usual and len(parts) == 1:  # whole rows
        rows, ids = out.reshape(len(out), -1), parts[0].astype(np.int64) % len(out)
        embedding_backward(np.broadcast_to(x, ids.shape + out.shape[1:]).reshape(ids.size, -1), ids.reshape(-1), rows, rows)
    else:
        backend.in_numpy.add_at(out, index, x)


replaced_by(add_at=add_at)
