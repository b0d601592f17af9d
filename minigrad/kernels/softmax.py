"""Softmax and log-softmax over rows. Each takes the row's maximum out first, so that no exponential overflows."""
import math

from .jit import jit
from .rows import RUN, row_dot, row_kernel, row_sum
from .simd import constant_like, exp, exp_nonpositive, log, row_max, shift


@jit
def exponentials(row, out, size):
    """out_j = e^(row_j - max row). Returns max row and the sum of out. NaN anywhere makes the sum NaN."""
    largest = row_max(row, size)
    for j in range(size):
        out[j] = exp_nonpositive(row[j] - largest)
    return largest, row_sum(out, size)


@jit(forceinline=True)  # a call takes 5 ns, a tenth of a short row
def softmax_row(x, out, size):
    _, total = exponentials(x, out, size)
    for j in range(size):
        out[j] /= total


@row_kernel
def softmax_forward(row, size, x, out):
    """x, out (N, C), C > 0: 1. e^(x - max)  2. divide by its sum"""
    softmax_row(shift(x, row * size), shift(out, row * size), size)


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
def softmax_backward(row, size, dout, out, dx):
    """dout, out, dx (N, C): dx = out * (dout - sum of dout * out)"""
    dout, out, dx = shift(dout, row * size), shift(out, row * size), shift(dx, row * size)
    dot = row_dot(dout, out, size)
    for j in range(size):
        dx[j] = out[j] * (dout[j] - dot)


@row_kernel
def log_softmax_forward(row, size, x, out):
    """x, out (N, C), C > 0: out = x - max - log(sum of e^(x - max))"""
    x, out = shift(x, row * size), shift(out, row * size)
    largest, total = exponentials(x, out, size)
    log_total = log(total)
    for j in range(size):
        out[j] = x[j] - largest - log_total


@row_kernel
def log_softmax_backward(row, size, dout, out, dx):
    """dout, out, dx (N, C): dx = dout - e^out * sum of dout"""
    dout, out, dx = shift(dout, row * size), shift(out, row * size), shift(dx, row * size)
    total = row_sum(dout, size)
    for j in range(size):
        dx[j] = dout[j] - exp(out[j]) * total
