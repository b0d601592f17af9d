"""The one generator that everything random draws from: initial weights, dropout, `randn` and friends."""
import os
from typing import Any

import numpy as np

from .runner import opaque, refuse_in_capture

_generator = np.random.default_rng()

if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread draws: the child would inherit a lock that nobody opens. Parent and child go on
    # from the same state, as with NumPy's and PyTorch's global generators.
    _lock = _generator.bit_generator.lock
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def generator() -> np.random.Generator:
    """The generator itself."""
    refuse_in_capture("draws from the generator in Python", "draw with minigrad's functions, or outside")
    return _generator


@opaque
def manual_seed(seed: int) -> np.random.Generator:
    """Start the generator anew from `seed`, a non-negative int: what is drawn afterwards is the same every time.

    >>> a = manual_seed(7).random(); b = manual_seed(7).random(); a == b
    True
    """
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"manual_seed expects a non-negative int, got {seed!r}")
    _generator.bit_generator.state = np.random.PCG64(int(seed)).state
    return _generator


def get_state() -> dict[str, Any]:
    """Where the generator is, as a dict that JSON can hold."""
    refuse_in_capture("looks at the generator's state", "look at it outside")
    return _generator.bit_generator.state


@opaque
def set_state(state: dict[str, Any]) -> None:
    """Go on from where `get_state` was called."""
    _generator.bit_generator.state = state
