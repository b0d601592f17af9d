"""The grades of a class as one HTML page that works offline and runs no script.

A table of students by exercises comes first, then mistakes by frequency, for the next lesson. Each student unfolds to their
answers and the reports. All text is escaped, and the page's policy lets nothing run or load, whatever a student wrote.
"""
import base64
import hashlib
import importlib.resources
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

import minigrad as mg
from study.exercises.course import COURSE
from study.exercises.grading.rows import (
    STANDINGS, VERDICTS, Count, Row, by_student, frequencies, groups, standings,
)
from study.exercises.report import RIGHT

MARKS = {"right": "✓", "wrong": "✗", "inconclusive": "?", "error": "!", "timeout": "…"}
NO_MARK, LATE = "–", "<small>late</small>"


def html(rows: Sequence[Row], title: str, seed: int) -> str:
    """The page, as text."""
    style = part("report.css")
    parts = {
        "policy": f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'",
        "style": style,
        "title": escape(title),
        "verdicts": "".join(verdicts(rows)),
        "grades": "".join(grades(rows)),
        "mistakes": "".join(mistakes(frequencies(rows))) or "<p>None.</p>",
        "alike": "".join(alike(rows)) or "<li>None.</li>",
        "students": "".join(students(rows)) or "<li>Nothing was handed in.</li>",
        "foot": f"minigrad {mg.__version__}, seed {seed} of the inputs of all answers.",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], part("report.html"))  # in one pass


def verdicts(rows: Sequence[Row]) -> Iterator[str]:
    for standing, count in standings(rows).items():
        yield f'<li class="{kind(STANDINGS.get(standing, standing))}"><strong>{count}</strong> {standing}</li>'


def grades(rows: Sequence[Row]) -> Iterator[str]:
    """A table of students by exercises, whose marks lead to the answers. One exercise needs none: the students say all."""
    order = {exercise: i for i, exercise in enumerate(COURSE)}
    exercises = sorted({row.exercise for row in rows if row.exercise}, key=lambda name: (order.get(name, len(order)), name))
    if len(exercises) < 2:
        return
    yield ('<section aria-labelledby="grades"><h2 id="grades">Grades</h2>'
           '<div class="wide" tabindex="0" role="region" aria-labelledby="grades"><table class="grades">'
           '<thead><tr><th scope="col">student</th><th scope="col" class="points">points</th>')
    yield from (f'<th scope="col"><span>{escape(exercise)}</span></th>' for exercise in exercises)
    yield "</tr></thead><tbody>"
    for student, theirs in by_student(rows).items():
        cells = {row.exercise: cell(row) for row in theirs}
        yield f'<tr><th scope="row">{escape(student)}</th><td class="points">{points(theirs)}</td>'
        yield from (cells.get(exercise, "<td></td>") for exercise in exercises)
        yield "</tr>"
    yield '</tbody><tfoot><tr><th scope="row">right</th><td></td>'
    right = Counter(row.exercise for row in rows if row.verdict == RIGHT)
    yield from (f"<td>{right[exercise]}</td>" for exercise in exercises)
    key = ", ".join(f"{sign} {verdict}" for verdict, sign in MARKS.items())
    yield f'</tr></tfoot></table></div><p class="soft">{key}, {NO_MARK} not started or not judged</p></section>'


def cell(row: Row) -> str:
    label, sign = f"{row.exercise}: {verdict(row)}", mark(row) + LATE * row.is_late
    return f'<td class="{kind(row.verdict)}"><a href="#{anchor(row)}" aria-label="{escape(label)}">{sign}</a></td>'


def alike(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each group."""
    for group in groups(rows):
        what = f"the same wrong numbers ({group.mistake or 'no known mistake'})"
        yield f"<li>{escape(group.exercise)}, {escape(', '.join(group.students))}: {escape(what)}</li>"


def mistakes(counts: Sequence[Count]) -> Iterator[str]:
    """A table for each exercise."""
    for exercise, found in itertools.groupby(counts, lambda one: one.exercise):
        yield (f'<table><caption>{escape(exercise)}</caption><thead><tr><th scope="col">how many</th>'
               '<th scope="col">mistake</th></tr></thead><tbody>')
        for one in found:
            bar = (f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" '
                   f'height="10"/><rect width="{100 * one.count / one.answers:.1f}" height="10"/></svg>')
            yield f"<tr><td>{one.count} of {one.answers} {bar}</td><td>{escape(one.mistake)}</td></tr>"
        yield "</tbody></table>"


def students(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each student, which unfolds."""
    for student, theirs in by_student(rows).items():
        yield (f'<li><details><summary><span class="name">{escape(student)}</span>'
               f'<span class="points">{points(theirs)}</span><span class="brief">{"".join(map(brief, theirs))}</span>'
               f'</summary>{"".join(map(in_full, theirs))}</details></li>')


def brief(row: Row) -> str:
    """The verdict, and the mistake in a line."""
    about = row.mistake or (row.sentence if row.verdict != "right" else "")
    what = escape(row.exercise or row.file)
    return (f'<span class="answer"><span class="verdict {kind(row.verdict)}">{mark(row)} {what}: {verdict(row)}</span> '
            f'<span class="about">{escape(about)}</span></span>')


def in_full(row: Row) -> str:
    """The report, and the answer itself."""
    parts = [f"<h3>{escape(row.exercise or row.file)}: {row.verdict}</h3>",
             block("report", row.report) if row.report else f"<p>{escape(row.sentence)}</p>"]
    if row.source:
        parts.append(f"<h4>{escape(row.file)}</h4>{block('answer', row.source)}")
    if row.remark:
        parts.append(f"<p class=\"soft\">{escape(row.remark)}</p>")
    return f'<section id="{anchor(row)}">{"".join(parts)}</section>'


def anchor(row: Row) -> str:
    """The answer's place on the page."""
    return f"answer-{hashlib.sha256(f'{row.student}/{row.exercise}/{row.file}'.encode()).hexdigest()[:16]}"


def verdict(row: Row) -> str:
    return row.verdict + ", late" * row.is_late


def mark(row: Row) -> str:
    return MARKS.get(row.verdict, NO_MARK)


def points(rows: Sequence[Row]) -> str:
    return f"{sum(row.points for row in rows):g} of {sum(row.most_points for row in rows):g}"


def block(label: str, text: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{label}">{escape(text)}</pre>'


def kind(verdict: str) -> str:
    """A class in the style sheet."""
    assert verdict in VERDICTS
    return verdict.replace(" ", "-")


def part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
