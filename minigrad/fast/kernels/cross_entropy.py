"""Cross-entropy over rows: loss and gradient from the same exponentials."""
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, RUN, number_of_blocks, row_kernel
from .simd import constant_like, log, pointer, shift
from .softmax import exponentials


@jit
def cross_entropy_row(x, target, smoothing, dx, size):
    largest, total = exponentials(x, dx, size)
    smoothed = constant_like(x, smoothing / size)
    for j in range(size):
        dx[j] = dx[j] / total - smoothed
    spread = 0.0
    if smoothing > 0:
        for start in range(0, size, RUN):
            run = constant_like(x, 0)
            for j in range(start, min(size, start + RUN)):
                run += x[j] - largest
            spread += run
    dx[target] -= constant_like(x, 1 - smoothing)
    expected = constant_like(x, 1 - smoothing) * (x[target] - largest) if smoothing < 1 else constant_like(x, 0)
    return log(total) - (expected + smoothed * constant_like(x, spread) if smoothing > 0 else expected)


@jit
def _forward_backward_block(block, x, targets, ignore_index, smoothing, losses, dx):
    size = x.shape[1]
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        if targets[row] == ignore_index:
            losses[row] = 0
            dx[row, :] = 0
        else:
            losses[row] = cross_entropy_row(pointer(x, row * size), targets[row], smoothing, pointer(dx, row * size), size)


@kernel(parallel=True)
def cross_entropy_forward_backward(x, targets, ignore_index, smoothing, take_mean, losses, dx, total, factor):
    """x, dx (N, V), targets (N,) int64 in range or ignore_index, losses (N,), total (1,), factor (1,) in float64.

    The target distribution q is smoothing / V everywhere, and 1 - smoothing more at the target.
    1. dx = e^(x - max)  2. dx = dx / sum - q  3. loss = log(sum) - sum of q * (x - max)
    4. total = sum of losses, or their mean over rows that are not ignored; factor = the weight of each loss in it
    """
    parallel_for(_forward_backward_block, number_of_blocks(x.shape[0], ROWS), x.size,
                 (x, targets, ignore_index, smoothing, losses, dx))
    result, count = 0.0, 0
    for row in range(losses.size):
        result += losses[row]
        count += targets[row] != ignore_index
    total[0] = result / count if take_mean else result
    factor[0] = 1.0 / count if take_mean and count > 0 else 1.0


@row_kernel
def cross_entropy_backward(row, size, slope, targets, ignore_index, dout, step, factor, dx):
    """slope = dloss/dx (N, V), targets (N,), dout (N,) with step 1, or dout (1,) of a sum or mean with step 0, factor (1,)

    -> dx = dout * factor * slope, and 0 in ignored rows, even if dout is NaN
    """
    is_ignored = targets[row] == ignore_index
    dloss = constant_like(dout, 0) if is_ignored else dout[row * step] * constant_like(dout, factor[0])
    slope, dx = shift(slope, row * size), shift(dx, row * size)
    for j in range(size):
        dx[j] = dloss * slope[j]
