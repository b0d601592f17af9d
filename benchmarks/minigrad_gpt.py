"""Training steps of models.CausalTransformer.

As a script, it takes training steps alone in a process and prints its peak memory in MB:
python -m benchmarks.minigrad_gpt CONFIG_IN_JSON BATCH_SIZE STEPS
"""
import json
import sys
from collections.abc import Callable

import numpy as np

import minigrad as mg
import nn
from benchmarks.common import peak_megabytes, random_batch
from models import CausalTransformer, TransformerConfig


def make_step(model: CausalTransformer, tokens: np.ndarray, targets: np.ndarray, weight_decay: float, max_norm: float,
              **options) -> Callable[[], float]:
    """A function that takes one training step (forward, backward, clip, AdamW) and returns the loss."""
    tokens, targets = mg.tensor(tokens), mg.tensor(targets)
    parameters = list(model.parameters())
    optimizer = nn.optim.AdamW([{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
                                {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                               max_grad_norm=max_norm, **options)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(tokens, targets)[1]
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    config = TransformerConfig(**json.loads(sys.argv[1]))
    step = make_step(CausalTransformer(config), *random_batch(config, int(sys.argv[2])), weight_decay=0.1, max_norm=1.0,
                     lr=1e-3)
    for _ in range(int(sys.argv[3])):
        step()
    print(peak_megabytes())
