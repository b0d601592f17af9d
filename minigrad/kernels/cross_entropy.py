"""Cross-entropy over rows: loss and gradient from the same exponentials."""
from numba import prange

from .jit import kernel
from .rows import ROWS, number_of_blocks
from .simd import log
from .softmax import exponentials


@kernel(parallel=True)
def cross_entropy_forward_backward(x, targets, ignore_index, losses, dx):
    """x, dx (N, V), targets (N,) int64 in range or ignore_index, losses (N,).

    1. dx = e^(x - max)  2. loss = log(sum) - (x_target - max)  3. dx = dx / sum, less 1 at the target
    """
    rows, width = x.shape
    number = x.dtype.type
    for block in prange(number_of_blocks(rows, ROWS)):
        for row in range(block * ROWS, min(rows, (block + 1) * ROWS)):
            target = targets[row]
            if target == ignore_index:
                losses[row] = number(0)
                for j in range(width):
                    dx[row, j] = number(0)
                continue
            largest, total = exponentials(x[row], dx[row])
            losses[row] = log(total) - (x[row, target] - largest)
            for j in range(width):
                dx[row, j] /= total
            dx[row, target] -= number(1)
