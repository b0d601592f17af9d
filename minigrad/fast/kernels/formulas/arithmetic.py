"""Powers, quotients and remainders."""
import numpy as np

from ..jit import exact
from ..simd import HALF, INFINITY, NAN, ONE, ZERO
from .values import is_no_normal, unless, wide, wide_exp2_value, wide_log2_value

MANY = np.float64(1 << 22)  # quotients and remainders up to here are exact


@exact
def _is_rare_power(a, b):
    return is_no_normal(abs(a)) | (not (abs(b) < INFINITY))


@exact
def _are_many(a, b):
    """Is a / b not finite, or too large for a remainder that is exact in float64?"""
    return not ((abs(wide(a) / wide(b)) < MANY) & (abs(b) < INFINITY))


@exact
def _rest(a, b):
    """a - b * trunc(a / b), with the sign of a"""
    y, x = abs(wide(a)), abs(wide(b))
    rest = np.float32(y - np.floor(y / x) * x)
    return rest if a > ZERO else (-rest if a < ZERO else a)


@exact
def _with_sign_of(rest, b):
    """The remainder of a truncated quotient -> that of a floored one, which has the sign of b"""
    zero = ZERO if b > ZERO else -ZERO
    return (rest + b if (b < ZERO) != (rest < ZERO) else rest) if rest != ZERO else zero


@exact
def _floor_of_many(a, b):
    """floor(a / b) as in NumPy, for any a and b"""
    rest = np.fmod(a, b)
    quotient = (a - rest) / b - (ONE if (rest != ZERO) & ((b < ZERO) != (rest < ZERO)) else ZERO)
    floor = np.floor(quotient)
    nearest = floor + ONE if quotient - floor > HALF else floor
    result = nearest if quotient != ZERO else ZERO * (a / b)
    return a / b if b == ZERO else result


@unless(_is_rare_power, lambda a, b: a ** b)
def power(a, b):
    """a^b = 2^(b log2 |a|); for a < 0, negative if b is odd, and NaN if b is not whole"""
    size = wide_exp2_value(wide(b) * wide_log2_value(abs(a)))
    half = b * HALF
    signed = size if np.floor(half) == half else -size
    return size if a > ZERO else (signed if np.floor(b) == b else NAN)


@unless(_are_many, lambda a, b: np.fmod(a, b))
def fmod(a, b):
    return _rest(a, b)


@unless(_are_many, lambda a, b: _with_sign_of(np.fmod(a, b), b))
def remainder(a, b):
    return _with_sign_of(_rest(a, b), b)


@unless(_are_many, lambda a, b: _floor_of_many(a, b))
def floor_divide(a, b):
    return np.float32(np.floor(wide(a) / wide(b)))
