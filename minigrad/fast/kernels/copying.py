"""Copies between arrays of any strides, on all threads, for ops that concatenate, repeat, flip, shift or reorder elements.

NumPy copies on one thread, along the fastest axis of one array: in a transposed copy it fetches a cache line for each
element of the other. Here squares are transposed in registers, so each line of both arrays is fetched once. Only the size
of elements matters, so float64 and int64 share a kernel.
"""
import functools
from collections.abc import Sequence

import numpy as np

from ..pool import SMALL
from .axes import Loops, in_memory_order, runs
from .buffers import empty
from .jit import address, jit, kernel
from .microkernel import shape, transpose_square
from .parallel import parallel_for
from .rows import number_of_blocks
from .simd import pointer, pointer_like, shift
from .thresholds import COPIED, COPIED_SLOWLY, MOVED

BLOCK = 1 << 14  # elements per block
NARROW = 16  # columns; fewer are copied one by one
MOVED_AS = {4: np.empty(0, np.float32), 8: np.empty(0, np.float64)}  # by size; NumPy copies booleans


def are_contiguous(arrays: Sequence) -> bool:
    """Can kernels take all arrays among these without a copy: in C order, aligned, writeable, not empty?"""
    for array in arrays:
        if isinstance(array, np.ndarray) and not (array.flags.carray and array.size):
            return False
    return True


def copied(x: np.ndarray) -> np.ndarray:
    """A copy in C order.

    >>> copied(np.arange(6).reshape(2, 3).T).strides
    (16, 8)
    """
    if type(x) is not np.ndarray:  # a scalar
        return np.copy(x, "C")
    if x.nbytes < SMALL:
        return x.copy()
    out = empty(x.shape, x.dtype)
    copy(x, out)
    return out


def in_order(x: np.ndarray) -> np.ndarray:
    """The array itself if it is in C order, else a copy in C order."""
    return x if x.flags.c_contiguous else copied(x)


def copy(x: np.ndarray, out: np.ndarray) -> None:
    """out[...] = x, with broadcasting."""
    if (out.size >= COPIED_SLOWLY and x.dtype == out.dtype and x.itemsize in MOVED_AS
            and (out.size >= COPIED or x.strides != out.strides and x.shape == out.shape)):
        x = np.asarray(x)  # a NumPy scalar has no address
        strides = x.strides if x.shape == out.shape else np.broadcast_to(x, out.shape).strides
        loops = common_loops(out.shape, strides, out.strides, x.itemsize) if x.flags.aligned and out.flags.aligned else None
        if loops is not None:
            copy_forward(address(x), address(out), loops.shape, *loops.strides, MOVED_AS[x.itemsize])
            return
    out[...] = x


@functools.lru_cache(512)
def common_loops(
    shape: tuple[int, ...], strides: tuple[int, ...], out_strides: tuple[int, ...], itemsize: int
) -> Loops | None:
    """The loops through two arrays of one shape, by their strides in bytes; None if more than four are needed.

    The last loop runs along the fastest axis of `out`, the one before it along that of x, if it is another.
    """
    order = [i for i in in_memory_order(out_strides) if shape[i] > 1]
    *axes, last = runs(shape, order, strides, out_strides) or [()]
    if axes:
        fastest = min(axes, key=lambda run: abs(strides[run[-1]]) or 1 << 62)
        if 0 < abs(strides[fastest[-1]]) < abs(strides[last[-1]]):
            axes.append(axes.pop(axes.index(fastest)))
    return Loops.of([*axes, last], shape, itemsize, strides, out_strides)


@jit
def _copy_run(x, stride, out, out_stride, count):
    """out[j * out_stride] = x[j * stride], on pointers. Constant strides make vectorised loops."""
    if out_stride == 1 and stride == 1:
        for j in range(count):
            out[j] = x[j]
    elif out_stride == 1 and stride == 0:
        value = x[0]
        for j in range(count):
            out[j] = value
    elif out_stride == 1 and stride == -1:
        for j in range(count):
            out[j] = x[-j]
    else:
        for j in range(count):
            out[j * out_stride] = x[j * stride]


@jit
def _copy_transposed(x, stride, out, out_stride, rows, columns):
    """out[k * out_stride + j] = x[j * stride + k], k < rows, j < columns, on pointers: squares first, then the rest."""
    lanes, _, _ = shape(x)
    square_rows, square_columns = rows // lanes * lanes, columns // lanes * lanes
    for j in range(0, square_columns, lanes):
        for k in range(0, square_rows, lanes):
            transpose_square(shift(x, j * stride + k), stride, lanes, lanes, shift(out, k * out_stride + j), out_stride)
    for k in range(rows):
        for j in range(square_columns if k < square_rows else 0, columns):
            out[k * out_stride + j] = x[j * stride + k]


@jit
def _copy_block(block, address, out_address, sizes, strides, out_strides, rows, columns, like):
    row_blocks, column_blocks = number_of_blocks(sizes[2], rows), number_of_blocks(sizes[3], columns)
    i, column = block // column_blocks, block % column_blocks * columns
    i, row = i // row_blocks, i % row_blocks * rows
    rows, columns = min(rows, sizes[2] - row), min(columns, sizes[3] - column)
    first, second = i // sizes[1], i % sizes[1]
    down, along, out_down, out_along = strides[2], strides[3], out_strides[2], out_strides[3]
    start = first * strides[0] + second * strides[1] + row * down + column * along
    out_start = first * out_strides[0] + second * out_strides[1] + row * out_down + column * out_along
    x = pointer_like(pointer(like, 0), address + start * like.itemsize)
    out = pointer_like(pointer(like, 0), out_address + out_start * like.itemsize)
    if columns < NARROW < rows:
        for j in range(columns):
            _copy_run(shift(x, j * along), down, shift(out, j * out_along), out_down, rows)
    elif down == 1 and out_along == 1 and along != 0:
        _copy_transposed(x, along, out, out_down, rows, columns)
    else:
        for k in range(rows):
            _copy_run(shift(x, k * down), along, shift(out, k * out_down), out_along, columns)


@kernel(parallel=True)
def copy_forward(address, out_address, sizes, strides, out_strides, like):
    """Copy from one address to another, in four nested loops, with strides in elements of `like`.

    In blocks of the two inner loops: 1. if the arrays' fastest axes differ, in squares as wide as a vector  2. else run
    by run, along the longer loop.
    """
    columns = min(sizes[3], 128 if strides[2] == out_strides[3] == 1 else BLOCK)
    rows = min(sizes[2], max(1, BLOCK // columns))
    size = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    blocks = sizes[0] * sizes[1] * number_of_blocks(sizes[2], rows) * number_of_blocks(sizes[3], columns)
    parallel_for(_copy_block, blocks, size // MOVED, (
        address, out_address, sizes, strides, out_strides, rows, columns, like,
    ))
