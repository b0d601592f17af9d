"""Memory that is reused is never in use."""
import numpy as np

from minigrad.fast import pool as pools
from minigrad.fast.pool import Pool


def test_pool_reuses_memory_without_references():
    pool, dtype = Pool(), np.dtype(np.float32)
    first = pool.empty((100, 1000), dtype)
    address, view = first.ctypes.data, first[3:].T
    assert address % 64 == 0
    del first
    assert pool.empty((100, 1000), dtype).ctypes.data != address  # the view still needs it
    del view
    assert address in {array.ctypes.data for array in [pool.empty((100, 1000), dtype) for _ in range(2)]}


def test_pool_never_lends_a_byte_twice():
    pool, generator, lent = Pool(), np.random.default_rng(0), []
    for number in range(3000):
        if len(lent) > 20:
            for _ in range(generator.integers(1, 20)):
                del lent[generator.integers(len(lent))]
        array = pool.empty((int(generator.integers(1 << 16, 1 << 18)),), np.dtype(np.int8))
        assert array.ctypes.data % 64 == 0
        array[...] = number % 128
        lent.append((array[10:], number % 128))
        del array
    assert all((array == number).all() for array, number in lent)
    assert pool.nbytes() < 1 << 24


def test_each_step_takes_the_memory_of_the_step_before():
    """As in a transformer with four blocks, in which 102 pieces are in use at once."""
    pool, held = Pool(), []

    def empty(size: int) -> np.ndarray:
        return pool.empty((size << 18,), np.dtype(np.uint8))

    for _ in range(4):
        saved, gradients = [], []
        for _ in range(4):
            saved.append([empty(size) for size in (2, 6, 2, 2, 8)])
            hidden, out = empty(8), empty(2)
            del hidden, out
        upstream = empty(2)
        while saved:
            of_block = saved.pop()
            hidden, of_hidden = empty(8), empty(8)
            gradients += [empty(1), empty(1)]
            upstream = empty(2)
            del hidden, of_hidden, of_block[-2:]
            packed = empty(6)
            gradients.append(empty(1))
            upstream = empty(2)
            del packed, of_block
        del upstream
        gradients.clear()
        held.append(pool.nbytes())
    assert held == [118 << 18] * 4


def test_pool_frees_sizes_that_are_no_longer_used():
    pool, dtype = Pool(), np.dtype(np.uint8)
    for size in range(1 << 22, 1 << 24, 1 << 19):
        pool.empty((size,), dtype)
    assert pool.nbytes() < 1 << 27


def test_pool_keeps_what_the_next_step_needs(monkeypatch):
    """Activations are idle at the end of a step, and gradients at its start: neither is freed."""
    pool, dtype, made = Pool(), np.dtype(np.uint8), []
    monkeypatch.setattr(pools, "aligned", lambda size, make=pools.aligned: made.append(size) or make(size))
    gradients = []
    for _ in range(4):
        gradients.clear()
        made.clear()
        activations = [pool.empty((4_000_000,), dtype) for _ in range(30)]
        while activations:
            activations.pop()
            gradients.append(pool.empty((3_000_000,), dtype))
    assert made == []
