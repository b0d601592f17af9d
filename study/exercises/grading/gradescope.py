"""Rows as Gradescope's results.json, by https://gradescope-autograders.readthedocs.io/en/latest/specs/.

Each exercise is a test. The format of all output is "text", so that none of it becomes HTML.
"""
import json
import pathlib
import re
from collections.abc import Iterable, Sequence

import minigrad as mg
from study.exercises.grading.rows import Row, by_student
from study.exercises.report import RIGHT

RESULTS = "results.json"


def results(rows: Sequence[Row], seed: int) -> str:
    """The results.json of one student."""
    content = {
        "score": sum(row.points for row in rows),
        "execution_time": round(sum(row.seconds for row in rows), 3),
        "output": "" if rows else "Nothing was handed in.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [test(row, number) for number, row in enumerate(rows, 1)],
        "extra_data": {"minigrad": mg.__version__, "seed": seed},
    }
    return json.dumps(content, indent=1) + "\n"


def test(row: Row, number: int) -> dict:
    return {
        "score": row.points,
        "max_score": row.most_points,
        "status": "passed" if row.verdict == RIGHT else "failed",
        "name": row.exercise or row.file,
        "name_format": "text",
        "number": str(number),
        "output": "\n\n".join(filter(None, (row.report or f"{row.verdict}: {row.sentence}", row.note))),
        "output_format": "text",
        "visibility": "visible",
        "extra_data": {"verdict": row.verdict, "mistake": row.mistake},
    }


def files(rows: Iterable[Row], folder: pathlib.Path, seed: int) -> dict[pathlib.Path, str]:
    """{path: content} of all students, each in their own folder."""
    found, taken = {}, set()
    for student, theirs in by_student(rows).items():
        name = folder_name(student)
        while name.casefold() in taken:  # some disks ignore case
            name += "_"
        taken.add(name.casefold())
        found[folder / name / RESULTS] = results(theirs, seed)
    return found


def is_results(content: bytes) -> bool:
    """Was this made by `results`?"""
    try:
        return "minigrad" in json.loads(content)["extra_data"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def folder_name(student: str) -> str:
    """A student's name as a folder name that is valid everywhere.

    >>> folder_name("../O'Neill: Jane")
    'O_Neill_ Jane'
    """
    return re.sub(r"[^\w .()-]", "_", student)[:100].strip(" ._") or "student"
