"""Trains preset nano on a text with PyTorch and nanoGPT's recipe: python -m benchmarks.torch_training TEXT [--seed 0]

Prints {"val_loss": mean over the whole validation text}. It evaluates once, at the end, and writes nothing.
"""
import argparse
import json
import math
import pathlib
import types

import numpy as np
import torch

from benchmarks.torch_gpt import TorchGPT

# nanoGPT's settings for a small model on characters; minigrad is not imported, as that would take time
SIZES = dict(layers=4, heads=4, width=128, context=64, dropout=0.0, bias=True, dtype="float32")
STEPS, WARMUP, BATCH_SIZE = 2000, 100, 12
LR, FINAL_LR, BETAS, WEIGHT_DECAY, MAX_GRAD_NORM = 1e-3, 1e-4, (0.9, 0.99), 0.1, 1.0


def initialised(config) -> TorchGPT:
    """A model with GPT-2's initial weights."""
    model = TorchGPT(config)
    for name, parameter in model.named_parameters():
        adds_to_residual = name.endswith(("out.weight", "project.weight"))
        if parameter.ndim >= 2:
            torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers) if adds_to_residual else 0.02)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return model


def make_optimizer(model: TorchGPT) -> torch.optim.AdamW:
    matrices, others = ([p for p in model.parameters() if (p.ndim >= 2) is wanted] for wanted in (True, False))
    return torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                             lr=LR, betas=BETAS, fused=True)


def learning_rate_at(step: int) -> float:
    """A linear rise, then half a cosine."""
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return FINAL_LR + 0.5 * (LR - FINAL_LR) * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def train(model: TorchGPT, tokens: torch.Tensor, context: int) -> None:
    optimizer, offsets = make_optimizer(model), torch.arange(context)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step)
        places = torch.randint(len(tokens) - context, (BATCH_SIZE, 1)) + offsets
        _, loss = model(tokens[places], tokens[places + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def evaluate(model: TorchGPT, tokens: torch.Tensor, context: int) -> float:
    """The mean loss over consecutive windows."""
    count = (len(tokens) - 1) // context
    inputs, targets = (tokens[shift : shift + count * context].view(count, context) for shift in (0, 1))
    losses = [model(*batch)[1].item() * len(batch[0]) for batch in zip(inputs.split(120), targets.split(120))]
    return sum(losses) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    text = options.text.read_text(encoding="utf-8")
    symbols = sorted(set(text))
    ids = torch.from_numpy(np.searchsorted(symbols, list(text)))
    split = int(0.9 * len(ids))
    config = types.SimpleNamespace(**SIZES, vocabulary_size=len(symbols))
    model = initialised(config)
    train(model, ids[:split], config.context)
    print(json.dumps({"val_loss": evaluate(model, ids[split:], config.context)}))


if __name__ == "__main__":
    main()
