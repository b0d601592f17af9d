"""Loops over blocks: each block once, on any number of threads."""
import numpy as np
import pytest

from minigrad.kernels.jit import get_num_threads, jit, kernel, set_num_threads
from minigrad.kernels.parallel import WORTH_A_THREAD, parallel_for


@jit
def _mark(block, out, step):
    out[block] += step * (block + 1)


@kernel(parallel=True)
def mark_blocks(out, work, step):
    parallel_for(_mark, out.size, work, (out, step))


@pytest.mark.parametrize("threads", [1, get_num_threads()])
@pytest.mark.parametrize("work", [0, WORTH_A_THREAD])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 1000])
def test_every_block_once(blocks, work, threads):
    before = get_num_threads()
    set_num_threads(threads)
    try:
        out = np.zeros(blocks, np.int64)
        mark_blocks(out, work, 2)
    finally:
        set_num_threads(before)
    assert np.array_equal(out, 2 * np.arange(1, blocks + 1))


def test_it_can_be_called_twice_in_one_kernel():
    @kernel(parallel=True)
    def both(out, work):
        parallel_for(_mark, out.size, work, (out, 1))
        parallel_for(_mark, out.size, work, (out, 10))

    out = np.zeros(100, np.int64)
    both(out, WORTH_A_THREAD)
    assert np.array_equal(out, 11 * np.arange(1, 101))
