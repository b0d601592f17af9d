"""Look-up of rows in a table, with the rows of their positions added, and its gradient: add each row where it came from."""
import numpy as np

from .jit import jit, kernel
from .parallel import parallel_for
from .rows import LANES, ROWS, add_to, copy_to, number_of_blocks, sum_down
from .simd import pointer

COLUMNS = 64  # columns per block


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
    """weight (V, C), positions (P, C), P 0 or at least T, ids (B, T) in range -> out (B * T, C): weight[id] + positions[t]"""
    parallel_for(_forward_block, number_of_blocks(out.shape[0], ROWS), out.size, (weight, positions, ids, out))


@jit
def rows_by_id(ids, count):
    """Which rows have id 0, then which have id 1, and so on, each in order; and where those of each id begin and end."""
    ends = np.zeros(count + 1, np.int64)
    for row in range(ids.size):
        ends[ids[row] + 1] += 1
    for v in range(count):
        ends[v + 1] += ends[v]
    rows, free = np.empty(ids.size, np.int64), ends[:-1].copy()
    for row in range(ids.size):
        rows[free[ids[row]]] = row
        free[ids[row]] += 1
    return rows, ends


@jit
def _backward_block(block, dout, rows, ends, dweight):
    width, start = dweight.shape[1], block * COLUMNS
    columns = min(width - start, COLUMNS)
    work = np.empty(COLUMNS)
    total = pointer(work, 0)
    for v in range(dweight.shape[0]):
        work[:columns] = 0
        for k in range(ends[v], ends[v + 1]):
            add_to(total, pointer(dout, rows[k] * width + start), columns)
        copy_to(pointer(dweight, v * width + start), total, columns)


@kernel(parallel=True)
def embedding_backward(dout, ids, dweight):
    """dout (N, C), ids (N,) in range -> dweight (V, C): the sum of dout[n] over all n with ids[n] = v

    Sorted by id, so that the sum over one that occurs often is taken in float64. Cut by columns: threads meet nowhere.
    """
    rows, ends = rows_by_id(ids, dweight.shape[0])
    parallel_for(_backward_block, number_of_blocks(dweight.shape[1], COLUMNS), dout.size, (dout, rows, ends, dweight))


@jit
def _positions_row(row, dout, dpositions):
    batch, time, width = dout.shape
    if row < time:
        work = np.empty(max(width, LANES))
        sum_down(pointer(dout, row * width), batch, time * width, pointer(work, 0), width)
        copy_to(pointer(dpositions, row * width), pointer(work, 0), width)
    else:
        dpositions[row, :] = 0


@kernel(parallel=True)
def positions_backward(dout, dpositions):
    """dout (B, T, C) -> dpositions (P, C): the sum of dout over the batch; rows from T on are 0"""
    parallel_for(_positions_row, dpositions.shape[0], dout.size, (dout, dpositions))
