"""Python threads that train their own models, forks, and memory over many steps."""
import gc
import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import minigrad as mg
import nn
from minigrad.fast.kernels import jit
from models import CausalTransformer, TransformerConfig


def train(seed, steps=5):
    """The losses of a tiny model, from its own random numbers."""
    random = np.random.default_rng(seed)
    model = CausalTransformer(TransformerConfig(vocabulary_size=11, context=8, layers=1, heads=2, width=16))
    for parameter in model.parameters():
        parameter.data[...] = 0.1 * random.standard_normal(parameter.shape)
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2, max_grad_norm=1.0)
    losses = []
    for _ in range(steps):
        tokens, targets = (mg.tensor(random.integers(0, 11, (3, 8))) for _ in range(2))
        _, loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_four_threads_train_as_four_programs_would():
    alone = [train(seed) for seed in range(4)]
    together = [None] * 4

    def run(seed):
        if seed == 0:
            with mg.no_grad():  # the mode of one thread is not the others'
                mg.ones(2) * 2.0
        together[seed] = train(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
may_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # beside other threads


def ends_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_fork
@may_fork
@pytest.mark.parametrize("lock", [
    jit._turn, global_compiler_lock, mg.random.generator().bit_generator.lock,
], ids=["launch", "compiler", "random"])
def test_a_child_does_not_inherit_a_lock_that_another_thread_holds(lock):
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        lock.acquire()
        os._exit(0)
    thread.join()
    assert ends_well(child)
    with lock:  # here, too
        pass


@needs_fork
@may_fork
def test_a_child_forked_while_another_thread_draws_can_draw():
    done = threading.Event()

    def draw():
        while not done.is_set():
            mg.randn(100_000)

    thread = threading.Thread(target=draw)
    thread.start()
    children = []
    for _ in range(5):
        children.append(os.fork())
        if children[-1] == 0:
            signal.alarm(20)
            mg.randn(3)
            os._exit(0)
    done.set()
    thread.join()
    assert all([ends_well(child) for child in children])


@needs_fork
@may_fork
def test_parent_and_child_go_on_from_the_same_random_state():
    mg.manual_seed(5)
    mg.randn(3)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, mg.randn(3).array.tobytes())
        os._exit(0)
    assert ends_well(child) and os.read(reading, 100) == mg.randn(3).array.tobytes()
    os.close(reading)
    os.close(writing)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_memory_is_flat_over_many_steps_without_the_garbage_collector():
    weight = mg.randn(8, 8, requires_grad=True)
    x = mg.randn(4, 8)
    optimizer = nn.optim.SGD([weight], lr=1e-4)

    def steps(count):
        """Memory after them: of Python's objects, and of the process."""
        for _ in range(count):
            ((x @ weight).tanh().softmax(-1) * x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return np.array([tracemalloc.get_traced_memory()[0], resident_bytes()])

    gc.disable()
    tracemalloc.start()
    try:
        before = steps(2000)  # Python keeps up to 2000 freed tuples of each size for later
        objects, process = steps(1000) - before
    finally:
        tracemalloc.stop()
        gc.enable()
    assert objects < 5_000 and process < 400_000  # 5 and 400 bytes a step
