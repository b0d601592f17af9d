"""The generator that everything random draws from by default: initial weights, dropout, `randn` and the like.

A `Generator` of your own gives numbers that do not depend on what else is drawn: randn(3, generator=g).
"""
from __future__ import annotations

import functools
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic

import numpy as np

from .arrays.annotations import Device, Options, Tensor
from .arrays.devices import CPU, device as checked_device
from .arrays.versions import tick
from .backend import in_order
from .replays import notice, opaque

_part = 0  # see `set_part`


class Generator:
    """An independent source of random numbers, for functions that take `generator`. Each starts in the same state.

    >>> import minigrad as mg
    >>> mg.randperm(5, generator=Generator().manual_seed(7)).tolist() == mg.randperm(5, generator=Generator()).tolist()
    False
    """

    device: Final = CPU

    def __init__(self, device: Device = "cpu") -> None:
        checked_device(device)
        self.made: int = tick()
        self.numpy_generator: np.random.Generator = np.random.default_rng()
        self.manual_seed(67280421310721)  # as PyTorch's

    @opaque
    def manual_seed(self, seed: int) -> "Generator":
        """Restart from `seed`: later draws are the same as after `mg.manual_seed(seed)`."""
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"manual_seed expects a non-negative int, got {seed!r}")
        self.numpy_generator.bit_generator.state = np.random.PCG64(int(seed)).state
        self._seed = int(seed)
        return self

    def initial_seed(self) -> int:
        """The last seed."""
        notice("looks at the generator's state")
        return self._seed

    def get_state(self) -> Mapping[str, Any]:
        """The state, as a dict that JSON can hold."""
        return generator(self).bit_generator.state

    @opaque
    def set_state(self, state: Mapping[str, Any]) -> "Generator":
        """Continue from where `get_state` was called."""
        self.numpy_generator.bit_generator.state = state
        return self


_shared = Generator().manual_seed(secrets.randbits(64))

if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread draws, or the child would inherit a lock that is never released. Parent and child
    # continue from the same state, as with NumPy's and PyTorch's global generators.
    _lock = _shared.numpy_generator.bit_generator.lock
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class RandomOptions(Options, total=False):
    """Of a function that draws a tensor."""

    generator: Generator | None


def generator(own: Generator | None = None) -> np.random.Generator:
    """The NumPy generator to draw from: the shared one, or that of `own`."""
    notice("draws from the generator in Python")
    if own is None:
        return _shared.numpy_generator
    if not isinstance(own, Generator):
        raise TypeError(f"generator: expected a minigrad.Generator, got {type(own).__name__}")
    return own.numpy_generator


def manual_seed(seed: int) -> Generator:
    """Restart the generator from `seed`, a non-negative int: later draws are the same every time.

    >>> import minigrad as mg
    >>> a, b = (mg.rand(3, generator=manual_seed(7)) for _ in range(2))
    >>> a.equal(b)
    True
    """
    return _shared.manual_seed(seed)


def get_state() -> Mapping[str, Any]:
    """The state of the generator, as a dict that JSON can hold."""
    notice("looks at the generator's state")
    return _shared.get_state()


def set_state(state: Mapping[str, Any]) -> None:
    """Continue from where `get_state` was called."""
    _shared.set_state(state)


def set_part(number: int) -> None:
    """From now on this process computes this one of several equal parts of each batch: its dropout masks are those parts of
    the whole batch's masks."""
    global _part
    _part = number


def key_of_batch(count: int) -> np.ndarray:
    """(2,), the key of a dropout mask: 64 random bits, the same for all parts of a batch, and the position in the whole
    batch of the first of this part's `count` elements."""
    drawn = generator().bit_generator.random_raw()
    return np.array([drawn, _part * count], np.uint64).view(np.int64)


# ------------------------------------------------------------------------------------------------ masks, from a key
#
# Dropout's numbers come from Threefry-4x32 with 13 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
# 2011), which turns a counter and a key into four 32-bit words. An element is dropped if its word is below p * 2^32. Each
# word serves two elements, as it is and with its halves swapped, so a counter serves eight. The lower half matters only
# if the upper half equals that of p * 2^32, once in 65,536 times: two such elements are independent up to 1e-5. Elements
# that share a counter are 16 apart: element 16 s + l of a group of 128 has slot s of the group's l-th counter.

LANES, SLOTS = 16, 8  # counters of a group, and elements that a counter serves
ROUNDS = 13
ROTATIONS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)
PARITY = 0x1BD11BDA


def rotated(word: np.ndarray, count: int) -> np.ndarray:
    return word << np.uint32(count) | word >> np.uint32(32 - count)


def threefry(counter: Sequence[np.ndarray], key: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Four words, from the four of a counter and the four of a key: arrays of uint32, which broadcast.

    >>> [f"{word[0]:08x}" for word in threefry([np.zeros(1, np.uint32)] * 4, [np.zeros(1, np.uint32)] * 4)]
    ['531c7e4f', '39491ee5', '2c855a92', '3d6abf9a']
    """
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(PARITY)]
    x = [counter[i] + keys[i] for i in range(4)]
    for n in range(ROUNDS):
        for i, count in zip((0, 2), ROTATIONS[n % len(ROTATIONS)]):
            j = i + 1 if n % 2 == 0 else 3 - i
            x[i] = x[i] + x[j]
            x[j] = rotated(x[j], count) ^ x[i]
        if n % 4 == 3:
            times = n // 4 + 1
            x = [x[i] + keys[(times + i) % 5] for i in range(4)]
            x[3] = x[3] + np.uint32(times)
    return x


def four_words(number: np.ndarray) -> tuple[np.ndarray, ...]:
    """64-bit numbers as four words: the lower half, the upper half, and two zeros."""
    number = number.view(np.uint64)
    low, high = number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32)
    return low, high, np.zeros_like(low), np.zeros_like(low)


def factors(shape: tuple[int, ...], key: np.ndarray, p: float, dtype: np.dtype) -> np.ndarray:
    """keep / (1 - p), where keep is 0 with probability p, else 1.

    key (2,): 64 bits, and the position of the first element in the batch; see `key_of_batch`.
    """
    count, first = math.prod(shape), int(key[1])
    groups = np.arange(first // (LANES * SLOTS), -(-(first + count) // (LANES * SLOTS)))
    words = threefry(four_words(groups[:, None] * LANES + np.arange(LANES)), four_words(key[:1]))
    slots = np.stack([word for x in words for word in (x, rotated(x, 16))], axis=1)  # (groups, SLOTS, LANES)
    drawn = slots.reshape(-1)[first % (LANES * SLOTS) :][:count].reshape(shape)
    is_dropped = drawn < min(round(p * 2**32), 2**32 - 1)
    return np.where(is_dropped, 0.0, 1 / (1 - p) if p < 1 else 0.0).astype(dtype)


# ------------------------------------------------------------------------------------------------ draws, without gradient


def _drawn(weights: np.ndarray, num_samples: int, replacement: bool, own: Generator | None) -> np.ndarray:
    """Positions along the last axis, drawn in proportion to the weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = np.cumsum(weights, axis=-1, dtype=np.float64)
    if not (np.isfinite(ends).all() and (weights >= 0).all()):
        raise ValueError("multinomial: expected finite weights >= 0, got an infinite, NaN or negative one")
    needed = 1 if replacement else num_samples
    if (np.count_nonzero(weights, axis=-1) < needed).any():
        raise ValueError(f"multinomial: a row has fewer than {needed} nonzero weights")
    shape, source = weights.shape[:-1] + (num_samples,), generator(own)
    if not replacement:  # the first arrivals, if the weights are rates: waiting times are exponential
        with np.errstate(divide="ignore"):
            log_waiting = np.log(source.standard_exponential(weights.shape)) - np.log(weights)
        return in_order(np.argsort(log_waiting, axis=-1)[..., :num_samples])
    points = source.random(shape) * ends[..., -1:]
    rows = zip(ends.reshape(-1, weights.shape[-1]), points.reshape(-1, num_samples))
    found = [np.searchsorted(row, drawn, side="right") for row, drawn in rows]
    return np.array(found, np.int64).reshape(shape)


def _tossed(probabilities: np.ndarray, own: Generator | None) -> np.ndarray:
    is_float = probabilities.dtype.kind == "f"
    if not (is_float and probabilities.min(initial=0.0) == 0 and probabilities.max(initial=1.0) == 1):  # NaN is neither
        raise ValueError("bernoulli: expected probabilities, floats from 0 to 1")
    return (generator(own).random(probabilities.shape) < probabilities).astype(probabilities.dtype)


_source = generator  # where an argument has that name


class RandomMethods(Generic[Tensor]):
    def multinomial(
        self: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Random positions, drawn with these weights: in a vector, or in each row of a matrix. They have no gradient.

        Without replacement, no position is drawn twice, so enough weights must be nonzero. They need not sum to 1.
        """
        if self.dtype.kind != "f":
            raise TypeError(f"multinomial: expected weights of a floating dtype, got {self.dtype}")
        if self.ndim not in (1, 2):
            raise ValueError(f"multinomial: expected a vector or a matrix of weights, got shape {self.shape}")
        if num_samples < 1:
            raise ValueError(f"multinomial: expected at least one sample, got {num_samples}")
        if not replacement and num_samples > self.shape[-1]:
            raise ValueError(f"multinomial: cannot draw {num_samples} of {self.shape[-1]} without replacement")
        draw = functools.partial(_drawn, num_samples=num_samples, replacement=replacement, own=generator)
        return self.constant(draw, self)

    def bernoulli(self: Tensor, *, generator: Generator | None = None) -> Tensor:
        """For each element, which is a probability, 1 with that probability, else 0. Draws have no gradient."""
        return self.constant(functools.partial(_tossed, own=generator), self)

    def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with normal random numbers of this mean and standard deviation."""
        return self._fill_with("normal_", _source(generator).normal(mean, std, self.shape))

    def uniform_(self: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with uniform random numbers from low up to, but not including, high."""
        values = _source(generator).uniform(low, high, self.shape)
        if low < high and self.dtype.kind == "f":  # in this dtype, the largest could be rounded to high
            values = np.minimum(values, np.nextafter(self.dtype.type(high), self.dtype.type(low)))
        return self._fill_with("uniform_", values)

    def _fill_with(self: Tensor, name: str, values: np.ndarray) -> Tensor:
        if self.dtype.kind != "f":
            raise TypeError(f"{name}: expected a tensor of floats, got {self.dtype}")
        return self.write(np.asarray(values).astype(self.dtype))
