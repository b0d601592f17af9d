"""Look-up of rows in a table, with the rows of their positions added, and its gradient: add each row where it came from."""
from .jit import jit, kernel
from .parallel import parallel_for
from .rows import ROWS, add_to, number_of_blocks
from .simd import pointer

COLUMNS = 64  # columns per block


@jit
def _copy(row, out, count):
    for j in range(count):
        out[j] = row[j]


@jit
def _forward_block(block, weight, positions, ids, out):
    width = out.shape[1]
    for row in range(block * ROWS, min(out.shape[0], (block + 1) * ROWS)):
        item, time = row // ids.shape[1], row % ids.shape[1]
        _copy(pointer(weight, ids[item, time] * width), pointer(out, row * width), width)
        if positions.shape[0]:
            add_to(pointer(out, row * width), pointer(positions, time * width), width)


@kernel(parallel=True)
def embedding_forward(weight, positions, ids, out):
    """weight (V, C), positions (P, C), P = 0 or P >= T, ids (B, T) in range -> out (B * T, C): weight[id] + positions[t]"""
    parallel_for(_forward_block, number_of_blocks(out.shape[0], ROWS), out.size, (weight, positions, ids, out))


@jit
def _backward_block(block, dout, ids, dweight):
    width = dweight.shape[1]
    start, stop = block * COLUMNS, min(width, (block + 1) * COLUMNS)
    for row in range(dweight.shape[0]):
        dweight[row, start:stop] = 0
    for row in range(ids.size):
        add_to(pointer(dweight, ids[row] * width + start), pointer(dout, row * width + start), stop - start)


@kernel(parallel=True)
def embedding_backward(dout, ids, dweight):
    """dout (N, C), ids (N,) in range -> dweight (V, C): the sum of dout[n] over all n with ids[n] = v

    Cut by columns, not rows: no two threads meet in one place, and the order of addition is that of the rows.
    """
    parallel_for(_backward_block, number_of_blocks(dweight.shape[1], COLUMNS), dout.size, (dout, ids, dweight))


@jit
def _positions_row(row, dout, dpositions):
    batch, time, width = dout.shape
    dpositions[row, :] = 0
    if row < time:
        for item in range(batch):
            add_to(pointer(dpositions, row * width), pointer(dout, (item * time + row) * width), width)


@kernel(parallel=True)
def positions_backward(dout, dpositions):
    """dout (B, T, C) -> dpositions (P, C): the sum of dout over the batch; rows from T on are 0"""
    parallel_for(_positions_row, dpositions.shape[0], dout.size, (dout, dpositions))
