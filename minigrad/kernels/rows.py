"""What the kernels over rows share: blocks of fixed size, so that no sum over rows depends on the number of threads.

Functions of one row take pointers: an array is seven numbers, and to hand over eight of them takes longer than a short row.
"""
import math

import numpy as np

from .jit import jit, kernel
from .parallel import parallel_for
from .simd import pointer

ROWS = 32  # rows per block


def as_rows(x: np.ndarray) -> np.ndarray:
    """(..., C) -> (N, C): all leading axes become rows."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@jit
def number_of_blocks(count, size):
    """How many blocks of `size` hold `count` things."""
    return (count + size - 1) // size


@jit
def add_to(total, row, count):
    """total += row, pointers to `count` elements"""
    for j in range(count):
        total[j] += row[j]


@jit
def add_blocks(partial, total):
    """partial (blocks, C) -> total (C,): the sum, block after block."""
    for j in range(total.size):
        total[j] = 0
    for block in range(partial.shape[0]):
        add_to(pointer(total, 0), pointer(partial, block * total.size), total.size)


@jit
def _sum_block(block, x, partial):
    width = x.shape[1]
    for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
        add_to(pointer(partial, block * width), pointer(x, row * width), width)


@kernel(parallel=True)
def sum_rows_forward(x, total):
    """x (N, C) -> total (C,): the sum over rows, first within blocks, then over blocks."""
    blocks = number_of_blocks(x.shape[0], ROWS)
    partial = np.zeros((blocks, x.shape[1]), x.dtype)
    parallel_for(_sum_block, blocks, x.size, (x, partial))
    add_blocks(partial, total)


def sum_rows(x: np.ndarray) -> np.ndarray:
    """x (N, C) -> (C,): x.sum(axis=0)."""
    total = np.empty(x.shape[1], x.dtype)
    sum_rows_forward(x, total)
    return total
