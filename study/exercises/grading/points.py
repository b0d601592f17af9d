"""What an answer is worth: points for each gradient that is right, and perhaps more if all are.

    softmax = 2                                # divided equally among its gradients
    attention = {dq = 1, dk = 1, dv = 0.5}     # for each
    layer_norm = {dx = 2, all = 1}             # and one more if the whole answer is right
"""
import difflib
import math
import os
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from study.exercises.exercise import Exercise

ALL = "all"
Points = Mapping[str, Mapping[str, float]]  # {exercise: {gradient, or "all": points}}


def equal(exercise: Exercise, most: float) -> dict[str, float]:
    """The same for each gradient."""
    results = exercise.routine.results
    return {name: most / len(results) for name in results}


def points_of(given: str | None, exercises: Mapping[str, Exercise]) -> Points:
    """From a number for each exercise, or a TOML file as above. By default, and if the file leaves it out, an exercise is
    worth its difficulty. ValueError, in a line, says what is wrong."""
    default = {name: equal(exercise, exercise.difficulty) for name, exercise in exercises.items()}
    if given is None:
        return default
    try:
        most = float(given)
    except ValueError:
        return {**default, **read(given, exercises)}
    return {name: equal(exercise, checked(most, "--points: ")) for name, exercise in exercises.items()}


def read(path: str | os.PathLike, exercises: Mapping[str, Exercise]) -> Points:
    """The points in a file."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ValueError(f"cannot read {path} ({error.strerror}); give a number of points, or a file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    for name in content.keys() - exercises.keys():
        nearest = difflib.get_close_matches(name, exercises, 1)
        raise ValueError(f"{path}: no exercise {name!r} is graded" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    return {name: of_exercise(exercises[name], value, f"{path}, {name}: ") for name, value in content.items()}


def of_exercise(exercise: Exercise, value: Any, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        return equal(exercise, checked(value, where))
    known = *exercise.routine.results, ALL
    for name in value:
        if name not in known:
            raise ValueError(f"{where}expected points for {', '.join(known)}, got {name!r}")
    return {name: checked(number, f"{where}{name}: ") for name, number in value.items()}


def checked(points: Any, where: str) -> float:
    if isinstance(points, bool) or not isinstance(points, (int, float)) or not 0 <= points < math.inf:
        raise ValueError(f"{where}expected a number of points from 0, got {points!r}")
    return points


def earned(points: Mapping[str, float], right: Collection[str], is_right: bool) -> float:
    """The points of an answer, of which these gradients are right.

    >>> earned({"dx": 2, "dweight": 1, "all": 1}, ["dx"], False)
    2
    """
    return round(sum(number for name, number in points.items() if is_right or name in right), 2)
