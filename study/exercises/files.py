"""An answer in a file: read, run in its own process, and judged."""
import inspect
import os
from collections.abc import Callable
from typing import Any

from study.exercises import submission
from study.exercises.answer import Direct
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise, named
from study.exercises.judge import judge
from study.exercises.own import load
from study.exercises.report import ERROR, Report
from study.exercises.sandbox import Limits, Sandbox
from study.exercises.submission import SubmissionError


def exercise_called(name: str | Exercise) -> Exercise:
    """An exercise of the course by its name, or a teacher's own by its .py file; ValueError if there is none."""
    if isinstance(name, Exercise):
        return name
    return load(name) if name.endswith(".py") else named(name, COURSE)


def check(function: Callable[..., Any], exercise: str | Exercise, seed: int | None = None) -> Report:
    """Judge a function in this process, as `check_file` judges a file. An exercise is named; a teacher's own is a file.

    >>> import numpy as np
    >>> check(lambda dout, x: dout * (1 - np.tanh(x)), "tanh", seed=0).mistake
    'the power is missing: out replaces out**2'
    """
    if not callable(function):
        raise TypeError(f"check(function, exercise) takes a function, such as softmax_backward, got {function!r}")
    return judge(exercise_called(exercise), Direct(function), seed)


def check_file(path: str | os.PathLike[str], exercise: str | Exercise | None = None, seed: int | None = None,
               limits: Limits = Limits()) -> Report:
    """Judge the answer in a .py file or notebook. The report is true if it is right, so that a test is one line:

        assert check_file("softmax.py")

    The exercise is by default the one that the file is named after, or whose function it defines; ValueError, with a
    sentence for the student, if there is none. The same seed draws the same inputs. RuntimeError if no process can be
    started.
    """
    if exercise is not None:
        exercise = exercise_called(exercise)
    else:
        exercise = COURSE.get(os.path.splitext(os.path.basename(path))[0].removesuffix("_backward"))
    try:
        source = submission.read(path)
        if exercise is None:
            exercise = COURSE[submission.exercise_of(source, {name: one.function_name for name, one in COURSE.items()})]
        submission.expect(source, exercise.function_name, list(inspect.signature(exercise.solution).parameters))
    except SubmissionError as error:
        if exercise is None:
            raise
        return Report(exercise, ERROR, facts=(str(error),))
    with Sandbox(source, exercise.function_name, limits) as caller:
        return judge(exercise, caller, seed)
