"""Does a later token change an earlier output? A leaking mask causes no error, only a loss that is too good."""
import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import described, generator_for, items_of
from .contract import largest
from .libraries import array_of, library_of, library_of_value
from .state import State
from .subject import function_of

MOVES = (1.0, -1.0, 0.03, 1000.0, -1000.0)  # how far a token is moved, at its own scale: also past saturation
OTHER_IDS = 6  # how many others an id is replaced by
ROUNDING = 64  # times the dtype's epsilon: a smaller effect, relative to the largest, counts as rounding


@dataclass(frozen=True, repr=False)
class Causality:
    """Is every output independent of later tokens? It is true or false, and prints as a sentence."""

    pair: tuple[Any, ...] | None  # the first (output, token) that leaks
    mixed: tuple[Any, ...] | None  # (output, token) from different sequences of a batch, if one depends on the other
    sentence: str

    def __bool__(self) -> bool:
        return self.pair is None

    def __repr__(self) -> str:
        return self.sentence


def is_causal(fn: Callable[..., Any], tokens: Any, *, axis: int | None = None, seed: int = 0) -> Causality:
    """Is every output of fn(tokens) independent of later tokens? True or false, naming a pair that leaks.

    tokens are ids, (T,) or (B, T), or vectors of floats, (T, C) or (B, T, C); the (first) output has an element or a
    vector for each of them. `axis` is the time axis, by default the last except C. It moves tokens and looks at gradients,
    and finds what shows in only one of the two. Arrays, `.grad`, buffers and random states are left as they were. Errors
    that fn raises are passed on.

    >>> mean_so_far = lambda x: np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None]
    >>> is_causal(mean_so_far, np.ones((4, 2)))
    causal: none of 4 outputs changes with a later token
    >>> is_causal(lambda x: x - x.mean(0), np.random.default_rng(0).normal(size=(4, 2)))
    not causal: output 0 changes with token 1, as do 5 more pairs
    """
    run = Run(fn, tokens, seed)
    with run.state.preserved():
        by_moving, by_gradient = run.by_moving(), run.by_gradient()
    index = np.argwhere(np.ones(run.shape))
    axis = range(len(run.shape))[-1 if axis is None else axis]
    time, sequence = index[:, axis], np.delete(index, axis, 1)

    def first(is_forbidden: np.ndarray) -> tuple[tuple[Any, ...] | None, str]:
        pairs = np.argwhere((by_moving | by_gradient) & is_forbidden)
        if not len(pairs):
            return None, ""
        out, token = (tuple(index[n].tolist()) if len(run.shape) > 1 else int(n) for n in pairs[0])
        way = "changes with" if by_moving[tuple(pairs[0])] else "has a gradient for"
        more = f", as do {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
        return (out, token), f"output {out} {way} token {token}{more}"

    pair, leak = first(time > time[:, None])
    mixed, mixture = first(np.any(sequence != sequence[:, None], axis=-1))
    sentence = f"not causal: {leak}" if leak else f"causal: none of {run.size} outputs changes with a later token"
    return Causality(pair, mixed, sentence + (f"; sequences of the batch are mixed: {mixture}" if mixture else ""))


class Run:
    """fn as a function of an array of tokens, each call from the same buffers and random states."""

    def __init__(self, fn: Callable[..., Any], tokens: Any, seed: int):
        self.library, self.seed = library_of(fn, (tokens,)), seed
        self.like = tokens if self.library.is_tensor(tokens) else None
        self.fn: Callable[..., Any] = function_of(fn, self.library)
        self.state, self.array, self.generator = State(self.fn), array_of(tokens), generator_for(seed)
        is_vectors = self.array.dtype.kind == "f" and self.array.ndim > 1
        self.shape: tuple[int, ...] = self.array.shape[:-1] if is_vectors else self.array.shape
        self.size: int = math.prod(self.shape)
        if self.array.dtype.kind not in "fiu" or not self.shape:
            raise TypeError("is_causal: expected ids (T,) or (B, T), or vectors of floats (T, C) or (B, T, C); got "
                            f"{described(tokens)} of shape {self.array.shape}")

    def outputs(self, leaves: Any) -> list[Any]:
        """The first tensor or array that fn returns."""
        self.state.begin(self.seed)
        result = self.fn(leaves[0])
        found = [x for x in items_of(result) if isinstance(x, np.ndarray) or library_of_value(x)]
        if not found or tuple(found[0].shape)[: len(self.shape)] != self.shape:
            came = tuple(found[0].shape) if found else described(result)
            raise ValueError(f"is_causal: expected an output for each token, {str(self.shape)[:-1].rstrip(',')}, ...), got "
                             f"{came} for tokens of shape {self.array.shape}")
        return found[:1]

    def __call__(self, array: np.ndarray) -> np.ndarray:
        return array_of(self.library.run(self.outputs, [self.library.tensor(array.copy(), self.like)])[0])

    def rounding(self, out: np.ndarray) -> float:
        """How large an effect may be, relative to the largest, that counts as rounding."""
        return ROUNDING * max(float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0 for x in (self.array, out))

    def by_moving(self) -> np.ndarray:
        """(outputs, tokens): does the output change when the token is moved?"""
        centre, again, found = self(self.array), self(self.array), np.zeros((self.size, self.size), bool)
        rounding = self.rounding(centre)
        if np.any(changed(centre, again, rounding)):
            raise RuntimeError("is_causal: the same input gives another output: the function draws random numbers of its "
                               "own, or remembers earlier calls, so what else changes it cannot be seen")
        for n, place in enumerate(np.ndindex(self.shape)):
            for value, is_far in others(self.array, place, self.generator):
                moved = self.array.copy()
                moved[place] = value
                found[:, n] |= np.any(changed(centre, self(moved), rounding, is_far).reshape(self.size, -1), axis=1)
        return found

    def by_gradient(self) -> np.ndarray:
        """(outputs, tokens): is the gradient not zero, of the output weighted with random numbers?"""
        found = np.zeros((self.size, self.size), bool)
        with contextlib.suppress(Exception):  # ids have no gradients, and a function may not be differentiable
            (out,), pullback = self.library.record(self.outputs, [self.library.tensor(self.array.copy(), self.like, True)])
            values = array_of(out)
            for n, place in enumerate(np.ndindex(self.shape)):
                upstream = np.zeros(values.shape, values.dtype)
                upstream[place] = self.generator.standard_normal(upstream[place].shape)
                (gradient,) = pullback([upstream])
                if gradient is None:
                    continue
                sizes = np.max(np.abs(gradient.reshape(self.size, -1)), axis=1, initial=0.0)
                found[n] = sizes > self.rounding(values) * max(largest(sizes), largest(values) / scale_of(self.array))
        return found


def changed(before: np.ndarray, after: np.ndarray, rounding: float, is_far: bool = False) -> np.ndarray:
    """Which numbers changed by more than rounding, or to or from NaN. A NaN far away may be 0 * inf, masked."""
    a, b = before.astype(float), after.astype(float)
    step = np.abs(b - a)
    is_large = step > rounding * (max(largest(a), largest(b)) + largest(step))
    return np.where(np.isfinite(step), is_large, ~np.isclose(a, b, equal_nan=True) & (not is_far))


def others(array: np.ndarray, place: tuple[int, ...], generator: np.random.Generator) -> Iterator[tuple[Any, bool]]:
    """(what to put in the place of this token, is that far away?)"""
    value = array[place]
    if array.dtype.kind == "f":
        direction = generator.uniform(0.5, 1.5, value.shape) * generator.choice([-1, 1], value.shape)
        for move in MOVES:
            yield np.nan_to_num(value, posinf=0.0, neginf=0.0) + move * scale_of(array) * direction, abs(move) > 1
        yield np.zeros_like(value), False  # which may be taken for padding
    else:
        like = np.unique(array) if array.min() < 0 else np.arange(max(int(array.max()), 1) + 1)
        ids = np.setdiff1d(like, value)  # from 0, which often is padding, to the largest; if some are negative, only these
        yield from ((other, False) for other in [*ids[:1], *generator.permutation(ids[1:])[: OTHER_IDS - 1]])


def scale_of(array: np.ndarray) -> float:
    return largest(array) or 1.0
