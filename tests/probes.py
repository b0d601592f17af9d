"""What check_same_bits.py compares: the results of every kernel, computed in a given order and saved as an .npz file.

    python tests/probes.py FILE ORDER [ONLY]
"""
import dataclasses
import importlib
import pkgutil
import random
import sys
from collections.abc import Callable

import numpy as np

import minigrad as mg
from cases import CASES, Case
from minigrad import Tensor
from minigrad.fast import kernels
from minigrad.tensor import apply
from models.data import load_corpus
from models.recipes import RECIPES, Recipe
from models.train import Trainer, TrainingConfig
from models.recipes import PRESETS
from models.transformer import CausalTransformer
from naive import Constant


def probes() -> dict[str, Callable[[], list[np.ndarray]]]:
    """The computations by name."""
    found = {f"train-{name}": lambda recipe=recipe: trained(20, recipe, dropout=0.1) for name, recipe in RECIPES.items()}
    for dtype in "float32", "float64":
        for i, case in enumerate(CASES):
            found[f"{i}-{case}-{dtype}"] = lambda case=case, dtype=dtype: forward_and_backward(case, dtype)
        for name, recipe in RECIPES.items():
            found[f"train-wide-{name}-{dtype}"] = lambda recipe=recipe, dtype=dtype: trained(
                2, recipe, dtype=dtype, width=128, context=64)
    return found


def forward_and_backward(case: Case, dtype: str) -> list[np.ndarray]:
    """The result of an operation, and its gradients."""
    inputs = [Tensor(x.astype(dtype), requires_grad=not isinstance(x, Constant)) if isinstance(x, np.ndarray) else x
              for x in case.inputs]
    out = apply(case.op, *inputs, **case.options)
    out.backward(Tensor(np.random.default_rng(3).standard_normal(out.shape), dtype=out.dtype))
    return [out.array] + [x.grad.array for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def make_model(**fields) -> CausalTransformer:
    """A seeded transformer of preset micro, with some fields of its config changed."""
    mg.manual_seed(0)
    return CausalTransformer(dataclasses.replace(PRESETS["micro"].config, **fields))


def trained(steps: int, recipe: Recipe, **fields) -> list[np.ndarray]:
    """The parameters after some steps of training with a recipe, as the command does it."""
    model = make_model(**recipe.model, **fields)
    training = {**recipe.training, "steps": steps, "warmup_steps": 1, "batch_size": 4, "seed": 0}
    trainer = Trainer(model, load_corpus(), TrainingConfig(**training))
    for _ in range(steps):
        trainer.train_step()
    return [parameter.array for parameter in model.parameters()]


def kernels_never_run() -> list[str]:
    """The kernels that this process has not run."""
    names = []
    for module in pkgutil.iter_modules(kernels.__path__):
        for name, value in vars(importlib.import_module(f"{kernels.__name__}.{module.name}")).items():
            is_made_there = getattr(value, "__module__", "").endswith(f".{module.name}")
            if hasattr(value, "ungated") and is_made_there and not value.dispatcher.overloads:
                names.append(f"{module.name}.{name}")
    return names


def main(path: str, order: str, only: str = "") -> int:
    chosen = {name: probe for name, probe in probes().items() if only in name}
    results = {}
    for name in random.Random(order).sample(sorted(chosen), len(chosen)):
        with np.errstate(all="ignore"):
            results |= {f"{name}/{i}": np.array(array) for i, array in enumerate(chosen[name]())}
    if not only and (missing := kernels_never_run()):
        print(f"no probe runs {', '.join(missing)}", file=sys.stderr)
        return 1
    np.savez(path, **results)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
