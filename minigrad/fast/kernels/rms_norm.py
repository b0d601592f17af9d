"""RMS norm over rows."""
import numpy as np

from .buffers import empty
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import LEAST_SQUARES, ROWS, RUN, add_blocks, add_to, fill, number_of_blocks, row_dot, row_kernel, wide_moments
from .simd import constant_like, pointer, shift


@jit
def rms_norm_row(x, weight, out, size, eps):
    """out = x / sqrt(mean of x^2 + eps) * weight, on pointers to `size` elements; returns the factor of x"""
    squares = np.float64(row_dot(x, x, size))
    if not LEAST_SQUARES < squares < np.inf:
        _, squares = wide_moments(x, 0.0, size)
    rrms = 1.0 / np.sqrt(squares / np.float64(size) + eps)
    scale = constant_like(x, rrms)
    for j in range(size):
        out[j] = x[j] * scale * weight[j]
    return rrms


@row_kernel
def rms_norm_forward(row, size, x, weight, out, rrms, eps):
    """x, out (N, C), weight (C,), rrms (N,) float64: 1. rrms = 1 / sqrt(mean of x^2 + eps)  2. out = x * rrms * weight"""
    rrms[row] = rms_norm_row(shift(x, row * size), weight, shift(out, row * size), size, eps)


@jit
def rms_norm_backward_row(dout, x, weight, rrms, so_far, adding, dx, dweight, size):
    """Each loop writes to one array, and the one with the sum to none: see layer_norm.py."""
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
    if adding:
        add_to(dx, so_far, size)


@jit
def _backward_block(block, dout, x, weight, rrms, so_far, dx, dweight):
    size, adding = x.shape[1], so_far.size > 0
    fill(pointer(dweight, block * size), 0, size)
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        rms_norm_backward_row(
            pointer(dout, row * size), pointer(x, row * size), pointer(weight, 0), rrms[row], pointer(so_far, row * size),
            adding, pointer(dx, row * size), pointer(dweight, block * size), size)


@kernel(parallel=True)
def _backward(dout, x, weight, rrms, so_far, dx, dweight, partial):
    parallel_for(_backward_block, len(partial), x.size, (dout, x, weight, rrms, so_far, dx, partial))
    add_blocks(partial, dweight)


def rms_norm_backward(dout, x, weight, rrms, so_far, dx, dweight):
    """dout, x, dx (N, C), weight, dweight (C,), rrms (N,) in float64, so_far (N * C,) or empty.

    2. dweight = sum of dout * x_hat over rows (in blocks, see `rows`); dx_hat = dout * weight
    1. dx = [so_far +] rrms * (dx_hat - x_hat * mean(dx_hat * x_hat))
    """
    partial = empty((number_of_blocks.py_func(len(x), ROWS), x.shape[1]), x.dtype)
    _backward(dout, x, weight, rrms, so_far, dx, dweight, partial)
