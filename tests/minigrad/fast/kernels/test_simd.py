"""The vector functions against `math` in float64, over their whole range and at its ends."""
import math

import numpy as np
import pytest

from minigrad.fast.kernels import simd
from minigrad.fast.kernels.jit import kernel


@kernel
def apply_all(x, out):
    for i in range(x.size):
        out[0, i], out[1, i] = simd.exp(x[i]), simd.log(x[i])
        out[2, i], out[3, i] = simd.normal(x[i])


@kernel
def largest(x, count):
    return simd.row_max(simd.pointer(x, 0), count)


def density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def cumulative(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


random = np.random.default_rng(0)
FUNCTIONS = {  # in the order of apply_all: arguments, and bounds of the relative and absolute errors
    math.exp: (random.uniform(-87, 88.7, 20_001), 2e-7, np.inf),
    math.log: (np.exp(random.uniform(-85, 69, 20_001)), 2e-7, np.inf),
    cumulative: (random.uniform(-9, 9, 20_001), np.inf, 3e-7),
    density: (random.uniform(-9, 9, 20_001), np.inf, 1e-7),
}


def compute(x):
    out = np.empty((4, x.size), x.dtype)
    with np.errstate(all="ignore"):
        apply_all(x, out)
    return out


def test_float32_is_close_to_math():
    for row, (function, (x, relative, absolute)) in enumerate(FUNCTIONS.items()):
        x = np.concatenate([x, x * 1e-3, x * 1e-6 + (1.0 if function is math.log else 0.0)]).astype(np.float32)
        expected = np.array([function(v) for v in x.astype(np.float64)])
        error = np.abs(compute(x)[row] - expected)
        assert error.max() <= absolute, function
        assert (error / np.maximum(np.abs(expected), 1e-37)).max() <= relative, function


def test_float64_is_computed_by_math():
    x = np.random.default_rng(0).uniform(0.01, 5, 50)
    for found, function in zip(compute(x), FUNCTIONS, strict=True):
        np.testing.assert_allclose(found, [function(v) for v in x], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_the_range(dtype):
    inf, nan = np.inf, np.nan
    x = np.array([nan, inf, -inf, 0, 1e4, -1e4], dtype)
    expected = [
        [nan, inf, 0, 1, inf, 0],
        [nan, inf, nan, -inf, math.log(1e4), nan],
        [nan, 1, 0, 0.5, 1, 0],
        [nan, 0, 0, density(0), 0, 0],
    ]
    np.testing.assert_allclose(compute(x), expected, rtol=3e-7)


def test_log_of_denormal_numbers():
    x = np.array([1e-40, 2e-42], np.float32)
    np.testing.assert_allclose(compute(x)[1], np.log(x.astype(np.float64)), rtol=2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_max(dtype):
    x = np.random.default_rng(0).standard_normal(100).astype(dtype) - 5
    for count in (1, 3, 16, 17, 33, 100):
        assert largest(x, count) == x[:count].max()
    assert largest(x, 0) == -np.inf
    x[7] = np.nan
    assert largest(x, 100) == np.nanmax(x)
