"""Reductions of each row to a number, and their gradients; sums are in reduce.py."""
import math

import numpy as np

from .jit import jit
from .rows import RUN, rest_of_sum, row_kernel
from .simd import constant_like, exp, row_max, shift


@row_kernel
def logsumexp_forward(row, size, x, out, rest):
    """x (N, C), out, rest (N,): out + rest = max + log(sum of e^(x - max)), rest is float64; -inf for nothing but -inf"""
    largest = row_max(shift(x, row * size), size)
    start = constant_like(x, 0) if abs(largest) == math.inf else largest
    total, x = 0.0, shift(x, row * size)
    for first in range(0, size, RUN):
        part = constant_like(x, 0)
        for j in range(first, min(size, first + RUN)):
            part += exp(x[j] - start)
        total += part
    out[row] = constant_like(x, start + math.log(total))
    rest[row] = rest_of_sum(np.float64(start), math.log(total), np.float64(out[row])) if total > 0 else 0.0


@row_kernel
def logsumexp_backward(row, size, x, out, dout, dx):
    """x, dx (N, C), out, dout (N,): dx = dout * e^(x - out), with 0 for an out of -inf; `dout` times e^-rest is right"""
    slope, shift_ = dout[row], constant_like(x, 0) if out[row] == -math.inf else out[row]
    x, dx = shift(x, row * size), shift(dx, row * size)
    for j in range(size):
        dx[j] = slope * exp(x[j] - shift_)


@jit(fastmath=False)
def _product_in_order(x, start, end):
    """x[start] * x[start + 1] * ..., in float64"""
    total = 1.0
    for j in range(start, end):
        total *= np.float64(x[j])
    return total


@jit(fastmath=False)
def _product_of_runs(x, size):
    """The same for x[0:size], in eight interleaved runs, since each product waits for the one before.

    Each run is taken in order. Products within a run are ratios of products from the first element on: if those stay in the
    range of float32, these stay in that of float64. Lanes of vectors would not: for 1e30, 1e-30, 1e30, ... one becomes inf.
    """
    run = size // 8
    a = b = c = d = e = f = g = h = 1.0
    for j in range(run):
        a *= np.float64(x[j])
        b *= np.float64(x[run + j])
        c *= np.float64(x[2 * run + j])
        d *= np.float64(x[3 * run + j])
        e *= np.float64(x[4 * run + j])
        f *= np.float64(x[5 * run + j])
        g *= np.float64(x[6 * run + j])
        h *= np.float64(x[7 * run + j])
    return ((a * b) * (c * d)) * ((e * f) * (g * h)) * _product_in_order(x, 8 * run, size)


@row_kernel
def prod_forward(row, size, x, out):
    """x (N, C), out (N,), float32: out = x_0 * x_1 * ..., in float64, rounded once"""
    x = shift(x, row * size)
    total = _product_of_runs(x, size)
    if math.isnan(total):  # perhaps from a zero in one run and an inf that only another run has
        total = _product_in_order(x, 0, size)
    out[row] = constant_like(x, total)


@row_kernel
def prod_backward(row, size, x, dout, dx):
    """x, dx (N, C), dout (N,): dx_j = dout * product of all elements before x_j * product of all after"""
    before, after = dout[row], constant_like(x, 1)
    x, dx = shift(x, row * size), shift(dx, row * size)
    for j in range(size):
        dx[j] = before
        before *= x[j]
    for j in range(size - 1, -1, -1):
        dx[j] *= after
        after *= x[j]
