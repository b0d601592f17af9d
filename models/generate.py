"""Text from a model, token by token."""
import functools
import itertools
import math
import sys
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import minigrad as mg
import nn
from minigrad.extend import changes, latest_write
from models.config import ENDLESS_POSITIONS, check_number, check_whole
from models.transformer import Cache, CausalTransformer

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

    In the first two cases keys and values are cached, and a token takes as long past the context as within it. If the model
    changes between two tokens, they are computed anew. With a hook, a subclass or any part that CausalTransformer does not
    make, each token takes a whole forward; the logits are the same.

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


def _generate(model: nn.Module, prompts: np.ndarray, count: int, context: int | None,
              choose: Choose) -> Iterator[np.ndarray]:
    reader = Reader(model, prompts, context)
    for _ in range(count):
        chosen = choose(reader.logits())
        yield chosen
        reader.append(chosen)
    if reader.cache is not None:
        Reader.caches[model] = reader.cache


class Reader:
    """Logits of the next token of B texts: by a `Cache` where it serves, else by the whole forward; see `generate`."""

    few: ClassVar[int] = 32  # tokens that take less time than compiling a step
    caches: ClassVar[weakref.WeakKeyDictionary[nn.Module, Cache]] = weakref.WeakKeyDictionary()  # with their compiled steps

    def __init__(self, model: Any, prompts: np.ndarray, context: int | None):
        self.model: Any = model
        self.context: int | None = context
        self.is_causal: bool = context is None and isinstance(model, CausalTransformer)
        self.is_endless: bool = self.is_causal and model.config.positions in ENDLESS_POSITIONS
        self.tokens: np.ndarray = prompts[:, -self.most() :]  # that the model sees
        self.follows: bool = False  # has the cache read all of them but the last?
        self.cache: Cache | None = None
        self.drops: bool = False  # does the model draw dropout masks in training?
        self.state: Any = None  # of all tensors and modules, when the cache was used last

    def most(self) -> int:
        """The most tokens that the model sees; in an endless text, each block sees context - 1 further ones."""
        context: Any = self.context or getattr(getattr(self.model, "config", None), "context", None)
        if self.is_endless:
            return len(self.model.blocks) * (context - 1) + 1
        return sys.maxsize if context is None else context

    def append(self, chosen: np.ndarray) -> None:
        """Add a token, chosen (B,), to each text."""
        self.tokens, most = np.concatenate((self.tokens, chosen[:, None]), axis=1), self.most()
        is_full = self.tokens.shape[1] > most
        self.follows = self.is_endless or not is_full
        if is_full:
            starts_again = self.is_causal and not self.is_endless
            self.tokens = self.tokens[:, -(most // 2 + 1 if starts_again else most) :]

    def logits(self) -> np.ndarray:
        """Those (B, V) of the token after these."""
        is_unchanged = self.state == _state()
        if not is_unchanged:
            self.cache, self.drops = self._find_cache(), any(map(dropout_of, self.model.modules()))
        if self.cache is None:
            return full_forward(self.model, self.tokens)
        was_training = self.model.training and self.drops
        if was_training:
            self.model.eval()
        try:
            if not (is_unchanged and self.follows):
                return self.cache.read(self.tokens)
            return self.cache.append(self.tokens[:, -1], compiled=self.cache.steps > self.few and not was_training)
        finally:
            if was_training:  # which outdates a compiled step
                self.model.train()
            self.state = _state()

    def _find_cache(self) -> Cache | None:
        """The model's, unless another text has it, or a new one; None if it would not serve."""
        if not self.is_causal or not Cache.serves(self.model):
            return None
        known, B = Reader.caches.pop(self.model, None), len(self.tokens)
        return known if known is not None and known.fits(self.model, B) else Cache(self.model, B)


def dropout_of(module: nn.Module | Any) -> float:
    """The probability with which a part that a Cache serves drops values in training."""
    if isinstance(module, nn.Dropout):
        return module.p
    return module.dropout if isinstance(module, nn.MultiHeadAttention) else 0.0


def _state() -> tuple[int, int]:
    """It changes whenever a tensor is written to, or an attribute or hook of a module is set."""
    return latest_write(), changes()


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
    """Token ids (B,), each drawn from a row of logits (B, V) by softmax(logits / temperature).

    Lay the tokens side by side from 0 to 1, likeliest first, each as wide as its probability: a number drawn uniformly
    falls on one of them. ValueError if the largest logit of a row is not finite.
    """
    logits = logits.astype(np.float64)
    if not np.isfinite(logits.max(axis=1)).all():
        raise ValueError("the model's logits are not finite; its parameters are broken")
    if temperature == 0:
        return logits.argmax(axis=1)
    drawn = []
    for row, uniform in zip(logits, generator.random(len(logits))):
        order = np.argsort(-row, kind="stable")[:top_k]
        weights = np.exp((row[order] - row[order[0]]) / max(temperature, COLDEST))
        sums = weights.cumsum()
        if top_p is not None:
            weights[sums - weights >= top_p * sums[-1]] = 0.0  # those before it already reach top_p
            sums = weights.cumsum()
        drawn.append(order[np.searchsorted(sums, uniform * sums[-1], side="right")])
    return np.array(drawn)
