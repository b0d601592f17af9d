"""A variant as an exercise of its own, and the one that a name has."""
import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.exercises.answer import Answer, Caller
from study.exercises.exercise import Argument, Exercise, Inputs
from study.exercises.variants.changes import (
    NOTATION, Change, Changes, Group, argument_of, chain, coded, factor_of, same, together, undone, written,
)
from study.exercises.variants.mistakes import equation_of, mistakes_in, other_variants, seen_through, there_and_back
from study.exercises.variants.table import GROUPS
from study.mistakes.doctor import Known


def groups_of(exercise: Exercise) -> list[Group]:
    """Those in the table; for a teacher's own exercise, factors of the first learned argument and of out."""
    if not exercise.file:
        return GROUPS.get(exercise.name, [])
    first = exercise.routine.results[0].removeprefix("d")
    return [factor_of(first), factor_of("out")]


def has_variants(exercise: Exercise) -> bool:
    """Has it any, and is it not one already?"""
    return bool(groups_of(exercise)) and not exercise.variant


def variant_of(exercise: Exercise, seed: str) -> "Variant":
    """The exercise's variant for a seed, such as a student's name; ValueError if it has none."""
    groups = groups_of(exercise)
    if not has_variants(exercise):
        raise ValueError(f"{exercise.name} has no variants")
    digest = hashlib.sha256(f"{exercise.name} {key_of(seed)}".encode()).digest()
    generator = np.random.default_rng(list(digest))
    return varied(exercise, [group[generator.integers(len(group))] for group in groups], seed, groups)


def key_of(name: str) -> str:
    """A name without what platforms change: the order of its words, case, accents, spaces.

    >>> key_of("Doe, Zoë 12") == key_of("zoe doe 12") != key_of("zoe doe 21")
    True
    """
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join([*sorted(filter(str.isalpha, plain)), " ", *filter(str.isdigit, plain)])


@dataclass(frozen=True)
class Variant(Exercise):
    """An exercise with changes. Its arguments have the same names; shapes may be others."""

    base: Exercise | Any = None
    changes: Mapping[str, tuple[Change, ...]] = dataclasses.field(default_factory=dict)  # those next to the argument first

    @property
    def equation(self) -> str:
        """"out = 1.3 * softmax(0.4 * x^T)^T"."""
        return equation_of(self.base, self.changes)

    @property
    def notation(self) -> str:
        return "; ".join(meaning for sign, meaning in NOTATION.items() if sign in self.equation)

    @property
    def source(self) -> str:
        """The exercise's solution, called with the changed arguments, and the way back through the changes."""
        name, own = self.base.function_name, f"{self.name}_itself"
        if f"def {name}(" not in self.base.source:
            return self.base.source
        out = self.changes.get("out", ())
        before, after = {argument: self.changes.get(argument, ()) for argument in self.arguments}, {"out": out}
        if self.forward is not None:
            before = {"dout": through(out)} | before
            after = {f"d{argument}": through(steps) for argument, steps in self.changes.items()}
        inputs = ", ".join(coded(steps, argument) for argument, steps in before.items())
        results = ", ".join(coded(after.get(result, ()), result) for result in self.routine.results)
        return (f"{self.base.source.replace(f'def {name}(', f'def {own}(')}\n\ndef {self.signature}:\n"
                f"    {', '.join(self.routine.results)} = {own}({inputs})\n    return {results}\n")

    @functools.cached_property
    def edits(self) -> tuple[Known, ...]:
        """Those of the exercise's solution, with the ways there and back around it."""
        def seen(known: Known) -> Known:
            routine = dataclasses.replace(self.base.routine, right=known.changes["instead"])
            right = there_and_back(dataclasses.replace(self.base, routine=routine), self.changes)
            return dataclasses.replace(seen_through(known, self.changes), changes={"instead": right})

        return tuple(map(seen, self.base.edits))

    def inputs(self, seed: int) -> Iterator[Inputs]:
        return map(self.own, self.base.inputs(seed))

    def draw(self, *arguments: Any) -> Inputs:
        return self.own(self.base.draw(*arguments))

    def with_upstream(self, generator: np.random.Generator, inputs: Inputs) -> Inputs:
        return self.own(self.base.with_upstream(generator, inputs))

    def is_fit(self, inputs: Inputs) -> bool:
        return self.base.is_fit(self.of_base(inputs))

    def own(self, inputs: Inputs) -> Inputs:
        """The variant's inputs for those of the exercise."""
        return {name: undone(self.changes.get(name, ()), value) if name != "dout" else
                chain(self.changes.get("out", ()), "forth", value) for name, value in inputs.items()}

    def of_base(self, inputs: Inputs) -> Inputs:
        """And the other way round."""
        return {name: chain(self.changes.get(name, ()), "to", value) if name != "dout" else
                chain(self.changes.get("out", ())[::-1], "back", value) for name, value in inputs.items()}


def through(changes: Sequence[Change]) -> list[Change]:
    """Those that the chain rule goes back through, in its order."""
    return [change for change in changes[::-1] if change.back is not same]


def varied(base: Exercise, chosen: Sequence[Changes], seed: str, groups: Sequence[Group]) -> Variant:
    changes = together(chosen)
    right = there_and_back(base, changes)
    mistakes = (*mistakes_in(base, chosen), *(seen_through(known, changes) for known in base.routine.mistakes),
                *other_variants(base, changes, groups))
    arguments = {name: with_changes(argument, name, changes.get(name, ())) for name, argument in base.arguments.items()}
    taken = [written(steps, name) for name, steps in changes.items() if name in base.arguments]
    return Variant(**{field.name: getattr(base, field.name) for field in dataclasses.fields(Exercise)} | {
        "arguments": arguments, "routine": dataclasses.replace(base.routine, right=right, mistakes=mistakes),
        "solution": with_signature(base.solution, right),
        "beyond": {f"{what} (as {', '.join(taken)})" if taken else what: draw for what, draw in base.beyond.items()},
        "variant": seed}, base=base, changes=changes)


def with_changes(argument: Argument, name: str, changes: Sequence[Change]) -> Argument:
    if not changes:
        return argument
    shape = argument.shape.split()
    if sum(change.swaps for change in changes) % 2:
        shape[-2:] = shape[:-3:-1]
    return dataclasses.replace(argument, shape=" ".join(shape), about=f"{argument_of(changes, name)}: {argument.about}")


def with_signature(solution: Callable[..., Any], right: Callable[..., Any]) -> Callable[..., Any]:
    """The right answer, with the name and the arguments that students write."""
    @functools.wraps(solution)
    def answer(*values):
        return right(*values)

    return answer


@dataclass(frozen=True)
class AsBase:
    """Calls an answer to a variant as if it were one to the exercise."""

    variant: Variant
    caller: Caller

    def call(self, arguments: list[Any]) -> Answer:
        inputs = self.variant.own(dict(zip(self.variant.routine.arguments, arguments)))
        answer = self.caller.call(list(inputs.values()))
        names = [name.removeprefix("d") for name in self.variant.routine.results]
        fit = [result if np.shape(result) != np.shape(inputs.get(name)) else
               chain(self.variant.changes.get(name, ()), "forth", result) for name, result in zip(names, answer.results)]
        return dataclasses.replace(answer, results=(*fit, *answer.results[len(fit):]))
