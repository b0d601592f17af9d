"""Softmax and log-softmax over rows. Each takes the row's maximum out first, so that no exponential overflows."""
from numba import prange

from .jit import jit, kernel
from .rows import ROWS, number_of_blocks
from .simd import exp, log


@jit
def row_max(row):
    """The largest element; NaN is passed over (it comes back out of the exponential)."""
    largest = row[0]
    for j in range(1, row.size):
        largest = row[j] if row[j] > largest else largest
    return largest


@jit
def exponentials(row, out):
    """out_j = e^(row_j - max row). Returns max row and the sum of out."""
    largest = row_max(row)
    total = row.dtype.type(0)
    for j in range(row.size):
        e = exp(row[j] - largest)
        out[j] = e
        total += e
    return largest, total


@kernel(parallel=True)
def softmax_forward(x, out):
    """x, out (N, C): 1. e^(x - max)  2. divide by its sum"""
    rows, width = x.shape
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            if width > 0:
                _, total = exponentials(x[row], out[row])
                for j in range(width):
                    out[row, j] /= total


@kernel(parallel=True)
def softmax_backward(dout, out, dx):
    """dout, out, dx (N, C): dx = out * (dout - sum of dout * out)"""
    rows, width = out.shape
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            dot = out.dtype.type(0)
            for j in range(width):
                dot += dout[row, j] * out[row, j]
            for j in range(width):
                dx[row, j] = out[row, j] * (dout[row, j] - dot)


@kernel(parallel=True)
def log_softmax_forward(x, out):
    """x, out (N, C): out = x - max - log(sum of e^(x - max))"""
    rows, width = x.shape
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            if width > 0:
                largest, total = exponentials(x[row], out[row])
                log_total = log(total)
                for j in range(width):
                    out[row, j] = x[row, j] - largest - log_total


@kernel(parallel=True)
def log_softmax_backward(dout, out, dx):
    """dout, out, dx (N, C): dx = dout - e^out * sum of dout"""
    rows, width = out.shape
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            total = out.dtype.type(0)
            for j in range(width):
                total += dout[row, j]
            for j in range(width):
                dx[row, j] = dout[row, j] - exp(out[row, j]) * total
