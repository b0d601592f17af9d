"""The evidence on one routine, in a form that explanations can be tested on."""
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .diagnosis import Evidence
from .routine import Known, Routine

EXACT = 1e-9  # of a result's largest number: how far apart the same numbers may be, computed in different ways
ENOUGH, FEW = 12, 3  # at most one input in FEW is passed over, and only if at least ENOUGH wrong numbers are explained
FINITE = 6  # fewer finite numbers count as none
CHANCE = 1e-3  # a pattern that is at least as likely is not told
NOT_NUMBERS = np.array(math.nan)

Numbers = dict[str, np.ndarray | None]  # results by name; None for what is not returned


@dataclass(frozen=True, eq=False)
class Seen:
    """One piece of evidence, in float64."""

    inputs: dict[str, Any]
    right: Numbers
    given: Numbers
    wrong: dict[str, np.ndarray]  # which numbers are wrong, by the names of the results that are
    output: np.ndarray | None


Expected = Callable[[Seen], np.ndarray | None]


class Case:
    """The evidence on one routine, the most telling first, and what its known mistakes give for the same inputs."""

    def __init__(self, evidence: Sequence[Evidence], routine: Routine, tolerance: float = EXACT):
        self.routine = routine
        self.raised_on = [item.inputs for item in evidence if not item.given]
        self.tolerance = tolerance
        self.is_lenient = self.is_lenience_missing = False
        seen = [self._seen(item) for item in evidence if item.given]
        # First what shows most at the least cost; an axis of length 1 shows little.
        self.seen = sorted(seen, key=lambda item: (-len(item.wrong), shortest_axis(item) < 2, volume(item)))
        self.results = [name for name in routine.results if any(name in item.given for item in seen)]
        self.wrong = [name for name in self.results if any(name in item.wrong for item in seen)]
        self.empty = {name for name in self.results if self._is_empty(name)}
        self._known: dict[tuple, Numbers] = {}

    def _seen(self, item: Evidence) -> Seen:
        right = {name: as_numbers(item.right[name]) for name in item.given}
        given = {name: as_numbers(value) for name, value in item.given.items()}
        wrong = {name: ~self.agreement(given[name], right[name]) for name in given}
        return Seen(item.inputs, right, given, {name: places for name, places in wrong.items() if np.any(places)},
                    item.output)

    def pieces(self, name: str) -> list[Seen]:
        """The evidence in which a result with this name was given."""
        return [seen for seen in self.seen if name in seen.given]

    def _is_empty(self, name: str) -> bool:
        """Does what was given hold hardly any finite numbers? (None is an answer.)"""
        arrays = [seen.given[name] for seen in self.pieces(name) if seen.given[name] is not None]
        finite = sum(int(np.sum(np.isfinite(array))) for array in arrays)
        return finite < min(FINITE, sum(array.size for array in arrays))

    def agreement(self, given: np.ndarray | None, expected: np.ndarray | None) -> np.ndarray:
        """Where are the numbers the same? If the shapes differ: nowhere, in the expected shape."""
        if given is None or expected is None or given.shape != expected.shape:
            return np.full(np.shape(expected) if np.size(expected) else 1, given is None and expected is None)
        largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        is_close = np.abs(given - expected) <= self.tolerance * (largest + 1e-3)
        return is_close | (given == expected) | (np.isnan(given) & np.isnan(expected))

    def explains(self, name: str, expected: Expected) -> bool:
        """Is this what was given for a result on all inputs? Not if it cannot be computed for one of them.

        NaN equals NaN, so what is NaN almost everywhere (`empty`) proves nothing by itself. If `is_lenient`, a few of many
        inputs are passed over: those where the explanation is not finite but what was given is, for example because its
        author guarded against 0 / 0. `is_lenience_missing` notes that this would have explained something.
        """
        explained = passed_over = 0
        pieces = self.pieces(name)
        for seen in pieces:
            try:
                found = as_numbers(expected(seen))
            except Exception:  # noqa: BLE001  a known mistake may raise where the shapes do not fit it
                return False
            if np.all(self.agreement(seen.given[name], found)):
                explained += sum(int(np.sum(places)) for places in seen.wrong.values())  # one mistake is in several results
            elif is_less_finite(found, seen.given[name]) and FEW * (passed_over + 1) <= len(pieces):
                passed_over += 1
            else:
                return False
        is_so = not passed_over or self.is_lenient and explained >= ENOUGH
        self.is_lenience_missing |= not is_so
        return is_so

    def right(self, name: str) -> Expected:
        return lambda seen: seen.right[name]

    def known(self, mistakes: Sequence[Known], name: str) -> Expected:
        """A result with these known mistakes in it."""

        def expected(seen: Seen) -> np.ndarray | None:
            key = (id(seen), *map(id, mistakes))
            if key not in self._known:
                changes = {part: value for mistake in mistakes for part, value in mistake.changes.items()}
                try:
                    self._known[key] = self.routine.run(seen.inputs, changes)
                except Exception:  # noqa: BLE001  see `explains`
                    self._known[key] = {}
            return self._known[key][name]

        return expected

    def runs_where_it_raised(self, mistakes: Sequence[Known]) -> int:
        """On how many of the inputs on which the routine raised do these known mistakes not raise?"""
        changes = {part: value for mistake in mistakes for part, value in mistake.changes.items()}
        return sum(not self._raises(inputs, changes) for inputs in self.raised_on)

    def _raises(self, inputs: dict[str, Any], changes: dict[str, Any]) -> bool:
        try:
            self.routine.run(inputs, changes)
        except Exception:  # noqa: BLE001  whatever it raises
            return True
        return False

    def changed_by(self, mistake: Known) -> frozenset[str]:
        """The results that a known mistake changes, judged by the most telling evidence; all, if that shows none."""
        seen = self.seen[0]
        try:
            changed = [name for name in self.results
                       if not np.all(self.agreement(self.known((mistake,), name)(seen), seen.right[name]))]
        except Exception:  # noqa: BLE001  see `explains`
            changed = []
        return frozenset(changed or self.results)

    def leaves_right(self, mistakes: Sequence[Known], name: str) -> bool:
        """Do these known mistakes leave this result unchanged?"""
        expected = self.known(mistakes, name)
        return all(np.all(self.agreement(expected(seen), seen.right[name])) for seen in self.seen if name in seen.right)

    def rerun(self, name: str, **inputs: Callable[[Seen], Any]) -> Expected:
        """The right result for other inputs: rerun("dx", dout=lambda seen: ...)."""
        return lambda seen: self.routine.run({**seen.inputs, **{key: new(seen) for key, new in inputs.items()}})[name]


def as_numbers(value: Any) -> np.ndarray | None:
    """An array in float64; None for None; NOT_NUMBERS, which no routine returns, for strings and the like."""
    try:
        array = np.asarray(value)
    except ValueError:  # a list of rows of several lengths
        return NOT_NUMBERS
    if value is None or array.dtype.kind not in "fiub":
        return None if value is None else NOT_NUMBERS
    return array.astype(np.float64)


def is_less_finite(found: np.ndarray | None, given: np.ndarray | None) -> bool:
    """Is `given` finite somewhere where `found`, in the same shape, is not?"""
    return (found is not None and given is not None and found.shape == given.shape
            and bool(np.any(np.isfinite(given) & ~np.isfinite(found))))


def arrays_of(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays among the inputs, except the upstream gradient."""
    return {name: value for name, value in inputs.items() if isinstance(value, np.ndarray) and name != "dout"}


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference between finite numbers, relative to b's largest."""
    apart = np.abs(a - b)
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)) / np.max(np.abs(b), initial=1e-300))


def by_chance(part: np.ndarray, wrong: np.ndarray) -> float:
    """How likely are as many wrong numbers, if they are anywhere, to be all in this part?

    Numbers along an axis along which the part does not change are taken to go wrong together.
    """
    along = tuple(axis for axis in range(part.ndim) if np.all(part == part.take([0], axis)))
    among, count = np.any(part, along), int(np.sum(np.any(wrong, along)))
    return math.comb(int(np.sum(among)), count) / math.comb(among.size, count)


def point_of(seen: Seen) -> bytes:
    """The same for the same inputs. A new upstream is not a new input."""
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays_of(seen.inputs).values())


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Can it be broadcast to the wanted one?"""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def volume(seen: Seen) -> int:
    return sum(array.size for array in arrays_of(seen.inputs).values())


def shortest_axis(seen: Seen) -> int:
    return min((n for array in arrays_of(seen.inputs).values() for n in array.shape), default=0)
