"""Rows as text for the terminal, as CSV and as JSON."""
import csv
import io
import json
from collections.abc import Sequence

import minigrad as mg
from study.exercises.grading.rows import Row, frequencies, totals

FORMAT = "minigrad class 1"
COLUMNS = "student", "exercise", "verdict", "mistake"
CSV_COLUMNS = "student", "exercise", "verdict", "points", "most_points", "mistake", "sentence", "file", "note"
WIDEST = 32  # letters of a column but the last
FORMULA = "=", "+", "-", "@", "\t", "\r", "\n", "|", "%"  # what a spreadsheet may compute, if a cell begins with it


def table(rows: Sequence[Row], width: int | None = None) -> str:
    """A line for each row, not wider than this, under a heading."""
    cells = [COLUMNS, *((row.student, row.exercise, row.verdict, said_of(row)) for row in rows)]
    widths = [min(max(len(row[i]) for row in cells), WIDEST) for i in range(len(COLUMNS) - 1)]
    texts = ["  ".join([*(f"{cut(cell, n):{n}}" for cell, n in zip(row, widths)), row[-1]]).rstrip() for row in cells]
    return "\n".join(cut(text, width) if width else text for text in texts)


def said_of(row: Row) -> str:
    """The mistake if one is known, or else what is seen."""
    text = row.mistake or ("" if row.verdict == "right" and ";" not in row.sentence else row.sentence)
    return " ".join(filter(None, (text, row.note and f"({row.note})")))


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def summary(rows: Sequence[Row]) -> str:
    """How many are right, and which mistakes were made how often."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in totals(rows).items())
    students = len({row.student for row in rows})
    texts = [f"{students} student{'s' * (students != 1)}: {counts}" if rows else "nothing was handed in"]
    exercise = None
    for one in frequencies(rows):
        if exercise != (exercise := one.exercise):
            texts.append(f"{exercise}, {one.answers} answer{'s' * (one.answers != 1)}:")
        texts.append(f"  {one.count:4} of {one.answers}: {one.mistake}")
    return "\n".join(texts)


def as_csv(rows: Sequence[Row]) -> str:
    """For spreadsheets. A cell that one of them might compute has an apostrophe before it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(CSV_COLUMNS)
    for row in rows:
        writer.writerow([harmless(row.as_dict()[name]) for name in CSV_COLUMNS])
    return text.getvalue()


def is_csv(content: bytes) -> bool:
    """Has `as_csv` made this?"""
    return content.startswith(as_csv(()).encode())


def harmless(cell: str | float | None) -> str | float | None:
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip().startswith(FORMULA) else cell


def as_json(rows: Sequence[Row], seed: int) -> str:
    """For programs: all rows, and the mistakes by frequency."""
    content = {
        "format": FORMAT, "minigrad": mg.__version__, "seed": seed,
        "rows": [row.as_dict() for row in rows],
        "mistakes": [vars(one) for one in frequencies(rows)],
    }
    return json.dumps(content, indent=1) + "\n"


def is_json(content: bytes) -> bool:
    """Has `as_json` made this?"""
    try:
        return json.loads(content)["format"] == FORMAT
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
