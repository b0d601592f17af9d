"""Wrong backwards, to test a gradient check with: known mistakes of each function, and edits, whose numbers differ."""
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from . import textbook  # noqa: F401  fills FUNCTIONS
from .base import FUNCTIONS, ROUTINES, Differentiable, Mutant
from .doctor.routine import Known

MOST = 24  # edits of a function, drawn at random
DRAWS = 3  # of inputs
VISIBLE = 1e-6  # relative to the largest number: what differs by less is no mutant


class Mutants(Mapping[str, Mutant]):
    """{"softmax: the sum over the row is missing": the mutant}; those of a function are made when one is asked for."""

    def __getitem__(self, title: str) -> Mutant:
        return mutants_of(title.partition(": ")[0])[title]

    def __iter__(self) -> Iterator[str]:
        return (title for name in FUNCTIONS for title in mutants_of(name))

    def __len__(self) -> int:
        return sum(len(mutants_of(name)) for name in FUNCTIONS)


@functools.cache
def mutants_of(name: str) -> dict[str, Mutant]:
    """The known mistakes of a function, and some edits."""
    function, routine, found = FUNCTIONS[name], ROUTINES[name], {}
    edits = routine.edits()
    order = np.random.default_rng(0).permutation(len(edits))
    breaking = [known for known in routine.mistakes if "instead" in known.changes]  # a promise: the numbers may be right
    own = telling(function, (known for known in routine.mistakes if known not in breaking), len(routine.mistakes))
    for known in (*breaking, *own, *telling(function, (edits[k] for k in order), MOST)):
        mutant = mutant_of(function, known)
        number = sum(other.mistake.startswith(f"{known.name}: ") for other in found.values())
        title = f"{mutant.name} ({number + 1})" if mutant.name in found else mutant.name
        found[title] = replace(mutant, name=title)
    return found


def mutant_of(function: Differentiable, known: Known) -> Mutant:
    routine = ROUTINES[function.name]
    changes = dict(known.changes)
    changed = changes.pop("instead", routine.right)

    def backward(dout: np.ndarray, *inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            return changed(dout, *inputs, *function.options.values(), **changes)

    return Mutant(f"{function.name}: {known.name}", function.forward, backward, function.inputs, function.constants,
                  function.arguments, function.statement, function.options, known.sentence, function)


def telling(function: Differentiable, mistakes: Iterable[Known], most: int) -> Iterator[Known]:
    """Those whose numbers are wrong on each of several draws, finite, of the right shapes, and not those of another."""
    points = [(np.random.default_rng(draw + 5), function.inputs(np.random.default_rng(draw))) for draw in range(DRAWS)]
    draws = [[generator.standard_normal(np.shape(function.forward(*inputs))), *inputs] for generator, inputs in points]
    seen: set[bytes] = set()
    with np.errstate(all="ignore"):
        right = [numbers(function, draw) for draw in draws]
        for known in mistakes:
            try:
                wrong = [numbers(mutant_of(function, known), draw) for draw in draws]
            except Exception:  # noqa: BLE001  many do not fit the shapes
                continue
            key = b"".join(np.round(result, 7).tobytes() for result in wrong[0])
            if all(map(is_wrong, wrong, right)) and key not in seen:
                seen.add(key)
                yield known
            if len(seen) == most:
                return


def numbers(function: Differentiable, draw: list[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(result, float) for result in function.results(*(array.copy() for array in draw))]


def is_wrong(wrong: list[np.ndarray], right: list[np.ndarray]) -> bool:
    if len(wrong) != len(right) or not all(a.shape == b.shape and np.all(np.isfinite(a)) for a, b in zip(wrong, right)):
        return False
    return any(np.max(np.abs(a - b), initial=0.0) > VISIBLE * np.max(np.abs(b), initial=0.0) for a, b in zip(wrong, right))


MUTANTS = Mutants()
