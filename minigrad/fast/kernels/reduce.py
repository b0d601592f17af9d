"""Sums and running sums along any axes, in float64 and rounded once: a long sum in float32 would cost digits.

NumPy adds float32 numbers pairwise along the fastest axis only. Along the others it adds row after row, and a million rows
of 0.1 add up to 100958. Memory is what takes the time, not float64; and blocks of fixed size, which threads share, give
the same bits for any number of threads.

An array of any strides is seen as four nested loops (outer, outer, n, inner), of which n is summed: see `axes.Loops`.
"""
import functools
import itertools
import math
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from .axes import Loops, in_memory_order, inverse, runs
from .buffers import empty
from .jit import address, jit, kernel
from .parallel import parallel_for
from .rows import ELEMENTS_TO_SUM, LANES, add_to, copy_to, number_of_blocks, sum_down
from .simd import pointer, pointer_like
from .thresholds import FEW, MOVED, SMALL_TO_SUM as SMALL, VERY_FEW

COLUMNS = 1 << 10  # per block
LEAST_ROWS = 128  # per block, so that there are few partial sums
WIDE = np.dtype(np.float64)


def sum(x: np.ndarray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """np.sum, exact to a rounding or a few also where the sum is long, in the dtype of x.

    >>> x = np.full((1_000_000, 2), 0.1, np.float32)
    >>> sum(x, axis=0), np.sum(x, axis=0)
    (array([100000., 100000.], dtype=float32), array([100958.34, 100958.34], dtype=float32))
    """
    if x.dtype.kind != "f" or x.size <= FEW:
        return np.add.reduce(x, axis=axis, keepdims=keepdims)
    axes = normalized(axis, x.ndim)
    is_pairwise = x.size <= SMALL and axes in ((x.ndim - 1,), tuple(range(x.ndim))) and x.flags.c_contiguous
    terms = count(x, axes)
    if terms <= FEW and x.size > SMALL and _lie_inside(x, axes):  # NumPy takes up each sum anew, 3 to 10 times as long
        return _sum_of_few(x, axes, keepdims) if terms <= VERY_FEW else _sum_of_long(x, axes, keepdims, x.dtype)
    if is_pairwise or terms <= FEW:
        return np.add.reduce(x, axis=axes, keepdims=keepdims)
    return _sum_of_long(x, axes, keepdims, x.dtype)


def _lie_inside(x: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Are the terms of a sum closer together in memory than what is summed beside each other?"""
    inside = [abs(x.strides[i]) for i in axes if x.shape[i] > 1]
    return bool(inside) and min(inside) < min(abs(x.strides[i]) for i in range(x.ndim) if i not in axes and x.shape[i] > 1)


def _sum_of_few(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The sum of a few terms that lie inside, term by term, of as many rows as stay in the cache."""
    kept = [i for i in in_memory_order(x.strides) if i not in axes]
    terms = x.transpose([*axes, *kept])
    first, *places = itertools.product(*map(range, terms.shape[: len(axes)]))
    out = empty(terms.shape[len(axes) :], x.dtype.newbyteorder("="))
    rows = max(1, SMALL // math.prod(out.shape[1:]))
    for start in range(0, len(out), rows):
        part = slice(start, start + rows)
        total = out[part]
        np.add(terms[(*first, part)], x.dtype.type(0), out=total)  # so that a sum of nothing but -0 is 0, as NumPy's
        for place in places:
            total += terms[(*place, part)]
    out = out.transpose(inverse(kept))
    return out[tuple([None if i in axes else slice(None) for i in range(x.ndim)])] if keepdims else out


def wide_sum(x: np.ndarray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """The sum of floats, in float64."""
    axes = normalized(axis, x.ndim)
    if x.size <= SMALL or count(x, axes) <= FEW:
        return np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=WIDE)
    return _sum_of_long(x, axes, keepdims, WIDE)


def normalized(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The axes, counted from the front and in order"""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted([i % ndim for i in axis])) if isinstance(axis, tuple) else (axis % ndim,)


def count(x: np.ndarray, axes: Sequence[int]) -> int:
    """How many elements there are along these axes."""
    return math.prod([x.shape[i] for i in axes])


def _sum_of_long(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype) -> np.ndarray:
    """The kernel sums over the one loop with most terms; what is left then is short, and for NumPy."""
    x, plan = _with_plan(_plan_of_sum, x, axes, keepdims)
    sums = _partial_sums(x, plan.loops, plan.cuts, is_whole=True)[:, 0]
    if plan.axes_left is not None:
        sums = np.add.reduce(sums.reshape(plan.shape_left).transpose(plan.order_left), axis=plan.axes_left)
    out = np.empty(plan.shape, dtype.newbyteorder("="))
    return np.add(sums.reshape(plan.shape), 0.0, out=out, casting="same_kind")  # of nothing but -0 it is 0, as NumPy's


def _with_plan(plan_of: Callable, x: np.ndarray, *options) -> tuple[np.ndarray, Any]:
    """The array and its plan_of(shape, strides, itemsize, *options); or a copy, and the copy's, if the array has none: it
    is scattered too much, or not as kernels take it."""
    plan = plan_of(x.shape, x.strides, x.itemsize, *options) if x.flags.aligned and x.dtype.isnative else None
    if plan is None:
        x = np.array(x, dtype=x.dtype.newbyteorder("="), order="C")
        plan = plan_of(x.shape, x.strides, x.itemsize, *options)
    return x, plan


@functools.lru_cache(512)
def loops_of(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, axes: tuple[int, ...]
) -> Loops | None:
    """The loops through an array with these strides in bytes; None if four are not enough."""
    order = in_memory_order(strides)
    neighbours = itertools.groupby(order, axes.__contains__)
    summed = [run for is_summed, group in neighbours if is_summed for run in runs(shape, group, strides)]
    middle = max(summed, key=lambda run: math.prod([shape[i] for i in run]))
    after = order[order.index(middle[-1]) + 1 :]
    inner = (runs(shape, after, strides) or [()])[-1]
    outer = [i for i in order if i not in middle and i not in inner]
    return Loops.of([*runs(shape, outer, strides), middle, inner], shape, itemsize, strides)


def cut(shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """How loops are cut into blocks: `together` of outer, if they are short, by row_blocks of most_rows, by column_blocks
    of COLUMNS."""
    n, inner = shape[2:]
    most_rows = max(LEAST_ROWS, ELEMENTS_TO_SUM // min(inner, COLUMNS))
    return max(1, ELEMENTS_TO_SUM // (n * inner)), -(-n // most_rows), -(-inner // COLUMNS), most_rows


class _PlanOfSum(NamedTuple):
    """How to sum an array: loops, cuts, and the shape of the result."""

    loops: Loops
    cuts: tuple[int, int, int, int]
    shape: tuple[int, ...]
    shape_left: tuple[int, ...]  # of the kernel's sums, in the order of memory
    order_left: tuple[int, ...]  # that puts their axes back
    axes_left: tuple[int, ...] | None  # that are still to be summed, then; None if the kernel's sums are the result


@functools.lru_cache(512)
def _plan_of_sum(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, axes: tuple[int, ...], keepdims: bool
) -> _PlanOfSum | None:
    """How to sum an array with these strides in bytes over `axes`; None if four loops are not enough."""
    long_axes = [i for i, n in enumerate(shape) if n != 1]
    long_shape = tuple([shape[i] for i in long_axes])
    summed = tuple([k for k, i in enumerate(long_axes) if i in axes])
    loops = loops_of(long_shape, tuple([strides[i] for i in long_axes]), itemsize, summed)
    if loops is None:
        return None
    first, second, _, inner = loops.axes
    left = first + second + inner
    axes_left = tuple([k for k, i in enumerate(sorted(left)) if i in summed])
    is_done = not axes_left and left == tuple(sorted(left))
    return _PlanOfSum(
        loops, cut(loops.shape),
        tuple([1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]),
        tuple([long_shape[i] for i in left]), inverse(left),
        None if is_done else axes_left,
    )


def _partial_sums(x: np.ndarray, loops: Loops, cuts: tuple[int, int, int, int], is_whole: bool) -> np.ndarray:
    """(outer, row_blocks, inner): the sums within blocks of rows, float64; of all rows, if `is_whole`, in the first."""
    partial = empty((math.prod(loops.shape[:2]), cuts[1], loops.shape[3]), WIDE)
    like = np.empty(0, x.dtype)
    sum_forward(address(x), loops.shape, *loops.strides, cuts, is_whole, like, partial.reshape(-1))
    return partial


@jit
def _block_of(block, shape, cuts):
    """Of outer, the first and the end; which row block; the first row, and how many; the first column, and how many"""
    together, row_blocks, column_blocks, most_rows = cuts
    first = block // (row_blocks * column_blocks) * together
    row_block = block // column_blocks % row_blocks
    row, column = row_block * most_rows, block % column_blocks * COLUMNS
    return (first, min(shape[0] * shape[1], first + together), row_block, row, min(most_rows, shape[2] - row),
            column, min(COLUMNS, shape[3] - column))


@jit
def _count_blocks(shape, cuts):
    return number_of_blocks(shape[0] * shape[1], cuts[0]) * cuts[1] * cuts[2]


@jit
def _source(like, address, i, row, column, shape, strides):
    """Where row and column of the i-th of outer begin"""
    first, second = (i // shape[1], i % shape[1]) if shape[0] > 1 else (0, i)  # a division takes as long as a short row
    offset = first * strides[0] + second * strides[1] + row * strides[2] + column * strides[3]
    return pointer_like(pointer(like, 0), address + offset * like.itemsize)


@jit
def _pack(x, rows, columns, row_stride, column_stride, packed):
    """Elements that lie apart -> (rows, columns), one behind the other"""
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
    first, end, row_block, row, rows, column, columns = _block_of(block, shape, cuts)
    is_narrow = shape[3] == 1
    along = strides[2 if is_narrow else 3]
    work, packed = np.empty(max(columns, LANES)), np.empty(0 if along == 1 else rows * columns, like.dtype)
    for i in range(first, end):
        x, stride = _source(like, address, i, row, column, shape, strides), strides[2]
        total = pointer(partial, (i * cuts[1] + row_block) * shape[3] + column)
        if along != 1:
            _pack(x, 1 if is_narrow else rows, rows if is_narrow else columns, stride, along, pointer(packed, 0))
            x, stride = pointer(packed, 0), columns
        if is_narrow:
            total[0] = _wide_row_sum(x, rows)
        else:
            sum_down(x, rows, stride, pointer(work, 0), columns)
            copy_to(total, work, columns)


@kernel(parallel=True)
def sum_forward(address, shape, strides, cuts, is_whole, like, partial):
    """The `Loops` of an array at an address, of the dtype of `like`, -> partial (outer * row_blocks * inner,) float64

    In blocks of fixed size (see `cut`): 1. if the elements lie apart, pack them  2. add rows up  3. store the sum.
    If `is_whole`, the sums of all row blocks are then added to the first.
    """
    work = shape[0] * shape[1] * shape[2] * shape[3] // MOVED
    parallel_for(_sum_block, _count_blocks(shape, cuts), work, (address, shape, strides, cuts, like, partial))
    if is_whole:
        row_blocks, inner = cuts[1], shape[3]
        for i in range(shape[0] * shape[1]):
            first = i * row_blocks * inner
            for row_block in range(1, row_blocks):
                add_to(pointer(partial, first), pointer(partial, first + row_block * inner), inner)
