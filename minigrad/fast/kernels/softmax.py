"""Softmax over rows. It subtracts the row's maximum first, so that no exponential overflows."""
from .jit import jit
from .rows import row_dot, row_kernel, row_sum
from .simd import exp_nonpositive, row_max, shift


@jit
def exponentials(row, out, size):
    """out_j = e^(row_j - max row). Returns max row and the sum of out. NaN anywhere makes the sum NaN."""
    largest = row_max(row, size)
    for j in range(size):
        out[j] = exp_nonpositive(row[j] - largest)
    return largest, row_sum(out, size)


@row_kernel
def softmax_forward(row, size, x, out):
    """x, out (N, C), C > 0: 1. e^(x - max)  2. divide by its sum"""
    out = shift(out, row * size)
    _, total = exponentials(shift(x, row * size), out, size)
    for j in range(size):
        out[j] /= total


@row_kernel
def softmax_backward(row, size, dout, out, dx):
    """dout, out, dx (N, C): dx = out * (dout - sum of dout * out)"""
    dout, out, dx = shift(dout, row * size), shift(out, row * size), shift(dx, row * size)
    dot = row_dot(dout, out, size)
    for j in range(size):
        dx[j] = out[j] * (dout[j] - dot)
