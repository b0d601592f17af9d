"""Gather, scatter and scatter_add of many elements, with kernels."""
import math

import numpy as np

from ..ops import gather
from ..ops.indexing import OCCURS_TWICE, started
from ..tape import implements
from .kernels import gather as kernels
from .kernels.copying import copied
from .kernels.thresholds import TAKEN


@implements(gather.Gather)
class Gather(gather.Gather):
    def forward(self, x, *, dim, indices):
        if indices.size < TAKEN:
            return super().forward(x, dim=dim, indices=indices)
        self.dim, self.indices, self.x_shape = dim, indices, x.shape
        return kernels.take(x[cropped(x.shape, dim, indices)], dim, indices, False)


@implements(gather.ScatterAdd)
class ScatterAdd(gather.ScatterAdd):
    @classmethod
    def takes(cls, arrays):
        return arrays[0].dtype.kind == "f"

    def forward(self, x, onto=None, *, dim, indices, shape):
        if max(indices.size, math.prod(shape)) < TAKEN:
            return super().forward(x, onto, dim=dim, indices=indices, shape=shape)
        self.dim, self.indices = dim, indices
        part = cropped(shape, dim, indices)
        sums = kernels.add_along(x, dim, indices, False, shape[dim], None if onto is None else onto[part])
        if sums.shape == shape:
            return sums
        out = started(onto, shape, x.dtype)
        out[part] = sums
        return out


@implements(gather.Scatter)
class Scatter(gather.Scatter):
    def forward(self, x, value, *, dim, indices, is_checked=False):
        if not is_for_kernel(x.shape, dim, indices, np.shape(value)):
            return super().forward(x, value, dim=dim, indices=indices, is_checked=is_checked)
        self.dim, self.indices, out = dim, indices, copied(x)
        if kernels.put_along(out, dim, indices, np.asarray(value)) and not is_checked:
            raise ValueError(OCCURS_TWICE)
        return out


def is_for_kernel(shape: tuple[int, ...], dim: int, indices: np.ndarray, of_value: tuple[int, ...]) -> bool:
    """Is this work for `put_along`: many values, over the full length of all other axes?"""
    is_full = indices.shape[:dim] + indices.shape[dim + 1 :] == shape[:dim] + shape[dim + 1 :]
    return is_full and indices.size >= TAKEN and of_value in ((), indices.shape)


def cropped(shape: tuple[int, ...], dim: int, indices: np.ndarray) -> tuple[slice, ...]:
    """The part of an array of this shape that indices along dim reach: they may be shorter along other axes."""
    return tuple(slice(n if i == dim else indices.shape[i]) for i, n in enumerate(shape))
