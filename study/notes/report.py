"""The claims of the lecture notes in the notes' order, their outcomes, and how a terminal shows them."""
import dataclasses
import itertools
import re
import textwrap
import time
from collections.abc import Iterable

from study.notes import CLAIMS, Claim, Refuted, training
from study.notes.contents import NOTES

FAMILIES = {
    "L": "Layout and tokens",
    "A": "Attention",
    "M": "Token-wise networks",
    "R": "Residual connections and norms",
    "N": "Layer norm",
    "P": "Positions",
    "G": "Architectures",
    "T": "Read-out, sampling and training",
    "C": "Cost and depth",
    "E": "Misprints",
}
DOCUMENT = "study/notes/lecture_notes.md"
WIDTHS = {"row": 4, "note": 4, "verdict": 18, "finding": 62, "seconds": 7}  # of the columns on a terminal


@dataclasses.dataclass(frozen=True)
class Outcome:
    claim: Claim
    holds: bool
    finding: str  # a sentence with numbers
    seconds: float
    training: str = ""  # how it trained models, if it did

    @property
    def verdict(self) -> str:
        return self.claim.verdict if self.holds else "REFUTED"


def check(claim: Claim) -> Outcome:
    """Run a claim. One that crashes does not hold."""
    training.SEEDS.clear()
    started = time.perf_counter()
    try:
        holds, finding = True, re.sub(r"within 0(e\+00)?(?![\de]|\.\d)", "exactly", claim.check()).replace("0e+00", "0")
    except Refuted as reason:
        holds, finding = False, str(reason)
    except Exception as error:  # noqa: BLE001  it is reported
        holds, finding = False, f"{type(error).__name__}: {error}"
    return Outcome(claim, holds, finding, time.perf_counter() - started, training.in_words(training.SEEDS))


# which claims, in which order

def select(rows: Iterable[str] | None = None, notes: Iterable[str] | None = None) -> list[Claim]:
    """The claims of these rows or notes, by default all, in the notes' order; ValueError for an unknown row or note."""
    wanted = None if rows is None else {row_of(row.upper()) for row in rows}
    notes = NOTES if notes is None else [note.zfill(3) for note in notes]
    if unknown := [note for note in notes if note not in NOTES]:
        raise ValueError(f"there is no note {', '.join(unknown)}; there are {', '.join(NOTES)}")
    return sorted((claim for claim in CLAIMS if claim.note in notes and (wanted is None or claim.row in wanted)), key=place)


def row_of(row: str) -> str:
    """The row, or the one that it was merged into; ValueError if there is none."""
    for claim in CLAIMS:
        if row == claim.row or row in claim.formerly:
            return claim.row
    known = ", ".join(sorted((claim.row for claim in CLAIMS), key=by_number))
    raise ValueError(f"there is no row {row}; there are {known}")


def place(claim: Claim) -> tuple[str, int]:
    """A sort key: its note and the number of its section. Within a section, claims keep the order of their file."""
    headings = list(NOTES[claim.note].sections)
    return claim.note, headings.index(claim.section) if claim.section else len(headings)


def by_number(row: str) -> tuple[int, int]:
    """A sort key: A10 comes after A9."""
    return list(FAMILIES).index(row[0]), int(row[1:])


# on a terminal

def header() -> str:
    """The first two lines of the table."""
    return "\n".join([lines_of(WIDTHS), "-" * (sum(WIDTHS.values()) + 2 * (len(WIDTHS) - 1))])


def heading(claim: Claim) -> str:
    """The line above the claims of a section."""
    return f"\nnote {claim.note}: {claim.section or 'without a section'}"


def as_line(outcome: Outcome) -> str:
    """A row of the table."""
    claim = outcome.claim
    return lines_of([claim.row, claim.note, outcome.verdict, outcome.finding, f"{outcome.seconds:7.2f}"])


def lines_of(cells: Iterable[str]) -> str:
    """One row; long cells are wrapped."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS.values())]
    rows = itertools.zip_longest(*wrapped, fillvalue="")
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, WIDTHS.values())).rstrip() for row in rows)


def in_full(outcome: Outcome, picture: str) -> str:
    """A claim: what the note says and prints, the verdict, `picture`, and where to read more."""
    claim = outcome.claim
    others = "; ".join(f"note {note}" + f', "{section}"' * bool(section) for note, section in claim.places[1:])
    parts = {
        "it says": claim.text,
        "formula": claim.formula,
        "here": claim.ours,
        "verdict": outcome.verdict,
        "finding": f"{outcome.finding} ({outcome.seconds:.2f} s)",
        "training": outcome.training,
        "picture": picture,
        "see": f"{claim.code}; {DOCUMENT}#{claim.row.lower()}; the claim's code: {source_of(claim)}:{claim.line}",
        "also in": others,
        "formerly": ", ".join(claim.formerly),
    }
    lines = [textwrap.fill(text, 100, initial_indent=f"  {name:8}  ", subsequent_indent=12 * " ", break_on_hyphens=False,
                           break_long_words=False) for name, text in parts.items() if text]
    section = f', section "{claim.section}"' if claim.section else ""
    return "\n".join([f"{claim.row}: note {claim.note}, {NOTES[claim.note].title}{section}", *lines])


def source_of(claim: Claim) -> str:
    """The file of a claim, from the top of the source tree."""
    return f"{claim.check.__module__.replace('.', '/')}.py"


def pointers(claims: list[Claim], notes: Iterable[str]) -> list[str]:
    """A line for each of the other claims that these notes also make."""
    return [f"also stated in note {note.zfill(3)}: {claim.row} (note {claim.note}), {claim.name.replace('_', ' ')}"
            for note in notes for claim in select() if claim not in claims and note.zfill(3) in dict(claim.places)]


def count(verdicts: Iterable[str]) -> dict[str, int]:
    """How many claims have each kind of verdict."""
    verdicts = list(verdicts)
    return {
        "true": verdicts.count("true"),
        "true under a condition": sum(verdict.startswith("true ") for verdict in verdicts),
        "false as printed": sum(verdict.startswith("false") for verdict in verdicts),
    }


def summary(outcomes: list[Outcome]) -> str:
    counts = count(outcome.verdict for outcome in outcomes)
    return f"{len(outcomes)} claims: " + ", ".join(f"{number} {what}" for what, number in counts.items())
