"""What an exercise is: a statement, a routine to write, the inputs to try it on, and hints.

Sizes are letters. The sizes of an argument with `shape="B T D"` are drawn anew for each input: all equal, all different,
odd, 1. Letters and numbers without a space between them are multiplied: "T 2E", or "T HD".
"""
import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from study.exercises.answer import Caller
from study.exercises.finding import Finding
from study.mistakes.solutions import source_of
from study.exercises.worker.returned import copy_of
from study.mistakes.doctor import Routine

Sizes = dict[str, int]
Inputs = dict[str, Any]  # {argument: array or number}; the upstream gradient `dout` comes first, if there is one


def normal(generator: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return generator.normal(size=shape)


def below(letter: str) -> Callable[..., Any]:
    """Draws whole numbers from 0 to this size - 1: ids, classes."""
    return lambda generator, shape, sizes: generator.integers(0, sizes[letter], size=shape)


@dataclass(frozen=True)
class Argument:
    """One argument: its shape in letters ("" for a number), how it is drawn, and what it is."""

    shape: str
    draw: Callable[[np.random.Generator, tuple[int, ...], Sizes], Any] = normal
    about: str = ""


@dataclass(frozen=True)
class Exercise:
    """One exercise; `course/rows.py` has examples.

    `shapes` and `special` add inputs: other shapes for the arguments (for broadcasting), or inputs drawn by a function.
    """

    name: str  # "softmax"
    title: str
    difficulty: int  # 1 to 5
    statement: str  # about five lines: what is given, what to find, and why it matters
    formula: str  # the forward, as NumPy or mathematics
    guide: str  # the section of the guide that explains it, such as "4. The weighted mean"; "" if none does
    arguments: dict[str, Argument]  # of the forward, in order
    hints: tuple[str, str, str]  # each more helpful than the one before
    solution: Callable[..., Any]  # an answer, with the signature of the exercise; students may see its source
    routine: Routine  # the same with known mistakes
    forward: Callable[..., Any] | None = None  # forward(*arguments) -> output; None where there is no upstream gradient
    shapes: tuple[dict[str, str], ...] = ()  # other shapes by argument
    special: tuple[Callable[[np.random.Generator], Inputs], ...] = ()  # more inputs, without dout
    beyond: dict[str, Callable[[np.random.Generator], Inputs]] = field(default_factory=dict)  # {description: draw}, where
    # a right formula may overflow, which is only a remark
    example: Callable[[], Inputs] | None = None  # easy numbers; None: a small draw, rounded
    limits: Sizes = field(default_factory=dict)  # {letter: its largest size}
    any_axes: bool = False  # must it work for any number of axes? Otherwise failing on other numbers is only a remark
    file: str = ""  # of a teacher's own exercise
    stub: str = ""  # the body of the starter file; "": zeros for each result
    demo: str = ""  # the example in the starter file, as a program; "": the numbers of `example`, and the right results
    judged: Callable[[Caller, np.random.Generator], Finding] | None = None  # its own judge, if results are not compared

    @property
    def function_name(self) -> str:
        """What a student has to define: "softmax_backward"."""
        return self.solution.__name__

    @property
    def signature(self) -> str:
        """"softmax_backward(dout, x)"."""
        return f"{self.function_name}{inspect.signature(self.solution)}"

    @property
    def source(self) -> str:
        """The reference solution."""
        return source_of(self.solution)

    @property
    def explained_in(self) -> str:
        """The section of the guide that explains it; "" if there is none."""
        number, _, title = self.guide.partition(". ")
        return number and f'section {number} of the guide, "{title}" (minigrad study --guide {number})'

    def inputs(self, seed: int) -> Iterator[Inputs]:
        """The inputs to judge on, small ones first; none if the exercise has its own judge."""
        if self.judged is not None:
            return
        generator = np.random.default_rng(seed)
        for shapes in ({}, *self.shapes):
            yield from (self.draw(generator, plan, shapes) for plan in PLANS)
        yield self.with_zeros(generator, self.draw(generator, LARGER))
        for draw in self.special:
            yield self.with_upstream(generator, draw(generator))

    def draw(self, generator: np.random.Generator, plan: "Plan", shapes: dict[str, str] | None = None) -> Inputs:
        """One input, whose sizes the plan chooses."""
        shapes = {name: argument.shape for name, argument in self.arguments.items()} | (shapes or {})
        letters = sorted(set(re.findall("[A-Za-z]", " ".join(shapes.values()))))
        sizes = {letter: min(n, self.limits.get(letter, n)) for letter, n in zip(letters, plan(generator, len(letters)))}
        found = {}
        for name, argument in self.arguments.items():
            shape = tuple(size(part, sizes) for part in shapes[name].split())
            found[name] = argument.draw(generator, shape, sizes)
        return self.with_upstream(generator, found)

    def with_upstream(self, generator: np.random.Generator, inputs: Inputs) -> Inputs:
        """With a random upstream gradient `dout`, if the exercise has one."""
        if self.forward is None:
            return inputs
        with np.errstate(all="ignore"):
            out = self.forward(*copy_of(list(inputs.values())))
        dout = generator.normal(size=np.shape(out))
        return {"dout": dout if np.ndim(dout) else np.float64(dout), **inputs}

    def with_zeros(self, generator: np.random.Generator, inputs: Inputs) -> Inputs:
        """With zeros among numbers of both signs, which catch answers that divide by them, and a large upstream gradient,
        which catches answers that clip it."""
        found = {}
        for name, value in inputs.items():
            is_both = isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.any(value < 0) and np.any(value > 0)
            found[name] = np.where(generator.random(value.shape) < 0.2, 0.0, value) if is_both else value
        return found | ({"dout": 100 * found["dout"]} if "dout" in found else {})

    def is_usual(self, inputs: Inputs) -> bool:
        """Does every array have as many axes as the exercise says? An answer that fails on other inputs only is right."""
        return self.any_axes or all(np.ndim(inputs[name]) == len(argument.shape.split())
                                    for name, argument in self.arguments.items())

    def is_fit(self, inputs: Inputs) -> bool:
        """Are the right results known there?"""
        return True

    def right(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """The right results, by name."""
        return {name: np.asarray(value) for name, value in self.routine.run(inputs).items()}


def size(part: str, sizes: Sizes) -> int:
    """One size of a shape: "3", "D", or a product such as "2D".

    >>> size("2HD", {"H": 3, "D": 5})
    30
    """
    return math.prod(int(factor) if factor.isdigit() else sizes[factor] for factor in re.findall(r"\d+|[A-Za-z]", part))


def named(name: str, course: dict[str, Exercise]) -> Exercise:
    """The exercise of this name; ValueError, which suggests a similar name, if there is none."""
    name = name.removesuffix("_backward")
    if name not in course:
        nearest = difflib.get_close_matches(name, course, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else "`minigrad exercises` lists them"
        raise ValueError(f"there is no exercise {name!r}; {hint}")
    return course[name]


Plan = Callable[[np.random.Generator, int], list[int]]  # chooses the sizes of this many letters
PLANS: tuple[Plan, ...] = (
    lambda r, n: [2] * n,  # squares, on which an answer without its transpose still runs
    lambda r, n: list(r.permutation(np.arange(2, n + 2))),  # all different
    lambda r, n: [1] * n,
    lambda r, n: [3] * n,
    lambda r, n: list(r.integers(1, 6, n)),
    lambda r, n: list(2 * r.permutation(np.arange(1, n + 1)) + 1),  # odd and different
    lambda r, n: list(r.permutation(np.arange(4, n + 4))),
)
LARGER: Plan = lambda r, n: list(r.permutation(np.arange(7, n + 7)))  # noqa: E731
