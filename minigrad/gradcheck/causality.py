"""Does a later token change an earlier output? A leaking mask causes no error, only a loss that is too good."""
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import described, generator_for, items_of
from .blame import told
from .contract import largest
from .libraries import array_of, library_of, library_of_value
from .state import State, all_generators
from .subject import function_of

MOVES = (1.0, -1.0, 0.03, 1000.0, -1000.0)  # how far a token is moved, at its own scale: also past saturation
OTHER_POINTS = 2  # where first all tokens are moved, then one by 1: other parts of a function are active there
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
    and finds what shows in only one of the two. Arrays, `.grad`, buffers and random states are left as they were.

    >>> mean_so_far = lambda x: np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None]
    >>> is_causal(mean_so_far, np.ones((4, 2)))
    causal: none of 4 outputs changes with a later token
    >>> is_causal(lambda x: x - x.mean(0), np.random.default_rng(0).normal(size=(4, 2)))
    not causal: output 0 changes with token 1, as do 5 more pairs
    """
    run = Run(fn, tokens, seed)
    with run.state.preserved():
        by_moving, by_gradient = run.measured()
    index = np.stack(np.unravel_index(np.arange(run.size), run.shape), -1)
    axis = range(len(run.shape))[-1 if axis is None else axis]
    time, sequence = index[:, axis], np.delete(index, axis, 1)
    is_other = np.any(sequence[None, :] != sequence[:, None], axis=-1)

    def shown(pairs: np.ndarray) -> tuple[tuple[Any, ...] | None, str]:
        if not len(pairs):
            return None, ""
        way = "changes with" if by_moving[tuple(pairs[0])] else "has a gradient for"
        more = f", as do {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
        out, token = (tuple(index[n].tolist()) if len(run.shape) > 1 else int(n) for n in pairs[0])
        return (out, token), f"output {out} {way} token {token}{more}"

    pair, leak = shown(np.argwhere((by_moving | by_gradient) & (time[None, :] > time[:, None])))
    mixed, mixture = shown(np.argwhere((by_moving | by_gradient) & is_other))
    sentence = f"not causal: {leak}" if leak else f"causal: none of {len(index)} outputs changes with a later token"
    return Causality(pair, mixed, sentence + (f"; sequences of the batch are mixed: {mixture}" if mixture else ""))


class Run:
    """fn as a function of an array of tokens, each call from the same buffers and random states."""

    def __init__(self, fn: Callable[..., Any], tokens: Any, seed: int):
        self.library, self.like, self.seed = library_of(fn, (tokens,)), tokens, seed
        self.fn: Callable[..., Any] = function_of(fn, self.library)
        self.state, self.array = State(self.fn, all_generators()), array_of(tokens)
        if self.array.dtype.kind not in "fiu":
            raise TypeError(f"is_causal: expected ids, or vectors of floats; got {described(tokens)}")
        is_vectors = self.array.dtype.kind == "f" and self.array.ndim > 1
        self.shape: tuple[int, ...] = self.array.shape[:-1] if is_vectors else self.array.shape
        self.size: int = math.prod(self.shape)
        if not self.shape:
            raise ValueError("is_causal: expected tokens (T,) or (B, T), or vectors (T, C) or (B, T, C); got a number")

    def outputs(self, leaves: Any) -> list[Any]:
        """The first tensor, array or number that fn returns."""
        self.state.start(self.seed)
        result = self.fn(leaves[0])
        found = [x for x in items_of(result) if isinstance(x, (np.ndarray, np.generic, float, int)) or library_of_value(x)]
        if not found:
            raise TypeError(f"is_causal: the function returned no tensor, array or number; got {described(result)}")
        return found[:1]

    def __call__(self, array: np.ndarray) -> np.ndarray:
        return array_of(self.library.run(self.outputs, [self.library.tensor(array.copy(), self.like)])[0])

    def first(self) -> np.ndarray:
        """The output for the given tokens. A function of batches alone gets a batch of one from now on."""
        try:
            return self(self.array)
        except Exception as error:
            if len(self.shape) > 1:
                raise
            of_batch, self.fn = self.fn, lambda tokens: items_of(of_batch(tokens[None]))[0][0]
            try:
                return self(self.array)
            except Exception:  # noqa: BLE001  so that was not it
                raise error from None

    def measured(self) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, tokens): does the output change when the token is moved, and is there a gradient that is not zero?"""
        out, generator, failures = self.first(), generator_for(self.seed), []
        if out.shape[:len(self.shape)] != self.shape:
            raise ValueError(f"is_causal: expected an output for each token, {str(self.shape)[:-1].rstrip(',')}, ...), got "
                             f"{out.shape} for tokens of shape {self.array.shape}")
        by_moving, by_gradient = np.zeros((2, self.size, self.size), bool)
        is_tried = np.zeros(self.size, bool)
        for point in range(1 + OTHER_POINTS):
            array = elsewhere(self.array, generator) if point else self.array
            try:
                centre, again = self(array), self(array)
            except Exception as error:  # noqa: BLE001  log may refuse a negative number, an embedding an id
                failures.append(error)
                continue
            if np.any(self.changes(centre, again, 0.0)):
                raise RuntimeError("is_causal: the same input gives another output: the function draws random numbers of "
                                   "its own, or remembers earlier calls, so what else changes it cannot be seen")
            for n, move, moved in self.moves(array, MOVES[:1] if point else MOVES, generator):
                try:
                    there = self(moved)
                except Exception as error:  # noqa: BLE001
                    failures.append(error)
                    continue
                by_moving[:, n] |= self.changes(centre, there, move)
                is_tried[n] = True
            by_gradient |= self.gradients(array, generator)
        if not np.all(is_tried):
            stuck = [int(n) for n in np.unravel_index(np.argmin(is_tried), self.shape)]
            raise ValueError(f"is_causal: token{stuck} could not be moved: {told(failures[0])}") from failures[0]
        return by_moving, by_gradient

    def moves(self, array: np.ndarray, sizes: tuple[float, ...], generator: np.random.Generator
              ) -> Iterator[tuple[int, float, np.ndarray]]:
        """(number of the token, size of its move, array with it moved)"""
        for n in range(self.size):
            place = np.unravel_index(n, self.shape)
            for size, value in replacements(array, array[place], sizes, generator):
                moved = array.copy()
                moved[place] = value
                yield n, size, moved

    def changes(self, before: np.ndarray, after: np.ndarray, move: float) -> np.ndarray:
        """Which outputs changed by more than rounding, or to or from NaN. A NaN far away may be 0 * inf, masked."""
        if before.shape != after.shape:
            raise ValueError(f"is_causal: the shape of the output depends on the input: {before.shape} and {after.shape}")
        a, b = before.astype(float), after.astype(float)
        is_known = np.isfinite(a) & np.isfinite(b)
        step = np.where(is_known, np.abs(b - a), 0.0)
        eps = max(eps_of(self.array), eps_of(before))
        found = step > ROUNDING * eps * (max(largest(a), largest(b)) + np.max(step, initial=0.0))
        found |= ~is_known & ~((a == b) | np.isnan(a) & np.isnan(b)) & (move <= 1)
        return np.any(found.reshape(self.size, -1), axis=1)

    def gradients(self, array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """(outputs, tokens): which gradients are not zero, of each output weighted with random numbers?"""
        found = np.zeros((self.size, self.size), bool)
        if array.dtype.kind != "f":
            return found
        leaf = self.library.tensor(array.copy(), self.like, True)
        try:
            (out,), pullback = self.library.record(self.outputs, [leaf])
            values = array_of(out)
            for n in range(self.size if values.dtype.kind == "f" else 0):
                place, upstream = np.unravel_index(n, self.shape), np.zeros(values.shape, values.dtype)
                upstream[place] = generator.standard_normal(upstream[place].shape)
                (gradient,) = pullback([upstream])
                if gradient is not None:
                    sizes = np.max(np.abs(gradient.reshape(self.size, -1)), axis=1, initial=0.0)
                    eps = max(eps_of(array), eps_of(values))
                    found[n] = sizes > ROUNDING * eps * max(largest(sizes), largest(values) / (largest(array) or 1.0))
        except Exception:  # noqa: BLE001  a function may not be differentiable
            pass
        return found


def replacements(array: np.ndarray, value: Any, sizes: tuple[float, ...], generator: np.random.Generator
                 ) -> Iterator[tuple[float, Any]]:
    """(size of the move, what to put in the place of this token)"""
    if array.dtype.kind == "f":
        for size in sizes:
            direction = generator.uniform(0.5, 1.5, value.shape)
            direction = direction * generator.choice([-1, 1], value.shape) if value.size > 1 else direction
            yield abs(size), np.where(np.isfinite(value), value, 0.0) + size * (largest(array) or 1.0) * direction
        yield 1.0, np.zeros_like(value)  # which may be taken for padding
        return
    others = np.setdiff1d(ids_like(array), value)
    chosen = sorted(generator.permutation(others)[:OTHER_IDS if len(sizes) > 1 else 1], key=bool)  # 0 first
    for other in chosen or [value - 1 if value > 0 else value + 1]:
        yield 1.0, other


def ids_like(array: np.ndarray) -> np.ndarray:
    """0, which often is padding, to the largest id; only the array's own if some are negative."""
    return np.unique(array) if array.min() < 0 else np.arange(int(array.max()) + 1)


def elsewhere(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Other tokens."""
    if array.dtype.kind == "f":
        return np.asarray(array + (largest(array) or 1.0) * generator.standard_normal(array.shape), array.dtype)
    return np.asarray(generator.choice(ids_like(array), array.shape), array.dtype)


def eps_of(array: np.ndarray) -> float:
    return float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
