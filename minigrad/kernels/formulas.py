"""What elementwise kernels compute: a formula of single float32 numbers for each op, and one for its gradient.

An op of `minigrad.ops` says the same in NumPy's notation, for small arrays and other dtypes. Where a formula only adds,
multiplies, divides, compares and takes roots, its bits are NumPy's, so nobody can tell which of them computed a result.
Others, such as e^x and all that is made of it, may differ in the last digit or two: from an array to a larger one, as from
one library to another. NaN goes through, infinities give the limits, and -0 keeps its sign, as in NumPy.
"""
import math

import numpy as np

from .pointwise import choice, exact, formula, predicate, single_pass, vectorised
from .simd import (
    EXP, HALF, INFINITY, LN_2_HIGH, LN_2_LOW, LOG2_E, ONE, TAIL, TAIL_SCALE, TWO, ZERO, erf as erf_value,
    float_of_bits, log as log_value, multiply_add, polynomial,
)

THREE, SIX = np.float32(3), np.float32(6)
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
