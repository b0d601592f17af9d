"""Formulas of exponentials, logarithms, roots, hyperbolic functions and the error function."""
import math

import numpy as np

from ..pointwise import exact, formula, single_pass, unless, vectorised
from ..simd import (
    HALF, INFINITY, LOG2_E, ONE, TAIL, TAIL_SCALE, TWO, ZERO, erf as erf_value, log as log_value, multiply_add, polynomial,
)
from ..thresholds import VECTORISED_IN_512
from .values import (
    LN_2, exp2_value, exp_value, expm1_value, is_no_normal, log1p_value, log_value_of_base, sigmoid_value, tanh_value,
)

LN_10 = np.float32(math.log(10))
LOG2_E_LOW = np.float32(math.log2(math.e) - float(LOG2_E))
LOG10_E = np.float32(math.log10(math.e))
LOG10_E_LOW = np.float32(math.log10(math.e) - float(LOG10_E))
LOG10_2 = np.float32(1233 / 4096)  # so few bits that its product with an exponent is exact
LOG10_2_LOW = np.float32(math.log10(2) - float(LOG10_2))
SQRT_2, TWO_OVER_SQRT_PI = np.float32(math.sqrt(2)), np.float32(2 / math.sqrt(math.pi))
STEEP = np.float32(88)  # beyond it, e^x overflows, and sinh not yet


@exact
def _erfc(x):
    """Near 0 from erf. For larger x a polynomial times e^(-x^2), where what rounding took from x^2 returns as a factor"""
    z = min(abs(x), np.float32(30))
    square = z * z
    t = ONE / multiply_add(TAIL_SCALE, z * SQRT_2, ONE)
    tail = TWO * polynomial(t, TAIL) * t * (exp_value(-square) * (ONE - multiply_add(z, z, -square)))
    result = ONE - erf_value(x) if z < HALF else (tail if x > ZERO else TWO - tail)
    return result if x == x else x


@vectorised
def exp(x):
    return exp_value(x)


@single_pass
def exp_backward(dout, out):
    return dout * out


@vectorised
def expm1(x):
    return expm1_value(x)


@formula
def expm1_backward(dout, x):
    return dout * exp_value(x)


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
    return exp2_value(x)


@formula
def exp2_backward(dout, x):
    return dout * (LN_2 * exp2_value(x))


@unless(is_no_normal, lambda x: np.log2(x), least=VECTORISED_IN_512)
def log2(x):
    return log_value_of_base(x, ONE, ZERO, LOG2_E, LOG2_E_LOW)


@unless(is_no_normal, lambda x: np.log10(x), least=VECTORISED_IN_512)
def log10(x):
    return log_value_of_base(x, LOG10_2, LOG10_2_LOW, LOG10_E, LOG10_E_LOW)


@vectorised
def log1p(x):
    return log1p_value(x)


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
    return tanh_value(x)


@formula
def tanh_backward(dout, out):
    return dout * (ONE - out * out)


@formula
def sigmoid(x):
    return sigmoid_value(x)


@formula
def sigmoid_backward(dout, out):
    return dout * out * (ONE - out)


@exact
def _sinh(x):
    e = expm1_value(abs(x))
    half = HALF * (e + e / (e + ONE))
    return x if x == ZERO else (half if x > ZERO else -half)


@exact
def _cosh(x):
    e = exp_value(abs(x))
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


@formula
def logaddexp(a, b):
    larger = a if a > b else b
    return a + LN_2 if a == b else larger + log1p_value(exp_value(-abs(a - b)))


@formula
def logaddexp_backward_a(dout, a, b):
    share = sigmoid_value(a - b)
    return dout * (ZERO if (a == -INFINITY) & (b == -INFINITY) else share)


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
    return dout * TWO_OVER_SQRT_PI * exp_value(-x * x)


@formula
def erfc(x):
    return _erfc(x)


@formula
def erfc_backward(dout, x):
    return dout * (-TWO_OVER_SQRT_PI * exp_value(-x * x))
