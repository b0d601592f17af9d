"""`minigrad notes`: a table of all claims; exit code 1 if one is refuted."""
import argparse
import pathlib

from models.commands.shared import CheckFailed, UsageError, check_writable
from study.notes import plots, report

DOCUMENT, PICTURES = "docs/lecture_notes.md", "docs/lecture_notes"  # where notes go


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--row", metavar="ROW", nargs="+", help="only these rows of the list, such as A5, in full")
    parser.add_argument("--write", metavar="FILE", nargs="?", const=DOCUMENT,
                        help=f"write the results as a document (default: {DOCUMENT})")
    parser.add_argument("--plot", metavar="DIR", nargs="?", const=PICTURES,
                        help=f"draw pictures, those of --row or all, into this folder (default: {PICTURES})")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    try:
        claims = report.select(given.get("row"))
        pictures = plots.about([claim.row for claim in claims]) if {"row", "plot"} <= given.keys() else plots.PICTURES
    except ValueError as error:
        raise UsageError(error) from None
    check_places(given)
    if "row" not in given:
        print(report.header())
    show, outcomes = report.in_full if "row" in given else report.as_line, []
    for claim in claims:
        outcomes.append(report.check(claim))
        print(show(outcomes[-1]), flush=True)
    refuted = [f"{outcome.claim.row} (note {outcome.claim.note})" for outcome in outcomes if not outcome.holds]
    if refuted:
        raise CheckFailed(f"refuted: {', '.join(refuted)}")
    if "row" not in given:
        print(report.summary(outcomes))
    if "plot" in given:
        for path in plots.draw(pictures, pathlib.Path(given["plot"])):
            print(path)
    if "write" in given:
        report.write(outcomes, pathlib.Path(given["write"]), plots.captions())
        print(given["write"])
    return 0


def check_places(given: dict) -> None:
    """UsageError if what is asked for cannot be written there."""
    if "row" in given and "write" in given:
        raise UsageError("--write takes all rows, got --row; leave one of the two out")
    if "write" in given and pathlib.Path(given["write"]).is_dir():
        raise UsageError(f"{given['write'] or repr('')} is a folder; name a file with --write")
    for flag in ("write", "plot"):
        if flag in given:
            path = pathlib.Path(given[flag])
            check_writable(path.parent if flag == "write" else path, f"--{flag}")
