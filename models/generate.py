"""Text from a model, token by token."""
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np

import minigrad as mg
import nn
from minigrad.extend import sample
from models.decode import CachedDecoder, CannotDecode, seen_after_one_more, seen_of_prompt
from models.transformer import CausalTransformer, check_number, check_whole

Choose = Callable[[np.ndarray], np.ndarray]  # from logits (B, V) to token ids (B,)
COLDEST = 1e-200  # a temperature that gives the likeliest token probability 1, while no division overflows


def generate(model: nn.Module, prompt: Sequence[int], count: int, temperature: float = 1.0, top_k: int | None = None,
             top_p: float | None = None, seed: int | None = None, context: int | None = None,
             vocabulary: int | None = None, ends: Container[int] = (), choose: Choose | None = None) -> Iterator[int]:
    """Yield `count` token ids that continue the prompt, stopping before the first that is in `ends`.

    model: any module from tokens (B, T) to logits (B, T, V), or to a pair of logits and a loss.
    temperature: logits are divided by it; 0 takes the likeliest token.
    top_k: draw only from the k likeliest tokens.
    top_p: draw only from the likeliest tokens that together reach this probability.
    seed: to get the same tokens again; by default minigrad's own generator draws, see `manual_seed`.
    vocabulary: draw only token ids below it; by default, all that have logits.
    choose: a function from logits (B, V) to token ids (B,), in place of drawing by the arguments above.
    context: show the model this many of the last tokens, recomputed for each token. By default:

    - A CausalTransformer without a table of positions (rotary, relative, none) reads on forever; each token sees the last
      `config.context` tokens in each block, and the logits are those of model(all tokens so far).
    - One with a table (learned, sinusoidal, ...) sees the last `config.context` tokens of the prompt, and all that follow.
      When they exceed `config.context`, it continues with the last context // 2 + 1 of them, from position 0.
    - Any other model sees the last `model.config.context` tokens, or all if it has no such number.

    In the first two cases a token takes as long past the context as within it. For a model with parts that cached decoding
    does not know, such as a hook or a subclass, each token takes a whole forward; the logits are the same, except under
    autocast, for which cached decoding rounds nothing.

    ValueError names an argument that makes no sense.
    """
    if len(prompt) == 0:
        raise ValueError("the prompt is empty; give at least one token to continue")
    batches = generate_batch(model, [prompt], count, temperature, top_k, top_p, seed, context, vocabulary, choose)
    return itertools.takewhile(lambda token: token not in ends, (int(ids[0]) for ids in batches))


def generate_batch(model: nn.Module, prompts: Sequence[Sequence[int]], count: int, temperature: float = 1.0,
                   top_k: int | None = None, top_p: float | None = None, seed: int | None = None,
                   context: int | None = None, vocabulary: int | None = None,
                   choose: Choose | None = None) -> Iterator[np.ndarray]:
    """Yield `count` arrays of token ids (B,) that continue the prompts (B, T), all of one length, in parallel.

    The other arguments are those of `generate`.
    """
    check_whole("count", count)
    if not (math.isfinite(temperature) and temperature >= 0):
        raise ValueError(f"temperature must be 0 (the likeliest token) or a positive number, got {temperature!r}")
    for name, value, least in (("top_k", top_k, 1), ("seed", seed, 0), ("context", context, 1)):
        if value is not None:
            check_whole(name, value, least)
    if top_p is not None:
        check_number("top_p", top_p, "(0, 1]")
    lengths = sorted({len(prompt) for prompt in prompts})
    if len(lengths) != 1 or lengths == [0]:
        raise ValueError(f"the prompts must have one length, at least 1, got the lengths {lengths}; generate for one "
                         "length at a time")
    generator = mg.random.generator() if seed is None else np.random.default_rng(seed)
    choose = choose or functools.partial(draw, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    return _generate(model, np.array(prompts), count, context, lambda logits: choose(logits[:, :vocabulary]))


def _generate(model: Any, prompts: np.ndarray, count: int, context: int | None, choose: Choose) -> Iterator[np.ndarray]:
    whole = WholeForward(model, context)
    prompts = whole.seen(prompts, is_prompt=True)
    reader: WholeForward | CachedDecoder = whole
    chosen: np.ndarray | None = None
    if context is None:
        with contextlib.suppress(CannotDecode):
            reader = CachedDecoder(model, len(prompts))
    for _ in range(count):
        try:
            logits = reader.logits(prompts) if chosen is None else reader.next_logits(chosen)
        except CannotDecode:  # such as a hook that was added since the last token
            reader = WholeForward(model, context, reader.tokens)
            logits = reader.logits(prompts) if chosen is None else reader.next_logits(chosen)
        chosen = choose(logits)
        yield chosen


class WholeForward:
    """Next-token logits by calling the model on everything it sees, anew for each token; see `generate`."""

    def __init__(self, model: nn.Module, context: int | None, tokens: np.ndarray | Any = None):
        self.model = model
        self.context = context
        self.tokens = tokens

    def seen(self, tokens: np.ndarray, is_prompt: bool = False) -> np.ndarray:
        """The tokens shown to the model, of those so far (B, T)."""
        if self.context is None and isinstance(self.model, CausalTransformer):
            return seen_of_prompt(self.model, tokens) if is_prompt else seen_after_one_more(self.model, tokens)
        context = self.context or getattr(getattr(self.model, "config", None), "context", None)
        return tokens if context is None else tokens[:, -context:]

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (B, V) of the token after these (B, T)."""
        self.tokens = tokens
        return full_forward(self.model, tokens)

    def next_logits(self, chosen: np.ndarray) -> np.ndarray:
        """Logits (B, V) after one more token, chosen (B,), of each sequence."""
        return self.logits(self.seen(np.concatenate((self.tokens, chosen[:, None]), axis=1)))


def full_forward(model: nn.Module, tokens: np.ndarray) -> np.ndarray:
    """Logits (B, V) of the token after these (B, T), in evaluation mode and off the tape."""
    was_training = model.training
    model.eval()
    try:
        with mg.no_grad():
            out = model(mg.tensor(tokens))
    finally:
        model.train(was_training)
    logits = out[0] if isinstance(out, tuple) else out
    return logits.array[:, -1]


def draw(logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None,
         generator: np.random.Generator) -> np.ndarray:
    """Token ids (B,), each from a row of logits (B, V)."""
    if temperature == 0:
        temperature, top_k, uniform = 1.0, 1, np.zeros(len(logits))
    else:
        temperature, uniform = max(temperature, COLDEST), generator.random(len(logits))
    return sample(logits, temperature, top_k, top_p, uniform)
