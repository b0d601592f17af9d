"""What the claims of the lecture notes come to: as lines for the terminal, and as a document."""
import dataclasses
import itertools
import pathlib
import textwrap
import time
from collections.abc import Iterable

from study.notes import CLAIMS, Claim, Refuted

FAMILIES = {
    "L": "Layout and tokens",
    "A": "Attention",
    "M": "The part that treats tokens one by one",
    "R": "Residual connections and norms",
    "N": "Layer norm",
    "P": "Positions",
    "G": "Architectures",
    "T": "Read-out, sampling and training",
    "C": "Cost and depth",
    "E": "Misprints",
}
NOTES = {
    "000": "transformers, tokens as rows",
    "001": "from RNNs to the encoder-decoder",
    "002": "introduction, tokens as columns",
    "003": "slides on chapter 12",
    "004": "lecture 7",
}
WIDTHS = {"row": 4, "note": 4, "verdict": 18, "measured": 62, "seconds": 7}  # of the columns on a terminal


@dataclasses.dataclass(frozen=True)
class Outcome:
    claim: Claim
    holds: bool
    measured: str
    seconds: float

    @property
    def verdict(self) -> str:
        return self.claim.verdict if self.holds else "REFUTED"


def select(rows: list[str] | None = None) -> list[Claim]:
    """The claims of these rows, or all, family by family; ValueError if there is no such row."""
    known = {claim.row for claim in CLAIMS}
    wanted = known if rows is None else {row.upper() for row in rows}
    unknown = sorted(wanted - known)
    if unknown:
        raise ValueError(f"there is no row {', '.join(unknown)}; there are {', '.join(sorted(known, key=place))}")
    return sorted((claim for claim in CLAIMS if claim.row in wanted), key=lambda claim: (place(claim.row), claim.note))


def place(row: str) -> tuple[int, int]:
    """Where a row stands: A10 comes after A9."""
    return list(FAMILIES).index(row[0]), int(row[1:])


def check(claim: Claim) -> Outcome:
    """Run a claim. One that crashes does not hold either."""
    started = time.perf_counter()
    try:
        holds, measured = True, claim.check()
    except Refuted as reason:
        holds, measured = False, str(reason)
    except Exception as error:  # noqa: BLE001  it is reported
        holds, measured = False, f"{type(error).__name__}: {error}"
    return Outcome(claim, holds, measured, time.perf_counter() - started)


def header() -> str:
    """The first two lines of the table on a terminal."""
    return "\n".join([lines_of(WIDTHS), "-" * (sum(WIDTHS.values()) + 2 * (len(WIDTHS) - 1))])


def as_line(outcome: Outcome) -> str:
    """A row of the table on a terminal."""
    claim = outcome.claim
    return lines_of([claim.row, claim.note, outcome.verdict, outcome.measured, f"{outcome.seconds:7.2f}"])


def in_full(outcome: Outcome) -> str:
    """A claim with what the note says, and where its code stands."""
    claim = outcome.claim
    parts = {"it says": claim.text, "verdict": outcome.verdict, "measured": outcome.measured,
             "seconds": f"{outcome.seconds:.2f}", "code": f"{claim.check.__module__}.{claim.name}"}
    lines = [textwrap.fill(text, 100, initial_indent=f"  {name:8}  ", subsequent_indent=12 * " ", break_on_hyphens=False)
             for name, text in parts.items()]
    return "\n".join([f"{claim.row}, note {claim.note}: {NOTES[claim.note]}", *lines])


def lines_of(cells: Iterable[str]) -> str:
    """One row; cells that are too long go on below."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS.values())]
    rows = itertools.zip_longest(*wrapped, fillvalue="")
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, WIDTHS.values())).rstrip() for row in rows)


def summary(outcomes: list[Outcome]) -> str:
    """How many claims turned out to be what."""
    true = sum(outcome.verdict == "true" for outcome in outcomes)
    conditional = sum(outcome.verdict.startswith("true ") for outcome in outcomes)
    false = sum(outcome.verdict.startswith("false") for outcome in outcomes)
    return f"{len(outcomes)} claims: {true} true, {conditional} true under a condition, {false} false as printed"


def write(outcomes: list[Outcome], path: pathlib.Path, captions: dict[str, str]) -> None:
    """Write the document, with those of the pictures {file name: caption} that are in the folder named like it."""
    folder = path.with_suffix("")
    pictures = {name: caption for name, caption in captions.items() if (folder / name).exists()}
    path.write_text(as_markdown(outcomes, pictures, folder.name), encoding="utf-8")


def as_markdown(outcomes: list[Outcome], pictures: dict[str, str], folder: str) -> str:
    """The document, with pictures {file name: caption} from the folder beside it."""
    parts = [
        "# The lecture notes, claim by claim",
        "Written by `minigrad notes --write`, which runs each claim with the code of this project; do not edit. "
        "`minigrad notes --row A5` runs one of them, `study/notes/` holds their code. Verdicts are about what the "
        "note says: for a misprint, the printed formula and the right one are both run.",
        "The notes: " + "; ".join(f"**{note}** {title}" for note, title in NOTES.items()) + ".",
        summary(outcomes) + ".",
    ]
    for letter, title in FAMILIES.items():
        family = [outcome for outcome in outcomes if outcome.claim.row[0] == letter]
        if family:
            parts += [f"## {title}", markdown_table(family)]
    if pictures:
        parts += ["## Pictures", "Drawn by `minigrad notes --plot`."]
        parts += [f"{caption}\n\n![{pathlib.Path(name).stem}]({folder}/{name})" for name, caption in pictures.items()]
    return "\n\n".join(parts) + "\n"


def markdown_table(outcomes: list[Outcome]) -> str:
    rows = [["row", "note", "it says", "verdict", "measured"], ["---"] * 5]
    rows += [[outcome.claim.row, outcome.claim.note, outcome.claim.text, outcome.verdict, outcome.measured]
             for outcome in outcomes]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
