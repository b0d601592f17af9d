"""An answer in a file: read, run and judged."""
import pathlib

from study.exercises.answer import Direct
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise, named
from study.exercises.judge import judge
from study.exercises.report import Report


def check_file(path: str | pathlib.Path, exercise: Exercise | None = None, seed: int | None = None) -> Report:
    """Judge the answer in a file, to the exercise that its name says unless one is given."""
    exercise = exercise or named(pathlib.Path(path).stem, COURSE)
    names: dict = {}
    exec(compile(pathlib.Path(path).read_text(encoding="utf-8"), str(path), "exec"), names)
    return judge(exercise, Direct(names[exercise.function_name]), seed)
