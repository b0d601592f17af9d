"""Loops over blocks: each block once, on any number of threads."""
import itertools
import os
import threading
import time

import numpy as np
import pytest

from minigrad.fast.kernels.jit import get_num_threads, jit, kernel, set_num_threads
from minigrad.fast.kernels.parallel import WORTH_A_THREAD, parallel_for
from minigrad.fast.kernels.threads import IS_SUPPORTED, LINE, WORDS, _spin


@jit
def _mark(block, out, step):
    out[block] += step * (block + 1)


@kernel(parallel=True)
def mark_blocks(out, work, step):
    parallel_for(_mark, out.size, work, (out, step))


@pytest.mark.parametrize("threads", [1, get_num_threads()])
def test_every_block_once(threads):
    before = get_num_threads()
    set_num_threads(threads)
    try:
        for blocks, work in itertools.product((0, 1, 2, 3, 11, 1000), (0, WORTH_A_THREAD)):
            out = np.zeros(blocks, np.int64)
            for pause in (0, 0, 0.002, 0.002):  # after that helpers sleep, and parts are finer
                time.sleep(pause)
                mark_blocks(out, work, 2)
            assert np.array_equal(out, 8 * np.arange(1, blocks + 1)), (blocks, work)
    finally:
        set_num_threads(before)


@kernel
def spin(address, word, value, is_awaited):
    return _spin(address, word, value, is_awaited)


def test_spinning_ends_with_what_is_awaited_or_with_patience():
    state = np.zeros(WORDS, np.int64)
    state[LINE] = 7
    outcomes = {(value, is_awaited): spin(state.ctypes.data, LINE, value, is_awaited)
                for value in (7, 8) for is_awaited in (True, False)}
    assert outcomes == {(7, True): True, (7, False): False, (8, True): False, (8, False): True}
    assert state[LINE] == 7


def test_it_can_be_called_twice_in_one_kernel():
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

    threads = [threading.Thread(target=run, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(out, 2000 * np.arange(1, 65)) for out in outs)


@pytest.mark.skipif(not hasattr(os, "fork") or not IS_SUPPORTED, reason="only where processes fork, and threads are ours")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_can_go_on():
    out = np.zeros(64, np.int64)
    mark_blocks(out, WORTH_A_THREAD, 1)
    child = os.fork()
    if child == 0:
        mark_blocks(out, WORTH_A_THREAD, 1)
        os._exit(0 if np.array_equal(out, 2 * np.arange(1, 65)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
