"""Counted multiply-adds against closed forms."""
import dataclasses

import numpy as np
import pytest

import minigrad as mg
import nn.functional as F
from models import CausalTransformer, TransformerConfig

CONFIG = TransformerConfig(vocabulary_size=11, context=8, layers=3, heads=2, width=16)


def closed_form(config, batch, time):
    """A causal transformer's forward: 12 C^2 per token and block, two products in attention, and the output layer."""
    C, pairs = config.width, time * (time + 1) // 2
    return batch * (config.layers * (12 * time * C * C + 2 * pairs * C) + time * C * config.vocabulary_size)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("time", [1, 5, 8])
def test_a_transformer(time, heads):
    model = CausalTransformer(dataclasses.replace(CONFIG, heads=heads))
    tokens = mg.zeros(3, time, dtype=mg.int64)
    with mg.count_flops() as count:
        _, loss = model(tokens, tokens)
        forward = count.total
        loss.backward()
    assert forward == closed_form(CONFIG, 3, time)
    attention = CONFIG.layers * 3 * time * (time + 1) * CONFIG.width
    assert count.backward_counts.total() == 2 * (forward - attention) + attention // 2 * 5
    assert count.total == forward + count.backward_counts.total()


def leaf(*shape):
    return mg.zeros(*shape, requires_grad=True)


@pytest.mark.parametrize("function, forward, backward", [
    (lambda: leaf(2, 3) @ leaf(3, 4), 24, 48),
    (lambda: leaf(5, 2, 3) @ mg.zeros(3, 4), 120, 120),
    (lambda: F.linear(mg.zeros(7, 3), leaf(4, 3), leaf(4)), 84, 84),
    (lambda: F.mlp(leaf(7, 3), leaf(4, 3), None, leaf(2, 4), None), 7 * (12 + 8), 2 * 7 * (12 + 8)),
    (lambda: mg.einsum("ij,jk->ik", leaf(2, 3), leaf(3, 4)), 24, 48),
    (lambda: mg.einsum("ij,jk->ik", leaf(2, 3), leaf(1, 4)), 24, 48),
    (lambda: leaf(5) @ mg.zeros(5), 5, 5),
    (lambda: F.scaled_dot_product_attention(leaf(3, 2), leaf(5, 2), leaf(5, 2)), 2 * 3 * 5 * 2, 5 * 3 * 5 * 2),
    (lambda: leaf(2, 3).exp() + leaf(2, 3), 0, 0),
])
def test_operations(function, forward, backward):
    with mg.count_flops() as count:
        out = function()
        out.backward(mg.ones(*out.shape))
    assert (count.forward_counts.total(), count.backward_counts.total()) == (forward, backward)


def test_counting_ends_with_the_block_and_nests():
    with mg.count_flops() as outer:
        leaf(2, 3) @ leaf(3, 4)
        with mg.count_flops() as inner:
            leaf(2, 3) @ leaf(3, 4)
    leaf(2, 3) @ leaf(3, 4)
    assert (outer.total, inner.total) == (48, 24)


def test_a_compiled_step_is_counted():
    step = mg.compile(lambda x: x @ x)
    x = mg.tensor(np.ones((3, 3)))
    step(x)
    with mg.count_flops() as count:
        step(x)
    assert count.total == 27
