"""Cross-entropy over rows: loss and gradient from the same exponentials."""
from numba import prange

from .jit import jit, kernel
from .simd import log
from .softmax import exponentials


@jit
def cross_entropy_row(x, target, smoothing, dx):
    number = x.dtype.type
    largest, total = exponentials(x, dx)
    share = number(smoothing / x.size)
    spread = number(0)
    for j in range(x.size):
        dx[j] = dx[j] / total - share
        spread += x[j] - largest
    dx[target] -= number(1 - smoothing)
    expected = number(1 - smoothing) * (x[target] - largest)
    return log(total) - (expected + share * spread if smoothing > 0 else expected)


@kernel(parallel=True)
def cross_entropy_forward_backward(x, targets, ignore_index, smoothing, losses, dx):
    """x, dx (N, V), targets (N,) int64 in range or ignore_index, losses (N,).

    The target distribution q is smoothing / V everywhere, and 1 - smoothing more at the target.
    1. dx = e^(x - max)  2. dx = dx / sum - q  3. loss = log(sum) - sum of q * (x - max)
    """
    for row in prange(x.shape[0]):
        if targets[row] == ignore_index:
            losses[row] = 0
            dx[row, :] = 0
        else:
            losses[row] = cross_entropy_row(x[row], targets[row], smoothing, dx[row])
