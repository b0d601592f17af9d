"""Elementwise kernels where NumPy has no function (erf), needs many passes (gelu), or branches (where).

The loops over elements stand in functions of their own, on slices: there LLVM knows that they begin at 0.
"""
import math

import numpy as np

from .buffers import empty_like
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, add_blocks, add_to, number_of_blocks
from .simd import constant_like, erf, exp, normal, pointer

ELEMENTS = 8192  # elements per block
CLOSE = 256  # elements
SQRT_2_OVER_PI = 0.7978845608028654
CUBIC = 0.044715
FAR = np.float32(40)  # beyond +-40, P is 0 or 1 to the last bit, also in float64


def empty_apart(like: np.ndarray) -> np.ndarray:
    """An array for a kernel's output, as np.empty_like(like), but if it is small, with room on both sides.

    Whether two arrays overlap is more than LLVM's quick check can tell of short arrays that lie close together; it then
    takes a loop that is not vectorised, whose last bits may be others. The same input should give the same bits.
    """
    if like.size > CLOSE:
        return empty_like(like)
    return np.empty(like.size + 2 * CLOSE, like.dtype)[CLOSE : CLOSE + like.size].reshape(like.shape)


@jit
def near(x):
    """x, but no further out than +-FAR, where inf * 0 would give NaN instead of the limit. NaN stays NaN."""
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


@jit
def select_loop(condition, a, b, out):
    for i in range(condition.size):
        out[i] = a[i] if condition[i] else b[i]


@jit
def select_block(block, condition, a, b, out):
    start, stop = block * ELEMENTS, min(condition.size, (block + 1) * ELEMENTS)
    select_loop(condition[start:stop], a[start:stop], b[start:stop], out[start:stop])


@kernel(parallel=True)
def select_forward(condition, a, b, out):
    """condition (bool), a, b, out (N,): out = a where condition holds, else b. It blends, where np.where branches."""
    parallel_for(select_block, number_of_blocks(condition.size, ELEMENTS), condition.size, (condition, a, b, out))


@jit
def erf_loop(x, out):
    for i in range(x.size):
        out[i] = erf(x[i])


@jit
def erf_block(block, x, out):
    start, stop = block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)
    erf_loop(x[start:stop], out[start:stop])


@kernel(parallel=True)
def erf_forward(x, out):
    """x, out (N,): out = erf x"""
    parallel_for(erf_block, number_of_blocks(x.size, ELEMENTS), x.size, (x, out))


@jit
def gelu_values(x, out, count, use_tanh):
    """out[0:count] = gelu(x[0:count]), on pointers; see `gelu_forward`"""
    if use_tanh:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, _ = tanh_gate(v)
            out[i] = p * (x[i] if x[i] > v else v)
    else:
        for i in range(count):
            v = constant_like(x, -FAR if x[i] < -FAR else x[i])  # at -inf, P * x would be 0 * inf
            p, _ = normal_gate(v)
            out[i] = p * v


ACTIVATIONS = "gelu", "gelu_tanh", "relu", "tanh", "sigmoid", "silu"  # that `activate` computes, by their names in nn
GELU, GELU_TANH, RELU, TANH, SIGMOID, SILU = range(6)


@jit
def activate(which, x, out, count):
    """out[0:count] = the activation ACTIVATIONS[which] of x[0:count], on pointers"""
    zero, one = constant_like(x, 0), constant_like(x, 1)
    if which == GELU or which == GELU_TANH:
        gelu_values(x, out, count, which == GELU_TANH)
    elif which == RELU:
        for i in range(count):
            out[i] = zero if x[i] < zero else x[i]  # this way round, NaN stays NaN
    elif which == TANH:
        for i in range(count):
            out[i] = math.tanh(x[i])
    elif which == SIGMOID:
        for i in range(count):
            out[i] = one / (one + exp(-x[i]))
    else:
        for i in range(count):
            out[i] = x[i] * (one / (one + exp(-x[i])))


@jit
def gelu_forward_block(block, x, out, use_tanh):
    start, stop = block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)
    gelu_values(pointer(x, start), pointer(out, start), stop - start, use_tanh)


@kernel(parallel=True)
def gelu_forward(x, out, use_tanh):
    """x, out (N,): out = x * P, P = P(Z <= x), or (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3)"""
    parallel_for(gelu_forward_block, number_of_blocks(x.size, ELEMENTS), x.size, (x, out, use_tanh))


@jit
def gelu_backward_loop(dout, x, dx, count, use_tanh):
    """dx[0:count] = dout * gelu'(x), on pointers; see `gelu_backward`"""
    if use_tanh:
        for i in range(count):
            _, slope = tanh_gate(constant_like(x, near(x[i])))
            dx[i] = dout[i] * slope
    else:
        for i in range(count):
            _, slope = normal_gate(constant_like(x, near(x[i])))
            dx[i] = dout[i] * slope


@jit
def gelu_backward_block(block, dout, x, dx, use_tanh):
    start, stop = block * ELEMENTS, min(x.size, (block + 1) * ELEMENTS)
    gelu_backward_loop(pointer(dout, start), pointer(x, start), pointer(dx, start), stop - start, use_tanh)


@kernel(parallel=True)
def gelu_backward(dout, x, dx, use_tanh):
    """dout, x, dx (N,): dx = dout * (P + x * dP/dx); one exponential gives both P and its density"""
    parallel_for(gelu_backward_block, number_of_blocks(x.size, ELEMENTS), x.size, (dout, x, dx, use_tanh))


@jit
def gelu_backward_and_forward(x, dx, out, count, use_tanh):
    """dx[0:count] *= gelu'(x), out[0:count] = gelu(x), on pointers"""
    if use_tanh:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, slope = tanh_gate(v)
            dx[i] *= slope
            out[i] = p * (x[i] if x[i] > v else v)
    else:
        for i in range(count):
            v = constant_like(x, near(x[i]))
            p, slope = normal_gate(v)
            dx[i] *= slope
            out[i] = p * (x[i] if x[i] > v else v)


@jit
def gelu_rows_backward_block(block, x, dx, out, partial, use_tanh):
    width = x.shape[1]
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        own = pointer(dx, row * width)
        gelu_backward_and_forward(pointer(x, row * width), own, pointer(out, row * width), width, use_tanh)
        add_to(pointer(partial, block * width), own, width)


@kernel(parallel=True)
def gelu_rows_backward(x, dx, out, total, use_tanh):
    """x, dx, out (N, C), total (C,): dx *= gelu'(x), as in `gelu_backward`, total = sum of dx over rows; out = gelu(x).

    So nobody has to keep gelu(x) from forward.
    """
    blocks = number_of_blocks(x.shape[0], ROWS)
    partial = np.zeros((blocks, x.shape[1]), x.dtype)
    parallel_for(gelu_rows_backward_block, blocks, x.size, (x, dx, out, partial, use_tanh))
    add_blocks(partial, total)


@jit
def add_block(block, a, b, out):
    start, stop = block * ELEMENTS, min(a.size, (block + 1) * ELEMENTS)
    a, b, out = pointer(a, start), pointer(b, start), pointer(out, start)
    for i in range(stop - start):
        out[i] = a[i] + b[i]


@kernel(parallel=True)
def add_forward(a, b, out):
    """a, b, out (N,): out = a + b, on all threads"""
    parallel_for(add_block, number_of_blocks(a.size, ELEMENTS), a.size, (a, b, out))
