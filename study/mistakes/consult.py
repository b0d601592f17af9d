"""What the doctor is asked when a check fails: which known function this is, if any, and what backward gave.

A function is recognised by its values, not by names. For an unknown one, differences still give the derivatives, to which a
gradient may have an exact relation, such as a transpose.
"""
import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from minigrad.gradcheck import FAIL, InputReport
from minigrad.gradcheck.arguments import flat, generator_for, split
from minigrad.gradcheck.subject import Record, Subject

from . import textbook  # noqa: F401  fills FUNCTIONS
from .base import FUNCTIONS, ROUTINES, Differentiable
from .doctor import EXACT, Diagnosis, Evidence, Routine, diagnose_numbers

LARGEST = 5000  # the most numbers in all inputs together: known mistakes run on them one by one, and in pairs
MOST_REORDERED = 4  # inputs that are tried in any order
EPSILONS = [{"eps": eps} for eps in (1e-5, 1e-6, 1e-7, 1e-8, 1e-12)]  # that people choose
NONE: Mapping[str, Any] = MappingProxyType({})
ROUGH = 1e-6  # how accurately differences give derivatives


@dataclass(frozen=True)
class Observation:
    """One backward: the function's arguments, the upstream gradient, and the gradients by the names of the leaves."""

    arguments: dict[str, Any]
    output: np.ndarray
    dout: np.ndarray
    gradients: dict[str, np.ndarray]

    def ordered(self, names: Iterable[str]) -> "Observation":
        """With the arguments in this order."""
        return replace(self, arguments={name: self.arguments[name] for name in names})


@dataclass(frozen=True)
class Consultation:
    """What backward gave, next to what is right for the function that this may be."""

    function: str  # the name of a known one, or ""
    routine: Routine
    evidence: list[Evidence]
    tolerance: float
    output: str = ""  # "output 1", if there are several

    def diagnosis(self) -> Diagnosis:
        found = diagnose_numbers(self.evidence, self.routine, self.tolerance)
        subject = f"{self.output or 'this'} is {self.function}" if found and self.function else self.output
        said = "mistakes" if found else "facts"
        sentences = getattr(found, said) or ("its gradient is wrong",)
        if not subject or found.is_right:
            return found
        return replace(found, **{said: (f"{subject}: {sentences[0]}", *sentences[1:])})


class Declined:
    """There are too many numbers to ask about."""

    def diagnosis(self) -> Diagnosis:
        return Diagnosis(facts=(f"none at this size: give smaller inputs, of at most {LARGEST} numbers",))


def consultations(point: Record, reports: list[InputReport], seed: int) -> list[Consultation | Declined]:
    """What to ask about each output: about the known functions with the same values, then about the derivatives from
    differences."""
    subject, generator = point.subject, generator_for(seed)
    size = sum(np.size(value) for value in arguments_of(subject.arguments).values())
    if size > LARGEST:
        return [Declined()] if any(report.verdict == FAIL for report in reports) else []
    drawn = [split(upstream, point.outputs) for upstream in (point.upstream, *generator.standard_normal((2, point.size)))]
    # Of one entry too, since some mistakes show only where most of the upstream is zero, and others only where it is not.
    drawn += [[np.eye(1, out.size).reshape(out.shape) for out in point.outputs]]
    seen = [[observe(point, k, upstream[k]) for upstream in drawn] for k in range(len(point.outputs))]
    subject.move(generator, upward=False)
    nearby = Record(subject).differentiate(generator)
    for k, upstream in enumerate(split(nearby.upstream, nearby.outputs)):
        seen[k].append(observe(nearby, k, upstream))
    rolled = where_rolled(subject)
    subject.restore()
    return [replace(question, output=f"output {k}" if len(seen) > 1 else "") for k in range(len(seen))
            for question in questions(seen[k], rolled[k:k + 1], parts_of(reports, point, k))]


def where_rolled(subject: Subject) -> list[Observation]:
    """The outputs alone, where each input's numbers are at other places; none if they must not be."""
    subject.roll()
    try:
        outputs = Record(subject).outputs
    except Exception:  # noqa: BLE001  the function takes numbers in some order only
        return []
    return [Observation(arguments_of(subject.arguments), out, np.empty(0), {}) for out in outputs]


def questions(seen: list[Observation], rolled: list[Observation], known: list[InputReport]) -> list[Consultation]:
    """About one output, of which differences have given these derivatives."""
    unknown = by_differences(seen[:-1], known)
    return [*as_known(seen, rolled), *([unknown] if unknown else [])]


def observe(point: Record, k: int, dout: np.ndarray) -> Observation:
    """Output k alone."""
    upstream = flat(dout if i == k else np.zeros(out.shape) for i, out in enumerate(point.outputs))
    return Observation(arguments_of(point.subject.arguments), point.outputs[k], dout,
                       dict(zip(point.names, point.backward(upstream))))


def parts_of(reports: list[InputReport], point: Record, k: int) -> list[InputReport]:
    """What the reports that have the whole Jacobian, or a gradient, and name no constant factor, say of output k."""
    end = sum(out.size for out in point.outputs[:k + 1])
    rows = slice(end - point.outputs[k].size, end)
    tables = "analytic", "numeric", "bound", "verdicts", "rows"
    found = [report for report in reports if report.verdict != FAIL or report.ratio is None]
    projected = [report for report in found if len(point.outputs) == 1 and is_whole(report, 1)]
    whole = [replace(report, **{table: getattr(report, table)[rows] for table in tables}) for report in found
             if is_whole(report, point.size)]
    return whole if any(report.verdict == FAIL for report in whole) else projected


def arguments_of(arguments: list[tuple[str, Any]]) -> dict[str, Any]:
    """Copies of the arrays by name. How a number or a flag changes the function shows in its values."""
    return {name: value.copy() for name, value in arguments if isinstance(value, np.ndarray)}


def is_function(function: Differentiable, seen: Observation, options: dict[str, float]) -> bool:
    """Is this the function's output, and does it have a gradient for every input that got one?

    If the output equals an input, it could be any of many functions, such as a reshape to the same shape.
    """
    learned = {name for name, argument in zip(seen.arguments, function.arguments) if argument in function.learned}
    if len(function.arguments) != len(seen.arguments) or not seen.gradients.keys() <= learned:
        return False
    if any(np.array_equal(value, seen.output, equal_nan=True) for value in seen.arguments.values()):
        return False
    try:
        with np.errstate(all="ignore"):
            return is_same(np.asarray(function.forward(*map(np.copy, seen.arguments.values()), **options)), seen.output)
    except Exception:  # noqa: BLE001  the arguments do not fit
        return False


def is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """The same values, but for rounding."""
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def as_known(seen: list[Observation], rolled: list[Observation]) -> Iterator[Consultation]:
    """The question about each known function that this may be, with its inputs in any order."""
    names = tuple(seen[0].arguments)
    orders = list(itertools.permutations(names)) if len(names) <= MOST_REORDERED else [names]  # the given one first
    in_orders = [([item.ordered(order) for item in seen], [item.ordered(order) for item in rolled]) for order in orders]
    for name, function in FUNCTIONS.items():
        if len(function.arguments) == len(names):
            epsilons = [function.options | eps for eps in EPSILONS] if "eps" in function.options else [function.options]
            found = (as_function(name, *items, options) for options in epsilons for items in in_orders)
            yield from itertools.islice(filter(None, found), 1)


def as_function(name: str, seen: list[Observation], rolled: list[Observation], options: dict[str, float]
                ) -> Consultation | None:
    """The question about a known function, if this is it, in the names that the inputs have here."""
    function = FUNCTIONS[name]
    if not all(is_function(function, item, options) for item in (seen[0], seen[-1], *rolled)):
        return None
    known, named = ROUTINES[name], dict(zip(function.arguments, seen[0].arguments))
    routine = replace(
        known, arguments=("dout", *seen[0].arguments, *options), say=functools.partial(renamed, names=named),
        results=tuple(gradient_of(named[argument]) for argument in function.learned))
    try:
        evidence = [evidence_of(routine, item, item.gradients, options) for item in seen]
    except Exception:  # noqa: BLE001  its backward is not for these shapes
        return None
    right, gradients = evidence[0].right, seen[0].gradients.items()
    if not all(right[gradient_of(key)].shape == gradient.shape for key, gradient in gradients):
        return None
    return Consultation(function.name, routine, evidence, EXACT)


def renamed(sentence: str, names: dict[str, str]) -> str:
    """A sentence on a known function in the names that its inputs have here. "a" may be an article.

    >>> renamed("da = dout @ b: a should be a matrix, b^T another", {"a": "x", "b": "w"})
    'dx = dout @ w: x should be a matrix, w^T another'
    """
    to = {**names, **{f"d{name}": gradient_of(own) for name, own in names.items()}}
    name = "|".join(sorted(to, key=len, reverse=True))
    return re.sub(rf"(?<!to )\b({name})\b", lambda found: found[0] if is_article(found) else to[found[0]], sentence)


def is_article(found: re.Match[str]) -> bool:
    verbs = "is|was|has|should|and|or|on|in|itself"
    return found[0] == "a" and bool(re.match(rf" (?!(?:{verbs})\b)[a-z]{{2}}", found.string[found.end():]))


def by_differences(seen: list[Observation], known: list[InputReport]) -> Consultation | None:
    """The question about a function of which only the derivatives in the reports are known."""
    if not any(report.verdict == FAIL for report in known):
        return None

    if is_projected := len(known[0].rows) != seen[0].output.size:
        seen = seen[:1]

    def right(dout, *arguments):
        if is_projected and not np.array_equal(dout, seen[0].dout):
            raise ValueError("what is right is known for one upstream only")
        weights = np.ones(1) if is_projected else dout.reshape(-1)
        return tuple((weights @ report.numeric).reshape(report.shape) for report in known)

    routine = Routine("the function", right, ("dout", *seen[0].arguments), tuple(gradient_of(r.name) for r in known))
    names = [report.name for report in known]
    evidence = [evidence_of(routine, item, {name: item.gradients[name] for name in names}) for item in seen]
    return Consultation("", routine, evidence, ROUGH)


def is_whole(report: InputReport, size: int) -> bool:
    """Are these all derivatives of so many numbers at the given point?"""
    is_all = report.numeric.shape == (size, math.prod(report.shape)) and not report.columns[:1] == ["direction 0"]
    return is_all and not report.notes and bool(np.all(np.isfinite(report.numeric)))


def evidence_of(routine: Routine, seen: Observation, gradients: dict[str, np.ndarray], options: Mapping[str, Any] = NONE
                ) -> Evidence:
    inputs = {"dout": seen.dout, **seen.arguments, **options}
    return Evidence(inputs, routine.run(inputs), {gradient_of(name): gradient for name, gradient in gradients.items()},
                    seen.output)


def gradient_of(name: str) -> str:
    return f"d{name}" if name.isidentifier() else f"the gradient of {name}"
