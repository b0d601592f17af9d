"""Functions of single float32 numbers, from which others are built."""
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..jit import exact
from ..simd import (
    EXP, HALF, INFINITY, LN_2_HIGH, LN_2_LOW, LOG, LOG2_E, ONE, SMALLEST_NORMAL, TWO, ZERO, exponent_and_rest,
    float_of_bits, log as log_value, multiply_add, polynomial,
)


class Scalar(NamedTuple):
    """A function of single numbers. To have no branches, and be vectorised, it may hold for usual operands only: `rare` is
    true for the others, and `exception` computes them."""

    usual: Callable
    rare: Callable | None = None
    exception: Callable | None = None


def unless(rare: Callable, exception: Callable) -> Callable:
    """Decorates a function that does not hold where rare(*operands); there exception(*operands) does."""
    return lambda usual: Scalar(exact(usual, forceinline=True), rare, exact(exception))


LN_2 = np.float32(math.log(2))
LOWEST, HIGHEST = np.float32(-104), np.float32(89)  # beyond them, e^x is 0 or infinite
LOWEST_POWER, HIGHEST_POWER = np.float32(-152), np.float32(129)  # the same for 2^x


@exact
def _power_of_two(n):
    return float_of_bits((n + np.int32(127)) << np.int32(23))


@exact
def _scaled(x, n):
    """x 2^n, even if subnormal: in two steps, of which only the last one rounds"""
    half = n >> np.int32(1)
    return x * _power_of_two(half) * _power_of_two(n - half)


@exact
def _exp_less_one(r):
    """e^r - 1, |r| <= log(2) / 2"""
    return multiply_add(polynomial(r, EXP), r * r, r)


@exact
def _split(x):
    """(n, e^r - 1) with x = n log 2 + r, |r| <= log(2) / 2"""
    n = np.floor(multiply_add(x, LOG2_E, HALF))
    r = multiply_add(n, -LN_2_LOW, multiply_add(n, -LN_2_HIGH, x))
    return np.int32(n), _exp_less_one(r)


@exact
def exp_value(x):
    """e^x, even if subnormal"""
    n, above_one = _split(min(max(x, LOWEST), HIGHEST))
    result = _scaled(ONE + above_one, n)
    return result if x == x else x


@exact
def expm1_value(x):
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), in halves, as 2^128 is no float32"""
    n, above_one = _split(min(max(x, np.float32(-30)), HIGHEST))
    scale = _power_of_two(n - np.int32(1))
    result = TWO * multiply_add(scale, above_one, scale - HALF)
    return result if x != ZERO and x == x else x


@exact
def log1p_value(x):
    """log(1 + x) of the rounded sum, corrected for its rounding error"""
    u = ONE + x
    result = log_value(u) + (x - (u - ONE)) / u
    return x if x == ZERO or x == INFINITY else (-INFINITY if u == ZERO else result)


@exact
def tanh_value(x):
    """e / (e + 2) with e = e^(2|x|) - 1"""
    e = expm1_value(min(TWO * abs(x), np.float32(40)))
    result = e / (e + TWO)
    return x if x == ZERO or x != x else (result if x > ZERO else -result)


@exact
def sign_value(x):
    return ONE if x > ZERO else (-ONE if x < ZERO else (ZERO if x == ZERO else x))  # keeps NaN


@exact
def sigmoid_value(x):
    return ONE / (ONE + exp_value(-x))


@exact
def exp2_value(x):
    """2^x = 2^n e^(r log 2) with n + r = x, |r| <= 1 / 2"""
    near = min(max(x, LOWEST_POWER), HIGHEST_POWER)
    n = np.floor(near + HALF)
    result = _scaled(ONE + _exp_less_one((near - n) * LN_2), np.int32(n))
    return result if x == x else x


@exact
def log_value_of_base(x, whole, whole_low, factor, factor_low):
    """The logarithm of a normal positive number to another base, with log 2 = whole + whole_low and log e = factor +
    factor_low: x = 2^n (1 + m), and log(1 + m) is a plus its rounding error"""
    exponent, m = exponent_and_rest(x)
    n, square = np.float32(exponent), m * m
    small = multiply_add(polynomial(m, LOG) * m, square, -HALF * square)
    a = m + small
    low = multiply_add(small - (a - m), factor, multiply_add(n, whole_low, a * factor_low))
    return multiply_add(n, whole, multiply_add(a, factor, low))


# In float64, so that the result rounded to float32 is right to the last digit. Coefficients, highest power first:
POWER_OF_TWO = tuple(math.log(2) ** k / math.factorial(k) for k in range(9, -1, -1))  # 2^r, |r| < 1 / 2
WIDE_LOG_2 = tuple(2 / math.log(2) / (2 * k + 1) for k in range(7, -1, -1))  # log2((1 + s) / (1 - s)) / s of s^2
WHOLE, TWICE = np.float64(1), np.float64(2)
WIDE_LOWEST_POWER, WIDE_HIGHEST_POWER = np.float64(-160), np.float64(130)

# The compiler does not inline functions as long as these by itself, and a loop with calls is not vectorised.
inlined = functools.partial(exact, inline="always")


@exact
def wide(x):
    return np.float64(x)


@inlined
def wide_exp2_value(z):
    """2^z of a float64, rounded once, to float32, even if subnormal"""
    n = np.floor(min(max(z, WIDE_LOWEST_POWER), WIDE_HIGHEST_POWER) + np.float64(0.5))
    power = polynomial(min(max(z, WIDE_LOWEST_POWER), WIDE_HIGHEST_POWER) - n, POWER_OF_TWO)
    exponent = np.int32(n)
    half = exponent >> np.int32(1)
    result = np.float32(power * wide(_power_of_two(half)) * wide(_power_of_two(exponent - half)))
    return result if z == z else np.float32(z)


@inlined
def wide_log2_value(x):
    """log2 of a normal positive number, as a float64: x = 2^n (1 + m), log(1 + m) = 2 artanh(m / (2 + m))"""
    exponent, rest = exponent_and_rest(x)
    m = wide(rest)  # which is exact
    s = m / (TWICE + m)
    return np.float64(exponent) + polynomial(s * s, WIDE_LOG_2) * s


@exact
def is_no_normal(x):
    return not ((x >= SMALLEST_NORMAL) & (x < INFINITY))
