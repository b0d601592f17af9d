"""Running products over rows, and their gradient; running sums are in reduce.py.

A product waits four cycles for the one before it. So four rows are run through side by side; where fewer are left, the last
one is computed again.
"""
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import number_of_blocks
from .simd import constant_like, pointer

SIDE_BY_SIDE = 4  # rows per block


@jit
def _row(array, block, k):
    """A pointer to the k-th row of a block of (N, C), or to the last row that there is"""
    return pointer(array, min(block * SIDE_BY_SIDE + k, array.shape[0] - 1) * array.shape[1])


@jit
def _forward_block(block, x, out):
    x0, x1, x2, x3 = _row(x, block, 0), _row(x, block, 1), _row(x, block, 2), _row(x, block, 3)
    y0, y1, y2, y3 = _row(out, block, 0), _row(out, block, 1), _row(out, block, 2), _row(out, block, 3)
    a = b = c = d = constant_like(x0, 1)
    for j in range(x.shape[1]):
        a, b, c, d = a * x0[j], b * x1[j], c * x2[j], d * x3[j]
        y0[j], y1[j], y2[j], y3[j] = a, b, c, d


@kernel(parallel=True)
def cumprod_forward(x, out):
    """x, out (N, C): out_j = x_0 * ... * x_j"""
    parallel_for(_forward_block, number_of_blocks(x.shape[0], SIDE_BY_SIDE), x.size, (x, out))


@jit
def _backward_block(block, dout, x, out, dx):
    d0, d1, d2, d3 = _row(dout, block, 0), _row(dout, block, 1), _row(dout, block, 2), _row(dout, block, 3)
    x0, x1, x2, x3 = _row(x, block, 0), _row(x, block, 1), _row(x, block, 2), _row(x, block, 3)
    y0, y1, y2, y3 = _row(out, block, 0), _row(out, block, 1), _row(out, block, 2), _row(out, block, 3)
    s0, s1, s2, s3 = _row(dx, block, 0), _row(dx, block, 1), _row(dx, block, 2), _row(dx, block, 3)
    a = b = c = d = constant_like(x0, 0)  # x_(j+1) g_(j+1)
    for j in range(x.shape[1] - 1, 0, -1):
        a, b, c, d = d0[j] + a, d1[j] + b, d2[j] + c, d3[j] + d
        s0[j], s1[j], s2[j], s3[j] = y0[j - 1] * a, y1[j - 1] * b, y2[j - 1] * c, y3[j - 1] * d
        a, b, c, d = x0[j] * a, x1[j] * b, x2[j] * c, x3[j] * d
    s0[0], s1[0], s2[0], s3[0] = d0[0] + a, d1[0] + b, d2[0] + c, d3[0] + d


@kernel(parallel=True)
def cumprod_backward(dout, x, out, dx):
    """dout, x, out, dx (N, C), C > 0: dx_j = out_(j-1) * g_j, from the end: g_j = dout_j + x_(j+1) g_(j+1)"""
    parallel_for(_backward_block, number_of_blocks(x.shape[0], SIDE_BY_SIDE), x.size, (dout, x, out, dx))
