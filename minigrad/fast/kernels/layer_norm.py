"""Layer norm and RMS norm over rows.

Layer norm is exact even for a large mean: with a mean of 1e4, float32 sums would lose three digits. x - mean is computed as
(x - high) - low, where high is the mean in the dtype of x, so that the first difference is exact for all x near it, and low
is the rest of the mean. Also in float64: so `mean` has two parts for each row, and x_hat is a `multiply_add`, as LLVM would
merge (x - high) * rstd - low * rstd.
"""
import numpy as np

from ..pool import empty
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import (
    LEAST_SQUARES, ROWS, RUN, add_blocks, fill, number_of_blocks, rest_of_sum, row_dot, row_kernel, row_sum,
    wide_moments,
)
from .simd import constant_like, multiply_add, pointer, shift


@jit
def layer_norm_row(x, weight, bias, out, size, eps):
    rest, squares = 0.0, 0.0
    high = constant_like(x, row_sum(x, size) / np.float64(size))
    for start in range(0, size, RUN):
        run_rest, run_squares = constant_like(x, 0), constant_like(x, 0)
        for j in range(start, min(size, start + RUN)):
            centred = x[j] - high
            run_rest += centred
            run_squares += centred * centred
        rest += run_rest
        squares += run_squares
    if not LEAST_SQUARES < squares < np.inf:
        rest, squares = wide_moments(x, high, size)
    low = rest / np.float64(size)
    rstd = 1.0 / np.sqrt(max(squares / np.float64(size) - low * low, 0.0) + eps)
    scale, shift = constant_like(x, rstd), constant_like(x, -low * rstd)
    for j in range(size):
        out[j] = multiply_add(x[j] - high, scale, shift) * weight[j] + bias[j]
    mean = high + low
    return mean, rest_of_sum(np.float64(high), low, mean), rstd


@row_kernel
def layer_norm_forward(row, size, x, weight, bias, out, mean, rstd, eps):
    """x, out (N, C), weight, bias (C,), mean (2 N,), rstd (N,) in float64.

    1. mean  2. rstd = 1 / sqrt(mean of (x - mean)^2 + eps)  3., 4. out = (x - mean) * rstd * weight + bias
    """
    mean[2 * row], mean[2 * row + 1], rstd[row] = layer_norm_row(
        shift(x, row * size), weight, bias, shift(out, row * size), size, eps)


@jit
def layer_norm_backward_row(dout, x, weight, mean, rest, rstd, dx, dweight, dbias, size):
    """Each loop writes to one array: with more, LLVM does not check for overlaps, and does not vectorise."""
    high, scale = constant_like(x, mean), constant_like(x, rstd)
    shift = constant_like(x, -rest_of_sum(mean, rest, high) * rstd)
    total, dot = 0.0, 0.0
    for j in range(size):
        dx[j] = multiply_add(x[j] - high, scale, shift)  # x_hat, until the last loop
    for j in range(size):
        dweight[j] += dout[j] * dx[j]
    for j in range(size):
        dbias[j] += dout[j]
    for start in range(0, size, RUN):  # a loop without stores, as its order must not depend on where arrays lie
        run_total, run_dot = constant_like(x, 0), constant_like(x, 0)
        for j in range(start, min(size, start + RUN)):
            dx_hat = dout[j] * weight[j]
            run_total += dx_hat
            run_dot += dx_hat * dx[j]
        total += run_total
        dot += run_dot
    count = constant_like(x, size)
    mean_dx_hat, mean_dot = constant_like(x, total) / count, constant_like(x, dot) / count
    for j in range(size):
        dx[j] = scale * (dout[j] * weight[j] - mean_dx_hat - dx[j] * mean_dot)


@jit
def _backward_block(block, dout, x, weight, mean, rstd, dx, dweight, dbias):
    size = x.shape[1]
    fill(pointer(dweight, block * size), 0, size)
    fill(pointer(dbias, block * size), 0, size)
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        layer_norm_backward_row(
            pointer(dout, row * size), pointer(x, row * size), pointer(weight, 0), mean[2 * row], mean[2 * row + 1],
            rstd[row], pointer(dx, row * size), pointer(dweight, block * size),
            pointer(dbias, block * size), size)


@kernel(parallel=True)
def layer_norm_backward(dout, x, weight, mean, rstd, dx, dweight, dbias):
    """dout, x, dx (N, C), weight, dweight, dbias (C,), mean (2 N,), rstd (N,) in float64.

    4. dbias = sum of dout, dweight = sum of dout * x_hat, over rows (in blocks, see `rows`); dx_hat = dout * weight
    3.-1. dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))
    """
    rows, width = x.shape
    blocks = number_of_blocks(rows, ROWS)
    partial_dweight = np.empty((blocks, width), x.dtype)
    partial_dbias = np.empty((blocks, width), x.dtype)
    parallel_for(_backward_block, blocks, x.size, (
        dout, x, weight, mean, rstd, dx, partial_dweight, partial_dbias
    ))
    add_blocks(partial_dweight, dweight)
    add_blocks(partial_dbias, dbias)


# ------------------------------------------------------------------------------------------------------------ RMS norm


@row_kernel
def rms_norm_forward(row, size, x, weight, out, rrms, eps):
    """x, out (N, C), weight (C,), rrms (N,) float64: 1. rrms = 1 / sqrt(mean of x^2 + eps)  2. out = x * rrms * weight"""
    x, out = shift(x, row * size), shift(out, row * size)
    squares = np.float64(row_dot(x, x, size))
    if not LEAST_SQUARES < squares < np.inf:
        _, squares = wide_moments(x, 0.0, size)
    rrms[row] = 1.0 / np.sqrt(squares / np.float64(size) + eps)
    scale = constant_like(x, rrms[row])
    for j in range(size):
        out[j] = x[j] * scale * weight[j]


@jit
def rms_norm_backward_row(dout, x, weight, rrms, dx, dweight, size):
    """Each loop writes to one array, and the one with the sum to none: see `layer_norm_backward_row`."""
    scale, dot = constant_like(x, rrms), 0.0
    for j in range(size):
        dx[j] = x[j] * scale  # x_hat, until the last loop
    for j in range(size):
        dweight[j] += dout[j] * dx[j]
    for start in range(0, size, RUN):
        run_dot = constant_like(x, 0)
        for j in range(start, min(size, start + RUN)):
            run_dot += dout[j] * weight[j] * dx[j]
        dot += run_dot
    mean_dot = constant_like(x, dot) / constant_like(x, size)
    for j in range(size):
        dx[j] = scale * (dout[j] * weight[j] - dx[j] * mean_dot)


@jit
def _rms_norm_block(block, dout, x, weight, rrms, dx, dweight):
    size = x.shape[1]
    fill(pointer(dweight, block * size), 0, size)
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        rms_norm_backward_row(
            pointer(dout, row * size), pointer(x, row * size), pointer(weight, 0), rrms[row], pointer(dx, row * size),
            pointer(dweight, block * size), size)


@kernel(parallel=True)
def _rms_norm_backward(dout, x, weight, rrms, dx, dweight, partial):
    parallel_for(_rms_norm_block, len(partial), x.size, (dout, x, weight, rrms, dx, partial))
    add_blocks(partial, dweight)


def rms_norm_backward(dout, x, weight, rrms, dx, dweight):
    """dout, x, dx (N, C), weight, dweight (C,), rrms (N,) in float64.

    2. dweight = sum of dout * x_hat over rows (in blocks, see `rows`); dx_hat = dout * weight
    1. dx = rrms * (dx_hat - x_hat * mean(dx_hat * x_hat))
    """
    partial = empty((number_of_blocks.py_func(len(x), ROWS), x.shape[1]), x.dtype)
    _rms_norm_backward(dout, x, weight, rrms, dx, dweight, partial)
