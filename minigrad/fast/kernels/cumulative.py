"""Running sums and products along rows, and the gradient of products; threads share the rows."""
from .rows import row_kernel
from .simd import shift


@row_kernel
def running_sum_forward(row, size, x, out, reverse):
    """x, out (N, C): out_j = x_0 + ... + x_j, or x_j + ... + x_(C-1) if `reverse`, in float64, each rounded once"""
    x, out, total = shift(x, row * size), shift(out, row * size), -0.0
    for k in range(size):
        j = size - 1 - k if reverse else k
        total += x[j]
        out[j] = total


@row_kernel
def cumprod_forward(row, size, x, out):
    """x, out (N, C): out_j = x_0 * ... * x_j, in float64, each rounded once"""
    x, out, product = shift(x, row * size), shift(out, row * size), 1.0
    for j in range(size):
        product *= x[j]
        out[j] = product


@row_kernel
def cumprod_backward(row, size, dout, x, out, dx):
    """dout, x, out, dx (N, C): dx_j = out_(j-1) * g_j, from the end: g_j = dout_j + x_(j+1) g_(j+1)"""
    dout, x, out, dx = shift(dout, row * size), shift(x, row * size), shift(out, row * size), shift(dx, row * size)
    carried = 0.0  # x_(j+1) g_(j+1), in float64
    for j in range(size - 1, -1, -1):
        g = dout[j] + carried
        dx[j] = g * out[j - 1] if j else g
        carried = x[j] * g
