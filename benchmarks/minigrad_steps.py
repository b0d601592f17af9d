"""minigrad's steps: each function returns a step, a function that returns its results."""
from collections.abc import Callable

import minigrad as mg
import nn
from benchmarks.common import SETTINGS, random_batch, random_parameters
from models import CausalTransformer, TransformerConfig, generate

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


def generation(sizes: dict, count: int) -> Callable[[], list]:
    """`count` tokens after the first one; their number."""
    model = transformer(sizes)
    return lambda: [len(list(generate(model, [0], count)))]
