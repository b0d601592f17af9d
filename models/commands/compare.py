"""`minigrad compare`: runs side by side, as a table and optionally as a plot."""
import argparse
import os
import pathlib

from minigrad.serialization import replacing
from models import comparison, comparison_picture
from models.commands.shared import CheckFailed, check_output
from models.progress import saying

MARKS = {"csv": "val_loss_mean", "json": comparison.FORMAT, "plot": comparison_picture.PICTURE}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run")
    parser.add_argument("--plot", metavar="PICTURE", help="plot the losses, and the results with one dot per seed; "
                        "a .png, .pdf or .svg file")
    parser.add_argument("--csv", metavar="FILE", help="write the table, one line per group of runs")
    parser.add_argument("--json", metavar="FILE", help="write the table, with all settings and each run")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    paths = {kind: pathlib.Path(given[kind]) for kind in MARKS if kind in given}
    for kind, path in paths.items():
        check_output(path, f"--{kind}", "comparison of runs", MARKS[kind], is_picture=kind == "plot")
    compared = comparison.compare(comparison.read_runs(options.runs))
    print(compared.table())
    write(compared, paths)
    return 0


def write(compared: comparison.Comparison, paths: dict[str, pathlib.Path]) -> None:
    """Write the comparison as files, {kind: path}, and say where they are."""
    for kind, content in ("csv", compared.as_csv), ("json", compared.as_json):
        if kind in paths:
            with replacing(os.path.realpath(paths[kind])) as file:
                file.write(content().encode())
    with saying("drawing the picture"):
        is_empty = "plot" in paths and not comparison_picture.draw(compared, paths["plot"])
    if is_empty:
        raise CheckFailed(f"there is nothing to plot: no run has been evaluated; {paths['plot']} was not written")
    if paths:
        print(" and ".join(map(str, paths.values())), "show" if len(paths) > 1 else "shows", "it")
