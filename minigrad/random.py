"""The one generator that everything random draws from: initial weights, dropout, `randn` and friends.

`Generator` makes others, for who wants numbers that do not depend on what else is drawn: randn(3, generator=g).
"""
import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .devices import CPU, device as checked_device
from .runner import opaque, refuse_in_capture

_generator = np.random.default_rng()
_portion = 0, 1  # see `portion`

if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread draws: the child would inherit a lock that nobody opens. Parent and child go on
    # from the same state, as with NumPy's and PyTorch's global generators.
    _lock = _generator.bit_generator.lock
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Generator:
    """A source of random numbers of its own, for the functions that take `generator`. It starts the same every time.

    >>> import minigrad as mg
    >>> mg.randperm(5, generator=Generator().manual_seed(7)).tolist() == mg.randperm(5, generator=Generator()).tolist()
    False
    """

    device = CPU

    def __init__(self, device: Any = "cpu"):
        checked_device(device)
        self.numpy_generator = np.random.default_rng()
        self.manual_seed(67280421310721)  # as PyTorch's

    @opaque
    def manual_seed(self, seed: int) -> "Generator":
        """Start anew from `seed`: what is drawn afterwards is the same as after `mg.manual_seed(seed)`."""
        _start(self.numpy_generator, seed)
        self._seed = int(seed)
        return self

    def initial_seed(self) -> int:
        """What it was started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Where it is, as a dict that JSON can hold."""
        return generator(self).bit_generator.state

    @opaque
    def set_state(self, state: dict[str, Any]) -> "Generator":
        """Go on from where `get_state` was called."""
        self.numpy_generator.bit_generator.state = state
        return self


def generator(own: Generator | None = None) -> np.random.Generator:
    """NumPy's generator that is drawn from: the one of all, or `own`."""
    refuse_in_capture("draws from the generator in Python", "draw with minigrad's functions, or outside")
    if own is None:
        return _generator
    if not isinstance(own, Generator):
        raise TypeError(f"generator: expected a minigrad.Generator, got {type(own).__name__}")
    return own.numpy_generator


def _start(numpy_generator: np.random.Generator, seed: int) -> None:
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"manual_seed expects a non-negative int, got {seed!r}")
    numpy_generator.bit_generator.state = np.random.PCG64(int(seed)).state


@opaque
def manual_seed(seed: int) -> np.random.Generator:
    """Start the generator anew from `seed`, a non-negative int: what is drawn afterwards is the same every time.

    >>> a = manual_seed(7).random(); b = manual_seed(7).random(); a == b
    True
    """
    _start(_generator, seed)
    return _generator


def get_state() -> dict[str, Any]:
    """Where the generator is, as a dict that JSON can hold."""
    refuse_in_capture("looks at the generator's state", "look at it outside")
    return _generator.bit_generator.state


@opaque
def set_state(state: dict[str, Any]) -> None:
    """Go on from where `get_state` was called."""
    _generator.bit_generator.state = state


@contextlib.contextmanager
def portion(rank: int, size: int) -> Iterator[None]:
    """Inside, this process has one of `size` equal portions of each batch, and `uniform_of_batch` draws for that one alone.

    Portions together have the numbers that one process draws for the whole batch, and leave the generator where it does:

    >>> whole, halves = manual_seed(0) and uniform_of_batch((4, 3)), []
    >>> for rank in range(2):
    ...     with portion(rank, 2):
    ...         halves.append(manual_seed(0) and uniform_of_batch((2, 3)))
    >>> bool((np.concatenate(halves) == whole).all())
    True
    """
    global _portion
    before, _portion = _portion, (rank, size)
    try:
        yield
    finally:
        _portion = before


def uniform_of_batch(shape: Sequence[int]) -> np.ndarray:
    """Uniform float32 numbers from 0 to 1 for each element of this process' portion of a batch, which is the first axis."""
    source, (rank, size), count = generator(), _portion, math.prod(shape)
    _skip(source, rank * count)
    drawn = source.random(shape, np.float32)
    _skip(source, (size - 1 - rank) * count)
    return drawn


def _skip(source: np.random.Generator, count: int) -> None:
    """Leave the generator as if so many float32 numbers had been drawn.

    Each takes half of what PCG64 makes at once, and the other half waits in its state; `advance` would throw that away.
    """
    if count and source.bit_generator.state["has_uint32"]:
        source.random(dtype=np.float32)
        count -= 1
    whole = max(count - 1, 0) // 2
    if whole:
        source.bit_generator.advance(whole)
    source.random(count - 2 * whole, np.float32)  # the last one or two, so that the state has the same bits
