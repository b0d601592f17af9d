"""Shared by kernels over rows: blocks of fixed size, so that no sum over rows depends on the number of threads.

`row_kernel` and `elementwise_kernel` make kernels from functions of one row, or of some elements. These functions take
pointers: an array is seven numbers, and passing eight arrays takes longer than a short row.
"""
import math
from collections.abc import Callable

import numpy as np

from .jit import exact, jit, kernel
from .parallel import parallel_for
from .simd import constant_like, on_stack, pointer, pointers, shift

ROWS = 32  # rows per block
ELEMENTS = 8192  # per block of an elementwise kernel
ELEMENTS_TO_SUM = 1 << 14  # per block, where rows are only summed
LANES = 64  # sums that run side by side, at least
COLUMNS = 64  # of partial sums, added side by side
LEAST_SQUARES = 1e-30  # a sum of squares below this, or infinite, has left the range of float32
RUN = 1024  # elements of a row that are summed in the row's own dtype, few enough to lose no digits


def as_rows(x: np.ndarray) -> np.ndarray:
    """(..., C) -> (N, C): all leading axes become rows."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@jit
def number_of_blocks(count, size):
    """The number of blocks of `size` that hold `count` things."""
    return (count + size - 1) // size


def row_kernel(function: Callable) -> Callable:
    """A kernel of arrays, the first of them (N, size), that calls function(row, size, *pointers) for each of the N rows.

    The function gets a pointer to the beginning of each array; numbers are passed on. No row may depend on what is written
    for another.
    """
    body = jit(function)

    @jit
    def compute_block(block, x, arguments):
        for row in range(block * ROWS, min(x.shape[0], (block + 1) * ROWS)):
            body(row, x.shape[1], *pointers(arguments, 0))

    return _kernel_over_blocks(function, compute_block, ROWS)


def elementwise_kernel(function: Callable) -> Callable:
    """A kernel of arrays (N,) that calls function(count, *pointers) for each block of `count` elements."""
    body = jit(function)

    @jit
    def compute_block(block, x, arguments):
        start = block * ELEMENTS
        body(min(ELEMENTS, x.size - start), *pointers(arguments, start))

    return _kernel_over_blocks(function, compute_block, ELEMENTS)


def _kernel_over_blocks(function: Callable, compute_block: Callable, size: int) -> Callable:
    """A kernel with the function's name that computes all blocks of `size` rows."""

    def launch(*arguments):
        x = arguments[0]
        parallel_for(compute_block, number_of_blocks(x.shape[0], size), x.size, (x, arguments))

    for name in "__module__", "__name__", "__qualname__", "__doc__":
        setattr(launch, name, getattr(function, name))
    return kernel(launch, parallel=True)


@jit
def add_to(total, row, count):
    """total += row, pointers to `count` elements"""
    for j in range(count):
        total[j] += row[j]


@jit
def row_sum(row, size):
    """The sum of row[0:size]: runs of fixed length in the dtype of the row, and their sum in float64.

    Loops with sums have no stores: if they had, LLVM would decide at run time whether the arrays may overlap and the loop
    must be scalar, and the order of the sum would depend on where arrays lie.
    """
    total = 0.0
    for start in range(0, size, RUN):
        part = constant_like(row, 0)
        for j in range(start, min(size, start + RUN)):
            part += row[j]
        total += part
    return constant_like(row, total)


@jit
def row_dot(a, b, size):
    """The sum of a[0:size] * b[0:size], as in `row_sum`"""
    total = 0.0
    for start in range(0, size, RUN):
        part = constant_like(a, 0)
        for j in range(start, min(size, start + RUN)):
            part += a[j] * b[j]
        total += part
    return constant_like(a, total)


@exact
def rest_of_sum(a, b, total):
    """What rounding took from a + b = total. LLVM would find that it is 0."""
    return (a - total) + b


@jit
def wide_moments(row, middle, size):
    """The sums of row - middle and of its squares, in float64"""
    total, squares = 0.0, 0.0
    for j in range(size):
        difference = np.float64(row[j]) - np.float64(middle)
        total += difference
        squares += difference * difference
    return total, squares


@jit
def add_rows(total, x, rows, stride, width):
    """total[j] += x[j] + x[stride + j] + ..., `rows` terms: pointers, total to float64"""
    real, fours = np.float64, rows - rows % 4
    for row in range(0, fours, 4):
        a, b = shift(x, row * stride), shift(x, (row + 1) * stride)
        c, d = shift(x, (row + 2) * stride), shift(x, (row + 3) * stride)
        for j in range(width):
            total[j] += (real(a[j]) + real(b[j])) + (real(c[j]) + real(d[j]))
    for row in range(fours, rows):
        add_to(total, shift(x, row * stride), width)


@jit
def sum_down(x, rows, stride, total, width):
    """total[0:width] = the sum of `rows` rows that begin `stride` elements apart: pointers, total to float64.

    Narrow contiguous rows are summed as if they were wide, and the wide sum is then folded: total needs room for LANES
    elements, or `width` if that is more. It starts from -0, so that a sum of nothing but -0 is -0.
    """
    folds = 1
    while stride == width and 2 * folds * width <= LANES and 8 * folds <= rows:
        folds *= 2
    wide, wide_rows = folds * width, rows // folds
    for j in range(wide):
        total[j] = -0.0
    add_rows(total, x, wide_rows, folds * stride, wide)
    add_to(total, shift(x, wide_rows * wide), (rows - wide_rows * folds) * width)
    while folds > 1:
        folds //= 2
        add_to(total, shift(total, folds * width), folds * width)


@jit
def fill(out, value, count):
    """out = value, a pointer to `count` elements"""
    for j in range(count):
        out[j] = value


@jit
def copy_to(out, row, count):
    """out = row, pointers to `count` elements. `row` may also be an array: Numba frees an array after its last use,
    whatever pointers to it are left, so a kernel passes its own array itself where it is read last."""
    for j in range(count):
        out[j] = row[j]


@jit
def add_blocks(partial, total):
    """partial (blocks, C) -> total (C,): the sum over blocks, in float64 and rounded once"""
    blocks, width = partial.shape
    sums = on_stack(COLUMNS)
    for start in range(0, width, COLUMNS):
        columns = min(COLUMNS, width - start)
        fill(sums, -0.0, columns)
        for block in range(blocks):
            add_to(sums, pointer(partial, block * width + start), columns)
        copy_to(pointer(total, start), sums, columns)


@jit
def _sum_block(block, x, rows, partial, room):
    width, first = x.shape[1], block * rows
    own = pointer(partial, block * room)
    sum_down(pointer(x, first * width), min(rows, x.shape[0] - first), width, own, width)


@kernel(parallel=True)
def sum_rows_forward(x, total):
    """x (N, C) -> total (C,): the sum over rows, within blocks and then over blocks, in float64 and rounded once."""
    width = x.shape[1]
    rows = max(ROWS, ELEMENTS_TO_SUM // max(width, 1))
    blocks = number_of_blocks(x.shape[0], rows)
    if blocks == 0:
        fill(pointer(total, 0), 0, width)
        return
    room = max(width, LANES)
    partial = np.empty(blocks * room)
    parallel_for(_sum_block, blocks, x.size, (x, rows, partial, room))
    for block in range(1, blocks):
        add_to(pointer(partial, 0), pointer(partial, block * room), width)
    copy_to(pointer(total, 0), partial, width)


def sum_rows(x: np.ndarray) -> np.ndarray:
    """x (N, C) -> (C,): x.sum(axis=0)."""
    total = np.empty(x.shape[1], x.dtype)
    sum_rows_forward(x, total)
    return total
