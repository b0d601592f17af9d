"""`minigrad compare`: runs beside each other, as a table, and as a picture if it is asked for."""
import argparse
import pathlib

from models import comparison, comparison_picture
from models.commands.shared import CheckFailed, UsageError, check_writable

MARKS = {"csv": b"val_loss_mean", "json": comparison.FORMAT.encode(), "plot": comparison_picture.PICTURE.encode()}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run, or of a sweep")
    parser.add_argument("--plot", metavar="PNG", help="draw the losses, and the results with a dot for each seed")
    parser.add_argument("--csv", metavar="FILE", help="write the table, a line for each group of runs")
    parser.add_argument("--json", metavar="FILE", help="write the table, with all settings and each run")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    paths = {kind: pathlib.Path(given[kind]) for kind in MARKS if kind in given}
    for kind, path in paths.items():
        check_file(kind, path)
    compared = comparison.compare(comparison.read_runs(options.runs))
    print(compared.table())
    write(compared, paths)
    return 0


def check_file(kind: str, path: pathlib.Path) -> None:
    """UsageError if the file cannot be written, or would replace anything but a comparison."""
    if kind == "plot" and path.suffix != ".png":
        raise UsageError(f"the picture is a PNG, but --plot is {str(path)!r}; choose a name that ends with .png")
    check_writable(path.parent, f"--{kind}")
    if path.exists() and not (path.is_file() and MARKS[kind] in path.read_bytes()[:4096]):
        raise UsageError(f"{path} exists, and is no comparison of runs; choose another --{kind}")


def write(compared: comparison.Comparison, paths: dict[str, pathlib.Path]) -> None:
    """Files of the comparison, by their kinds; and say where they are."""
    if "csv" in paths:
        paths["csv"].write_text(compared.as_csv(), encoding="utf-8")
    if "json" in paths:
        paths["json"].write_text(compared.as_json(), encoding="utf-8")
    if "plot" in paths and not comparison_picture.draw(compared, paths["plot"]):
        raise CheckFailed(f"there is nothing to draw: no run has been evaluated; {paths['plot']} was not written")
    if paths:
        print(" and ".join(map(str, paths.values())), "show" if len(paths) > 1 else "shows", "it")
