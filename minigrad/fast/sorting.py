"""Sorting of many float32 numbers as integer keys: at most a fifth of the time of sorting indices."""
import numpy as np

from .. import backend
from ..backend import replaced_by
from .kernels.copying import in_order
from .kernels.sorting import places, sorting_keys
from .kernels.thresholds import FEW_KEYS, LARGE
from .last_axis import with_axis_last, with_last_axis_at


def argsort(x: np.ndarray, axis: int, descending: bool = False, start: int = 0, end: int | None = None) -> np.ndarray:
    """It finds the 20 largest of 50,000 elements in 0.07 ms; sorting all takes 3.6."""
    if x.size < LARGE or x.dtype != np.float32:
        return backend.in_numpy.argsort(x, axis, descending, start, end)
    x = with_axis_last(x, axis)
    is_few = end and end <= FEW_KEYS and not start
    keys = sorting_keys(x, descending, end if is_few else None)
    if not is_few:
        if end:
            keys.partition(end - 1 if start in (0, end - 1) else (start, end - 1))  # two places take NumPy 6 times as long
        keys = keys[..., start:end]
        keys.sort()
    return in_order(with_last_axis_at(places(keys), axis))


replaced_by(argsort=argsort)
