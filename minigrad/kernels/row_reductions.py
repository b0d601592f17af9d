"""Reductions of rows to a number each, and their gradients; sums are in reduce.py."""
import math

from .rows import RUN, row_kernel
from .simd import constant_like, exp, row_max, shift


@row_kernel
def logsumexp_forward(row, size, x, out):
    """x (N, C), out (N,): out = max + log(sum of e^(x - max)); -inf for a row of nothing but -inf"""
    largest = row_max(shift(x, row * size), size)
    start = constant_like(x, 0) if abs(largest) == math.inf else largest
    total, x = 0.0, shift(x, row * size)
    for first in range(0, size, RUN):
        part = constant_like(x, 0)
        for j in range(first, min(size, first + RUN)):
            part += exp(x[j] - start)
        total += part
    out[row] = constant_like(x, start + math.log(total))


@row_kernel
def logsumexp_backward(row, size, x, out, dout, dx):
    """x, dx (N, C), out, dout (N,): dx = dout * e^(x - out), where out is -inf as if it were 0"""
    slope, shift_ = dout[row], constant_like(x, 0) if out[row] == -math.inf else out[row]
    x, dx = shift(x, row * size), shift(dx, row * size)
    for j in range(size):
        dx[j] = slope * exp(x[j] - shift_)


@row_kernel
def prod_backward(row, size, x, dout, dx):
    """x, dx (N, C), dout (N,): dx_j = dout * the product of what stands before x_j * the product of what stands after"""
    before, after = dout[row], constant_like(x, 1)
    x, dx = shift(x, row * size), shift(dx, row * size)
    for j in range(size):
        dx[j] = before
        before *= x[j]
    for j in range(size - 1, -1, -1):
        dx[j] *= after
        after *= x[j]
