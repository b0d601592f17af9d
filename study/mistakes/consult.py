"""What the doctor is asked when a check fails: which known function this is, if any, and what backward gave.

A function is recognised by its values, not by names. For an unknown one, differences still give the derivatives, to which a
gradient may have an exact relation, such as a transpose.
"""
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minigrad import Tensor
from minigrad.gradcheck import FAIL, InputReport
from minigrad.gradcheck.problem import Point, generator_for, split

from .base import FUNCTIONS, Differentiable
from .doctor import EXACT, Diagnosis, Evidence, Routine, diagnose_numbers, routine_of
from .form import is_same
from .forms import FORMS

LARGEST = 5000  # the most numbers in all inputs together: known mistakes run on them one by one, and in pairs
ROUGH = 1e-6  # how accurately differences give derivatives


@dataclass(frozen=True)
class Observation:
    """One backward: the function's arguments, the upstream gradient, and the gradients by the names of the leaves."""

    arguments: dict[str, Any]
    output: np.ndarray
    dout: np.ndarray
    gradients: dict[str, np.ndarray]


@dataclass(frozen=True)
class Consultation:
    """What backward gave, next to what is right for the function that this may be."""

    function: str  # the name of a known one, or ""
    routine: Routine
    evidence: list[Evidence]
    tolerance: float

    def diagnosis(self) -> Diagnosis:
        found = diagnose_numbers(self.evidence, self.routine, self.tolerance)
        if not self.function or not found:
            return found
        return replace(found, mistakes=(f"this is {self.function}: {found.mistakes[0]}", *found.mistakes[1:]))


class Declined:
    """There are too many numbers to ask about."""

    def diagnosis(self) -> Diagnosis:
        return Diagnosis(facts=(f"none at this size: give smaller inputs, of at most {LARGEST} numbers",))


def consultations(point: Point, reports: list[InputReport], seed: int) -> list[Consultation | Declined]:
    """What to ask: about the known functions with the same values, then about the derivatives from differences."""
    problem, generator = point.problem, generator_for(seed)
    size = sum(np.size(value) for value in arguments_of(problem.arguments).values())
    if len(point.outputs) != 1:
        return []
    if size > LARGEST:
        return [Declined()] if any(report.verdict == FAIL for report in reports) else []
    # Of one entry too, since some mistakes show only where most of the upstream is zero, and others only where it is not.
    upstreams = point.upstream, *generator.standard_normal((2, point.size)), np.eye(1, point.size)[0]
    seen = [observe(point, upstream) for upstream in upstreams]
    unknown = by_differences(seen, point, reports)
    problem.move(generator, upward=False)
    nearby = Point(problem, problem.outputs(), generator)
    seen.append(observe(nearby, nearby.upstream))
    problem.restore()
    functions = ((function, routine_of(name)) for name, function in FUNCTIONS.items())
    known = list(as_known(functions, seen)) or list(itertools.islice(as_known(forms_of(seen[0]), seen), 1))
    return known + ([unknown] if unknown else [])


def observe(point: Point, upstream: np.ndarray) -> Observation:
    (output,) = point.outputs
    return Observation(arguments_of(point.problem.arguments), np.array(output.array), split(upstream, [output])[0],
                       dict(zip(point.names, point.backward(upstream))))


def arguments_of(arguments: list[tuple[str, Any]]) -> dict[str, Any]:
    """The tensors and arrays by name. How a number or a flag changes the function shows in its values."""
    return {name: np.array(value.array) if isinstance(value, Tensor) else value for name, value in arguments
            if isinstance(value, (Tensor, np.ndarray))}


def is_function(function: Differentiable, seen: Observation) -> bool:
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
            return is_same(np.asarray(function.forward(*map(np.copy, seen.arguments.values()))), seen.output)
    except Exception:  # noqa: BLE001  the arguments do not fit
        return False


def forms_of(seen: Observation) -> Iterator[tuple[Differentiable, Routine]]:
    """Forms of known functions with these values."""
    arrays = list(seen.arguments.values())
    return (form.known(options, arrays) for form in FORMS for options in form.recognised(arrays, seen.output))


def as_known(functions: Iterable[tuple[Differentiable, Routine]], seen: list[Observation]) -> Iterator[Consultation]:
    """The question about each that this may be, with the names that the inputs have here."""
    for function, routine in functions:
        if not is_function(function, seen[0]) or not is_function(function, seen[-1]):
            continue
        named = dict(zip(function.arguments, seen[0].arguments))
        routine = replace(routine, arguments=("dout", *seen[0].arguments),
                          results=tuple(gradient_of(named[argument]) for argument in function.learned))
        try:
            evidence = [evidence_of(routine, item, item.gradients) for item in seen]
        except Exception:  # noqa: BLE001  its backward is not for these shapes
            continue
        right = evidence[0].right
        if all(right[gradient_of(name)].shape == gradient.shape for name, gradient in seen[0].gradients.items()):
            yield Consultation(function.name, routine, evidence, EXACT)


def by_differences(seen: list[Observation], point: Point, reports: list[InputReport]) -> Consultation | None:
    """The question about a function of which only the derivatives in the reports are known."""
    known = [report for report in reports
             if is_whole(report, point) and (report.verdict != FAIL or report.ratio is None)]
    if not any(report.verdict == FAIL for report in known):
        return None

    def right(dout, *arguments):
        return tuple((dout.reshape(-1) @ report.numeric).reshape(report.shape) for report in known)

    routine = Routine("the function", right, ("dout", *seen[0].arguments), tuple(gradient_of(r.name) for r in known))
    names = [report.name for report in known]
    evidence = [evidence_of(routine, item, {name: item.gradients[name] for name in names}) for item in seen]
    return Consultation("", routine, evidence, ROUGH)


def is_whole(report: InputReport, point: Point) -> bool:
    """Is this the whole Jacobian at this point?"""
    is_all = report.numeric.shape == (point.size, math.prod(report.shape)) and not report.columns[:1] == ["direction 0"]
    return is_all and not report.notes and bool(np.all(np.isfinite(report.numeric)))


def evidence_of(routine: Routine, seen: Observation, gradients: dict[str, np.ndarray]) -> Evidence:
    inputs = {"dout": seen.dout, **seen.arguments}
    return Evidence(inputs, routine.run(inputs), {gradient_of(name): gradient for name, gradient in gradients.items()})


def gradient_of(name: str) -> str:
    return f"d{name}" if name.isidentifier() else f"the gradient of {name}"
