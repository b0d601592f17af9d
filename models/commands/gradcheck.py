"""`minigrad gradcheck`: a table of all parameters of a small model; exit code 1 if the gradient of one is wrong."""
import argparse

from models.commands.shared import UsageError
from models.gradcheck import check_model
from models.transformer import check_whole


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of parameters, tokens and directions (default: 0)")


def run(options: argparse.Namespace) -> int:
    try:
        check_whole("seed", options.seed, least=0)
    except ValueError as error:
        raise UsageError(error) from None
    report = check_model(options.seed)
    print(report)
    right = sum(entry.verdict == "pass" for entry in report.inputs)
    print(f"{right} of {len(report.inputs)} gradients are right")
    return 0 if report else 1
