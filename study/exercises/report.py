"""The report on an answer: in a line, in full for the terminal or a notebook, as data, and as a plot."""
import itertools
import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.drawing.figures import draw_panel, new_figure
from minigrad.drawing.html import html_of_report
from study.exercises.answer import Answer
from study.exercises.exercise import Exercise, Inputs

RIGHT, WRONG, INCONCLUSIVE, ERROR, TIMEOUT = "right", "wrong", "inconclusive", "error", "timeout"
COLOURS = {RIGHT: "pass", WRONG: "fail", ERROR: "fail", TIMEOUT: "fail", INCONCLUSIVE: "inconclusive"}
DIGITS, MOST_NUMBERS, LINE = 4, 60, 100  # in print
MORE_DIGITS = DIGITS, 6, 9, 12, 17  # until two numbers differ


@dataclass(frozen=True)
class Fault:
    """Something wrong with an answer other than its numbers."""

    name: str
    sentence: str


@dataclass(frozen=True)
class Trial:
    """One input, the right results, and the answer."""

    inputs: Inputs
    right: dict[str, np.ndarray]
    answer: Answer
    given: dict[str, np.ndarray | None] = field(default_factory=dict)  # results by name; {} if their number is wrong
    off: dict[str, np.ndarray] = field(default_factory=dict)  # which elements are wrong
    faults: tuple[Fault, ...] = ()

    @property
    def is_right(self) -> bool:
        return bool(self.given) and not self.faults and not any(off.any() for off in self.off.values())

    @property
    def size(self) -> int:
        """How many numbers the inputs have."""
        return sum(np.size(value) for value in self.inputs.values())

    @property
    def shows_little(self) -> bool:
        """Has an input an axis of length 1, or are the right numbers, where the answer is wrong, all 0 but one?"""
        is_thin = any(1 in value.shape for value in self.inputs.values() if isinstance(value, np.ndarray))
        return bool(is_thin or sum(np.count_nonzero(self.right[name]) for name, off in self.off.items() if off.any()) < 2)

    @property
    def how_wrong(self) -> float:
        """The largest error."""
        far = [how_far(self.given[name], self.right[name]) for name in self.off]
        return max((float(np.max(distances, initial=0.0)) for distances in far), default=0.0)

    @property
    def digits_alike(self) -> int:
        """In how many digits do yours and right agree, where they differ most?"""
        with np.errstate(over="ignore"):
            shares = [np.max(how_far(self.given[name], self.right[name]), initial=0.0)
                      / np.max(np.abs(self.right[name]), initial=1e-300) for name in self.off]
        return -math.floor(math.log10(min(max([*shares, 1e-300]), 0.9))) - 1

    @property
    def shapes(self) -> str:
        """"x (2, 3), weight (3,)"."""
        arrays = {name: value for name, value in self.inputs.items() if isinstance(value, np.ndarray) and name != "dout"}
        return ", ".join(f"{name} {value.shape}" for name, value in arrays.items())

    def first_difference(self) -> str:
        """"dx[0, 1] is 0.3, and should be 0.1", or what was raised."""
        if self.answer.kind == "raised":
            return f"it raises {self.answer.message}" + (f" in {self.answer.place}" if self.answer.place else "")
        for name, off in self.off.items():
            given, right = self.given[name], self.right[name]
            if given is None:
                return f"{name} is None, and should be an array of shape {right.shape}"
            if given.shape != right.shape:
                return f"{name} has the shape {given.shape}, and should have {right.shape}"
            if off.any():
                index = np.unravel_index(np.argmax(np.where(off, how_far(given, right), -1.0)), off.shape)
                place = f"[{', '.join(map(str, index))}]" if index else ""
                return f"{name}{place} is {comparison(given[index], right[index])}"
        return ""


@dataclass(frozen=True, repr=False)
class Report:
    """The verdict on one answer. It is true if the answer is right; printed, it says what is wrong and where."""

    exercise: Exercise
    verdict: str
    mistakes: tuple[str, ...] = ()  # known mistakes, a sentence each
    facts: tuple[str, ...] = ()  # observations, whatever their reason
    names: tuple[str, ...] = ()  # of the mistakes, for programs
    remarks: tuple[str, ...] = ()  # about a right answer
    trials: tuple[Trial, ...] = ()
    seed: int = 0

    def __bool__(self) -> bool:
        return self.verdict == RIGHT

    @property
    def mistake(self) -> str | None:
        """The known mistakes in a line; None if there are none."""
        return "; ".join(self.mistakes) or None

    @property
    def counterexample(self) -> Trial | None:
        """A small input on which it is wrong: the smallest of those on which yours and right look most different."""
        wrong = [trial for trial in self.trials if not trial.is_right]
        return min(wrong, default=None, key=lambda trial: (
            trial.answer.kind == "raised", trial.shows_little, trial.digits_alike, trial.size, -trial.how_wrong))

    @property
    def praise(self) -> tuple[str, ...]:
        """On how many inputs it is right; if the exercise has its own judge, that is in the remarks."""
        return (f"right on all {len(self.trials)} inputs",) if self.trials else ()

    @property
    def sentence(self) -> str:
        """What a teaching assistant would say."""
        if self.verdict == RIGHT:
            return "; ".join((*self.praise, *self.remarks))
        if self.verdict != WRONG:
            return "; ".join(self.facts)
        count = sum(not trial.is_right for trial in self.trials)
        parts = [*self.mistakes, *self.facts]
        if example := self.counterexample:
            where = f"wrong on {count} of {len(self.trials)} inputs, such as {example.shapes}"
            parts.append(": ".join(filter(None, (where, example.first_difference()))))
        return "; ".join(parts)

    def as_dict(self) -> dict[str, str | None]:
        """What `--json` prints."""
        return {"exercise": self.exercise.name, "verdict": self.verdict, "mistake": self.mistake, "sentence": self.sentence}

    def __repr__(self) -> str:
        lines = [f"{self.exercise.name}: {self.verdict.upper()}"]
        lines += [line for part in (*self.mistakes, *self.facts, *self.remarks) for line in wrapped(part)]
        if self.verdict == RIGHT:
            return "\n".join([*lines, *(line for part in self.praise for line in wrapped(part))])
        if self.verdict == WRONG and self.counterexample is not None:
            lines += ["", *self.shown(self.counterexample)]
        return "\n".join(lines)

    def shown(self, trial: Trial) -> list[str]:
        """An input with its numbers, the wrong results, and the right ones, with enough digits to differ."""
        count = sum(not other.is_right for other in self.trials)
        lines = [f"  wrong on {count} of {len(self.trials)} inputs (seed {self.seed}); a small one:"]
        values = {name: numbers(value) for name, value in trial.inputs.items() if not callable(value)}
        for name, off in trial.off.items():
            if off.any() or trial.given[name] is None:
                given, right = trial.given[name], trial.right[name]
                digits = digits_between(given, right)
                values |= {f"{name}, yours": numbers(given, digits), f"{name}, right": numbers(right, digits)}
        width = max(map(len, values))
        for name, text in values.items():
            lines += indented(f"    {name:{width}} = ", text)
        if trial.answer.kind == "raised":
            lines += wrapped(trial.first_difference())
        return lines

    def _repr_html_(self) -> str:
        return html_of_report(repr(self), COLOURS[self.verdict])

    def plot(self, path: str | None = None) -> Any:
        """Each wrong result, the right one, and the difference, for the largest wrong input, which shows patterns best."""
        drawable = [trial for trial in self.trials if trial.given and not trial.is_right] or [
            trial for trial in self.trials if trial.given]
        trial: Any = max(drawable, key=lambda trial: trial.size, default=None)
        names = [name for name in trial.off if trial.off[name].any()] or list(trial.off) if trial else []
        rows = max(len(names), 1)
        figure, axes = new_figure(rows, 3, 10, 0.9 + 2.6 * rows, squeeze=False)
        figure.suptitle(f"{self.exercise.name}: {self.verdict}")
        for row, name in zip(axes, names):
            draw_row(row, name, as_matrix(trial.given[name]), as_matrix(trial.right[name]))
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


def how_far(given: np.ndarray | None, right: np.ndarray) -> np.ndarray:
    """|given - right|, infinite where they cannot be compared."""
    if given is None or given.shape != right.shape:
        return np.full(np.shape(right), np.inf)
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(given - right), nan=np.inf)


def comparison(given: np.generic, right: np.generic) -> str:
    """Two numbers, with enough digits to tell them apart."""
    digits = digits_that_differ(given, right, "g")
    return f"{float(given):.{digits}g}, and should be {float(right):.{digits}g}"


def digits_that_differ(given: Any, right: Any, formats: str) -> int:
    """How many digits tell two numbers apart in all of these formats?"""
    given, right = float(given), float(right)
    return next((digits for digits in MORE_DIGITS
                 if all(f"{given:.{digits}{kind}}" != f"{right:.{digits}{kind}}" for kind in formats)), MORE_DIGITS[-1])


def digits_between(given: np.ndarray | None, right: np.ndarray) -> int:
    """How many tell two arrays apart where they differ most; NumPy prints in the format "f" or "e"."""
    if given is None or given.shape != right.shape or not right.size:
        return DIGITS
    at = np.argmax(how_far(given, right))
    return digits_that_differ(given.flat[at], right.flat[at], "fe")


def numbers(value, digits: int = DIGITS) -> str:
    """An array as NumPy prints it, or its shape if it is large."""
    if isinstance(value, np.ndarray):
        if value.size > MOST_NUMBERS:
            return f"array of shape {value.shape}"
        return np.array2string(value, precision=digits, suppress_small=True, separator=", ", max_line_width=LINE)
    return str(value)


def indented(head: str, text: str) -> list[str]:
    """The text after the head, with its lines aligned."""
    first, *rest = text.splitlines() or [""]
    return [head + first, *(" " * len(head) + line for line in rest)]


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, LINE, initial_indent="  ", subsequent_indent="  ")


def draw_row(axes: Iterable[Any], name: str, given: np.ndarray, right: np.ndarray) -> None:
    """One result: yours, the right one, and the difference if their shapes are the same, on a scale of its own unless it
    is rounding."""
    limit = largest(right)
    images = {f"{name}, yours {given.shape}": (given, limit), f"{name}, right {right.shape}": (right, limit)}
    if given.shape == right.shape:
        off = largest(given - right)
        images[f"yours - right (at most {off:.1e})"] = given - right, off if off > 1e-6 * limit else limit
    pairs: Any = itertools.zip_longest(axes, images.items(), fillvalue=("", (None, 0)))
    for axis, (title, (values, limit)) in pairs:
        if values is None:
            axis.set_axis_off()
            continue
        draw_panel(axis, title, values, limit)


def largest(array: np.ndarray) -> float:
    """The size of its largest finite number, above 0."""
    return max(float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0)), 1e-300)


def as_matrix(array: np.ndarray | None) -> np.ndarray:
    """In two dimensions: leading axes become rows."""
    array = np.atleast_2d(np.zeros((1, 1)) if array is None else np.asarray(array, dtype=np.float64))
    return array.reshape(-1, array.shape[-1])
