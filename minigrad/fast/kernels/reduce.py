"""Sums along any axes, in float64 and rounded once: a long sum in float32 loses digits.

NumPy adds float32 numbers pairwise only along the fastest axis. Along others it adds row after row, and a million rows of
0.1 add up to 100958. float64 costs nothing, as memory is the bottleneck; threads share blocks of fixed size, which give the
same bits for any number of threads.

An array of any strides is seen as four nested loops (outer, outer, n, inner), of which n is summed: see `axes.Loops`.
"""
import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from .axes import Loops, in_memory_order, inverse, runs
from .buffers import empty
from .jit import address, jit, kernel, ready
from .parallel import parallel_for
from .rows import ELEMENTS_TO_SUM, LANES, add_to, copy_to, number_of_blocks, sum_down
from .simd import pointer, pointer_like
from .thresholds import MOVED

COLUMNS = 1 << 10  # per block
LEAST_ROWS = 128  # per block, so that there are few partial sums
WIDE = np.dtype(np.float64)


def exact_sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> np.ndarray:
    """The sum of floats over these axes, counted from the front, in float64 and rounded once to a dtype.

    The kernel sums over the one loop with the most terms; NumPy sums the rest, which is short.
    """
    plan = _plan_of(x.shape, x.strides, x.itemsize, axes, keepdims) if x.flags.aligned and x.dtype.isnative else None
    if plan is None:  # too scattered, unaligned or byte-swapped
        x = ready(x)
        plan = _plan_of(x.shape, x.strides, x.itemsize, axes, keepdims)
    loops, cuts = plan.loops, plan.cuts
    partial = empty((math.prod(loops.shape[:2]), cuts[1], loops.shape[3]), WIDE)
    sum_forward(address(x), loops.shape, *loops.strides, cuts, np.empty(0, x.dtype), partial.reshape(-1))
    sums = partial[:, 0]
    if plan.axes_left is not None:
        sums = np.add.reduce(sums.reshape(plan.shape_left).transpose(plan.order_left), axis=plan.axes_left)
    out = np.empty(plan.shape, dtype.newbyteorder("="))
    return np.add(sums.reshape(plan.shape), 0.0, out=out, casting="same_kind")  # a sum of nothing but -0 is 0, as in NumPy


class _Plan(NamedTuple):
    """How to sum an array."""

    loops: Loops
    cuts: tuple[int, int, int, int]  # outer rows per block, row blocks, blocks of COLUMNS, rows per row block
    shape: tuple[int, ...]  # of the result
    shape_left: tuple[int, ...]  # of the kernel's sums, in memory order
    order_left: tuple[int, ...]  # restores the order of their axes
    axes_left: tuple[int, ...] | None  # still to be summed; None if the kernel's sums are the result


@functools.lru_cache(512)
def _plan_of(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, axes: tuple[int, ...], keepdims: bool
) -> _Plan | None:
    """For an array with these strides in bytes; None if four loops are too few."""
    order = [i for i in in_memory_order(strides) if shape[i] != 1]
    neighbours = itertools.groupby(order, axes.__contains__)
    summed = [run for is_summed, group in neighbours if is_summed for run in runs(shape, group, strides)]
    middle = max(summed, key=lambda run: math.prod([shape[i] for i in run]))
    inner = (runs(shape, order[order.index(middle[-1]) + 1 :], strides) or [()])[-1]
    outer = runs(shape, [i for i in order if i not in middle and i not in inner], strides)
    loops = Loops.of([*outer, middle, inner], shape, itemsize, strides)
    if loops is None:
        return None
    n, columns = loops.shape[2:]
    most_rows = max(LEAST_ROWS, ELEMENTS_TO_SUM // min(columns, COLUMNS))
    cuts = max(1, ELEMENTS_TO_SUM // (n * columns)), -(-n // most_rows), -(-columns // COLUMNS), most_rows
    left = [*itertools.chain(*outer), *inner]
    axes_left = tuple([k for k, i in enumerate(sorted(left)) if i in axes])
    return _Plan(
        loops, cuts, tuple([1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]),
        tuple([shape[i] for i in left]), inverse(left), axes_left if axes_left or left != sorted(left) else None,
    )


@jit
def _pack(x, rows, columns, row_stride, column_stride, packed):
    """Gather (rows, columns) into contiguous memory"""
    for row in range(rows):
        for j in range(columns):
            packed[row * columns + j] = x[row * row_stride + j * column_stride]


@jit
def _wide_row_sum(x, count):
    """x[0] + x[1] + ..., a pointer to `count` elements, in float64"""
    total = -0.0
    for j in range(count):
        total += np.float64(x[j])
    return total


@jit
def _sum_block(block, address, shape, strides, cuts, like, partial):
    together, row_blocks, column_blocks, most_rows = cuts
    outer, n, inner, down, along = shape[0] * shape[1], shape[2], shape[3], strides[2], strides[3]
    row_block, column = block // column_blocks % row_blocks, block % column_blocks * COLUMNS
    row = row_block * most_rows
    rows, columns = min(most_rows, n - row), min(COLUMNS, inner - column)
    is_narrow = inner == 1
    step = down if is_narrow else along
    work, packed = np.empty(max(columns, LANES)), np.empty(0 if step == 1 else rows * columns, like.dtype)
    start = block // (row_blocks * column_blocks) * together
    for i in range(start, min(outer, start + together)):
        first, second = (i // shape[1], i % shape[1]) if shape[0] > 1 else (0, i)  # a division takes as long as a short row
        offset = first * strides[0] + second * strides[1] + row * down + column * along
        x, stride = pointer_like(pointer(like, 0), address + offset * like.itemsize), down
        total = pointer(partial, (i * row_blocks + row_block) * inner + column)
        if step != 1:
            _pack(x, 1 if is_narrow else rows, rows if is_narrow else columns, stride, step, pointer(packed, 0))
            x, stride = pointer(packed, 0), columns
        if is_narrow:
            total[0] = _wide_row_sum(x, rows)
        else:
            sum_down(x, rows, stride, pointer(work, 0), columns)
            copy_to(total, work, columns)


@kernel(parallel=True)
def sum_forward(address, shape, strides, cuts, like, partial):
    """The `Loops` of an array at an address, of the dtype of `like`, -> partial (outer, row_blocks, inner), flat, float64

    In blocks of fixed size: 1. pack elements that are not contiguous  2. add up rows  3. store the sum. At the end the sums
    of all row blocks are added to the first.
    """
    outer, inner, row_blocks = shape[0] * shape[1], shape[3], cuts[1]
    blocks = number_of_blocks(outer, cuts[0]) * row_blocks * cuts[2]
    parallel_for(_sum_block, blocks, outer * shape[2] * inner // MOVED, (address, shape, strides, cuts, like, partial))
    for i in range(outer):
        first = i * row_blocks * inner
        for row_block in range(1, row_blocks):
            add_to(pointer(partial, first), pointer(partial, first + row_block * inner), inner)
