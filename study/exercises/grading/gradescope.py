"""Rows as Gradescope's results.json, by https://gradescope-autograders.readthedocs.io/en/latest/specs/.

Each exercise is a test. The format of all output is "text", so that none of it becomes HTML.
"""
import json
from collections.abc import Sequence

import minigrad as mg
from study.exercises.grading.rows import Row
from study.exercises.report import RIGHT


def results(rows: Sequence[Row], seed: int) -> str:
    """The results.json of one student."""
    content = {
        "extra_data": {"minigrad": mg.__version__, "seed": seed},
        "score": sum(row.points for row in rows),
        "execution_time": round(sum(row.seconds for row in rows), 3),
        "output": "" if rows else "Nothing was handed in.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [test(row, number) for number, row in enumerate(rows, 1)],
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
        "output": "\n\n".join(filter(None, (row.report or f"{row.verdict}: {row.sentence}", row.remark))),
        "output_format": "text",
        "visibility": "visible",
        "extra_data": {"verdict": row.verdict, "mistake": row.mistake},
    }
