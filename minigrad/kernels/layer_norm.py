"""Layer norm over rows. Means and variances are float64: in float32, rows with mean 1e4 would lose three digits."""
import numpy as np

from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, add_blocks, number_of_blocks


@jit
def layer_norm_row(x, weight, bias, out, eps):
    total = 0.0
    for j in range(x.size):
        total += x[j]
    mean = total / x.size
    squares = 0.0
    for j in range(x.size):
        squares += (x[j] - mean) * (x[j] - mean)
    rstd = 1.0 / np.sqrt(squares / x.size + eps)
    for j in range(x.size):
        out[j] = (x[j] - mean) * rstd * weight[j] + bias[j]
    return mean, rstd


@jit
def _forward_block(block, x, weight, bias, out, mean, rstd, eps):
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        mean[row], rstd[row] = layer_norm_row(x[row], weight, bias, out[row], eps)


@kernel(parallel=True)
def layer_norm_forward(x, weight, bias, out, mean, rstd, eps):
    """x, out (N, C), weight, bias (C,), mean, rstd (N,) in float64.

    1. mean  2. rstd = 1 / sqrt(mean of (x - mean)^2 + eps)  3., 4. out = (x - mean) * rstd * weight + bias
    """
    parallel_for(_forward_block, number_of_blocks(x.shape[0], ROWS), x.size, (x, weight, bias, out, mean, rstd, eps))


@jit
def layer_norm_backward_row(dout, x, weight, mean, rstd, dx, dweight, dbias):
    number = x.dtype.type
    total, dot = number(0), number(0)
    for j in range(x.size):
        x_hat = number((x[j] - mean) * rstd)
        dx[j] = x_hat  # kept until the last loop
        dweight[j] += dout[j] * x_hat
        dbias[j] += dout[j]
    for j in range(x.size):  # sums stand in loops without stores: their order must not depend on where arrays lie
        dx_hat = dout[j] * weight[j]
        total += dx_hat
        dot += dx_hat * dx[j]
    mean_dx_hat, mean_dot, scale = total / number(x.size), dot / number(x.size), number(rstd)
    for j in range(x.size):
        dx[j] = scale * (dout[j] * weight[j] - mean_dx_hat - dx[j] * mean_dot)


@jit
def _backward_block(block, dout, x, weight, mean, rstd, dx, dweight, dbias):
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        layer_norm_backward_row(dout[row], x[row], weight, mean[row], rstd[row], dx[row], dweight[block], dbias[block])


@kernel(parallel=True)
def layer_norm_backward(dout, x, weight, mean, rstd, dx, dweight, dbias):
    """dout, x, dx (N, C), weight, dweight, dbias (C,), mean, rstd (N,) in float64.

    4. dbias = sum of dout, dweight = sum of dout * x_hat, over rows (in blocks, see `rows`); dx_hat = dout * weight
    3.-1. dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))
    """
    rows, width = x.shape
    blocks = number_of_blocks(rows, ROWS)
    partial_dweight = np.zeros((blocks, width), x.dtype)
    partial_dbias = np.zeros((blocks, width), x.dtype)
    parallel_for(_backward_block, blocks, x.size, (dout, x, weight, mean, rstd, dx, partial_dweight, partial_dbias))
    add_blocks(partial_dweight, dweight)
    add_blocks(partial_dbias, dbias)
