"""Formulas of arithmetic: sums, products, powers, quotients and what remains of them, and rounding."""
import math

import numpy as np

from ..pointwise import exact, formula, single_pass, unless
from ..simd import HALF, INFINITY, NAN, ONE, TWO, ZERO
from .values import LN_2, inlined, is_no_normal, sign_value, wide, wide_exp2_value, wide_log2_value

THREE, FOUR = np.float32(3), np.float32(4)
MANY = np.float64(1 << 22)  # quotients, up to which they and what remains are exact


@exact
def _is_rare_power(a, b):
    return is_no_normal(abs(a)) | (not (abs(b) < INFINITY))


@inlined
def _power(a, b):
    """a^b = 2^(b log2 |a|); where a < 0, negative if b is odd, and no number if b has a fraction"""
    size = wide_exp2_value(wide(b) * wide_log2_value(abs(a)))
    half = b * HALF
    signed = size if np.floor(half) == half else -size
    return size if a > ZERO else (signed if np.floor(b) == b else NAN)


@exact
def _are_many(a, b):
    """Is a / b so large, or no number, that what remains of it is not that of rounding in float64?"""
    return not ((abs(wide(a) / wide(b)) < MANY) & (abs(b) < INFINITY))


@exact
def _rest(a, b):
    """a - b * trunc(a / b), with the sign of a"""
    y, x = abs(wide(a)), abs(wide(b))
    rest = np.float32(y - np.floor(y / x) * x)
    return rest if a > ZERO else (-rest if a < ZERO else a)


@exact
def _with_sign_of(rest, b):
    """What remains of a / trunc -> of a / floor: as much, but with the sign of b"""
    zero = ZERO if b > ZERO else -ZERO
    return (rest + b if (b < ZERO) != (rest < ZERO) else rest) if rest != ZERO else zero


@exact
def _floor_of_many(a, b):
    """floor(a / b) as NumPy has it, for any a and b"""
    rest = np.fmod(a, b)
    quotient = (a - rest) / b - (ONE if (rest != ZERO) & ((b < ZERO) != (rest < ZERO)) else ZERO)
    floor = np.floor(quotient)
    nearest = floor + ONE if quotient - floor > HALF else floor
    result = nearest if quotient != ZERO else ZERO * (a / b)
    return a / b if b == ZERO else result


@single_pass
def add(a, b):
    return a + b


@single_pass
def sub(a, b):
    return a - b


@single_pass
def mul(a, b):
    return a * b


@single_pass
def div(a, b):
    return a / b


@formula
def div_backward_b(dout, a, b):
    return -(dout / b) * a / b


@formula
def scaled_difference(share, x, high, low):
    return share * ((x - high) - low)


@formula
def lerp(a, b, w):
    way = b - a
    return a + w * way if abs(w) < HALF else b - (ONE - w) * way


@formula
def lerp_backward_weight(dout, a, b):
    return dout * (b - a)


@single_pass
def neg(x):
    return -x


@single_pass
def absolute(x):
    return abs(x)


@formula
def absolute_backward(dout, x):
    return dout * sign_value(x)


@single_pass
def square(x):
    return x * x


@formula
def cube(x):
    return x * x * x


@formula
def fourth(x):
    return x * x * (x * x)


@formula
def square_backward(dout, x):
    return dout * (TWO * x)


@formula
def cube_backward(dout, x):
    return dout * (THREE * (x * x))


@formula
def fourth_backward(dout, x):
    return dout * (FOUR * (x * x * x))


@formula
def root_backward(dout, x):
    return dout * (HALF / np.sqrt(x))


@unless(_is_rare_power, lambda a, b: a ** b)
def power(a, b):
    return _power(a, b)


@unless(lambda dout, a, b: _is_rare_power(a, b), lambda dout, a, b: dout * (ZERO if b == ZERO else b * a ** (b - ONE)))
def power_backward_a(dout, a, b):
    slope = b * _power(a, b - ONE)  # computed for all: to compute it for some would be a branch
    return dout * (slope if b != ZERO else ZERO)


@unless(lambda dout, a, b: _is_rare_power(a, b),
        lambda dout, a, b: dout * (ZERO if a == ZERO and b >= ZERO else a ** b * np.float32(math.log(a))))
def power_backward_b(dout, a, b):
    slope = _power(a, b) * np.float32(wide_log2_value(abs(a)) * wide(LN_2))
    return dout * (slope if a > ZERO else NAN)


@unless(_are_many, lambda a, b: np.fmod(a, b))
def fmod(a, b):
    return _rest(a, b)


@formula
def fmod_backward_b(dout, a, b):
    return -dout * np.trunc(a / b)


@unless(_are_many, lambda a, b: _with_sign_of(np.fmod(a, b), b))
def remainder(a, b):
    return _with_sign_of(_rest(a, b), b)


@unless(_are_many, _floor_of_many)
def floor_divide(a, b):
    return np.float32(np.floor(wide(a) / wide(b)))


@unless(lambda dout, a, b: _are_many(a, b), lambda dout, a, b: -dout * _floor_of_many(a, b))
def remainder_backward_b(dout, a, b):
    return -dout * np.float32(np.floor(wide(a) / wide(b)))


@single_pass
def sign(x):
    return ONE if x > ZERO else (-ONE if x < ZERO else (ZERO if x == ZERO else x))


@single_pass
def floor(x):
    return np.floor(x)


@single_pass
def ceil(x):
    return np.ceil(x)


@single_pass
def trunc(x):
    return np.trunc(x)


@single_pass
def rint(x):
    return np.rint(x)


@single_pass
def nothing(x):
    return ZERO
