"""`minigrad gradcheck FILE:NAME --inputs ...`: the gradients of somebody's function against finite differences. Without a
file, every parameter of a small model of each recipe. Exit code 1 if a gradient is wrong or could not be judged, or if the
check proves nothing."""
import argparse
import dataclasses

import numpy as np

import minigrad as mg
from minigrad.gradcheck import GradcheckReport, gradcheck_module
from models.commands.gradcheck_file import DTYPES, EXAMPLE, MAKERS, run_file
from models.commands.shared import UsageError, usage_errors
from models.progress import saying
from models.recipes import RECIPES
from models.config import TransformerConfig, check_whole
from models.transformer import CausalTransformer

CONFIG = TransformerConfig(vocabulary_size=11, context=6, layers=2, heads=2, width=12, dtype="float64")
BATCH_SIZE = 3


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", metavar="FILE:NAME", nargs="?",
                        help="a function, torch.autograd.Function, module or layer such as FILE:Layer(8), or forward and "
                             "backward as FILE:FORWARD,BACKWARD; MODULE:NAME, too (default: small models of all recipes)")
    parser.add_argument("--inputs", metavar="NAME=VALUE", nargs="+",
                        help=f"its arguments, as \"q,k,v=randn(2,4,8,16) causal=True\"; values are {MAKERS}, numbers, "
                             "these with + - * /, strings, True, False or None")
    parser.add_argument("--dtype", choices=DTYPES,
                        help="of the real numbers among them (default: float64, or float32 if only that runs)")
    parser.add_argument("--device", metavar="NAME", help="of PyTorch's inputs and modules, such as cuda (default: cpu)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--seed", type=int, default=0, help="seed of parameters, tokens and directions (default: 0)")


def run(options: argparse.Namespace) -> int:
    with usage_errors():
        check_whole("seed", options.seed, least=0)
    if "function" in options:
        return run_file(options.function, getattr(options, "inputs", ()), getattr(options, "dtype", None),
                        getattr(options, "device", None), options.seed, "json" in options)
    if given := [name for name in ("inputs", "dtype", "device", "json") if name in options]:
        raise UsageError(f"--{given[0]} is for a function; name it first, as in {EXAMPLE}")
    reports = []
    for name, recipe in RECIPES.items():
        print(f"recipe {name}, {recipe.description}")
        model = CausalTransformer(dataclasses.replace(CONFIG, **recipe.model))
        with saying("checking every parameter"):
            reports.append(check_model(options.seed, model))
        print(reports[-1], "\n", sep="", flush=True)
    checked = [entry.verdict for report in reports for entry in report.inputs]
    print(f"{checked.count('pass')} of {len(checked)} gradients are right")
    return 0 if all(report.is_proof for report in reports) else 1


def check_model(seed: int = 0, model: CausalTransformer | None = None) -> GradcheckReport:
    """Check every parameter of a small float64 GPT-2 (or of `model`), on random tokens and targets.

    Parameters are random and not small: at GPT-2's initialisation most gradients are so small or so symmetric that errors
    would go unnoticed.
    """
    generator = np.random.default_rng(seed)
    model = model or CausalTransformer(CONFIG)
    config = model.config
    for name, parameter in model.named_parameters():
        noise = generator.normal(size=parameter.shape)
        is_gain = name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))
        parameter.data[...] = 1 + 0.3 * noise if is_gain else 0.5 * noise
    tokens, targets = generator.integers(config.vocabulary_size, size=(2, BATCH_SIZE, config.context))
    targets[0, 0] = -100
    return gradcheck_module(model, (mg.tensor(tokens), mg.tensor(targets)), select=lambda result: result[1],
                            raise_exception=False, seed=seed)
