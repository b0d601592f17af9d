"""Text from a model, one token after the other."""
import math
from collections.abc import Iterator, Sequence

import numpy as np

import minigrad as mg
import nn
from models.transformer import check_whole


def generate(model: nn.Module, prompt: Sequence[int], count: int, temperature: float = 1.0, top_k: int | None = None,
             top_p: float | None = None, seed: int | None = None) -> Iterator[int]:
    """Yield `count` token ids that continue the prompt; the model sees the last `model.config.context` of them.

    temperature: logits are divided by it; 0 takes the likeliest token.
    top_k: only the k likeliest tokens can be drawn.
    top_p: only the likeliest tokens that together reach this probability can be drawn.

    ValueError names an argument that makes no sense.
    """
    check_sampling(count, temperature, top_k, top_p, seed)
    if len(prompt) == 0:
        raise ValueError("the prompt is empty; give at least one token to continue")
    return _generate(model, list(prompt), count, temperature, top_k, top_p, np.random.default_rng(seed))


def check_sampling(count: int, temperature: float, top_k: int | None, top_p: float | None,
                   seed: int | None) -> None:
    """ValueError unless the arguments of `generate` make sense."""
    check_whole("tokens", count)
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature must be 0 (the likeliest token) or a positive number, got {temperature!r}")
    if top_k is not None:
        check_whole("top_k", top_k)
    if seed is not None:
        check_whole("seed", seed, least=0)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be more than 0 and at most 1, got {top_p!r}")


def _generate(model, tokens, count, temperature, top_k, top_p, generator) -> Iterator[int]:
    for _ in range(count):
        tokens = tokens[-model.config.context:]
        tokens.append(draw(next_logits(model, tokens), temperature, top_k, top_p, generator))
        yield tokens[-1]


def next_logits(model: nn.Module, tokens: Sequence[int]) -> np.ndarray:
    """Logits (V,) of the token after these, in evaluation mode and off the tape."""
    was_training = model.training
    model.eval()
    try:
        with mg.no_grad():
            logits, _ = model(mg.tensor([tokens]))
    finally:
        model.train(was_training)
    return logits.array[0, -1]


def draw(logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None,
         generator: np.random.Generator) -> int:
    """A token id from logits (V,)."""
    if temperature == 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")[:top_k]  # likeliest first
    scaled = logits[order].astype(np.float64)
    with np.errstate(over="ignore"):  # a tiny temperature: -inf is right
        weights = np.exp((scaled - scaled[0]) / temperature)
    probabilities = weights / weights.sum()
    if top_p is not None:
        enough = 1 + int(np.searchsorted(np.cumsum(probabilities), top_p))  # how many reach top_p
        order, probabilities = order[:enough], probabilities[:enough] / probabilities[:enough].sum()
    return int(generator.choice(order[:len(probabilities)], p=probabilities))
