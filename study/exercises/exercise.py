"""What an exercise is: a statement, a routine to write, the inputs that it is tried on, and help.

Sizes are letters. `shape="B T D"` of an argument is drawn anew for each input: all alike, all different, odd, 1. Letters
and numbers side by side are multiplied: "T 2E", or "T HD".
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
from study.exercises.solutions import source_of
from study.mistakes.doctor import Routine

Sizes = dict[str, int]
Inputs = dict[str, Any]  # arrays and numbers by the names of the arguments, the upstream `dout` first if there is one


def normal(generator: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return generator.normal(size=shape)


def number(value: float) -> Callable:
    """An argument that is always this number, such as eps."""
    return lambda generator, shape, sizes: value


@dataclass(frozen=True)
class Argument:
    """One argument: its sizes by letter ("" for a number), how it is drawn, and what it is."""

    shape: str
    draw: Callable[[np.random.Generator, tuple[int, ...], Sizes], Any] = normal
    about: str = ""


@dataclass(frozen=True)
class Exercise:
    """See `course/rows.py` for one that is written out.

    `shapes` and `special` add inputs: other shapes of the arguments (for broadcasting), or inputs drawn by a function.
    """

    name: str  # "softmax"
    title: str
    difficulty: int  # 1 to 5
    statement: str  # five lines or so: what is given, what is to be found, and why it matters
    formula: str  # the forward, as NumPy or mathematics
    guide: str  # the heading in docs/backprop_through_attention.md that explains it, such as "7. Softmax", or a document
    arguments: dict[str, Argument]  # those of the forward, in their order
    hints: tuple[str, str, str]  # of growing help
    solution: Callable  # what a student may write, with the signature of the exercise: its source is shown
    routine: Routine  # the same, with the mistakes that are known
    forward: Callable | None = None  # forward(*arguments) -> output; None where there is no upstream gradient
    shapes: tuple[dict[str, str], ...] = ()  # other shapes by argument
    special: tuple[Callable[[np.random.Generator], Inputs], ...] = ()  # more inputs, without dout
    beyond: dict[str, Callable[[np.random.Generator], Inputs]] = field(default_factory=dict)  # where a right formula may
    # overflow, which is a remark: {what is drawn: how}
    example: Callable[[], Inputs] | None = None  # numbers that are easy to follow; None: a small draw, rounded
    limits: Sizes = field(default_factory=dict)  # the largest size of a letter, where it matters
    any_axes: bool = False  # arrays with more or fewer axes are part of the exercise; else a right answer may fail on them
    file: str = ""  # of a teacher's own exercise
    stub: str = ""  # the body of the file to start from; "": zeros for each result
    demo: str = ""  # the example in that file, as a program; "": the numbers of `example`, and what is right for them
    judged: Callable[[Caller, np.random.Generator], Finding] | None = None  # its own judge, where numbers are not compared

    @property
    def function_name(self) -> str:
        """What a student is to define: "softmax_backward"."""
        return self.solution.__name__

    @property
    def signature(self) -> str:
        return f"{self.function_name}{inspect.signature(self.solution)}"

    @property
    def source(self) -> str:
        """The reference solution."""
        return source_of(self.solution)

    @property
    def guide_link(self) -> str:
        """Where it is explained: a document, with the anchor of a heading; "" if nowhere."""
        if not self.guide:
            return ""
        if self.guide.endswith(".md"):
            return f"docs/{self.guide}"
        anchor = "".join(c for c in self.guide.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        return f"docs/backprop_through_attention.md#{anchor}"

    def inputs(self, seed: int) -> Iterator[Inputs]:
        """The inputs to judge on, smallest first, drawn anew for each seed; none if a judge of its own draws them."""
        if self.judged is not None:
            return
        generator = np.random.default_rng(seed)
        for shapes in ({}, *self.shapes):
            yield from (self.draw(generator, plan, shapes) for plan in PLANS)
        yield self.with_zeros(generator, self.draw(generator, LARGER))
        for draw in self.special:
            yield self.with_upstream(generator, draw(generator))

    def draw(self, generator: np.random.Generator, plan: "Plan", shapes: dict[str, str] | None = None) -> Inputs:
        """One input, with sizes by a plan."""
        shapes = {name: argument.shape for name, argument in self.arguments.items()} | (shapes or {})
        letters = sorted(set(re.findall("[A-Za-z]", " ".join(shapes.values()))))
        sizes = {letter: min(n, self.limits.get(letter, n)) for letter, n in zip(letters, plan(generator, len(letters)))}
        found = {}
        for name, argument in self.arguments.items():
            shape = tuple(size(part, sizes) for part in shapes[name].split())
            found[name] = argument.draw(generator, shape, sizes)
        return self.with_upstream(generator, found)

    def with_upstream(self, generator: np.random.Generator, inputs: Inputs) -> Inputs:
        """The same with a random upstream gradient `dout`, if the exercise has one."""
        if self.forward is None:
            return inputs
        with np.errstate(all="ignore"):
            out = self.forward(*(a.copy() if isinstance(a, np.ndarray) else a for a in inputs.values()))
        dout = generator.normal(size=np.shape(out))
        return {"dout": dout if np.ndim(dout) else np.float64(dout), **inputs}

    def with_zeros(self, generator: np.random.Generator, inputs: Inputs) -> Inputs:
        """The same with some zeros where numbers have both signs, for who divides by them, and a large upstream, for who
        clips it."""
        found = {}
        for name, value in inputs.items():
            is_both = isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.any(value < 0) and np.any(value > 0)
            found[name] = np.where(generator.random(value.shape) < 0.2, 0.0, value) if is_both else value
        return found | ({"dout": 100 * found["dout"]} if "dout" in found else {})

    def is_usual(self, inputs: Inputs) -> bool:
        """Has every array as many axes as the exercise says? Who fails on others, such as stacks, is right, and told so."""
        return self.any_axes or all(np.ndim(inputs[name]) == len(argument.shape.split())
                                    for name, argument in self.arguments.items())

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
    """The exercise of this name; ValueError that suggests the nearest if there is none."""
    name = name.removesuffix("_backward")
    if name not in course:
        nearest = difflib.get_close_matches(name, course, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else "`minigrad exercises` lists them"
        raise ValueError(f"there is no exercise {name!r}; {hint}")
    return course[name]


Plan = Callable[[np.random.Generator, int], list[int]]  # sizes for so many letters
PLANS: tuple[Plan, ...] = (
    lambda r, n: [2] * n,  # square, where a missing transpose still runs
    lambda r, n: list(r.permutation(np.arange(2, n + 2))),  # all different
    lambda r, n: [1] * n,
    lambda r, n: [3] * n,
    lambda r, n: list(r.integers(1, 6, n)),
    lambda r, n: list(2 * r.permutation(np.arange(1, n + 1)) + 1),  # odd and different
    lambda r, n: list(r.permutation(np.arange(4, n + 4))),
)
LARGER: Plan = lambda r, n: list(r.permutation(np.arange(7, n + 7)))  # noqa: E731
