"""Activations of a training step, and addition. All others are in elementwise.py."""
import math

import numpy as np

from ..pool import empty_like
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, add_blocks, add_to, elementwise_kernel, fill, number_of_blocks
from .simd import constant_like, exp, normal, or_zero, pointer

CLOSE = 256  # elements
SQRT_2_OVER_PI = 0.7978845608028654
CUBIC = 0.044715
FAR = np.float32(40)  # beyond +-40, P is 0 or 1 to the last bit, even in float64


def empty_apart(like: np.ndarray) -> np.ndarray:
    """np.empty_like(like) for a kernel's output; a small one gets room on both sides.

    LLVM's quick check cannot tell whether short arrays that lie close together overlap, and then takes a loop that is not
    vectorised, whose last bits may differ. The same input should give the same bits.
    """
    if like.size > CLOSE:
        return empty_like(like)
    return np.empty(like.size + 2 * CLOSE, like.dtype)[CLOSE : CLOSE + like.size].reshape(like.shape)


@jit
def near(x):
    """x, clipped to +-FAR, as inf * 0 would give NaN instead of the limit. NaN stays NaN."""
    return -FAR if x < -FAR else (FAR if x > FAR else x)


@jit
def normal_gate(v):
    """(P, d(v P)/dv) for P = P(Z <= v): one exponential gives both P and its density."""
    p, density = normal(v)
    return p, p + v * density


@jit
def tanh_gate(v):
    """(P, d(v P)/dv) for P = (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)), u = sqrt(2/pi) (v + 0.044715 v^3)."""
    number = type(v)
    one, scale, cubic = number(1), number(2 * SQRT_2_OVER_PI), number(CUBIC)
    p = one / (one + exp(-scale * (v + cubic * v * v * v)))
    return p, p + v * (p * (one - p)) * scale * (one + number(3) * cubic * v * v)


@elementwise_kernel
def add_forward(count, a, b, out):
    """a, b, out (N,): out = a + b, on all threads"""
    for i in range(count):
        out[i] = a[i] + b[i]


@elementwise_kernel
def gelu_forward(count, x, out, use_tanh):
    """x, out (N,): out = x * P, P = P(Z <= x), or (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3)"""
    if use_tanh:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, _ = tanh_gate(v)
            out[i] = or_zero(p * (x[i] if x[i] > v else v))
    else:
        for i in range(count):
            v = constant_like(x, -FAR if x[i] < -FAR else x[i])  # at -inf, P * x would be 0 * inf
            p, _ = normal_gate(v)
            out[i] = or_zero(p * v)


@elementwise_kernel
def gelu_backward(count, dout, x, dx, use_tanh):
    """dout, x, dx (N,): dx = dout * (P + x * dP/dx); one exponential gives both P and its density"""
    if use_tanh:
        for i in range(count):
            _, slope = tanh_gate(constant_like(x, near(x[i])))
            dx[i] = or_zero(dout[i] * slope)
    else:
        for i in range(count):
            _, slope = normal_gate(constant_like(x, near(x[i])))
            dx[i] = or_zero(dout[i] * slope)


@elementwise_kernel
def swiglu_forward(count, a, b, out):
    """a, b, out (N,): out = a * s * b, s = 1 / (1 + e^(-a)); where s is 0, a * b may overflow"""
    zero, one = constant_like(a, 0), constant_like(a, 1)
    for i in range(count):
        e = exp(-a[i])
        out[i] = a[i] * (one / (one + e)) * b[i] if e != math.inf else zero


@elementwise_kernel
def swiglu_backward(count, dout, a, b, da, db):
    """dout, a, b, da, db (N,): da = dout * b * s * (1 + a * (1 - s)), db = dout * a * s; one exponential gives s"""
    one = constant_like(a, 1)
    for i in range(count):
        s = one / (one + exp(-a[i]))
        da[i] = dout[i] * b[i] * (s + a[i] * s * (one - s))
        db[i] = dout[i] * a[i] * s


@jit
def gelu_backward_and_forward(x, dx, out, count, use_tanh):
    """dx[0:count] *= gelu'(x), out[0:count] = gelu(x), on pointers"""
    if use_tanh:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, slope = tanh_gate(v)
            dx[i] = or_zero(dx[i] * slope)
            out[i] = or_zero(p * (x[i] if x[i] > v else v))
    else:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, slope = normal_gate(v)
            dx[i] = or_zero(dx[i] * slope)
            out[i] = or_zero(p * (x[i] if x[i] > v else v))


@jit
def gelu_rows_backward_block(block, x, dx, out, partial, use_tanh):
    width = x.shape[1]
    fill(pointer(partial, block * width), 0, width)
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        own = pointer(dx, row * width)
        gelu_backward_and_forward(pointer(x, row * width), own, pointer(out, row * width), width, use_tanh)
        add_to(pointer(partial, block * width), own, width)


@kernel(parallel=True)
def gelu_rows_backward(x, dx, out, total, use_tanh):
    """x, dx, out (N, C), total (C,): dx *= gelu'(x), as in `gelu_backward`, total = sum of dx over rows; out = gelu(x),
    which forward then need not keep."""
    blocks = number_of_blocks(x.shape[0], ROWS)
    partial = np.empty((blocks, x.shape[1]), x.dtype)
    parallel_for(gelu_rows_backward_block, blocks, x.size, (x, dx, out, partial, use_tanh))
    add_blocks(partial, total)
