"""Look-up of rows in a table, plus the rows of their positions; and the gradient, which adds each row back."""
import numpy as np

from .jit import jit, kernel
from .parallel import parallel_for
from .rows import LANES, ROWS, add_to, copy_to, fill, number_of_blocks, sum_down
from .simd import on_stack, pointer
from .thresholds import MOVED

COLUMNS = 64  # columns per block
ELEMENTS = 1024  # of positions per block


@jit
def _forward_block(block, weight, positions, ids, out):
    width = out.shape[1]
    for row in range(block * ROWS, min(out.shape[0], (block + 1) * ROWS)):
        item, time = row // ids.shape[1], row % ids.shape[1]
        copy_to(pointer(out, row * width), pointer(weight, ids[item, time] * width), width)
        if positions.shape[0]:
            add_to(pointer(out, row * width), pointer(positions, time * width), width)


@kernel(parallel=True)
def embedding_forward(weight, positions, ids, out):
    """weight (V, C), positions (P, C), P = 0 or P >= T, ids (B, T) in range -> out (B * T, C): weight[id] + positions[t]"""
    parallel_for(_forward_block, number_of_blocks(out.shape[0], ROWS), out.size, (weight, positions, ids, out))


@jit
def sort_rows_by_id(ids, count, rows, starts):
    """rows = all rows sorted by id, in order for each id: those of id v begin at starts[v] and end at starts[v + 1].
    `starts` has count + 2 elements."""
    starts[:] = 0
    for row in range(ids.size):
        starts[ids[row] + 2] += 1
    for v in range(2, count + 2):
        starts[v] += starts[v - 1]
    for row in range(ids.size):  # starts[v + 1] moves from where the rows of v begin to where they end
        index = ids[row] + 1
        rows[starts[index]] = row
        starts[index] += 1


@jit
def _backward_block(block, dout, rows, starts, dweight):
    width, start = dweight.shape[1], block * COLUMNS
    columns = min(width - start, COLUMNS)
    total = on_stack(COLUMNS)
    for v in range(dweight.shape[0]):
        out, first, end = pointer(dweight, v * width + start), starts[v], starts[v + 1]
        if first < end:
            copy_to(total, pointer(dout, rows[first] * width + start), columns)
            first += 1
        else:
            fill(total, 0, columns)
        for k in range(first, end):
            add_to(total, pointer(dout, rows[k] * width + start), columns)
        copy_to(out, total, columns)


@kernel(parallel=True)
def _backward(dout, ids, dweight, rows, starts):
    sort_rows_by_id(ids, len(dweight), rows, starts)
    blocks = number_of_blocks(dweight.shape[1], COLUMNS)
    parallel_for(_backward_block, blocks, dout.size // MOVED, (dout, rows, starts, dweight))


def embedding_backward(dout, ids, dweight):
    """dout (N, C), ids (N,) in range -> dweight (V, C): the sum of dout[n] over all n with ids[n] = v

    Rows are sorted by id, so that each sum is taken in float64 and rounded once. Threads share the columns.
    """
    _backward(dout, ids, dweight, np.empty(ids.size, np.int64), np.empty(len(dweight) + 2, np.int64))


@jit
def _positions_block(block, dout, dpositions):
    width, first = dout.shape[1] * dout.shape[2], block * ELEMENTS
    count = min(ELEMENTS, width - first)
    work = np.empty(max(count, LANES))
    sum_down(pointer(dout, first), dout.shape[0], width, pointer(work, 0), count)
    copy_to(pointer(dpositions, first), work, count)


@kernel(parallel=True)
def positions_backward(dout, dpositions):
    """dout (B, T, C) -> dpositions (P, C): the sum of dout over the batch; rows from T on are 0"""
    used = dout.shape[1] * dout.shape[2]
    fill(pointer(dpositions, used), 0, dpositions.size - used)
    blocks = number_of_blocks(used, ELEMENTS)
    parallel_for(_positions_block, blocks, dout.size, (dout, dpositions))
