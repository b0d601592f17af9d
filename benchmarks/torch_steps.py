"""PyTorch's steps: each function returns a step, a function that returns its results."""
import types
from collections.abc import Callable

import torch
from torch.nn import functional as F

from benchmarks.common import SETTINGS, random_batch, random_parameters
from benchmarks.torch_gpt import TorchGPT

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
