"""The one generator that everything random draws from: initial weights, dropout, `randn` and friends.

`Generator` makes others, for who wants numbers that do not depend on what else is drawn: randn(3, generator=g).
"""
import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .arrays.devices import CPU, device as checked_device
from .arrays.versions import tick
from .runner import notice, opaque

_generator = np.random.default_rng()
_rank = 0  # see `portion`

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
        self.made = tick()
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
    notice("draws from the generator in Python")
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
    notice("looks at the generator's state")
    return _generator.bit_generator.state


@opaque
def set_state(state: dict[str, Any]) -> None:
    """Go on from where `get_state` was called."""
    _generator.bit_generator.state = state


@contextlib.contextmanager
def portion(rank: int, size: int) -> Iterator[None]:
    """Inside, this process has one of `size` equal portions of each batch: its masks are parts of the whole batch's.

    >>> whole = manual_seed(0) and key_of_batch(12)
    >>> with portion(1, 2):
    ...     half = manual_seed(0) and key_of_batch(6)
    >>> whole[0] == half[0], whole[1], half[1]
    (np.True_, np.int64(0), np.int64(6))
    """
    global _rank
    if not 0 <= rank < size:
        raise ValueError(f"portion: expected a rank from 0 to {size - 1}, got {rank}")
    before, _rank = _rank, rank
    try:
        yield
    finally:
        _rank = before


def key_of_batch(count: int) -> np.ndarray:
    """(2,), of which dropout makes a mask: 64 bits that are drawn, the same ones for all portions of a batch, and the
    position in the whole batch of the first of this portion's `count` elements. See ops/dropout.py."""
    drawn = generator().bit_generator.random_raw()
    return np.array([drawn, _rank * count], np.uint64).view(np.int64)
