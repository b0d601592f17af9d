"""The right answer to a variant, and the known mistakes in it."""
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from study.exercises.exercise import Exercise
from study.exercises.variants.changes import Array, Change, Changes, Group, argument_of, chain, same, together, written
from study.mistakes.base import as_tuple
from study.mistakes.doctor import Known

# How known mistakes begin; after a colon they say more, of one student's variant. Those of the exercise end with the last.
LEFT_OUT, NOT_BACK = "a step of the variant is left out", "the way back through a step of the variant is missing"
ONLY_BACK = "a step of the variant is taken only on the way back"
NOT_DOUT = "dout does not go back through a step of the variant"
ANOTHER, NONE = "this answers another variant", "this answers the exercise itself, not the variant"
OF_VARIANTS = LEFT_OUT, NOT_BACK, ONLY_BACK, NOT_DOUT, ANOTHER, NONE
THROUGH = " (with "


def of_everybody(mistake: str) -> str:
    """What a mistake has in common with those in other variants.

    >>> of_everybody(f"{LEFT_OUT}: x is used where yours has 0.4 * x")
    'a step of the variant is left out'
    """
    return mistake.partition(": ")[0] if mistake.startswith(OF_VARIANTS) else mistake.partition(THROUGH)[0]


def equation_of(base: Exercise, changes: Mapping[str, Sequence[Change]]) -> str:
    given = ", ".join(argument_of(changes.get(name, ()), name) for name in base.arguments)
    result = ", ".join(base.routine.results) if base.forward is None else "out"
    return f"{result} = {written(changes.get('out', ()), f'{base.name}({given})')}"


def there_and_back(base: Exercise, changes: Mapping[str, Sequence[Change]]) -> Callable:
    """The right answer to a variant. Its parts are those of the exercise, and the ways there and back: to_x, back_x."""
    ways: dict[str, Array] = {}
    for name, steps in changes.items():
        ways[f"to_{name}"] = functools.partial(chain, steps, "to")
        ways[f"back_{name}"] = functools.partial(chain, steps[::-1], "back")
    names = {"out": "to_out"}
    if base.forward is not None:  # dout goes back through the changes of out, and then each gradient through its own
        names = {f"d{name}": f"back_{name}" for name in changes}

    def right(*values: Any, **parts: Any) -> Any:
        own = {part: parts.pop(part, way) for part, way in ways.items()}

        def there(name: str, value: Any) -> Any:
            return own.get(names.get("dout") if name == "dout" else f"to_{name}", same)(value)

        found = as_tuple(base.routine.right(*map(there, base.routine.arguments, values), **parts))
        found = tuple(value if value is None else own.get(names.get(name), same)(value)
                      for name, value in zip(base.routine.results, found))
        return found if len(found) > 1 else found[0]

    return right


def mistakes_in(base: Exercise, chosen: Sequence[Changes]) -> Iterator[Known]:
    """What is forgotten of a variant: a change, everywhere or on one way only."""
    changes = together(chosen)
    everything: Changes = {}
    for picked in chosen:
        in_all: Changes = {}
        for name, change in picked.items():
            others = [step for step in changes[name] if step is not change]
            to, back = ({f"to_{name}": functools.partial(chain, others, "to")},
                        {f"back_{name}": functools.partial(chain, others[::-1], "back")})
            in_all |= to | back
            everything |= {part: same for part in (*to, *back)}
            of = written((change,), name)
            if name == "out" and base.forward is not None:
                yield Known(f"{of}: dout as it is", f"{NOT_DOUT}: your out is {of}", back)
                continue
            yield Known(f"{of}: left out", f"{LEFT_OUT}: {name} is used where yours has {of}", to | back)
            if f"d{name}" in base.routine.results and base.forward is not None:
                yield Known(f"{of}: not back", f"{NOT_BACK}: d{name} is the gradient of {of}, not yet of {name}", back)
                yield Known(f"{of}: only back", f"{ONLY_BACK}: {name} is used where yours has {of}", to)
        if len(picked) > 1:
            all_of = ", ".join(written((change,), name) for name, change in picked.items())
            yield Known(f"{all_of}: left out", f"{LEFT_OUT}: yours has {all_of}", in_all)
    yield Known("no variant", f"{NONE}: yours is {equation_of(base, changes)}", everything, is_only_single=True)


def seen_through(known: Known, changes: Mapping[str, Sequence[Change]]) -> Known:
    """A mistake of the exercise, which speaks of what it calls x."""
    other = [f"{written(told, name)} for {name}" for name, steps in changes.items()
             if (told := [change for change in steps if change.is_in_words])]
    return dataclasses.replace(known, sentence=f"{known.sentence}{THROUGH}{', '.join(other)})") if other else known


def other_variants(base: Exercise, own: Mapping[str, Sequence[Change]], groups: Sequence[Group]) -> Iterator[Known]:
    """The right answers to all others, to recognise what was copied."""
    for changes in map(together, itertools.product(*groups)):
        if changes != own:
            equation = equation_of(base, changes)
            yield Known(f"{ANOTHER}: {equation}", f"{ANOTHER}: {equation}; yours is {equation_of(base, own)}",
                        {"instead": there_and_back(base, changes)}, is_only_single=True)
