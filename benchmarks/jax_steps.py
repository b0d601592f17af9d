"""JAX's steps: each function returns a step, one jitted call that returns its results."""
import functools
import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import jax_gpt
from benchmarks.common import normal, random_batch, random_gradients, random_parameters, row_problem

ROW_OPS = {
    "layer_norm": jax_gpt.layer_norm,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "softmax": jax.nn.softmax,
    "cross_entropy": jax_gpt.cross_entropy,
}


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


def forward_and_backward(function: Callable, inputs: list[np.ndarray], constants: list[np.ndarray],
                         dout: np.ndarray) -> Callable[[], list]:
    """function(*inputs, *constants) and the gradients of its inputs."""
    inputs, constants, dout = jax.tree.map(jnp.asarray, (inputs, constants, dout))

    @jax.jit
    def run(inputs: list[jax.Array], constants: list[jax.Array], dout: jax.Array) -> list[jax.Array]:
        y, pull_back = jax.vjp(lambda *inputs: function(*inputs, *constants), *inputs)
        return [y, *pull_back(dout)]

    return lambda: jax.block_until_ready(run(inputs, constants, dout))


def row_op(op: str, rows: int, width: int) -> Callable[[], list]:
    return forward_and_backward(ROW_OPS[op], *row_problem(op, rows, width))


def attention(batch_size: int, T: int, heads: int, head_size: int) -> Callable[[], list]:
    packed, dout = normal((batch_size, T, 3 * heads * head_size), (batch_size, T, heads * head_size))
    return forward_and_backward(lambda x: jax_gpt.packed_attention(x, heads), [packed], [], dout)


def adamw(sizes: dict) -> Callable[[], list]:
    """Clipping and AdamW, for all parameters of a model; the first of them."""
    state = jax_gpt.initial_state(random_parameters(sizes))
    gradients = jax.tree.map(jnp.asarray, random_gradients(sizes))
    update = jax.jit(jax_gpt.update, donate_argnums=0)

    def step() -> list:
        nonlocal state
        state = jax.block_until_ready(update(state, gradients))
        return [state["parameters"]["token_embedding.weight"]]

    return step
