"""From a teacher's file to an exercise, or to a line that says what to fix."""
import dataclasses
import functools
import inspect
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.exercises.exercise import PLANS, Exercise, Inputs
from study.mistakes.doctor import Known, Routine

from .derivatives import MOST_ENTRIES, Derivatives, size_of
from .flaw import Flaw, told
from .functions import all_gradients, mistakes_of, one_array, watched
from .parts import (
    arguments_of, difficulty_of, hints_of, learned_of, letters_of, look_for_typos, source_of, statement_of, taken,
)
from .recognise import recognised
from .trial import check_mistakes, compare_with_differences, try_out

TRIES = 6  # draws for each input, to find one without a kink


@dataclass(frozen=True)
class OwnExercise(Exercise):
    """An exercise from a file. Its right gradients are those of the file's `backward`, or else finite differences."""

    derivatives: Derivatives | None = None  # None if there is a backward
    shown_solution: str = ""

    @property
    def source(self) -> str:
        return self.shown_solution

    def inputs(self, seed: int) -> Iterator[Inputs]:
        """As for any exercise, but drawn again wherever derivatives are not certain, as next to a kink."""
        generator = np.random.default_rng(seed)
        draws = [functools.partial(self.draw, generator, plan) for plan in PLANS]
        draws += [lambda draw=draw: self.with_upstream(generator, draw(generator)) for draw in self.special]
        for draw in draws:
            fit = next(filter(self.is_fit, (draw() for _ in range(TRIES))), None)
            if fit is not None:
                yield fit

    def is_fit(self, inputs: Inputs) -> bool:
        if self.derivatives is None:
            return True
        return size_of(inputs) <= MOST_ENTRIES and self.derivatives.known(*inputs.values()).is_certain


def load(path: str | pathlib.Path) -> OwnExercise:
    """The exercise in a teacher's file; ValueError, one line, if something needs fixing."""
    path = pathlib.Path(path)
    try:
        return exercise_from(path, run(path))
    except Flaw as flaw:
        raise ValueError(f"{path}: {flaw}") from None


def run(path: pathlib.Path) -> dict[str, Any]:
    """The names that the file defines."""
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    except SyntaxError as error:
        raise Flaw(f"line {error.lineno} is not Python: {error.msg}") from None
    except UnicodeDecodeError:
        raise Flaw("this is not text") from None
    except Exception as error:  # noqa: BLE001  whatever the file does
        missing = isinstance(error, OSError) and not path.is_file()
        raise Flaw(error.strerror if missing else f"it raises {told(error, path)}") from None
    return names


def exercise_from(path: pathlib.Path, names: dict[str, Any]) -> OwnExercise:
    name = path.stem.removesuffix("_exercise")
    if not name.isidentifier():
        raise Flaw(f"{name!r} cannot name a function; call the file NAME_exercise.py")
    look_for_typos(names)
    written, backward = taken(names, "forward", Callable), taken(names, "backward", Callable)
    forward = one_array(watched(written, "forward", path))
    arguments = arguments_of(written, names)
    learned = learned_of(arguments, names)
    derivatives = None if backward else Derivatives(forward, [list(arguments).index(a) for a in learned])
    right = all_gradients(watched(backward, "backward", path), "backward", learned) if backward else derivatives
    exercise = OwnExercise(
        name=name, title=taken(names, "title", str, name.replace("_", " ").capitalize()), difficulty=difficulty_of(names),
        statement=statement_of(names), formula=taken(names, "formula", str) or source_of(written), guide="",
        arguments=arguments, hints=hints_of(names), solution=named(f"{name}_backward", ("dout", *arguments), right),
        routine=Routine(name, right, ("dout", *arguments), tuple(f"d{a}" for a in learned)), forward=forward,
        special=tuple(taken(names, "special", (list, tuple), ())), limits=limits_of(names), file=str(path),
        derivatives=derivatives, shown_solution=solution_in(name, backward))
    drawn = try_out(exercise)
    if backward:
        compare_with_differences(exercise, drawn)
    mistakes = mistakes_of(names, path, learned)
    check_mistakes(exercise, drawn, mistakes)
    return dataclasses.replace(exercise, routine=routine_with(exercise, drawn, mistakes))


def named(name: str, arguments: tuple[str, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with this name and these arguments, as students see it."""

    def solution(*values):
        return function(*values)

    solution.__name__ = name
    solution.__signature__ = inspect.Signature(
        [inspect.Parameter(argument, inspect.Parameter.POSITIONAL_OR_KEYWORD) for argument in arguments])
    return solution


def limits_of(names: dict[str, Any]) -> dict[str, int]:
    limits = taken(names, "limits", dict, {})
    letters = {letter for shape in names["shapes"].values() for letter in letters_of(shape)}
    for letter, most in limits.items():
        if letter not in letters or not isinstance(most, int) or most < 1:
            raise Flaw(f"limits has {letter!r}: {most!r}; it is the largest size of a letter in shapes, such as {{'N': 4}}")
    return limits


def solution_in(name: str, backward: Callable[..., Any] | None) -> str:
    if backward is None:
        return "The teacher's file has no solution.\n"
    return source_of(backward).replace(f"def {backward.__name__}(", f"def {name}_backward(", 1) + "\n"


def routine_with(exercise: OwnExercise, drawn: list[Inputs], own: tuple[Known, ...]) -> Routine:
    """The routine with the teacher's mistakes, and those of a function of the library with the same values."""
    right, library = exercise.routine.right, recognised(exercise, drawn)

    def with_parts(*arguments, **parts):
        return library.right(*arguments, **parts) if parts else right(*arguments)

    return dataclasses.replace(exercise.routine, right=with_parts, mistakes=own + (library.mistakes if library else ()))
