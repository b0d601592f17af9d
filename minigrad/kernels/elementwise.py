"""Elementwise kernels where NumPy has no function (erf) or needs many passes (gelu)."""
from numba import prange

from .jit import kernel
from .rows import ELEMENTS, number_of_blocks
from .simd import erf, normal, tanh

SQRT_2_OVER_PI = 0.7978845608028654
CUBIC = 0.044715


@kernel(parallel=True)
def erf_forward(x, out):
    """x, out (N,): out = erf x"""
    for block in prange(number_of_blocks(x.size, ELEMENTS)):
        for i in range(block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)):
            out[i] = erf(x[i])


@kernel(parallel=True)
def gelu_forward(x, out, use_tanh):
    """x, out (N,): out = x * P, P = P(Z <= x), or (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3)"""
    number = x.dtype.type
    half, one, scale, cubic = number(0.5), number(1), number(SQRT_2_OVER_PI), number(CUBIC)
    for block in prange(number_of_blocks(x.size, ELEMENTS)):
        start, stop = block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)
        if use_tanh:
            for i in range(start, stop):
                v = x[i]
                out[i] = half * v * (one + tanh(scale * (v + cubic * v * v * v)))
        else:
            for i in range(start, stop):
                v = x[i]
                cumulative, _ = normal(v)
                out[i] = v * cumulative if v > -14 else v * 0  # -inf * 0 would be NaN; below -14 P is 0 in any case


@kernel(parallel=True)
def gelu_backward(dout, x, dx, use_tanh):
    """dout, x, dx (N,): dx = dout * (P + x * dP/dx); one exponential gives both P and its density.

    Far out, where tanh is 1 to the last bit, x * dP/dx is 0 in the limit but inf * 0 as computed: there |u| is clamped.
    """
    number = x.dtype.type
    half, one, scale, cubic = number(0.5), number(1), number(SQRT_2_OVER_PI), number(CUBIC)
    far = number(30)
    for block in prange(number_of_blocks(x.size, ELEMENTS)):
        start, stop = block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)
        if use_tanh:
            for i in range(start, stop):
                v = min(max(x[i], -far), far)
                t = tanh(scale * (v + cubic * v * v * v))
                slope = scale * (one + number(3) * cubic * v * v)
                dx[i] = dout[i] * (half * (one + t) + half * v * (one - t * t) * slope)
        else:
            for i in range(start, stop):
                v = min(max(x[i], -far), far)
                cumulative, density = normal(v)
                dx[i] = dout[i] * (cumulative + v * density)
