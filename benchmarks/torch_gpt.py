"""The same transformer in PyTorch, to measure and check ours against; needs the extra `bench`.

As a script, it takes training steps alone in a process and prints its peak memory in MB:
python -m benchmarks.torch_gpt CONFIG_IN_JSON BATCH_SIZE STEPS
"""
import json
import sys
import types
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.common import peak_megabytes, random_batch


class Block(nn.Module):
    """A pre-norm block; packed projection, fused attention."""

    def __init__(self, config):
        super().__init__()
        C, bias = config.width, config.bias
        self.heads = config.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)
        self.expand, self.project = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.project(F.gelu(self.expand(self.ln_2(x))))


class TorchGPT(nn.Module):
    """What models.CausalTransformer computes without dropout, for any config with the same fields."""

    def __init__(self, config):
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocabulary_size, config.width)
        self.position_embedding = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, bias=config.bias)
        self.to(getattr(torch, config.dtype))

    def forward(self, tokens, targets):
        x = self.token_embedding(tokens) + self.position_embedding.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.token_embedding.weight)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def copy_parameters(self, parameters: dict[str, np.ndarray]) -> None:
        """Take the parameters of a models.CausalTransformer by name."""
        self.load_state_dict({torch_name(name): torch.tensor(array) for name, array in parameters.items()})


def torch_name(name: str) -> str:
    """What a parameter of models.CausalTransformer is called here."""
    for ours, theirs in (("attention.in_proj_", "qkv."), ("attention.out_proj", "out"), ("mlp.", "")):
        name = name.replace(ours, theirs)
    return name


def make_step(model: TorchGPT, tokens: np.ndarray, targets: np.ndarray, weight_decay: float, max_norm: float,
              **options) -> Callable[[], float]:
    """A function that takes one training step (forward, backward, clip, fused AdamW) and returns the loss."""
    tokens, targets = torch.from_numpy(tokens), torch.from_numpy(targets)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
                                   {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                                  fused=True, **options)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)[1]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    config = types.SimpleNamespace(**json.loads(sys.argv[1]))
    step = make_step(TorchGPT(config), *random_batch(config, int(sys.argv[2])), weight_decay=0.1, max_norm=1.0, lr=1e-3)
    for _ in range(int(sys.argv[3])):
        step()
    print(peak_megabytes())
