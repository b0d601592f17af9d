"""Logarithms, hyperbolic functions, the error function, and activations in a form of their own."""
import math

import numpy as np

from ..jit import exact
from ..simd import (
    HALF, LOG2_E, ONE, SQRT_2, TAIL, TAIL_SCALE, TWO, ZERO, erf as erf_value, multiply_add, polynomial,
)
from .values import (
    LN_2, exp_value, expm1_value, is_no_normal, log1p_value, log_value_of_base, sigmoid_value, unless,
)

LOG2_E_LOW = np.float32(math.log2(math.e) - float(LOG2_E))
LOG10_E = np.float32(math.log10(math.e))
LOG10_E_LOW = np.float32(math.log10(math.e) - float(LOG10_E))
LOG10_2 = np.float32(1233 / 4096)  # few enough bits for an exact product with an exponent
LOG10_2_LOW = np.float32(math.log10(2) - float(LOG10_2))
STEEP = np.float32(88)  # beyond it, e^x overflows before sinh does


@exact
def erf(x):
    return erf_value(x)


@exact
def erfc(x):
    """From erf near 0. For larger x a polynomial times e^(-x^2), with a factor for the rounding error of x^2"""
    z = min(abs(x), np.float32(30))
    square = z * z
    t = ONE / multiply_add(TAIL_SCALE, z * SQRT_2, ONE)
    tail = TWO * polynomial(t, TAIL) * t * (exp_value(-square) * (ONE - multiply_add(z, z, -square)))
    result = ONE - erf_value(x) if z < HALF else (tail if x > ZERO else TWO - tail)
    return result if x == x else x


@unless(is_no_normal, lambda x: np.log2(x))
def log2(x):
    return log_value_of_base(x, ONE, ZERO, LOG2_E, LOG2_E_LOW)


@unless(is_no_normal, lambda x: np.log10(x))
def log10(x):
    return log_value_of_base(x, LOG10_2, LOG10_2_LOW, LOG10_E, LOG10_E_LOW)


@exact
def _is_steep(x):
    return not (abs(x) < STEEP)


@unless(_is_steep, lambda x: np.float32(math.sinh(x)))
def sinh(x):
    e = expm1_value(abs(x))
    half = HALF * (e + e / (e + ONE))
    return x if x == ZERO else (half if x > ZERO else -half)


@unless(_is_steep, lambda x: np.float32(math.cosh(x)))
def cosh(x):
    e = exp_value(abs(x))
    return HALF * e + HALF / e


@exact
def logaddexp(a, b):
    larger = a if a > b else b
    return a + LN_2 if a == b else larger + log1p_value(exp_value(-abs(a - b)))


@exact
def _tanh_of_softplus(x):
    """((1 + e)^2 - 1) / ((1 + e)^2 + 1) with e = e^x"""
    e = exp_value(min(x, np.float32(20)))
    n = e * (e + TWO)
    return n / (n + TWO) if x == x else x


@exact
def mish(x):
    return x * _tanh_of_softplus(x)


@exact
def mish_backward(dout, x):
    t = _tanh_of_softplus(x)
    return dout * (t + x * (ONE - t * t) * sigmoid_value(x))
