"""Recognises a teacher's function by its values if the library has it, and then knows its mistakes as well."""
from collections.abc import Iterator

import numpy as np

from study.exercises.course import COURSE
from study.exercises.exercise import Exercise, Inputs
from study.exercises.worker.returned import copy_of
from study.mistakes import FUNCTIONS
from study.mistakes.doctor import Routine, routine_of


def recognised(exercise: Exercise, drawn: list[Inputs]) -> Routine | None:
    """The routine of the course or the library with the same values, and gradients for the same arguments."""
    learned = positions(exercise.routine)
    for forward, routine in candidates():
        if len(routine.arguments) == len(exercise.routine.arguments) and positions(routine) == learned and all(
                has_values(forward, exercise, inputs) for inputs in drawn):
            return routine
    return None


def candidates() -> Iterator[tuple]:
    yield from ((known.forward, known.routine) for known in COURSE.values() if known.forward is not None)
    yield from ((function.forward, routine_of(name)) for name, function in FUNCTIONS.items())


def positions(routine: Routine) -> list[int]:
    """Which of the arguments get a gradient."""
    return [k for k, name in enumerate(routine.arguments) if f"d{name}" in routine.results]


def has_values(forward, exercise: Exercise, inputs: Inputs) -> bool:
    arguments = copy_of(list(inputs.values())[1:])
    wanted = exercise.forward(*arguments)
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(forward(*arguments))
        return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    except Exception:  # noqa: BLE001  the arguments do not fit
        return False
