"""PyTorch's steps: each function returns a step, a function that returns its results."""
import types
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.common import (
    SETTINGS, matrices, normal, random_batch, random_gradients, random_parameters, row_problem,
)
from benchmarks.torch_gpt import TorchGPT, packed_attention, torch_name

ROW_OPS = {
    "layer_norm": lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softmax": lambda x: F.softmax(x, -1),
    "cross_entropy": F.cross_entropy,
}


def transformer(sizes: dict) -> TorchGPT:
    model = TorchGPT(types.SimpleNamespace(**sizes))
    model.copy_parameters(random_parameters(sizes))
    return model


def make_update(parameters: list[torch.Tensor]) -> Callable[[], None]:
    """Clip the gradients, then AdamW, fused; it decays matrices only."""
    settings = dict(SETTINGS)
    weight_decay, max_norm = settings.pop("weight_decay"), settings.pop("max_norm")
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
                                   {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                                  fused=True, **settings)

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        optimizer.step()

    return update


def training_step(sizes: dict, batch_size: int, compiled: bool = False, precision: str = "float32") -> Callable[[], list]:
    """Forward, backward, clip, AdamW; the loss. Precision bfloat16 means autocast."""
    model = transformer(sizes)
    tokens, targets = map(torch.from_numpy, random_batch(sizes, batch_size))
    parameters = list(model.parameters())
    update = make_update(parameters)
    run = torch.compile(model) if compiled else model

    def step() -> list:
        for parameter in parameters:
            parameter.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            loss = run(tokens, targets)[1]
        loss.backward()
        update()
        return [loss.item()]

    return step


def forward_and_backward(function: Callable, inputs: list[np.ndarray], constants: list[np.ndarray], dout: np.ndarray,
                         compiled: bool) -> Callable[[], list]:
    """function(*inputs, *constants) and the gradients of its inputs."""
    inputs = [torch.tensor(array, requires_grad=True) for array in inputs]
    constants, dout = [torch.tensor(array) for array in constants], torch.tensor(dout)
    function = torch.compile(function) if compiled else function

    def step() -> list:
        for x in inputs:
            x.grad = None
        y = function(*inputs, *constants)
        y.backward(dout)
        return [y.detach(), *(x.grad for x in inputs)]

    return step


def row_op(op: str, rows: int, width: int, compiled: bool = False) -> Callable[[], list]:
    return forward_and_backward(ROW_OPS[op], *row_problem(op, rows, width), compiled)


def attention(batch_size: int, T: int, heads: int, head_size: int, compiled: bool = False) -> Callable[[], list]:
    packed, dout = normal((batch_size, T, 3 * heads * head_size), (batch_size, T, heads * head_size))
    return forward_and_backward(lambda x: packed_attention(x, heads), [packed], [], dout, compiled)


def adamw(sizes: dict, compiled: bool = False) -> Callable[[], list]:
    """Clipping and AdamW, for all parameters of a model; the first of them."""
    model = transformer(sizes)
    gradients = {torch_name(name): array for name, array in random_gradients(sizes).items()}
    for name, parameter in model.named_parameters():
        parameter.grad = torch.from_numpy(gradients[name])
    update = make_update(list(model.parameters()))
    update = torch.compile(update) if compiled else update

    def step() -> list:
        update()
        return [model.token_embedding.weight.detach()]

    return step


def matmul(M: int, K: int, N: int, layout: str) -> Callable[[], list]:
    a, b, out = map(torch.from_numpy, matrices(M, K, N, layout))
    return lambda: [torch.mm(a, b, out=out)]


def generation(sizes: dict, count: int) -> Callable[[], list]:
    """`count` tokens after the first one, each from a forward pass over all before it, as in nanoGPT; their number."""
    model = transformer(sizes).eval()

    @torch.no_grad()
    def step() -> list:
        tokens = torch.zeros(1, 1, dtype=torch.int64)
        for _ in range(count):
            logits, _ = model(tokens[:, -sizes["context"]:])
            tokens = torch.cat([tokens, torch.multinomial(F.softmax(logits, -1), 1)], 1)
        return [tokens.shape[1] - 1]

    return step
