"""What a judge says, and what it observes."""
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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


class Session(Protocol):
    """One call of the answer, and whether it was right."""

    @property
    def answer(self) -> Answer: ...
    @property
    def is_right(self) -> bool: ...


S = TypeVar("S", bound=Session)


def found_in(sessions: Iterable[S], what: str, table: Iterable[Weakness],
             facts: Callable[[list[S], list[S]], Iterable[str]]) -> Finding:
    """The finding on sessions, which are made one by one; `facts` are those of all sessions, and of the wrong ones."""
    tried: list[S] = []
    for session in sessions:
        if session.answer.kind in ("timeout", "died"):
            return Finding(stopped=session.answer)
        tried.append(session)
    if all(session.answer.kind == "raised" for session in tried):
        return Finding(stopped=tried[0].answer)
    wrong = [session for session in tried if not session.is_right]
    if not wrong:
        return Finding(remarks=(f"right on all {len(tried)} {what}",))
    answered = [session for session in tried if session.answer.kind == "returned"]
    return Finding(weaknesses(table, answered, [s for s in answered if not s.is_right]), tuple(facts(tried, wrong)))


class Watched:
    """Functions of some arrays that are handed out, and a record of what they are called with.

    Each call gets copies, so that nothing it does to its arrays affects the next.
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = [a.copy() for a in arrays]
        self.calls = 0
        self.moved = [np.zeros(a.shape, bool) for a in arrays]  # entries that some call has moved
        self.up, self.down = ([np.zeros(a.shape, bool) for a in arrays] for _ in range(2))  # and in which direction
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


def raised(answer: Answer) -> str:
    """"it raises ValueError: ... in line 3"."""
    return f"it raises {answer.message}" + (f" in line {answer.line}" if answer.line else "")


def numbers_in(answer: Answer) -> tuple[int, ...] | None:
    """The integers that were returned, alone or in a tuple, list or array; None for None, -1 for any other number."""
    if all(result is None for result in answer.results):
        return None
    values = [value for result in answer.results if result is not None for value in np.ravel(result).tolist()]
    return tuple(int(v) if isinstance(v, (int, float)) and v == v // 1 else -1 for v in values)
