"""The right gradients of a function that has only a forward: finite differences, where they are certain."""
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.gradcheck.differences import FAIL, STEP, judge, noise_of, scale_of

CERTAIN = 5e-10  # of the largest derivative: the error that is allowed, as answers are judged within 1e-9
MOST_KEPT = 200  # inputs
MOST_ENTRIES = 600  # of an input, each of which is moved on its own


def size_of(inputs: dict[str, Any]) -> int:
    """How many numbers there are."""
    return sum(map(np.size, inputs.values()))


@dataclass(frozen=True)
class Known:
    gradients: tuple[np.ndarray, ...]
    bounds: tuple[np.ndarray, ...]  # on their errors
    is_certain: bool  # no kink, no noise


class Derivatives:
    """(dout, *arguments) -> the gradients of sum(dout * forward(*arguments)) for the arguments at these positions."""

    def __init__(self, forward: Callable, positions: Sequence[int]):
        self.forward = forward
        self.positions = positions
        self.kept: dict[bytes, Known] = {}

    def __call__(self, dout: np.ndarray, *arguments: Any) -> tuple[np.ndarray, ...]:
        return self.known(dout, *arguments).gradients

    def known(self, dout: np.ndarray, *arguments: Any) -> Known:
        """What differences find at this point. Results are cached: a judge asks often."""
        key = b"|".join(repr((np.shape(a), np.asarray(a).tobytes())).encode() for a in (dout, *arguments))
        if key not in self.kept:
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            found = [self._of(position, dout, arguments) for position in self.positions]
            self.kept[key] = Known(tuple(f[0] for f in found), tuple(f[1] for f in found), all(f[2] for f in found))
        return self.kept[key]

    def _of(self, position: int, dout: np.ndarray, arguments: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, bool]:
        """(gradient, bound, is it certain) for one argument, entry by entry."""
        x = arguments[position]
        scale = scale_of(x).reshape(-1)

        def value_at(t: float) -> np.ndarray:
            """The loss with each entry moved on its own."""
            values = np.empty(x.size)
            for k in range(x.size):
                moved = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
                moved[position].reshape(-1)[k] += t * scale[k]
                values[k] = np.sum(dout * self.forward(*moved))
            return values

        with np.errstate(all="ignore"):
            centre = value_at(0.0)
            rough = (value_at(STEP) - value_at(-STEP)) / (2 * STEP)
            # They judge a wrong gradient: where they are certain that it is wrong, they know the right one.
            numeric, bound, verdict = judge(value_at, centre, 1.5 * rough + np.sign(rough) + (rough == 0), STEP, 0.0,
                                            np.zeros(x.size), noise_of(value_at, centre))
        if np.all(np.abs(numeric) <= bound):
            numeric = bound = np.zeros(x.size)  # such as for the softmax of one number
        gradient, bound = numeric / scale, bound / scale
        is_certain = np.all(verdict == FAIL) and np.all(bound <= CERTAIN * np.max(np.abs(gradient), initial=0.0))
        return gradient.reshape(x.shape), bound.reshape(x.shape), bool(is_certain)
