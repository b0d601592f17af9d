"""The inner product of two vectors."""
import numpy as np

from .copying import in_order
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import row_dot
from .simd import pointer

BLOCK = 1 << 13  # elements


@jit
def _dot_of_block(block, a, b, partial):
    start = block * BLOCK
    partial[block] = row_dot(pointer(a, start), pointer(b, start), min(BLOCK, a.size - start))


@kernel(parallel=True)
def dot_forward(a, b, partial):
    """a, b (K,) -> partial (blocks,), float64: the dot product of each block, to be added in their order"""
    parallel_for(_dot_of_block, len(partial), a.size, (a, b, partial))


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of a * b, for vectors (K,) of one dtype, float32 or float64.

    Threads share blocks of fixed size: the result does not depend on how many there are.

    >>> dot(np.ones(5000), np.full(5000, 0.5))
    array(2500.)
    """
    if a.size < BLOCK:
        return np.asarray(np.dot(a, b))
    partial = np.empty(-(-a.size // BLOCK))
    dot_forward(in_order(a), in_order(b), partial)
    return np.asarray(partial.sum(), a.dtype)
