"""Taking elements by position along one axis, and the transpose, which adds them back, on all threads.

An array is seen as (outer, n, inner), with positions along n. Positions are (outer, k, inner), of any strides: with strides
of 0 along outer and inner, the same k positions apply to all.
"""
import math

import numpy as np

from .buffers import empty
from .copying import copy, in_order
from .embedding import embedding_backward
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import number_of_blocks
from .simd import pointer, shift
from .thresholds import FEW, MOVED

ELEMENTS = 1 << 13  # per block
COLUMNS = 64  # of inner, per block, at most
SUMS = 1 << 16  # held by a block at a time, if that leaves it some columns
MOVED_AS = {1: np.uint8, 4: np.float32, 8: np.float64}  # elements that are only moved, by their size


def take(x: np.ndarray, dim: int, positions: np.ndarray, for_all: bool) -> np.ndarray:
    """For dim = 1, x[:, positions]; or if not `for_all`, out[i, j] = x[i, positions[i, j]].

    Positions count from 0 and are in range.

    >>> x, positions = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[2, 0], [1, 1]])
    >>> take(x, 1, positions[0], True).tolist(), take(x, 1, positions, False).tolist()
    ([[3.0, 1.0], [6.0, 4.0]], [[3.0, 1.0], [5.0, 5.0]])
    """
    shape = positions.shape if for_all else positions.shape[dim : dim + 1]
    out = empty(x.shape[:dim] + shape + x.shape[dim + 1 :], x.dtype)
    if out.size:
        outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
        x = in_order(x)
        moved_as, count = MOVED_AS[x.itemsize], math.prod(shape)
        take_forward(x.view(moved_as).reshape(outer, -1, inner), positions.reshape(-1), _strides(count, inner, for_all),
                     out.view(moved_as).reshape(outer, count, inner))
    return out


def add_along(
    dout: np.ndarray, dim: int, positions: np.ndarray, for_all: bool, length: int, onto: np.ndarray | None = None
) -> np.ndarray:
    """The transpose of `take` from an array with `length` elements along dim: each element of dout is added where it would
    be taken from, in float64, to zeros or to `onto`.

    >>> dout = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> add_along(dout, 1, np.array([0, 0]), True, 3).tolist()
    [[3.0, 0.0, 0.0], [7.0, 0.0, 0.0]]
    >>> add_along(dout, 1, np.array([0, 0]), True, 3, onto=np.ones((2, 3))).tolist()
    [[4.0, 1.0, 1.0], [8.0, 1.0, 1.0]]
    """
    last = dim + (positions.ndim if for_all else 1)
    dx = empty(dout.shape[:dim] + (length,) + dout.shape[last:], dout.dtype)
    outer, count, inner = math.prod(dout.shape[:dim]), math.prod(dout.shape[dim:last]), math.prod(dout.shape[last:])
    is_whole_rows = for_all and outer == 1 and inner > 1  # only rows that are used are read
    if not dout.size or count <= FEW and not is_whole_rows:
        copy(np.zeros((), dx.dtype) if onto is None else onto, dx)
    if not dout.size:
        return dx
    dout, onto = in_order(dout), dx[:0] if onto is None else in_order(onto)
    if is_whole_rows:
        embedding_backward(dout.reshape(count, inner), positions.reshape(-1), dx.reshape(length, inner),
                           onto.reshape(-1, inner))
    else:
        add_forward(dout.reshape(outer, count, inner), positions.reshape(-1), _strides(count, inner, for_all),
                    onto.reshape(-1), dx.reshape(outer, length, inner))
    return dx


def put_along(out: np.ndarray, dim: int, positions: np.ndarray, values: np.ndarray) -> bool:
    """For dim = 1, out[i, positions[i, j]] = values[i, j], or one value everywhere; out is in C order. True if a place was
    set twice.

    >>> out = np.zeros((2, 3))
    >>> put_along(out, 1, np.array([[2], [0]]), np.array([[1.0], [2.0]]))
    False
    >>> out.tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    """
    outer, count, inner = math.prod(out.shape[:dim]), positions.shape[dim], math.prod(out.shape[dim + 1 :])
    moved_as, values = MOVED_AS[out.itemsize], in_order(values.astype(out.dtype, copy=False))
    repeats = np.empty(outer, np.uint8)
    put_forward(values.view(moved_as).reshape(-1), positions.reshape(outer, count, inner),
                out.view(moved_as).reshape(outer, -1, inner), repeats)
    return bool(repeats.any())


def _strides(count: int, inner: int, for_all: bool) -> tuple[int, int, int]:
    """The strides of positions, in elements."""
    return (0, 1, 0) if for_all else (count * inner, inner, 1)


@jit
def _take_block(block, x, positions, strides, rows, out):
    n, inner, count = x.shape[1], x.shape[2], out.shape[1]
    outer_stride, stride, inner_stride = strides
    first = block * rows
    for row in range(first, min(out.shape[0] * count, first + rows) if inner > 1 else min(out.shape[0], first + rows)):
        if inner == 1:
            source, target = pointer(x, row * n), pointer(out, row * count)
            at = shift(positions, row * outer_stride)
            for j in range(count):
                target[j] = source[at[j * stride]]
        else:
            i, j = row // count, row % count
            at = shift(positions, i * outer_stride + j * stride)
            target = pointer(out, row * inner)
            if inner_stride == 0:
                source = pointer(x, (i * n + at[0]) * inner)
                for column in range(inner):
                    target[column] = source[column]
            else:
                source = pointer(x, i * n * inner)
                for column in range(inner):
                    target[column] = source[at[column * inner_stride] * inner + column]


@kernel(parallel=True)
def take_forward(x, positions, strides, out):
    """x (outer, n, inner), positions in range, out (outer, k, inner): out[o, j, i] = x[o, position[o, j, i], i]"""
    rows = max(1, ELEMENTS // (out.shape[1] if x.shape[2] == 1 else x.shape[2]))
    count = out.shape[0] if x.shape[2] == 1 else out.shape[0] * out.shape[1]
    parallel_for(_take_block, number_of_blocks(count, rows), out.size // MOVED,
                 (x, pointer(positions, 0), strides, rows, out))


@jit
def _put(value, target, place, is_met):
    """Set a place. Was it set before?"""
    target[place], found, is_met[place] = value, is_met[place], 1
    return found


@jit
def _put_block(block, values, step, positions, rows, out, repeats):
    n, inner, count = out.shape[1], out.shape[2], positions.shape[1]
    marks = np.empty(n * inner, np.uint8)
    for i in range(block * rows, min(out.shape[0], (block + 1) * rows)):
        target, start, is_met = pointer(out, i * n * inner), i * count * inner, pointer(marks, 0)
        source, at = pointer(values, start * step), pointer(positions, start)
        found = np.uint8(0)
        marks[:] = 0
        if inner == 1:
            for j in range(count):
                found |= _put(source[j * step], target, at[j], is_met)
        else:
            for k in range(count * inner):
                found |= _put(source[k * step], target, at[k] * inner + k % inner, is_met)
        repeats[i] = found


@kernel(parallel=True)
def put_forward(values, positions, out, repeats):
    """values (outer * k * inner,) or (1,), positions (outer, k, inner) in range -> out (outer, n, inner), repeats (outer,):
    out[o, position[o, j, i], i] = value[o, j, i]. If a place is set twice, the last value stays, and repeats[o] is 1, else
    0."""
    rows = max(1, ELEMENTS // (positions.shape[1] * positions.shape[2]))
    step = 0 if values.size == 1 else 1
    blocks = number_of_blocks(out.shape[0], rows)
    parallel_for(_put_block, blocks, positions.size // MOVED, (values, step, positions, rows, out, repeats))


@jit
def _add_row(source, at, stride, count, onto, is_onto, sums, target, n):
    """target (n,) = onto if is_onto, else 0; then target[at[j]] += source[j]; on pointers"""
    for k in range(n):
        sums[k] = onto[k] if is_onto else -0.0
    if stride == 1:
        for j in range(count):
            sums[at[j]] += source[j]
    else:
        for j in range(count):
            sums[at[j * stride]] += source[j]
    for k in range(n):
        target[k] = sums[k] + 0.0


@jit
def _add_block(block, dout, positions, strides, rows, columns, onto, dx):
    n, inner, count = dx.shape[1], dx.shape[2], dout.shape[1]
    outer_stride, stride, inner_stride = strides
    column_blocks = number_of_blocks(inner, columns)
    first, start = block // column_blocks * rows, block % column_blocks * columns
    width = min(columns, inner - start)
    sums, is_onto = np.empty(n * width), onto.size > 0
    for i in range(first, min(dx.shape[0], first + rows)):
        if inner == 1:
            _add_row(pointer(dout, i * count), shift(positions, i * outer_stride), stride, count,
                     pointer(onto, i * n), is_onto, pointer(sums, 0), pointer(dx, i * n), n)
            continue
        for row in range(n):
            before = pointer(onto, (i * n + row) * inner + start)
            for column in range(width):
                sums[row * width + column] = before[column] if is_onto else -0.0
        for j in range(count):
            source = pointer(dout, (i * count + j) * inner + start)
            at = shift(positions, i * outer_stride + j * stride + start * inner_stride)
            for column in range(width):
                sums[at[column * inner_stride] * width + column] += source[column]
        for row in range(n):
            target = pointer(dx, (i * n + row) * inner + start)
            for column in range(width):
                target[column] = sums[row * width + column] + 0.0


@jit
def _add_few_block(block, dout, positions, strides, rows, dx):
    n, inner, count = dx.shape[1], dx.shape[2], dout.shape[1]
    outer_stride, stride, inner_stride = strides
    for i in range(block * rows, min(dx.shape[0], (block + 1) * rows)):
        target = pointer(dx, i * n * inner)
        for j in range(count):
            source, at = pointer(dout, (i * count + j) * inner), shift(positions, i * outer_stride + j * stride)
            for column in range(inner):
                target[at[column * inner_stride] * inner + column] += source[column]


@kernel(parallel=True)
def add_forward(dout, positions, strides, onto, dx):
    """dout (outer, k, inner), positions in range, onto (outer * n * inner,) or (0,) -> dx (outer, n, inner): onto, or
    zeros, and then dx[o, position[o, j, i], i] += dout[o, j, i]

    Sums are in float64, rounded once: those of one (o, i) belong to one block. With at most FEW positions a sum has few
    terms and is taken in dx itself, which must hold onto, or zeros, already.
    """
    inner, count = dx.shape[2], dout.shape[1]
    columns = max(1, min(inner, COLUMNS, SUMS // dx.shape[1]))
    if count <= FEW:
        rows = max(1, ELEMENTS // (count * inner))
        blocks = number_of_blocks(dx.shape[0], rows)
        parallel_for(_add_few_block, blocks, dout.size // MOVED, (dout, pointer(positions, 0), strides, rows, dx))
    else:
        rows = max(1, ELEMENTS // (columns * dx.shape[1]))
        blocks = number_of_blocks(dx.shape[0], rows) * number_of_blocks(inner, columns)
        parallel_for(_add_block, blocks, max(dx.size, dout.size) // MOVED,
                     (dout, pointer(positions, 0), strides, rows, columns, onto, dx))
