"""`minigrad notes`: a table of all claims, or some in full; exit code 1 if one is refuted."""
import argparse
import pathlib

from models.commands.shared import CheckFailed, UsageError, check_writable
from models.progress import saying
from study.notes import document, plots, report
from study.notes.claims import Claim

PICTURES = report.DOCUMENT.removesuffix(".md")  # the folder


def add_flags(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--row", metavar="ROW", nargs="+", help="only these rows, such as A5, in full")
    which.add_argument("--note", metavar="NOTE", nargs="+", help="only these notes, such as 003")
    parser.add_argument("--write", metavar="FILE", nargs="?", const=report.DOCUMENT,
                        help=f"write the results to a document; it keeps those of other rows (default: {report.DOCUMENT})")
    parser.add_argument("--plot", metavar="DIR", nargs="?", const=PICTURES,
                        help=f"draw pictures of all rows, or of those chosen, into this folder (default: {PICTURES})")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    check_document(given)
    folder = pathlib.Path(given.get("plot", PICTURES))
    try:
        claims = report.select(given.get("row"), given.get("note"))
        pictures = chosen_pictures(given, claims)
        others = kept(given, claims)
    except ValueError as error:
        raise UsageError(error) from None
    if "plot" in given:
        check_writable(folder, "--plot")
    outcomes = show_in_full(claims, folder) if "row" in given else show_table(claims, given.get("note", ()))
    refuted = [f"{outcome.claim.row} (note {outcome.claim.note})" for outcome in outcomes if not outcome.holds]
    if refuted:
        raise CheckFailed(f"refuted: {', '.join(refuted)}")
    with saying("drawing the plots"):
        drawn = list(plots.draw(pictures, folder))
    for path in drawn:
        print(path)
    if "write" in given:
        by_row = {outcome.claim.row: outcome for outcome in [*outcomes, *others]}
        document.write([by_row[claim.row] for claim in report.select()], pathlib.Path(given["write"]), plots.legends())
        print(given["write"])
    return 0


def chosen_pictures(given: dict, claims: list[Claim]) -> list[str]:
    """The names of those to draw; ValueError if the chosen rows have none."""
    if "plot" not in given:
        return []
    return plots.about([claim.row for claim in claims]) if given.keys() & {"row", "note"} else list(plots.PICTURES)


def kept(given: dict, claims: list[Claim]) -> list[report.Outcome]:
    """The outcomes of the other claims that the document has, if it is to be written; ValueError if it lacks some."""
    if "write" not in given:
        return []
    return document.kept(pathlib.Path(given["write"]), [claim for claim in report.select() if claim not in claims])


def show_table(claims: list[Claim], notes: list[str]) -> list[report.Outcome]:
    """Run claims and print a line for each, under the headings of their notes."""
    outcomes, heading = [], None
    print(report.header())
    for claim in claims:
        if heading != (heading := report.heading(claim)):
            print(heading)
        with saying(f"checking {claim.row}"):
            outcomes.append(report.check(claim))
        print(report.as_line(outcomes[-1]), flush=True)
    print(report.summary(outcomes))
    for line in report.pointers(claims, notes):
        print(line)
    return outcomes


def show_in_full(claims: list[Claim], folder: pathlib.Path) -> list[report.Outcome]:
    """Run claims and print each in full."""
    outcomes = []
    for claim in claims:
        with saying(f"checking {claim.row}"):
            outcomes.append(report.check(claim))
        print(report.in_full(outcomes[-1], plots.where(claim.row, folder)), flush=True)
    return outcomes


def check_document(given: dict) -> None:
    """UsageError if the document cannot be written."""
    if "write" not in given:
        return
    if pathlib.Path(given["write"]).is_dir():
        raise UsageError(f"{given['write'] or repr('')} is a folder; name a file with --write")
    check_writable(pathlib.Path(given["write"]).parent, "--write")
