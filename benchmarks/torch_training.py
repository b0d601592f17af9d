"""Trains a preset on a text with PyTorch: python -m benchmarks.torch_training TEXT [--recipe nanogpt|muon] [--preset nano]

Recipe nanogpt is nanoGPT's for a small model on characters: GPT-2 with AdamW. Recipe muon is that of `minigrad train`: the
same model, optimizers, rates and number of steps, with PyTorch's fused kernels. `--precision bfloat16` is autocast.

Prints {"val_loss": mean over the whole validation text}. It evaluates once, at the end, and writes nothing. It runs without
torch.compile, which costs preset nano more time than it saves.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import types
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.torch_gpt import TorchGPT
from benchmarks.torch_llama import TorchLlama
from benchmarks.torch_muon import Muon

BETAS, MAX_GRAD_NORM = (0.9, 0.99), 1.0


@dataclasses.dataclass(frozen=True)
class Recipe:
    """As in models/recipes.py, which is not imported, as that would take time."""

    model: Callable[[types.SimpleNamespace], torch.nn.Module]
    steps: int
    warmup_steps: int
    annealing: Callable[[float], float]  # of the progress from 0 to 1, for the rates above final_lr
    lr: float  # of AdamW
    final_lr: float  # a fraction
    weight_decay: float
    muon: dict[str, float] | None = None  # for the matrices of the blocks


RECIPES = {
    "nanogpt": Recipe(TorchGPT, steps=2000, warmup_steps=100, annealing=lambda done: 0.5 * (1 + math.cos(math.pi * done)),
                      lr=1e-3, final_lr=0.1, weight_decay=0.1),
    "muon": Recipe(TorchLlama, steps=300, warmup_steps=20, annealing=lambda done: 1 - done,
                   lr=0.016, final_lr=0.0, weight_decay=0.0, muon=dict(lr=0.02, momentum=0.85)),
}
PRESETS = {
    "nano": dict(layers=4, heads=4, width=128, context=64, batch_size=12),
    "small": dict(layers=4, heads=4, width=256, context=128, batch_size=16),
}


def make_model(recipe: Recipe, sizes: dict[str, int], vocabulary_size: int) -> torch.nn.Module:
    """A model with GPT-2's initial weights."""
    config = types.SimpleNamespace(**sizes, vocabulary_size=vocabulary_size, dropout=0.0, bias=True, dtype="float32")
    model = recipe.model(config)
    for name, parameter in model.named_parameters():
        adds_to_residual = name.endswith((".out.weight", ".project.weight"))
        if parameter.ndim >= 2:
            torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers) if adds_to_residual else 0.02)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return model


def make_optimizers(model: torch.nn.Module, recipe: Recipe, dtype: torch.dtype) -> list[torch.optim.Optimizer]:
    """AdamW, and for a recipe with Muon that, iterating in `dtype`, which takes queries, keys and values of each head by
    themselves."""
    named = dict(model.named_parameters())
    of_muon = [name for name in named if recipe.muon and name.startswith("blocks.") and named[name].ndim == 2]
    others = [parameter for name, parameter in named.items() if name not in of_muon]
    optimizers = [torch.optim.AdamW([
        {"params": [p for p in others if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0}], lr=recipe.lr, betas=BETAS, fused=True)]
    if recipe.muon:
        packed = [name for name in of_muon if name.endswith("qkv.weight")]
        optimizers.append(Muon([
            {"params": [named[name] for name in packed], "rows": model.head_width},
            {"params": [named[name] for name in of_muon if name not in packed]}], dtype=dtype, **recipe.muon))
    return optimizers


def share_of_rate(recipe: Recipe, steps: int, step: int) -> float:
    """The learning rate of a step as a fraction of the highest: a linear rise, then the annealing."""
    warmup = min(recipe.warmup_steps, steps)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return recipe.final_lr + (1 - recipe.final_lr) * recipe.annealing((step - warmup) / max(1, steps - 1 - warmup))


def train(model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], recipe: Recipe, tokens: torch.Tensor,
          sizes: dict[str, int], steps: int, autocast: torch.autocast) -> None:
    rates = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
    offsets = torch.arange(sizes["context"])
    for step in range(steps):
        for group, highest in rates:
            group["lr"] = highest * share_of_rate(recipe, steps, step)
        places = torch.randint(len(tokens) - len(offsets), (sizes["batch_size"], 1)) + offsets
        with autocast:
            _, loss = model(tokens[places], tokens[places + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)


@torch.no_grad()
def evaluate(model: torch.nn.Module, tokens: torch.Tensor, context: int) -> float:
    """The mean loss over consecutive windows."""
    count = (len(tokens) - 1) // context
    inputs, targets = (tokens[shift : shift + count * context].view(count, context) for shift in (0, 1))
    losses = [model(*batch)[1].item() * len(batch[0]) for batch in zip(inputs.split(120), targets.split(120))]
    return sum(losses) / count


def as_ids(text: str) -> tuple[torch.Tensor, int]:
    """(The place of each character among those of the text, how many these are)."""
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    counts = np.bincount(characters)
    return torch.from_numpy((np.cumsum(counts > 0) - 1)[characters]), np.count_nonzero(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--recipe", choices=RECIPES, default="nanogpt")
    parser.add_argument("--preset", choices=PRESETS, default="nano")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, help="default: the recipe's")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    ids, vocabulary_size = as_ids(options.text.read_text(encoding="utf-8"))
    split = int(0.9 * len(ids))
    recipe, sizes = RECIPES[options.recipe], PRESETS[options.preset]
    model = make_model(recipe, sizes, vocabulary_size)
    has_bfloat16 = torch.cpu._is_avx512_bf16_supported()  # without it, float32 is faster
    optimizers = make_optimizers(model, recipe, torch.bfloat16 if has_bfloat16 else torch.float32)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bfloat16")
    train(model, optimizers, recipe, ids[:split], sizes, options.steps or recipe.steps, autocast)
    with autocast:
        print(json.dumps({"val_loss": evaluate(model, ids[split:], sizes["context"])}))


if __name__ == "__main__":
    main()
