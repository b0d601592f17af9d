"""The ways from one dtype to another."""
import functools
from collections.abc import Callable

import numpy as np

from ..pointwise import BOOL, FLOAT, single_pass
from ..simd import ZERO
from ..thresholds import LARGE


DOUBLE, LONG = np.dtype(np.float64), np.dtype(np.int64)


def cast(takes: np.dtype = FLOAT, dtype: np.dtype = FLOAT) -> Callable:
    """What decorates the way from one dtype to another."""
    return functools.partial(single_pass, takes=(takes,), dtype=dtype, least_apart=LARGE)


@cast(DOUBLE)
def float_of_double(x):
    return np.float32(x)


@cast(LONG)
def float_of_long(x):
    return np.float32(x)


@cast(BOOL)
def float_of_bool(x):
    return np.float32(x)


@cast(dtype=DOUBLE)
def double_of_float(x):
    return np.float64(x)


@cast(dtype=LONG)
def long_of_float(x):
    return np.int64(x)


@cast(dtype=BOOL)
def bool_of_float(x):
    return x != ZERO


CASTS = {  # from, to
    (DOUBLE, FLOAT): float_of_double, (LONG, FLOAT): float_of_long, (BOOL, FLOAT): float_of_bool,
    (FLOAT, DOUBLE): double_of_float, (FLOAT, LONG): long_of_float, (FLOAT, BOOL): bool_of_float,
}
