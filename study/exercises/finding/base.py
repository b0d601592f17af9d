"""What a judge says, and what it observes."""
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.exercises.answer import Answer


@dataclass(frozen=True)
class Weakness:
    """Something that an answer misses, and how the judge notices."""

    name: str
    sentence: str  # for the student
    seen: Callable[..., bool]  # in the evidence
    explains_all: bool = False  # then no other weakness is named


def weaknesses(table: Iterable[Weakness], *evidence: Any) -> list[Weakness]:
    """Those that the evidence shows; only the first that explains all, if there is one."""
    seen = [weakness for weakness in table if weakness.seen(*evidence)]
    return [weakness for weakness in seen if weakness.explains_all][:1] or seen


@dataclass(frozen=True)
class Finding:
    """The verdict of an exercise's own judge: right if there is neither a weakness nor a fact."""

    weaknesses: Sequence[Weakness] = ()
    facts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # about a right answer
    stopped: Answer | None = None  # a call that cannot be judged: every one raised, or this one took too long

    @property
    def is_right(self) -> bool:
        return not self.weaknesses and not self.facts


class Watched:
    """Functions of some arrays that are handed out, and a record of what they are called with.

    Each call gets copies, so that nothing it does to its arrays affects the next.
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = [a.copy() for a in arrays]
        self.calls = 0
        self.up, self.down = ([np.zeros(a.shape, bool) for a in arrays] for _ in range(2))  # has some call moved it so?
        self.steps: list[float] = []  # the largest move of each call
        self.dtypes: set[np.dtype] = set()
        self.has_nan = False
        self.upstreams: list[np.ndarray] = []

    def forward(self, function: Callable) -> Callable:
        """forward(*arrays), watched."""

        def watched(*arrays):
            self._note(arrays)
            return function(*map(np.array, arrays))

        return watched

    def backward(self, function: Callable) -> Callable:
        """backward(dout, *arrays), watched."""

        def watched(dout, *arrays):
            self._note(arrays)
            self.upstreams.append(np.array(dout))
            self.dtypes.add(np.asarray(dout).dtype)
            return function(np.array(dout), *map(np.array, arrays))

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

    def shares(self) -> list[float]:
        """How many of the entries it has moved, of each array that can be."""
        return [float(np.mean(up | down)) for a, up, down in zip(self.arrays, self.up, self.down)
                if a.dtype.kind == "f" and a.size]


def raised(answer: Answer) -> str:
    """"it raises ValueError: ... in line 3"."""
    return f"it raises {answer.message}" + (f" in line {answer.line}" if answer.line else "")
