"""The grades of a class as one HTML page, which needs no network and runs no script.

Mistakes by frequency come first: that is what the next lesson is about. Each student unfolds to what was handed in and
what is said of it. All text is escaped, and the page's policy lets nothing run or load, whatever a student wrote.
"""
import base64
import hashlib
import html as _html
import importlib.resources
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import minigrad as mg
from study.exercises.grading.rows import VERDICTS, Count, Row, frequencies, totals

GENERATOR = "minigrad.exercises.grade"  # in a meta tag: a file with it may be overwritten
MARKS = {"right": "✓", "wrong": "✗", "inconclusive": "?", "error": "!", "timeout": "…"}


def html(rows: Sequence[Row], title: str, seed: int) -> str:
    """The page, as text."""
    style = part("report.css")
    parts = {
        "generator": GENERATOR,
        "policy": f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'",
        "style": style,
        "title": escaped(title),
        "verdicts": "".join(verdicts(rows)),
        "mistakes": "".join(mistakes(frequencies(rows))) or "<p>None.</p>",
        "students": "".join(students(rows)) or "<li>Nothing was handed in.</li>",
        "foot": f"minigrad {mg.__version__}, seed {seed}: all answers were tried on the same inputs.",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], part("report.html"))  # none is searched for others


def is_page(content: bytes) -> bool:
    """Has `html` made this?"""
    return content.startswith(part("report.html").partition("{{policy}}")[0].replace("{{generator}}", GENERATOR).encode())


def verdicts(rows: Sequence[Row]) -> Iterator[str]:
    for verdict, count in totals(rows).items():
        yield f'<li class="{kind(verdict)}"><strong>{count}</strong> {verdict}</li>'


def mistakes(counts: Sequence[Count]) -> Iterator[str]:
    """A table for each exercise."""
    by_exercise = defaultdict(list)
    for one in counts:
        by_exercise[one.exercise].append(one)
    for exercise, found in by_exercise.items():
        yield (f'<table><caption>{escaped(exercise)}</caption><thead><tr><th scope="col">how many</th>'
               '<th scope="col">mistake</th></tr></thead><tbody>')
        for one in found:
            bar = (f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" '
                   f'height="10"/><rect width="{100 * one.count / one.answers:.1f}" height="10"/></svg>')
            yield f"<tr><td>{one.count} of {one.answers} {bar}</td><td>{escaped(one.mistake)}</td></tr>"
        yield "</tbody></table>"


def students(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each student, that unfolds."""
    by_student = defaultdict(list)
    for row in rows:
        by_student[row.student].append(row)
    for student, theirs in by_student.items():
        points, most = sum(row.points for row in theirs), sum(row.most_points for row in theirs)
        yield (f'<li><details><summary><span class="name">{escaped(student)}</span>'
               f'<span class="points">{points:g} of {most:g}</span><span class="brief">{"".join(map(brief, theirs))}</span>'
               f'</summary>{"".join(map(in_full, theirs))}</details></li>')


def brief(row: Row) -> str:
    """The verdict, and the mistake in a line."""
    about = row.mistake or (row.sentence if row.verdict != "right" else "")
    mark, what = MARKS.get(row.verdict, "–"), escaped(row.exercise or row.file)
    return (f'<span class="answer"><span class="verdict {kind(row.verdict)}">{mark} {what}: {row.verdict}</span> '
            f'<span class="about">{escaped(about)}</span></span>')


def in_full(row: Row) -> str:
    """The sentence, a small wrong input, and what was handed in."""
    parts = [f"<h3>{escaped(row.exercise or row.file)}: {row.verdict}</h3>",
             block("report", row.report) if row.report else f"<p>{escaped(row.sentence)}</p>"]
    if row.source:
        parts.append(f"<h4>{escaped(row.file)}</h4>{block('what was handed in', row.source)}")
    if row.note:
        parts.append(f"<p class=\"soft\">{escaped(row.note)}</p>")
    return f"<section>{''.join(parts)}</section>"


def block(label: str, text: str) -> str:
    return f'<pre tabindex="0" role="region" aria-label="{label}">{escaped(text)}</pre>'


def kind(verdict: str) -> str:
    """A class of the style sheet."""
    assert verdict in VERDICTS
    return verdict.replace(" ", "-")


def escaped(text: str) -> str:
    return _html.escape(text)


def part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
