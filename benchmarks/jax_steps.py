"""JAX's steps: each function returns a step, one jitted call that returns its results."""
import functools
import types
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks import jax_gpt
from benchmarks.common import random_batch, random_parameters

def training_step(sizes: dict, batch_size: int) -> Callable[[], list]:
    """Forward, backward, clip, AdamW; the loss."""
    config = types.SimpleNamespace(**sizes)
    tokens, targets = map(jnp.asarray, random_batch(sizes, batch_size))
    state = jax_gpt.initial_state(random_parameters(sizes))

    @functools.partial(jax.jit, donate_argnums=0)
    def train(state: dict, tokens: jax.Array, targets: jax.Array) -> tuple[dict, jax.Array]:
        loss, gradients = jax.value_and_grad(jax_gpt.loss)(state["parameters"], tokens, targets, config)
        return jax_gpt.update(state, gradients), loss

    def step() -> list:
        nonlocal state
        state, loss = jax.block_until_ready(train(state, tokens, targets))
        return [loss]

    return step
