"""The one generator that everything random draws from: initial weights, dropout, `randn` and friends."""
from typing import Any

import numpy as np

from . import recording

_generator = np.random.default_rng()


def generator() -> np.random.Generator:
    """The generator itself."""
    recording.refuse("draws from the generator in Python", "draw with minigrad's functions, or outside")
    return _generator


@recording.as_it_is
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
    recording.refuse("looks at the generator's state", "look at it outside")
    return _generator.bit_generator.state


@recording.as_it_is
def set_state(state: dict[str, Any]) -> None:
    """Go on from where `get_state` was called."""
    _generator.bit_generator.state = state
