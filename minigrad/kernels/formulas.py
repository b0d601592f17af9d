"""What elementwise kernels compute: a formula of single float32 numbers for each op, and one for its gradient.

An op of `minigrad.ops` says the same in NumPy's notation, for small arrays and other dtypes. Where a formula only adds,
multiplies, divides, compares and takes roots, its bits are NumPy's, so nobody can tell which of them computed a result. So
are those of quotients and what remains of them, as float64 has room for both.
Others, such as e^x and all that is made of it, may differ in the last digit or two: from an array to a larger one, as from
one library to another. NaN goes through, infinities give the limits, and -0 keeps its sign, as in NumPy.
"""
import functools
import math
from collections.abc import Callable

import numpy as np

from .pointwise import (
    BOOL, FLOAT, SINGLE_PASS, Formula, choice, exact, formula, of_booleans, predicate, single_pass, unless, vectorised,
)
from .simd import (
    EXP, HALF, INFINITY, LN_2_HIGH, LN_2_LOW, LOG2_E, NAN, ONE, SMALLEST_NORMAL, TAIL, TAIL_SCALE, TWO, ZERO, bits_of,
    erf as erf_value, float_of_bits, log as log_value, multiply_add, polynomial,
)

THREE, FOUR, SIX = np.float32(3), np.float32(4), np.float32(6)
LN_2, LN_10 = np.float32(math.log(2)), np.float32(math.log(10))
LOWEST, HIGHEST = np.float32(-104), np.float32(89)  # beyond them, e^x is 0 or infinite
SQRT_2, TWO_OVER_SQRT_PI = np.float32(math.sqrt(2)), np.float32(2 / math.sqrt(math.pi))

# ------------------------------------------------------------------------------------------------- building blocks


@exact
def _power_of_two(n):
    return float_of_bits((n + np.int32(127)) << np.int32(23))


@exact
def _split(x):
    """(n, e^r - 1) with x = n log 2 + r, |r| <= log(2) / 2"""
    n = np.floor(multiply_add(x, LOG2_E, HALF))
    r = multiply_add(n, -LN_2_LOW, multiply_add(n, -LN_2_HIGH, x))
    return np.int32(n), multiply_add(polynomial(r, EXP), r * r, r)


@exact
def _exp(x):
    """e^x, also where that is subnormal: times 2^n in two steps, of which only the last one rounds"""
    n, above_one = _split(min(max(x, LOWEST), HIGHEST))
    half = n >> np.int32(1)
    result = (ONE + above_one) * _power_of_two(half) * _power_of_two(n - half)
    return result if x == x else x


@exact
def _expm1(x):
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), in halves, as 2^128 is no float32"""
    n, above_one = _split(min(max(x, np.float32(-30)), HIGHEST))
    scale = _power_of_two(n - np.int32(1))
    result = TWO * multiply_add(scale, above_one, scale - HALF)
    return result if x != ZERO and x == x else x


@exact
def _log1p(x):
    """log(1 + x) of the rounded sum, and what rounding took from it"""
    u = ONE + x
    result = log_value(u) + (x - (u - ONE)) / u
    return x if x == ZERO or x == INFINITY else (-INFINITY if u == ZERO else result)


@exact
def _tanh(x):
    """e / (e + 2) with e = e^(2|x|) - 1"""
    e = _expm1(min(TWO * abs(x), np.float32(40)))
    result = e / (e + TWO)
    return x if x == ZERO or x != x else (result if x > ZERO else -result)


@exact
def _sigmoid(x):
    return ONE / (ONE + _exp(-x))


@exact
def _sign(x):
    return ONE if x > ZERO else (-ONE if x < ZERO else (ZERO if x == ZERO else x))  # NaN stays NaN


@exact
def _erfc(x):
    """Near 0 from erf. For larger x a polynomial times e^(-x^2), where what rounding took from x^2 returns as a factor"""
    z = min(abs(x), np.float32(30))
    square = z * z
    t = ONE / multiply_add(TAIL_SCALE, z * SQRT_2, ONE)
    tail = TWO * polynomial(t, TAIL) * t * (_exp(-square) * (ONE - multiply_add(z, z, -square)))
    result = ONE - erf_value(x) if z < HALF else (tail if x > ZERO else TWO - tail)
    return result if x == x else x


# In float64, of which rounding to float32 leaves the last digit right. Coefficients, highest power first:
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(5, -1, -1))  # sin(r) / r of r^2, |r| < pi / 4
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(6, -1, -1))  # cos(r) of r^2
POWER_OF_TWO = tuple(math.log(2) ** k / math.factorial(k) for k in range(9, -1, -1))  # 2^r, |r| < 1 / 2
LOG_2 = tuple(2 / math.log(2) / (2 * k + 1) for k in range(7, -1, -1))  # log2((1 + s) / (1 - s)) / s of s^2, |s| < 0.172
ARCTAN = (-0.001701170064, 0.01048764925, -0.03035186478, 0.05708955593, -0.08349724968,
          0.109323415, -0.1426001608, 0.1999807528, -0.3333327629, 0.9999999972)  # arctan(t) / t of t^2, t from 0 to 1
WHOLE, TWICE = np.float64(1), np.float64(2)
QUARTER, QUARTER_LOW = np.float64(math.pi / 2), np.float64(6.123233995736766e-17)  # pi / 2, and what it lacks
TURNS = np.float64(2 / math.pi)
MANY = np.float64(1 << 22)  # quotients, up to which they and what remains are exact
FAR = np.float32(1 << 30)  # up to there, an angle's quarter of a turn is known
LOG_2_LEAST, LOG_2_MOST = np.float64(-160), np.float64(130)  # beyond them, 2^z is 0 or infinite
STEEP = np.float32(88)  # beyond it, e^x overflows, and sinh not yet


@exact
def _wide(x):
    return np.float64(x)


@exact
def _is_far(x):
    return not (abs(x) < FAR)


@exact
def _sin_and_cos(x):
    """(sin, cos) of x = n pi / 2 + r, |r| <= pi / 4; rounded to float32 by the caller"""
    n = np.floor(_wide(x) * TURNS + np.float64(0.5))
    r = multiply_add(n, -QUARTER_LOW, multiply_add(n, -QUARTER, _wide(x)))
    sine, cosine = polynomial(r * r, SIN) * r, polynomial(r * r, COS)
    quarter = np.int32(n)
    is_odd, changes = (quarter & np.int32(1)) != 0, (quarter & np.int32(2)) != 0
    first = cosine if is_odd else sine
    second = -sine if is_odd else cosine
    return (-first if changes else first), (-second if changes else second)


# The compiler leaves calls to what is as long as these, and a loop with calls is not vectorised.
inlined = functools.partial(exact, inline="always")


@inlined
def _exp2(z):
    """2^z of a float64: the one rounding is that to float32, also where that is subnormal"""
    n = np.floor(min(max(z, LOG_2_LEAST), LOG_2_MOST) + np.float64(0.5))
    power = polynomial(min(max(z, LOG_2_LEAST), LOG_2_MOST) - n, POWER_OF_TWO)
    exponent = np.int32(n)
    half = exponent >> np.int32(1)
    result = np.float32(power * _wide(_power_of_two(half)) * _wide(_power_of_two(exponent - half)))
    return result if z == z else np.float32(z)


@inlined
def _log2(x):
    """log2 of a normal positive number, as a float64: x = 2^n (1 + m), log(1 + m) = 2 artanh(m / (2 + m))"""
    bits = bits_of(x) - np.int32(0x3F3504F3)  # so that m + 1 lies between sqrt(1/2) and sqrt(2)
    m = _wide(float_of_bits((bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3))) - WHOLE
    s = m / (TWICE + m)
    return np.float64(bits >> np.int32(23)) + polynomial(s * s, LOG_2) * s


@exact
def _is_no_normal(x):
    return not ((x >= SMALLEST_NORMAL) & (x < INFINITY))


@exact
def _is_rare_power(a, b):
    return _is_no_normal(abs(a)) | (not (abs(b) < INFINITY))


@inlined
def _power(a, b):
    """a^b = 2^(b log2 |a|); where a < 0, negative if b is odd, and no number if b has a fraction"""
    size = _exp2(_wide(b) * _log2(abs(a)))
    half = b * HALF
    signed = size if np.floor(half) == half else -size
    return size if a > ZERO else (signed if np.floor(b) == b else NAN)


@exact
def _angle(a, b):
    """The angle of the point (b, a), as a float64: arctan of the smaller of |a| and |b| by the larger"""
    y, x = abs(_wide(a)), abs(_wide(b))
    larger, smaller = max(y, x), min(y, x)
    t = smaller / (larger if larger > np.float64(0) else WHOLE)
    slope = polynomial(t * t, ARCTAN) * t
    first = QUARTER - slope if y > x else slope
    second = TWICE * QUARTER - first if b < ZERO else first
    return second if a > ZERO else -second


@exact
def _is_no_point(a, b):
    """Neither zero, which has a sign, nor infinite, nor NaN: what IEEE 754 has rules for"""
    return not ((abs(a) < INFINITY) & (abs(b) < INFINITY) & (a != ZERO))


@exact
def _are_many(a, b):
    """Is a / b so large, or no number, that what remains of it is not that of rounding in float64?"""
    return not ((abs(_wide(a) / _wide(b)) < MANY) & (abs(b) < INFINITY))


@exact
def _rest(a, b):
    """a - b * trunc(a / b), with the sign of a"""
    y, x = abs(_wide(a)), abs(_wide(b))
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


# ------------------------------------------------------------------------------------------------------ arithmetic


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
def slope_of_divisor(dout, a, b):
    return -(dout / b) * a / b


@single_pass
def neg(x):
    return -x


@single_pass
def absolute(x):
    return abs(x)


@vectorised
def absolute_backward(dout, x):
    return dout * _sign(x)


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
def slope_of_square(dout, x):
    return dout * (TWO * x)


@formula
def slope_of_cube(dout, x):
    return dout * (THREE * (x * x))


@formula
def slope_of_fourth(dout, x):
    return dout * (FOUR * (x * x * x))


@formula
def slope_of_root(dout, x):
    return dout * (HALF / np.sqrt(x))


@unless(_is_rare_power, lambda a, b: a ** b)
def power(a, b):
    return _power(a, b)


@unless(lambda dout, a, b: _is_rare_power(a, b), lambda dout, a, b: dout * (ZERO if b == ZERO else b * a ** (b - ONE)))
def slope_of_base(dout, a, b):
    slope = b * _power(a, b - ONE)  # computed for all: to compute it for some would be a branch
    return dout * (slope if b != ZERO else ZERO)


@unless(lambda dout, a, b: _is_rare_power(a, b),
        lambda dout, a, b: dout * (ZERO if a == ZERO and b >= ZERO else a ** b * np.float32(math.log(a))))
def slope_of_exponent(dout, a, b):
    slope = _power(a, b) * np.float32(_log2(abs(a)) * _wide(LN_2))
    return dout * (slope if a > ZERO else NAN)


@unless(_are_many, lambda a, b: np.fmod(a, b))
def fmod(a, b):
    return _rest(a, b)


@formula
def fmod_of_divisor(dout, a, b):
    return -dout * np.trunc(a / b)


@unless(_are_many, lambda a, b: _with_sign_of(np.fmod(a, b), b))
def remainder(a, b):
    return _with_sign_of(_rest(a, b), b)


@unless(_are_many, _floor_of_many)
def floor_divide(a, b):
    return np.float32(np.floor(_wide(a) / _wide(b)))


@unless(lambda dout, a, b: _are_many(a, b), lambda dout, a, b: -dout * _floor_of_many(a, b))
def remainder_of_divisor(dout, a, b):
    return -dout * np.float32(np.floor(_wide(a) / _wide(b)))


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


# -------------------------------------------------------------------------------------- comparisons, and choosing


@predicate
def equal(a, b):
    return a == b


@predicate
def not_equal(a, b):
    return a != b


@predicate
def less(a, b):
    return a < b


@predicate
def less_equal(a, b):
    return a <= b


@predicate
def greater(a, b):
    return a > b


@predicate
def greater_equal(a, b):
    return a >= b


@of_booleans
def logical_and(a, b):
    return a & b


@of_booleans
def logical_or(a, b):
    return a | b


@of_booleans
def logical_xor(a, b):
    return a ^ b


@of_booleans
def logical_not(a):
    return a ^ np.uint8(1)


bitwise_and, bitwise_or, bitwise_xor, invert = logical_and, logical_or, logical_xor, logical_not  # the same, of booleans


@predicate
def isnan(x):
    return x != x


@predicate
def isinf(x):
    return abs(x) == INFINITY


@predicate
def isfinite(x):
    return abs(x) < INFINITY


@formula
def nan_to_num(x, nan, posinf, neginf):
    return x if abs(x) < INFINITY else (nan if x != x else (posinf if x > ZERO else neginf))


@choice
def where(condition, a, b):
    return a if condition else b


@single_pass
def maximum(a, b):
    return a if a > b or a != a else b


@single_pass
def minimum(a, b):
    return a if a < b or a != a else b


@formula
def larger_takes(dout, a, b):
    return ZERO if a < b else (HALF * dout if a == b else dout)


@formula
def clamp(x, low, high):
    raised = x if x >= low or x != x else low
    return raised if raised <= high or raised != raised else high


@formula
def clamp_backward(dout, x, low, high):
    return dout if x >= low and x <= high else ZERO


# ------------------------------------------------------------------------------------------ elementary functions


@vectorised
def exp(x):
    return _exp(x)


@single_pass
def exp_backward(dout, out):
    return dout * out


@vectorised
def expm1(x):
    return _expm1(x)


@formula
def expm1_backward(dout, x):
    return dout * _exp(x)


@vectorised
def log(x):
    return log_value(x)


@single_pass
def log_backward(dout, x):
    return dout / x


@formula
def log2_backward(dout, x):
    return dout * (ONE / (LN_2 * x))


@formula
def log10_backward(dout, x):
    return dout * (ONE / (LN_10 * x))


@vectorised
def exp2(x):
    return _exp2(_wide(x))


@formula
def exp2_backward(dout, x):
    return dout * (LN_2 * _exp2(_wide(x)))


@unless(_is_no_normal, lambda x: np.log2(x))
def log2(x):
    return np.float32(_log2(x))


@unless(_is_no_normal, lambda x: np.log10(x))
def log10(x):
    return np.float32(_log2(x) * np.float64(math.log10(2)))


@vectorised
def log1p(x):
    return _log1p(x)


@vectorised
def log1p_backward(dout, x):
    return dout / (ONE + x)


@single_pass
def sqrt(x):
    return np.sqrt(x)


@vectorised
def sqrt_backward(dout, out):
    return dout * HALF / out


@vectorised
def rsqrt(x):
    return ONE / np.sqrt(x)


@formula
def rsqrt_backward(dout, out):
    return -HALF * dout * out * out * out


@vectorised
def tanh(x):
    return _tanh(x)


@vectorised
def tanh_backward(dout, out):
    return dout * (ONE - out * out)


@formula
def sigmoid(x):
    return _sigmoid(x)


@formula
def sigmoid_backward(dout, out):
    return dout * out * (ONE - out)


@unless(_is_far, lambda x: math.sin(x))
def sin(x):
    sine, _ = _sin_and_cos(x)
    return np.float32(sine) if x != ZERO else x


@unless(lambda dout, x: _is_far(x), lambda dout, x: dout * np.float32(math.cos(x)))
def sin_backward(dout, x):
    _, cosine = _sin_and_cos(x)
    return dout * np.float32(cosine)


@unless(_is_far, lambda x: math.cos(x))
def cos(x):
    _, cosine = _sin_and_cos(x)
    return np.float32(cosine)


@unless(lambda dout, x: _is_far(x), lambda dout, x: -dout * np.float32(math.sin(x)))
def cos_backward(dout, x):
    sine, _ = _sin_and_cos(x)
    return -dout * np.float32(sine)


@unless(_is_far, lambda x: math.tan(x))
def tan(x):
    sine, cosine = _sin_and_cos(x)
    return np.float32(sine / cosine) if x != ZERO else x


@unless(lambda dout, x: _is_far(x), lambda dout, x: dout * (ONE + np.float32(math.tan(x)) * np.float32(math.tan(x))))
def tan_backward(dout, x):
    sine, cosine = _sin_and_cos(x)
    t = np.float32(sine / cosine)
    return dout * (ONE + t * t)


@exact
def _sinh(x):
    e = _expm1(abs(x))
    half = HALF * (e + e / (e + ONE))
    return x if x == ZERO else (half if x > ZERO else -half)


@exact
def _cosh(x):
    e = _exp(abs(x))
    return HALF * e + HALF / e


@exact
def _is_steep(x):
    return not (abs(x) < STEEP)


@unless(_is_steep, lambda x: math.sinh(x))
def sinh(x):
    return _sinh(x)


@unless(lambda dout, x: _is_steep(x), lambda dout, x: dout * np.float32(math.cosh(x)))
def sinh_backward(dout, x):
    return dout * _cosh(x)


@unless(_is_steep, lambda x: math.cosh(x))
def cosh(x):
    return _cosh(x)


@unless(lambda dout, x: _is_steep(x), lambda dout, x: dout * np.float32(math.sinh(x)))
def cosh_backward(dout, x):
    return dout * _sinh(x)


@unless(_is_no_point, lambda a, b: math.atan2(a, b))
def arctan2(a, b):
    return np.float32(_angle(a, b))


@exact
def _change_of_angle(dout, a, b):
    """dout / (a^2 + b^2), where the squares do not overflow; 0 at the origin"""
    square = _wide(a) * _wide(a) + _wide(b) * _wide(b)
    return _wide(dout) / square if square != np.float64(0) else np.float64(0)


@formula
def arctan2_of_a(dout, a, b):
    return np.float32(_change_of_angle(dout, a, b) * _wide(b))


@formula
def arctan2_of_b(dout, a, b):
    return np.float32(_change_of_angle(dout, a, b) * -_wide(a))


@formula
def logaddexp(a, b):
    larger = a if a > b else b
    return a + LN_2 if a == b else larger + _log1p(_exp(-abs(a - b)))


@formula
def logaddexp_of_a(dout, a, b):
    share = _sigmoid(a - b)
    return dout * (ZERO if (a == -INFINITY) & (b == -INFINITY) else share)


@unless(lambda x: _is_no_point(x, ONE), lambda x: math.atan(x))
def arctan(x):
    return np.float32(_angle(x, ONE))


@formula
def arcsin_backward(dout, x):
    return dout * (ONE / np.sqrt((ONE - x) * (ONE + x)))


@formula
def arccos_backward(dout, x):
    return dout * (-ONE / np.sqrt((ONE - x) * (ONE + x)))


@formula
def arctan_backward(dout, x):
    return dout * (ONE / (ONE + x * x))


@formula
def arcsinh_backward(dout, x):
    return dout * (ONE / np.sqrt(ONE + x * x))


@formula
def arccosh_backward(dout, x):
    return dout * (ONE / (np.sqrt(x - ONE) * np.sqrt(x + ONE)))


@formula
def arctanh_backward(dout, x):
    return dout * (ONE / ((ONE - x) * (ONE + x)))


@formula
def erf(x):
    return erf_value(x)


@formula
def erf_backward(dout, x):
    return dout * TWO_OVER_SQRT_PI * _exp(-x * x)


@formula
def erfc(x):
    return _erfc(x)


@formula
def erfc_backward(dout, x):
    return dout * (-TWO_OVER_SQRT_PI * _exp(-x * x))


# ----------------------------------------------------------------------------------------------------- activations


@single_pass
def relu(x):
    return x if x > ZERO or x != x else ZERO


@formula
def relu_backward(dout, x):
    return dout if x > ZERO else ZERO


@formula
def silu(x):
    return x * _sigmoid(x)


@formula
def silu_backward(dout, x):
    s = _sigmoid(x)
    return dout * (s * (ONE + x * (ONE - s)))


@formula
def leaky_relu(x, slope):
    return x if x > ZERO else x * slope


@formula
def leaky_relu_backward(dout, x, slope):
    return dout if x > ZERO else dout * slope


@formula
def elu(x, alpha, scale, stretch):
    return scale * (x if x > ZERO else alpha * _expm1(min(stretch * x, ZERO)))


@formula
def elu_backward(dout, x, alpha, scale, stretch):
    return dout * scale * (ONE if x > ZERO else alpha * stretch * _exp(min(stretch * x, ZERO)))


@formula
def softplus(x, beta, threshold):
    z = beta * x
    return x if z > threshold else (max(z, ZERO) + _log1p(_exp(-abs(z)))) / beta


@formula
def softplus_backward(dout, x, beta, threshold):
    z = beta * x
    return dout * (ONE if z > threshold else _sigmoid(z))


@formula
def logsigmoid(x):
    return min(x, ZERO) - _log1p(_exp(-abs(x)))


@formula
def logsigmoid_backward(dout, x):
    return dout * _sigmoid(-x)


@formula
def hardtanh(x, low, high):
    return low if x <= low else (high if x >= high else x)


@formula
def hardtanh_backward(dout, x, low, high):
    return ZERO if x <= low or x >= high else dout


@formula
def hardsigmoid(x):
    return ZERO if x <= -THREE else (ONE if x >= THREE else (x + THREE) / SIX)


@formula
def hardsigmoid_backward(dout, x):
    return ZERO if x <= -THREE or x >= THREE else dout / SIX


@formula
def hardswish(x):
    return x * (ZERO if x <= -THREE else (ONE if x >= THREE else (x + THREE) / SIX))


@formula
def hardswish_backward(dout, x):
    return ZERO if x <= -THREE else (dout if x >= THREE else dout * ((TWO * x + THREE) / SIX))


@exact
def _tanh_of_softplus(x):
    """((1 + e)^2 - 1) / ((1 + e)^2 + 1) with e = e^x"""
    e = _exp(min(x, np.float32(20)))
    n = e * (e + TWO)
    return n / (n + TWO) if x == x else x


@formula
def mish(x):
    return x * _tanh_of_softplus(x)


@formula
def mish_backward(dout, x):
    t = _tanh_of_softplus(x)
    return dout * (t + x * (ONE - t * t) * _sigmoid(x))


@formula
def softsign(x):
    return x / (ONE + abs(x))


@formula
def softsign_backward(dout, x):
    share = ONE + abs(x)
    return dout / (share * share)


@formula
def tanhshrink(x):
    return x - _tanh(x)


@formula
def tanhshrink_backward(dout, x):
    t = _tanh(x)
    return dout * (t * t)


# ---------------------------------------------------------------------------------------------------------- losses


@formula
def huber(x, delta):
    distance = abs(x)
    return HALF * x * x if distance <= delta else delta * (distance - HALF * delta)


@formula
def huber_backward(dout, x, delta):
    slope = -delta if x < -delta else (delta if x > delta else x)
    return dout * slope


# ---------------------------------------------------------------------------------------------------------- dtypes


DOUBLE, LONG = np.dtype(np.float64), np.dtype(np.int64)


def cast(takes: np.dtype = FLOAT, dtype: np.dtype = FLOAT) -> Callable:
    """What decorates the way from one dtype to another."""
    return functools.partial(Formula, takes=(takes,), dtype=dtype, least=SINGLE_PASS)


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
