"""`minigrad notes`: a table of all claims, of a note's, or some in full; exit code 1 if one is refuted."""
import argparse
import numbers
import textwrap
import time
from collections.abc import Iterable

from models.commands.shared import CheckFailed, UsageError
from models.progress import saying
from study.notes.claims import CLAIMS, Claim, Refuted

WIDTH = 120  # of a line
SINCE = "3aa8bf6c"  # the last commit that trained for each row


def add_flags(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--row", metavar="ROW", nargs="+", help="only these rows, such as A5, in full")
    which.add_argument("--note", metavar="NOTE", nargs="+", help="only these notes, such as 003")


def run(options: argparse.Namespace) -> int:
    rows, notes = (getattr(options, name, None) for name in ("row", "note"))
    claims, refuted = select(rows, notes), []
    for claim in claims:
        started = time.perf_counter()
        with saying(f"checking {claim.row}"):
            holds, finding = check(claim)
        if not holds:
            refuted.append(f"{claim.row} (note {claim.note})")
        verdict = claim.verdict if holds else "REFUTED"
        head = f"{claim.row:<4} note {claim.note}  {verdict} ({time.perf_counter() - started:.2f} s)"
        print("\n".join([head, *(in_full(claim) if rows else ()), paragraph(finding)]), flush=True)
    print(f"{len(claims)} claims: {len(claims) - len(refuted)} hold, {len(refuted)} do not")
    if refuted:
        raise CheckFailed(f"refuted: {', '.join(refuted)}")
    return 0


def select(rows: list[str] | None, notes: list[str] | None) -> list[Claim]:
    """The claims of these rows or notes, by default all, in the notes' order."""
    wanted_rows = [row.upper() for row in rows or ()]
    wanted_notes = [note.zfill(3) for note in notes or ()]
    for kind, wanted, known in (("row", wanted_rows, {claim.row: None for claim in CLAIMS}),
                                ("note", wanted_notes, {claim.note: None for claim in CLAIMS})):
        if unknown := [name for name in wanted if name not in known]:
            raise UsageError(f"there is no {kind} {', '.join(unknown)}; there are {', '.join(known)}")
    return [claim for claim in CLAIMS
            if (rows is None or claim.row in wanted_rows) and (notes is None or claim.note in wanted_notes)]


def check(claim: Claim) -> tuple[bool, str]:
    """(whether it holds, its finding in words). A claim that crashes does not hold."""
    try:
        found = [f"{name.replace('_', ' ')}: {in_words(value)}" for name, value in claim.run().items()]
    except Refuted as reason:
        return False, str(reason)
    except Exception as error:  # noqa: BLE001  it is reported
        return False, f"{type(error).__name__}: {error}"
    measured = claim.words.get("measured")
    return True, ", ".join(found + [f"measured at {SINCE}: {measured}"] * bool(measured))


def in_words(value) -> str:
    """A number, a `Spread`, or several."""
    if isinstance(value, numbers.Integral):
        return f"{value:,}"
    return " / ".join(map(in_words, value)) if isinstance(value, Iterable) else f"{value:.2g}"


def in_full(claim: Claim) -> Iterable[str]:
    """What the note says and prints, and where to read more."""
    parts = {"section": claim.section, **claim.words, "code": claim.code,
             "claim": f"{claim.check.__module__}.{claim.check.__name__}"}
    return (paragraph(f"{name:<8}{text}") for name, text in parts.items() if text and name != "measured")


def paragraph(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="     ", subsequent_indent="     ", break_long_words=False)
