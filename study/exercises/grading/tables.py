"""Rows as text for the terminal, as CSV, as CSV for Canvas, and as JSON."""
import csv
import io
import json
from collections.abc import Iterable, Sequence

import minigrad as mg
from study.exercises.grading.rows import NOT_JUDGED, Row, by_student, frequencies, groups, standings, totals
from study.exercises.report import INCONCLUSIVE

FORMAT = "minigrad class 1"
COLUMNS = "student", "exercise", "verdict", "mistake"
CSV_COLUMNS = "student", "exercise", "verdict", "points", "most_points", "late", "mistake", "sentence", "file", "note"
CANVAS_COLUMNS = "Student", "ID", "SIS User ID", "SIS Login ID", "Section"  # by which Canvas finds a student
WIDEST = 32  # characters of any column but the last
FORMULA = "=", "+", "-", "@", "\t", "\r", "\n", "|", "%"  # a spreadsheet may run a cell that begins with these


def table(rows: Sequence[Row], width: int | None = None) -> str:
    """A line for each row, no wider than this, under a heading."""
    cells = [COLUMNS, *((row.student, row.exercise, row.verdict, said_of(row)) for row in rows)]
    widths = [min(max(len(row[i]) for row in cells), WIDEST) for i in range(len(COLUMNS) - 1)]
    texts = ["  ".join([*(f"{cut(cell, n):{n}}" for cell, n in zip(row, widths)), row[-1]]).rstrip() for row in cells]
    return "\n".join(cut(text, width) if width else text for text in texts)


def said_of(row: Row) -> str:
    """The mistake if it is known, or else what the report says."""
    text = row.mistake or ("" if row.verdict == "right" and ";" not in row.sentence else row.sentence)
    return " ".join(filter(None, (text, row.remark and f"({row.remark})")))


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def summary(rows: Sequence[Row]) -> str:
    """How the students stand, and by exercise the verdicts and the mistakes by frequency."""
    if not rows:
        return "nothing was handed in"
    students, mistakes = len(by_student(rows)), frequencies(rows)
    texts = [f"{students} student{'s' * (students != 1)}: {counted(standings(rows))}"]
    for exercise in dict.fromkeys(row.exercise for row in rows if row.is_answer):
        of_it = [row for row in rows if row.exercise == exercise]
        answers = sum(row.is_answer for row in of_it)
        texts.append(f"{exercise}, {answers} answer{'s' * (answers != 1)}: {counted(totals(of_it))}")
        texts += [f"  {one.count:4} of {answers}: {one.mistake}" for one in mistakes if one.exercise == exercise]
        texts += [f"  the same wrong numbers: {', '.join(group.students)}" for group in groups(of_it) if not group.mistake]
    return "\n".join(texts)


def counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def as_csv(rows: Sequence[Row]) -> str:
    """For spreadsheets: a line for each row."""
    return written([CSV_COLUMNS, *([row.as_dict()[name] for name in CSV_COLUMNS] for row in rows)])


def as_canvas(rows: Sequence[Row]) -> str:
    """For Canvas to import into its gradebook: a line for each student, with the points for each exercise.

    Students are found by the number that Canvas has put into their files' names, or else by login or name. The cell of
    an answer that was not judged is empty, which leaves the grade as it is.
    """
    most = {row.exercise: row.most_points for row in rows if row.exercise}
    lines = [(*CANVAS_COLUMNS, *most), ("    Points Possible", *[""] * 4, *most.values())]
    for student, theirs in by_student(rows).items():
        number = theirs[0].number
        points = {row.exercise: row.points for row in theirs if row.verdict not in (INCONCLUSIVE, NOT_JUDGED)}
        lines.append((student, number, "", "" if number else student, "", *(points.get(exercise, "") for exercise in most)))
    return written(lines)


def written(lines: Iterable[Sequence[str | float | None]]) -> str:
    """CSV. A cell that a spreadsheet might run as a formula starts with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([harmless(cell) for cell in line] for line in lines)
    return text.getvalue()


def harmless(cell: str | float | None) -> str | float | None:
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip().startswith(FORMULA) else cell


def as_json(rows: Sequence[Row], seed: int) -> str:
    """For programs: all rows, the mistakes by frequency, and whose wrong numbers are the same."""
    content = {
        "format": FORMAT, "minigrad": mg.__version__, "seed": seed,
        "rows": [row.as_dict() for row in rows],
        "mistakes": [vars(one) for one in frequencies(rows)],
        "same_numbers": [vars(group) for group in groups(rows)],
    }
    return json.dumps(content, indent=1) + "\n"
