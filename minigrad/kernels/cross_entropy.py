"""Cross-entropy over rows: loss and gradient from the same exponentials."""
from numba import prange

from .jit import jit, kernel
from .simd import log
from .softmax import exponentials


@jit
def cross_entropy_row(x, target, dx):
    largest, total = exponentials(x, dx)
    for j in range(x.size):
        dx[j] /= total
    dx[target] -= x.dtype.type(1)
    return log(total) - (x[target] - largest)


@kernel(parallel=True)
def cross_entropy_forward_backward(x, targets, ignore_index, losses, dx):
    """x, dx (N, V), targets (N,) int64 in range or ignore_index, losses (N,).

    1. dx = e^(x - max)  2. dx = dx / sum, less 1 at the target  3. loss = log(sum) - (x_target - max)
    """
    for row in prange(x.shape[0]):
        if targets[row] == ignore_index:
            losses[row] = 0
            dx[row, :] = 0
        else:
            losses[row] = cross_entropy_row(x[row], targets[row], dx[row])
