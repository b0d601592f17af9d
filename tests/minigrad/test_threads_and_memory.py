"""Python threads that train their own models, memory over many steps, and very large graphs."""
import gc
import os
import threading

import numpy as np
import pytest

import minigrad as mg
import nn
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


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_memory_is_flat_over_10_000_steps_without_the_garbage_collector():
    weight = mg.randn(8, 8, requires_grad=True)
    x = mg.randn(4, 8)
    optimizer = nn.optim.SGD([weight], lr=1e-4)

    def step():
        loss = ((x @ weight).tanh().softmax(-1) * x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    gc.disable()
    try:
        for _ in range(1000):
            step()
        before = resident_bytes()
        for _ in range(10_000):
            step()
        assert resident_bytes() - before < 1_000_000
    finally:
        gc.enable()


def test_a_graph_of_a_million_small_nodes_is_walked():
    x = y = mg.tensor([1.0], requires_grad=True)
    for _ in range(500_000):
        y = y * 1.0 + 0.0
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_freeing_a_long_chain_needs_no_recursion():
    y = mg.tensor([1.0], requires_grad=True)
    for _ in range(200_000):
        y = y + 1.0
    del y
