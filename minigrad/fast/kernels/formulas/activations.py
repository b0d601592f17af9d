"""Formulas of activations."""
import numpy as np

from ..pointwise import exact, formula, vectorised
from ..simd import ONE, TWO, ZERO
from .values import exp_value, expm1_value, log1p_value, sigmoid_value, tanh_value

THREE, SIX = np.float32(3), np.float32(6)


@vectorised
def relu(x):
    return x if x > ZERO or x != x else ZERO


@formula
def relu_backward(dout, x):
    return dout if x > ZERO else ZERO


@formula
def silu(x):
    return x * sigmoid_value(x)


@formula
def silu_backward(dout, x):
    s = sigmoid_value(x)
    return dout * (s * (ONE + x * (ONE - s)))


@formula
def leaky_relu(x, slope):
    return x if x > ZERO else x * slope


@formula
def leaky_relu_backward(dout, x, slope):
    return dout if x > ZERO else dout * slope


@formula
def elu(x, alpha, scale, stretch):
    return scale * (x if x > ZERO else alpha * expm1_value(min(stretch * x, ZERO)))


@formula
def elu_backward(dout, x, alpha, scale, stretch):
    return dout * scale * (ONE if x > ZERO else alpha * stretch * exp_value(min(stretch * x, ZERO)))


@formula
def softplus(x, beta, threshold):
    z = beta * x
    return x if z > threshold else (max(z, ZERO) + log1p_value(exp_value(-abs(z)))) / beta


@formula
def softplus_backward(dout, x, beta, threshold):
    z = beta * x
    return dout * (ONE if z > threshold else sigmoid_value(z))


@formula
def logsigmoid(x):
    return min(x, ZERO) - log1p_value(exp_value(-abs(x)))


@formula
def logsigmoid_backward(dout, x):
    return dout * sigmoid_value(-x)


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
    e = exp_value(min(x, np.float32(20)))
    n = e * (e + TWO)
    return n / (n + TWO) if x == x else x


@formula
def mish(x):
    return x * _tanh_of_softplus(x)


@formula
def mish_backward(dout, x):
    t = _tanh_of_softplus(x)
    return dout * (t + x * (ONE - t * t) * sigmoid_value(x))


@formula
def softsign(x):
    return x / (ONE + abs(x))


@formula
def softsign_backward(dout, x):
    share = ONE + abs(x)
    return dout / (share * share)


@formula
def tanhshrink(x):
    return x - tanh_value(x)


@formula
def tanhshrink_backward(dout, x):
    t = tanh_value(x)
    return dout * (t * t)
