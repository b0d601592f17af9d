"""`minigrad gradcheck`: a table of all parameters of a small model of each recipe; exit code 1 if a gradient is wrong."""
import argparse
import dataclasses

from models import gradcheck
from models.commands.shared import UsageError
from models.recipes import RECIPES
from models.transformer import CausalTransformer, check_whole


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of parameters, tokens and directions (default: 0)")


def run(options: argparse.Namespace) -> int:
    try:
        check_whole("seed", options.seed, least=0)
    except ValueError as error:
        raise UsageError(error) from None
    reports = []
    for name, recipe in RECIPES.items():
        print(f"recipe {name}, {recipe.description}")
        model = CausalTransformer(dataclasses.replace(gradcheck.CONFIG, **recipe.model))
        reports.append(gradcheck.check_model(options.seed, model))
        print(reports[-1], "\n", sep="", flush=True)
    checked = [entry.verdict for report in reports for entry in report.inputs]
    print(f"{checked.count('pass')} of {len(checked)} gradients are right")
    return 0 if all(reports) else 1
