"""Softmax and log-softmax over rows. Each takes the row's maximum out first, so that no exponential overflows."""
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, number_of_blocks, row_dot, row_sum
from .simd import exp, exp_nonpositive, log, pointer, row_max


@jit
def exponentials(row, out, size):
    """out_j = e^(row_j - max row). Returns max row and the sum of out. NaN anywhere makes the sum NaN."""
    largest = row_max(row, size)
    for j in range(size):
        out[j] = exp_nonpositive(row[j] - largest)
    return largest, row_sum(out, size)


@jit
def softmax_row(x, out, size):
    _, total = exponentials(x, out, size)
    for j in range(size):
        out[j] /= total


@jit
def _softmax_block(block, x, out):
    size = out.shape[1]
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        softmax_row(pointer(x, row * size), pointer(out, row * size), size)


@kernel(parallel=True)
def softmax_forward(x, out):
    """x, out (N, C), C > 0: 1. e^(x - max)  2. divide by its sum"""
    parallel_for(_softmax_block, number_of_blocks(x.shape[0], ROWS), x.size, (x, out))


@jit
def softmax_backward_row(dout, out, dx, size):
    dot = row_dot(dout, out, size)
    for j in range(size):
        dx[j] = out[j] * (dout[j] - dot)


@jit
def _softmax_backward_block(block, dout, out, dx):
    size = dx.shape[1]
    for row in range(block * ROWS, min(out.shape[0], (block + 1) * ROWS)):
        softmax_backward_row(pointer(dout, row * size), pointer(out, row * size), pointer(dx, row * size), size)


@kernel(parallel=True)
def softmax_backward(dout, out, dx):
    """dout, out, dx (N, C): dx = out * (dout - sum of dout * out)"""
    parallel_for(_softmax_backward_block, number_of_blocks(out.shape[0], ROWS), out.size, (dout, out, dx))


@jit
def log_softmax_row(x, out, size):
    largest, total = exponentials(x, out, size)
    log_total = log(total)
    for j in range(size):
        out[j] = x[j] - largest - log_total


@jit
def _log_softmax_block(block, x, out):
    size = out.shape[1]
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        log_softmax_row(pointer(x, row * size), pointer(out, row * size), size)


@kernel(parallel=True)
def log_softmax_forward(x, out):
    """x, out (N, C), C > 0: out = x - max - log(sum of e^(x - max))"""
    parallel_for(_log_softmax_block, number_of_blocks(x.shape[0], ROWS), x.size, (x, out))


@jit
def log_softmax_backward_row(dout, out, dx, size):
    total = row_sum(dout, size)
    for j in range(size):
        dx[j] = dout[j] - exp(out[j]) * total


@jit
def _log_softmax_backward_block(block, dout, out, dx):
    size = dx.shape[1]
    for row in range(block * ROWS, min(out.shape[0], (block + 1) * ROWS)):
        log_softmax_backward_row(pointer(dout, row * size), pointer(out, row * size), pointer(dx, row * size), size)


@kernel(parallel=True)
def log_softmax_backward(dout, out, dx):
    """dout, out, dx (N, C): dx = dout - e^out * sum of dout"""
    parallel_for(_log_softmax_backward_block, number_of_blocks(out.shape[0], ROWS), out.size, (dout, out, dx))
