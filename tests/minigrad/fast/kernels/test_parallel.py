"""Loops over blocks: each block runs once, on any number of threads."""
import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from minigrad.fast.kernels.jit import jit, kernel
from minigrad.fast.kernels.parallel import WORTH_A_THREAD, parallel_for
from minigrad.fast.kernels.threads import IS_SUPPORTED, LINE, WORDS, _spin


@jit
def _mark(block, out, step):
    out[block] += step * (block + 1)


@kernel(parallel=True)
def mark_blocks(out, work, step):
    parallel_for(_mark, out.size, work, (out, step))


def test_every_block_runs_once(thread_counts):
    for _ in thread_counts():
        for blocks, work in itertools.product((0, 1, 2, 3, 11, 1000), (0, WORTH_A_THREAD)):
            out = np.zeros(blocks, np.int64)
            for pause in (0, 0, 0.002, 0.002):  # after these, helpers sleep, and parts are finer
                time.sleep(pause)
                mark_blocks(out, work, 2)
            assert np.array_equal(out, 8 * np.arange(1, blocks + 1)), (blocks, work)


@kernel
def spin(address, word, value, is_awaited):
    return _spin(address, word, value, is_awaited)


def test_spinning_ends_with_the_awaited_value_or_after_a_while():
    state = np.zeros(WORDS, np.int64)
    state[LINE] = 7
    outcomes = {(value, is_awaited): spin(state.ctypes.data, LINE, value, is_awaited)
                for value in (7, 8) for is_awaited in (True, False)}
    assert outcomes == {(7, True): True, (7, False): False, (8, True): False, (8, False): True}
    assert state[LINE] == 7


def test_a_kernel_may_have_two_loops():
    @kernel(parallel=True)
    def both(out, work):
        parallel_for(_mark, out.size, work, (out, 1))
        parallel_for(_mark, out.size, work, (out, 10))

    out = np.zeros(100, np.int64)
    both(out, WORTH_A_THREAD)
    assert np.array_equal(out, 11 * np.arange(1, 101))


def test_python_threads_do_not_disturb_each_other():
    outs = [np.zeros(64, np.int64) for _ in range(4)]

    def run(out):
        for _ in range(2000):
            mark_blocks(out, WORTH_A_THREAD, 1)

    with ThreadPoolExecutor(len(outs)) as pool:
        list(pool.map(run, outs))
    assert all(np.array_equal(out, 2000 * np.arange(1, 65)) for out in outs)


@pytest.mark.skipif(not hasattr(os, "fork") or not IS_SUPPORTED, reason="needs fork, and the team of threads")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_can_run_kernels():
    out = np.zeros(64, np.int64)
    mark_blocks(out, WORTH_A_THREAD, 1)
    child = os.fork()
    if child == 0:
        mark_blocks(out, WORTH_A_THREAD, 1)
        os._exit(0 if np.array_equal(out, 2 * np.arange(1, 65)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
