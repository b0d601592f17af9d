"""NumPy's functions of single float32 numbers, from which `recorded` makes formulas.

Sums, products, quotients, comparisons and roots have NumPy's bits. Others, such as e^x and everything built on it, may
differ in the last digit or two, between small and large arrays as between libraries. NaN goes through, infinities give the
limits, and -0 keeps its sign, as in NumPy.
"""
import math
import operator

import numpy as np

from .jit import exact
from .simd import (
    EXP, HALF, INFINITY, LN_2_HIGH, LN_2_LOW, LOG2_E, ONE, TWO, ZERO, float_of_bits, log, multiply_add, polynomial,
)

LN_2 = np.float32(math.log(2))
LOWEST, HIGHEST = np.float32(-104), np.float32(89)  # beyond them, e^x is 0 or infinite


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
    result = log(u) + (x - (u - ONE)) / u
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
def logaddexp_value(a, b):
    larger = a if a > b else b
    return a + LN_2 if a == b else larger + log1p_value(exp_value(-abs(a - b)))


SCALARS = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.negative: operator.neg, np.absolute: abs, np.square: exact(lambda x: x * x), np.sign: sign_value, np.sqrt: np.sqrt,
    np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge, np.bitwise_and: operator.and_, np.bitwise_or: operator.or_,
    np.where: exact(lambda condition, a, b: a if condition else b),
    np.maximum: exact(lambda a, b: a if a > b or a != a else b),
    np.minimum: exact(lambda a, b: a if a < b or a != a else b),
    np.clip: exact(lambda x, low, high: low if x < low else (high if x > high else x)),
    np.exp: exp_value, np.expm1: expm1_value, np.log: log, np.log1p: log1p_value, np.logaddexp: logaddexp_value,
    np.tanh: tanh_value,
}
