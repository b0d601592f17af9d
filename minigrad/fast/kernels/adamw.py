"""Adam and AdamW on all parameters at once, and the norm of all gradients.

Parameters and gradients are separate arrays, so kernels get a table of their addresses. Work is cut into blocks, each in
one array; their size does not depend on the number of threads, so neither do the results.
"""
import math

import numpy as np

from .jit import address, exact, jit, kernel, ready
from .parallel import parallel_for
from .simd import pointer, pointer_like

BLOCK = 8192  # elements; four float32 arrays of it fit in half of a 256 kB L2 cache


def cut_into_blocks(sizes: list[int]) -> np.ndarray:
    """The blocks of arrays of these sizes, (K, 3) int64: which array, first element, end."""
    rows = [(which, first, min(first + BLOCK, size))
            for which, size in enumerate(sizes) for first in range(0, size, BLOCK)]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


@jit
def _elements(blocks):
    """The number of elements in all blocks."""
    total = 0
    for k in range(len(blocks)):
        total += blocks[k, 2] - blocks[k, 1]
    return total


@jit
def _sum_of_squares(k, blocks, addresses, like, sums):
    which, first, end = blocks[k]
    total = 0.0
    if addresses[which] != 0:
        x = pointer_like(pointer(like, 0), addresses[which])
        for i in range(first, end):
            total += np.float64(x[i]) * np.float64(x[i])
    sums[k] = total


@kernel(parallel=True)
def sums_of_squares(blocks, addresses, like, sums):
    """blocks (K, 3), addresses (N,) of arrays with the dtype of `like` (0: no array) -> sums (K,), float64."""
    parallel_for(_sum_of_squares, len(blocks), _elements(blocks), (blocks, addresses, like, sums))


def norm(arrays: list[np.ndarray]) -> float:
    """The 2-norm of all elements, summed in float64, in the same order for any number of threads."""
    total = 0.0
    for dtype in dict.fromkeys(array.dtype for array in arrays):
        group = [ready(array) for array in arrays if array.dtype == dtype and array.size]
        blocks = cut_into_blocks([array.size for array in group])
        sums = np.empty(len(blocks))
        sums_of_squares(blocks, np.array([address(array) for array in group], np.int64), np.empty(0, dtype), sums)
        total += sums.sum()
    return math.sqrt(total)


@exact
def _scaled_square(gradient, gamma):
    """In this order: the square alone may overflow."""
    return gamma * gradient * gradient


@jit
def _moments(m, v, i, gradient, beta1, beta2, gamma1, gamma2, tiny):
    """The new means of gradients and of their squares, also stored in m and v."""
    zero = tiny - tiny  # of the same dtype
    mean = beta1 * m[i] + gamma1 * gradient
    square = beta2 * v[i] + _scaled_square(gradient, gamma2)
    mean = zero if abs(mean) < tiny else mean  # keeps NaN
    square = zero if square < tiny else square
    m[i] = mean
    v[i] = square
    return mean, square


@jit
def _step_block(k, blocks, table, settings, moments, clip, decoupled, tiny):
    which, first, end = blocks[k]
    group, offset, count, parameter, gradients = table[:, which]
    if gradients == 0:
        return
    real = moments.dtype.type
    lr, beta1, beta2, eps, decay, sign, keeps_largest = settings[group]
    step = np.float64(count)
    step_size, root = real(lr / (1.0 - beta1 ** step)), real(1.0 / np.sqrt(1.0 - beta2 ** step))
    shrink, l2 = (real(1.0 - lr * decay), real(0.0)) if decoupled else (real(1.0), real(decay))
    gamma1, gamma2 = real(1.0 - beta1), real(1.0 - beta2)
    beta1, beta2, eps, clip, tiny = real(beta1), real(beta2), real(eps), real(sign * clip), real(tiny)
    m, v = pointer(moments, offset + first), pointer(moments, moments.shape[1] + offset + first)
    p = pointer_like(m, parameter + first * moments.itemsize)
    g = pointer_like(m, gradients + first * moments.itemsize)
    if keeps_largest != 0.0:
        largest = pointer(moments, 2 * moments.shape[1] + offset + first)
        for i in range(end - first):
            mean, square = _moments(m, v, i, clip * g[i] + l2 * p[i], beta1, beta2, gamma1, gamma2, tiny)
            square = largest[i] if square <= largest[i] else square  # keeps NaN
            largest[i] = square
            p[i] = shrink * p[i] - step_size * mean / (np.sqrt(square) * root + eps)
        return
    for i in range(end - first):
        mean, square = _moments(m, v, i, clip * g[i] + l2 * p[i], beta1, beta2, gamma1, gamma2, tiny)
        p[i] = shrink * p[i] - step_size * mean / (np.sqrt(square) * root + eps)


@kernel(parallel=True)
def adamw_step(blocks, table, settings, moments, clip, decoupled, tiny):
    """One step of Adam, in one pass over all arrays.

    blocks (K, 3) of `cut_into_blocks`. table (5, N), for each parameter: its row in the settings, where it begins in the
    moments, the number of steps including this one, the address of the parameter, and that of its gradient (0: skip it).
    settings (G, 7): lr, beta1, beta2, eps, decay, sign, amsgrad. moments (2, total), or (3, total) with amsgrad, in the
    dtype of all arrays. Parameters and moments are updated in place. `clip` and the sign multiply gradients; decay shrinks
    p if `decoupled` (AdamW), else it is added to g:

        m = beta1 m + (1 - beta1) g,    v = beta2 v + (1 - beta2) g²
        p = (1 - lr decay) p - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    and with amsgrad the largest v so far takes the place of v in the last line.

    - 1 - beta and 1 - beta^t are computed in float64: in float32, 1 - 0.999 has lost four digits.
    - Moments below `tiny` become 0: those of dead weights would decay into denormals, which are 40 times as slow.
    - A separate loop for amsgrad spares the other its checks and reads.
    """
    given = blocks, table, settings, moments, clip, decoupled, tiny
    parallel_for(_step_block, len(blocks), _elements(blocks), given)
