"""The table of a class: a row for each student and exercise, points, and the mistakes by frequency."""
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from study.exercises.report import ERROR, INCONCLUSIVE, RIGHT, TIMEOUT, WRONG
from study.exercises.submission import safe

NOT_STARTED, NOT_JUDGED = "not started", "not judged"
VERDICTS = RIGHT, WRONG, INCONCLUSIVE, ERROR, TIMEOUT, NOT_STARTED, NOT_JUDGED
STANDINGS = {"all right": RIGHT, "some right": INCONCLUSIVE, "none right": WRONG}  # of a student with several exercises
NO_MISTAKE = {  # what counts in place of a known mistake
    WRONG: "wrong in another way: see each report", ERROR: "cannot be run", TIMEOUT: "takes too long",
    INCONCLUSIVE: "inconclusive: look at it yourself",
}


@dataclass(frozen=True)
class Row:
    """One student and exercise. All text is safe to print: a line each, except for `report` and `source`."""

    student: str
    exercise: str  # "" for a file that answers none
    verdict: str
    mistakes: tuple[str, ...] = ()  # the known ones
    sentence: str = ""
    report: str = ""  # as `minigrad exercises check` prints it
    file: str = ""  # its path in the folder
    note: str = ""
    points: float = 0
    most_points: float = 0
    seconds: float = 0
    source: str = ""  # what was handed in
    numbers: str = ""  # of a wrong answer: the same for others that give the same numbers
    is_late: bool = False
    number: str = ""  # the student's, on the platform

    @property
    def mistake(self) -> str | None:
        return "; ".join(self.mistakes) or None

    @property
    def remark(self) -> str:
        """What else a teacher should know."""
        return "; ".join(filter(None, ("late" * self.is_late, self.note)))

    @property
    def is_answer(self) -> bool:
        """Was there something to judge?"""
        return self.verdict not in (NOT_STARTED, NOT_JUDGED)

    def as_dict(self) -> dict:
        """What `--json` holds."""
        names = "student", "exercise", "verdict", "mistake", "sentence", "points", "most_points", "file", "note", "seconds"
        return {name: getattr(self, name) for name in names} | {"late": self.is_late}


@dataclass(frozen=True)
class Count:
    """How many of the answers to an exercise have this mistake."""

    exercise: str
    mistake: str
    count: int
    answers: int


def frequencies(rows: Iterable[Row]) -> list[Count]:
    """The mistakes of a class by exercise, most frequent first, unknown ones last. An answer with two counts for both."""
    counts: Counter[Any] = Counter()
    answers: Counter[str] = Counter()
    for row in rows:
        if row.is_answer:
            answers[row.exercise] += 1
            counts.update((row.exercise, mistake) for mistake in causes(row))
    order = {exercise: i for i, exercise in enumerate(answers)}
    found = [Count(exercise, mistake, count, answers[exercise]) for (exercise, mistake), count in counts.items()]
    return sorted(found, key=lambda one: (
        order[one.exercise], one.mistake in NO_MISTAKE.values(), -one.count, one.mistake))


def causes(row: Row) -> Sequence[str]:
    """What a row counts as among the mistakes."""
    return row.mistakes or ((NO_MISTAKE[row.verdict],) if row.verdict in NO_MISTAKE else ())


@dataclass(frozen=True)
class Group:
    """Students whose wrong answers to an exercise give the same numbers."""

    exercise: str
    students: tuple[str, ...]
    mistake: str | None


def groups(rows: Iterable[Row]) -> list[Group]:
    """The largest first."""
    found = defaultdict(list)
    for row in rows:
        if row.numbers:
            found[row.exercise, row.numbers].append(row)
    several = sorted((alike for alike in found.values() if len(alike) > 1), key=len, reverse=True)
    return [Group(alike[0].exercise, tuple(row.student for row in alike), alike[0].mistake) for alike in several]


def standings(rows: Iterable[Row]) -> dict[str, int]:
    """How many students stand how: by verdict if there is one exercise, or else by how many of their rows are right."""
    rows = list(rows)
    if len({row.exercise for row in rows if row.exercise}) <= 1:
        return totals(rows)
    shares = [sum(row.verdict == RIGHT for row in theirs) / len(theirs) for theirs in by_student(rows).values()]
    counts = Counter("all right" if share == 1 else "some right" if share else "none right" for share in shares)
    return {standing: counts[standing] for standing in STANDINGS if counts[standing]}


def by_student(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row.student].append(row)
    return found


def totals(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows have each verdict, if any."""
    counts = Counter(row.verdict for row in rows)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def line(text: str) -> str:
    r"""Untrusted text as one line that is safe in any terminal, file or page.

    >>> line("two\nlines, \x1b[31mred, half a letter \udce4")
    'two lines, �[31mred, half a letter �'
    """
    return safe(" ".join(text.split()))


def lines(text: str) -> str:
    """The same for a text of several lines."""
    return safe("\n".join(text.expandtabs(4).splitlines()))
