"""`minigrad compare`: runs side by side, as a table and perhaps a picture."""
import argparse
import pathlib

from models.commands.shared import CheckFailed, check_output
from models.comparison import PICTURE, compare, draw, read_run, table


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run")
    parser.add_argument("--plot", metavar="PICTURE", type=pathlib.Path, help="plot the losses; a .png, .pdf or .svg file")


def run(options: argparse.Namespace) -> int:
    path = vars(options).get("plot")
    if path is not None:
        check_output(path, "--plot", "comparison of runs", PICTURE)
    runs = {run.folder.resolve(): run for run in map(read_run, options.runs)}
    groups, measure = compare(list(runs.values()))
    print(table(groups, measure))
    if path is not None:
        if not draw(groups, measure, path):
            raise CheckFailed(f"there is nothing to plot: no run has been evaluated; {path} was not written")
        print(path, "shows it")
    return 0
