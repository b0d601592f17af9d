"""What a judge says, and what it saw being asked."""
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.exercises.answer import Answer


@dataclass(frozen=True)
class Weakness:
    """What somebody's way of looking does not see, and how the judge notices that."""

    name: str
    sentence: str  # what is wrong, for who wrote it
    seen: Callable[..., bool]  # of all that was asked and answered
    explains_all: bool = False  # there is no use in looking further


def weaknesses(table: Iterable[Weakness], *evidence: Any) -> list[Weakness]:
    """Those that are seen; the first that explains all others alone."""
    seen = [weakness for weakness in table if weakness.seen(*evidence)]
    return [weakness for weakness in seen if weakness.explains_all][:1] or seen


@dataclass(frozen=True)
class Finding:
    """What an exercise's own judge says: right if there is neither a weakness nor a fact."""

    weaknesses: Sequence[Weakness] = ()
    facts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # about a right answer
    stopped: Answer | None = None  # the call that could not be judged: it raised each time, or took too long

    @property
    def is_right(self) -> bool:
        return not self.weaknesses and not self.facts


class Watched:
    """Functions of some arrays that are handed out to be called, and what they have been called with.

    Whoever calls gets copies, so nothing that one call does to its arrays is left for the next.
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = [a.copy() for a in arrays]
        self.calls = 0
        self.moved = [np.zeros(a.shape, bool) for a in arrays]  # entries that a call has had elsewhere
        self.up, self.down = ([np.zeros(a.shape, bool) for a in arrays] for _ in range(2))  # and in which direction
        self.steps: list[float] = []  # how far, the most in each call
        self.dtypes: set[np.dtype] = set()
        self.has_nan = False
        self.upstreams: list[np.ndarray] = []

    def forward(self, function: Callable) -> Callable:
        """The function of these arrays, watched."""

        def watched(*arrays):
            self._note(arrays)
            return function(*map(as_array, arrays))

        return watched

    def backward(self, function: Callable) -> Callable:
        """backward(dout, *arrays), watched."""

        def watched(dout, *arrays):
            self._note(arrays)
            self.upstreams.append(np.array(dout))
            self.dtypes.add(np.asarray(dout).dtype)
            return function(as_array(dout), *map(as_array, arrays))

        return watched

    def _note(self, arrays: tuple[Any, ...]) -> None:
        self.calls += 1
        step = 0.0
        for k, (start, given) in enumerate(zip(self.arrays, map(np.asarray, arrays))):
            if start.dtype.kind != "f" or given.shape != start.shape or given.dtype.kind not in "fiu":
                continue
            self.dtypes.add(given.dtype)
            change = given - start
            self.has_nan = self.has_nan or bool(np.isnan(change).any())
            is_up, is_down = change > 0, change < 0
            self.up[k] |= is_up
            self.down[k] |= is_down
            self.moved[k] |= is_up | is_down
            step = max(step, float(np.max(np.abs(change), initial=0.0, where=is_up | is_down)))
        if step:
            self.steps.append(step)

    @property
    def is_one_sided(self) -> bool:
        """Have all entries of an array been moved in one direction only?"""
        return bool(self.steps) and all(not up.any() or not down.any() for up, down in zip(self.up, self.down))

    @property
    def largest_step(self) -> float:
        return max(self.steps, default=0.0)

    def has_constant_upstream(self) -> bool:
        return all(np.ptp(dout) == 0 for dout in self.upstreams)

    def has_positive_upstream(self) -> bool:
        return all(np.min(dout) >= 0 for dout in self.upstreams)

    def skips_inputs(self) -> bool:
        """Is an input never moved?"""
        return not all(self.moved[k].any() for k in self.floats)

    def skips_entries(self) -> bool:
        """Does it move some entries of an input, and not others?"""
        return any(self.moved[k].any() and not self.moved[k].all() for k in self.floats)

    def moves_all(self) -> bool:
        return all(self.moved[k].all() for k in self.floats)

    @property
    def floats(self) -> list[int]:
        """Which arrays can be moved."""
        return [k for k, a in enumerate(self.arrays) if a.dtype.kind == "f" and a.size]


def as_array(value: Any) -> np.ndarray:
    return np.array(value)


def raised(answer: Answer) -> str:
    """"it raises ValueError: ... in line 3"."""
    return f"it raises {answer.message}" + (f" in line {answer.line}" if answer.line else "")


def numbers_in(answer: Answer) -> tuple[int, ...] | None:
    """The whole numbers that were returned, alone, in a tuple, a list or an array; None for None, -1 for other numbers."""
    if all(result is None for result in answer.results):
        return None
    values = [value for result in answer.results if result is not None for value in np.ravel(result).tolist()]
    return tuple(int(v) if isinstance(v, (int, float)) and v == v // 1 else -1 for v in values)
