"""The gradient of a look-up: add each row where it came from."""
from numba import prange

from .jit import kernel
from .rows import add_to, number_of_blocks

COLUMNS = 64  # columns per block


@kernel(parallel=True)
def embedding_backward(dout, ids, dweight):
    """dout (N, C), ids (N,) in range, dweight (V, C) of zeros: dweight[ids[n]] += dout[n].

    Cut by columns, not rows: no two threads meet in one place, and the order of addition is that of the rows.
    """
    rows, width = dout.shape
    for block in prange(number_of_blocks(width, COLUMNS)):
        start, stop = block * COLUMNS, min(width, (block + 1) * COLUMNS)
        for row in range(rows):
            add_to(dweight[ids[row], start:stop], dout[row, start:stop])
