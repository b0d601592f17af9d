"""Layer norm over rows. Means and variances are float64: in float32, rows with mean 1e4 would lose three digits."""
import numpy as np
from numba import prange

from .jit import kernel
from .rows import ROWS, add_blocks, number_of_blocks


@kernel(parallel=True)
def layer_norm_forward(x, weight, bias, out, mean, rstd, eps):
    """x, out (N, C), weight, bias (C,), mean, rstd (N,) in float64.

    1. mean  2. rstd = 1 / sqrt(mean of (x - mean)^2 + eps)  3., 4. out = (x - mean) * rstd * weight + bias
    """
    rows, width = x.shape
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            total = 0.0
            for j in range(width):
                total += x[row, j]
            m = total / width
            squares = 0.0
            for j in range(width):
                squares += (x[row, j] - m) * (x[row, j] - m)
            r = 1.0 / np.sqrt(squares / width + eps)
            mean[row] = m
            rstd[row] = r
            for j in range(width):
                out[row, j] = (x[row, j] - m) * r * weight[j] + bias[j]


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
    number = x.dtype.type
    for block in prange(blocks):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            m, r = mean[row], rstd[row]
            total = number(0)
            dot = number(0)
            for j in range(width):
                x_hat = number((x[row, j] - m) * r)
                dx_hat = dout[row, j] * weight[j]
                dx[row, j] = x_hat  # kept until the next loop
                total += dx_hat
                dot += dx_hat * x_hat
                partial_dweight[block, j] += dout[row, j] * x_hat
                partial_dbias[block, j] += dout[row, j]
            mean_dx_hat = total / number(width)
            mean_dot = dot / number(width)
            scale = number(r)
            for j in range(width):
                dx[row, j] = scale * (dout[row, j] * weight[j] - mean_dx_hat - dx[row, j] * mean_dot)
    add_blocks(partial_dweight, dweight)
    add_blocks(partial_dbias, dbias)
