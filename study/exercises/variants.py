"""Variants of an exercise, so that students who help one another cannot copy unread.

A variant is the exercise's own function of other arguments, such as out = 1.3 * softmax(0.4 * x^T)^T. Its inputs, right
results and known mistakes are those of the exercise, taken there and back.
"""
import dataclasses
import functools
import hashlib
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.exercises.exercise import Argument, Exercise, Inputs
from study.mistakes.base import as_tuple
from study.mistakes.doctor import Known

# How known mistakes begin; after a colon they say more, of one student's variant.
LEFT_OUT, NOT_BACK = "a step of the variant is left out", "the way back through a step of the variant is missing"
ONLY_BACK = "a step of the variant is taken only on the way back"
NOT_DOUT = "dout does not go back through a step of the variant"
ANOTHER, NONE = "this answers another variant", "this answers the exercise itself, not the variant"
OF_VARIANTS = LEFT_OUT, NOT_BACK, ONLY_BACK, NOT_DOUT, ANOTHER, NONE

Array = Callable[[Any], Any]


def same(a: Any) -> Any:
    return a


@dataclass(frozen=True)
class Change:
    """What a variant has in place of an argument or of out: its own array goes `to` the exercise's, and the exercise's
    gradient goes `back` to that of the variant. `undo` is the inverse of `to`, and `forth` that of `back`."""

    written: str  # "0.4 * {}"
    to: Array
    undo: Array
    back: Array = same
    forth: Array = same
    swaps: bool = False  # the last two axes
    is_in_words: bool = True  # the exercise's known mistakes are told in other words


def involution(written: str, function: Array, **what: bool) -> Change:
    """A linear change that is its own inverse, and its own transpose."""
    return Change(written, function, function, function, function, **what)


def times(factor: float) -> Change:
    return Change(f"{factor:g} * {{}}", *(lambda a: a * factor, lambda a: a / factor) * 2, is_in_words=False)


def plus(number: float) -> Change:
    text = f"({{}} {'-' if number < 0 else '+'} {abs(number):g})"
    return Change(text, lambda a: a + number, lambda a: a - number, is_in_words=False)


def swapped(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


TRANSPOSED = involution("{}^T", swapped, swaps=True)
FLIPPED = involution("flip({})", lambda a: a[..., ::-1, :])
NEGATED = involution("(-{})", np.negative)
NOT = Change("not {}", np.logical_not, np.logical_not)
REST = Change("(1 - {})", lambda a: 1 - a, lambda a: 1 - a, np.negative, np.negative)
SQUARED = Change("{}^2", lambda a: a**2, lambda a: a**0.5, is_in_words=False)
FROM_ONE = Change("({} - 1)", lambda ids: ids - 1, lambda ids: ids + 1)
NOTATION = {"^T": "^T swaps the last two axes", "flip": "flip reverses the last axis but one"}

Changes = Mapping[str, Change]  # by argument; "out" for the result
Group = Sequence[Changes]  # a variant has one of them

FACTORS = [c / 10 for c in (*range(2, 10), *range(11, 20))]
NUMBERS = [c / 10 for c in (-8, -7, -6, -4, -3, 3, 4, 6, 7, 8)]


def factor_of(name: str) -> Group:
    return [{name: times(c)} for c in FACTORS]


def number_to(name: str) -> Group:
    return [{name: plus(c)} for c in NUMBERS]


def perhaps(change: Change, *names: str) -> Group:
    """This change in all of these arguments, or in none."""
    return [{}, dict.fromkeys(names, change)]


def both_of_a_norm() -> list[Group]:
    return [factor_of("out"), perhaps(plus(1), "weight"), perhaps(SQUARED, "eps"), perhaps(TRANSPOSED, "x", "out")]


GROUPS: dict[str, list[Group]] = {
    "product": [number_to("a"), factor_of("out")],
    "matmul": [perhaps(TRANSPOSED, "a"), perhaps(TRANSPOSED, "b"), number_to("a"), factor_of("out")],
    "linear": [perhaps(TRANSPOSED, "weight"), number_to("x"), factor_of("out")],
    "tanh": [factor_of("x"), factor_of("out")],
    "dropout": [factor_of("x"), perhaps(NOT, "mask"), perhaps(REST, "p")],
    "gelu": [factor_of("x"), factor_of("out")],
    "gelu_tanh": [factor_of("x"), factor_of("out")],
    "logsumexp": [perhaps(TRANSPOSED, "x"), factor_of("x"), factor_of("out")],
    "softmax": [perhaps(TRANSPOSED, "x", "out"), factor_of("x"), factor_of("out")],
    "log_softmax": [perhaps(TRANSPOSED, "x", "out"), factor_of("x"), factor_of("out")],
    "cross_entropy": [perhaps(TRANSPOSED, "logits"), factor_of("logits"), factor_of("out")],
    "embedding": [perhaps(FROM_ONE, "ids"), perhaps(TRANSPOSED, "weight"), factor_of("out")],
    "layer_norm": both_of_a_norm(),
    "rms_norm": both_of_a_norm(),
    "residual_norm": both_of_a_norm(),
    "scores": [perhaps(TRANSPOSED, "q"), perhaps(TRANSPOSED, "k"), number_to("k"), factor_of("out")],
    "masked_softmax": [perhaps(NOT, "mask"), factor_of("scores"), factor_of("out")],
    "attention": [perhaps(TRANSPOSED, "k"), perhaps(TRANSPOSED, "v"), factor_of("q"), factor_of("out")],
    "causal_attention": [perhaps(FLIPPED, "q", "k", "v", "out"), factor_of("q"), factor_of("out")],
    "multi_head": [perhaps(TRANSPOSED, "k"), factor_of("q"), factor_of("out")],
    "rotary": [perhaps(NEGATED, "angles"), perhaps(TRANSPOSED, "x", "out"), factor_of("out")],
    "blockwise_attention": [perhaps(FLIPPED, "q", "k", "v", "out"), factor_of("q"), factor_of("out")],
    "tied_embedding": [perhaps(FROM_ONE, "ids"), perhaps(TRANSPOSED, "weight"), factor_of("weight"), factor_of("out")],
    "block": [perhaps(TRANSPOSED, "wq", "wk"), perhaps(TRANSPOSED, "wv"), perhaps(TRANSPOSED, "w1"),
              perhaps(TRANSPOSED, "w2"), factor_of("x")],
    "clip_by_global_norm": [factor_of("max_norm")],
    "adam_step": [perhaps(NEGATED, "gradient"), factor_of("lr"), perhaps(REST, "beta1")],
    "layer_norm_jvp": [perhaps(plus(1), "weight"), perhaps(SQUARED, "eps"), factor_of("vx")],
    "cross_entropy_hvp": [factor_of("x"), factor_of("v")],
}


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

    base: Exercise | None = None
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
        """The exercise's solution, and what is to be done to its arguments and results."""
        return f"{self.base.source}\n\n# Your variant is {self.equation}: the chain rule goes through its changes, too.\n"

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


def chain(changes: Sequence[Change], part: str, value: Any) -> Any:
    for change in changes:
        value = getattr(change, part)(value)
    return value


def undone(changes: Sequence[Change], value: Any) -> Any:
    return chain(changes[::-1], "undo", value)


def equation_of(base: Exercise, changes: Mapping[str, Sequence[Change]]) -> str:
    given = ", ".join(argument_of(changes.get(name, ()), name) for name in base.arguments)
    result = ", ".join(base.routine.results) if base.forward is None else "out"
    return f"{result} = {written(changes.get('out', ()), f'{base.name}({given})')}"


def written(changes: Sequence[Change], text: str) -> str:
    for change in changes:
        text = change.written.format(text)
    return text


def argument_of(changes: Sequence[Change], name: str) -> str:
    """Without brackets around all of it."""
    text = written(changes, name)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def together(chosen: Sequence[Changes]) -> dict[str, tuple[Change, ...]]:
    """All changes by argument."""
    found: dict[str, tuple[Change, ...]] = {}
    for changes in chosen:
        for name, change in changes.items():
            found[name] = (*found.get(name, ()), change)
    return found


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
    return dataclasses.replace(argument, shape=" ".join(shape), about=f"{written(changes, name)} is: {argument.about}")


def with_signature(solution: Callable, right: Callable) -> Callable:
    """The right answer, with the name and the arguments that students write."""
    @functools.wraps(solution)
    def answer(*values):
        return right(*values)

    return answer


def there_and_back(base: Exercise, changes: Mapping[str, Sequence[Change]]) -> Callable:
    """The right answer to a variant. Its parts are those of the exercise, and the ways there and back: to_x, back_x."""
    ways: dict[str, Array] = {}
    for name, steps in changes.items():
        ways[f"to_{name}"] = functools.partial(chain, steps, "to")
        ways[f"back_{name}"] = functools.partial(chain, steps[::-1], "back")
    # with an upstream gradient, out's is taken back first, and then those of the arguments; or else out is a result
    names = {name: f"back_{'out' if name == 'dout' else name[1:]}" for name in ("dout", *base.routine.results)}
    if base.forward is None:
        names = {name: f"to_{name}" for name in base.routine.results if name not in base.arguments}

    def right(*values: Any, instead: Callable | None = None, **parts: Any) -> Any:
        if instead is not None:
            return instead(*values)
        own = {part: parts.pop(part, way) for part, way in ways.items()}

        def there(name: str, value: Any) -> Any:
            return own.get(names["dout"] if name == "dout" else f"to_{name}", same)(value)

        found = as_tuple(base.routine.right(*map(there, base.routine.arguments, values), **parts))
        found = tuple(value if value is None else own.get(names.get(name), same)(value)
                      for name, value in zip(base.routine.results, found))
        return found if len(found) > 1 else found[0]

    return right


def mistakes_in(base: Exercise, chosen: Sequence[Changes]) -> Iterator[Known]:
    """What is forgotten of a variant: a change, everywhere or on one way only."""
    changes, everything = together(chosen), {}
    for picked in chosen:
        in_all = {}
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
            if f"d{name}" in base.routine.results and base.forward is not None and change.back is not same:
                yield Known(f"{of}: not back", f"{NOT_BACK}: d{name} is the gradient of {of}, not yet of {name}", back)
                yield Known(f"{of}: only back", f"{ONLY_BACK}: {name} is used where yours has {of}", to)
        if len(picked) > 1:
            of = written((change,), "...")
            yield Known(f"{of}: left out", f"{LEFT_OUT}: {of} of {', '.join(picked)}", in_all)
    yield Known("no variant", f"{NONE}: yours is {equation_of(base, changes)}", everything,
                is_only_single=True)


def seen_through(known: Known, changes: Mapping[str, Sequence[Change]]) -> Known:
    """A mistake of the exercise, said of what it calls x."""
    other = [f"{written(told, name)} for {name}" for name, steps in changes.items()
             if (told := [change for change in steps if change.is_in_words])]
    return dataclasses.replace(known, sentence=f"with {', '.join(other)}: {known.sentence}") if other else known


def other_variants(base: Exercise, own: Mapping[str, Sequence[Change]], groups: Sequence[Group]) -> Iterator[Known]:
    """The right answers to all others, to recognise what was copied."""
    for changes in map(together, itertools.product(*groups)):
        if changes != own:
            equation = equation_of(base, changes)
            yield Known(f"{ANOTHER}: {equation}", f"{ANOTHER}: {equation}; yours is {equation_of(base, own)}",
                        {"instead": there_and_back(base, changes)}, is_only_single=True)
