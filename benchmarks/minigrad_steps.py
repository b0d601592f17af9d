"""minigrad's steps: each function returns a step, a function that returns its results."""
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
import nn.functional as F
from benchmarks.common import (
    SETTINGS, matrices, normal, random_batch, random_gradients, random_parameters, row_problem,
)
from minigrad.fast.kernels import gemm
from models import CausalTransformer, TransformerConfig, generate

ROW_OPS = {
    "layer_norm": lambda x, weight, bias: F.layer_norm(x, x.shape[-1], weight, bias),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "softmax": lambda x: F.softmax(x, -1),
    "cross_entropy": F.cross_entropy,
}


def transformer(sizes: dict) -> CausalTransformer:
    model = CausalTransformer(TransformerConfig(**sizes))
    model.load_state_dict(random_parameters(sizes))
    return model


def make_optimizer(parameters: list[mg.Tensor]) -> nn.optim.Optimizer:
    """AdamW that clips, and decays matrices only."""
    settings = dict(SETTINGS)
    weight_decay, max_norm = settings.pop("weight_decay"), settings.pop("max_norm")
    return nn.optim.AdamW([{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
                           {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                          max_grad_norm=max_norm, **settings)


def training_step(sizes: dict, batch_size: int, compiled: bool = False, precision: str = "float32") -> Callable[[], list]:
    """Forward, backward, clip, AdamW; the loss. Precision bfloat16 means autocast."""
    model = transformer(sizes)
    tokens, targets = (mg.tensor(array) for array in random_batch(sizes, batch_size))
    optimizer = make_optimizer(list(model.parameters()))

    def step(tokens: mg.Tensor, targets: mg.Tensor) -> mg.Tensor:
        optimizer.zero_grad()
        with mg.autocast("cpu", dtype=mg.bfloat16, enabled=precision == "bfloat16"):
            loss = model(tokens, targets)[1]
        loss.backward()
        optimizer.step()
        return loss

    step = mg.compile(step) if compiled else step
    return lambda: [step(tokens, targets).item()]


def forward_and_backward(function: Callable, inputs: list[np.ndarray], constants: list[np.ndarray],
                         dout: np.ndarray) -> Callable[[], list]:
    """function(*inputs, *constants) and the gradients of its inputs."""
    inputs = [mg.tensor(array, requires_grad=True) for array in inputs]
    constants, dout = [mg.tensor(array) for array in constants], mg.tensor(dout)

    def step() -> list:
        for x in inputs:
            x.grad = None
        y = function(*inputs, *constants)
        y.backward(dout)
        return [y.array, *(x.grad.array for x in inputs)]

    return step


def row_op(op: str, rows: int, width: int) -> Callable[[], list]:
    return forward_and_backward(ROW_OPS[op], *row_problem(op, rows, width))


def attention(batch_size: int, T: int, heads: int, head_size: int) -> Callable[[], list]:
    packed, dout = normal((batch_size, T, 3 * heads * head_size), (batch_size, T, heads * head_size))
    return forward_and_backward(lambda x: F.packed_attention(x, heads, is_causal=True), [packed], [], dout)


def adamw(sizes: dict) -> Callable[[], list]:
    """Clipping and AdamW, for all parameters of a model; the first of them."""
    model, gradients = transformer(sizes), random_gradients(sizes)
    for name, parameter in model.named_parameters():
        parameter.grad = mg.tensor(gradients[name])
    optimizer = make_optimizer(list(model.parameters()))

    def step() -> list:
        optimizer.step()
        return [model.token_embedding.weight.array]

    return step


def matmul(M: int, K: int, N: int, layout: str) -> Callable[[], list]:
    a, b, out = matrices(M, K, N, layout)
    return lambda: [gemm.matmul(a, b, out=out)]


def generation(sizes: dict, count: int) -> Callable[[], list]:
    """`count` tokens after the first one; their number."""
    model = transformer(sizes)
    return lambda: [len(list(generate(model, [0], count)))]
