"""How many wrong backwards does the gradient check catch, and how often does it reject a right one?

    python tests/gradcheck_power.py [--seeds 100] [--torch-seeds 20]

It checks every mutant of `minigrad.gradcheck.mutants` on freshly drawn inputs, and so does PyTorch's gradcheck, if torch is
installed, with each mutant wrapped as a torch.autograd.Function and default options. Then come the right functions, and all
rows of tests/cases.py with their inputs permuted and scaled, at kinks too.
"""
import argparse
import concurrent.futures
import multiprocessing
import pathlib
import sys
import time
import warnings
from typing import Any

import numpy as np

if __name__ in ("__main__", "__mp_main__"):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

try:
    import torch
except ImportError:
    torch = None

from cases import CASES, Case
from gradcheck_wrong import InTorch, is_caught
from minigrad import Tensor, no_grad, tensor
from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.mutants import FUNCTIONS, MUTANTS, Differentiable
from minigrad.ops import activations, arithmetic, comparison, reduce
from minigrad.tensor import apply
from naive import Constant

ROUNDS = 20  # of all right ops
KINKED = (
    activations.Relu, arithmetic.Abs, comparison.Clamp, comparison.Maximum, comparison.Minimum, reduce.Max, reduce.Min,
)


def verdict(function: Differentiable, seed: int) -> str:
    return gradcheck_report(function, function.draw(seed), seed=seed).verdict


def is_caught_by_torch(function: Differentiable, seed: int) -> bool:
    """By PyTorch's gradcheck on the same function and inputs, with default options."""
    arrays = function.inputs(np.random.default_rng(seed))
    return is_caught(lambda: InTorch.check(*InTorch.made(function, arrays)))


def count_mutant(name: str, seeds: int, torch_seeds: int) -> tuple[int, int]:
    """(caught by minigrad, caught by PyTorch)"""
    function = MUTANTS.get(name) or FUNCTIONS[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ours = sum(verdict(function, seed) != "pass" for seed in range(seeds))
        theirs = sum(is_caught_by_torch(function, seed) for seed in range(torch_seeds)) if torch else 0
    return ours, theirs


def right_op_runs() -> dict[str, int]:
    """The verdicts on all rows of tests/cases.py, ROUNDS times, and on those with kinks at the kinks themselves."""
    counts, accused = {"pass": 0, "fail": 0, "inconclusive": 0}, set()
    for case in CASES:
        for seed in range(ROUNDS):
            for at_kinks in (False, True) if case.op in KINKED else (False,):
                inputs = redrawn(case, seed, at_kinks)
                if any(isinstance(x, Tensor) for x in inputs):
                    report = gradcheck_report(lambda *xs, case=case: apply(case.op, *xs, **case.options), inputs, seed=seed)
                    counts[report.verdict] += 1
                    if not report and str(case) not in accused:
                        accused.add(str(case))
                        print(f"\n{case}, seed {seed}, the first failure of this case:\n{report}")
    return counts


def redrawn(case: Case, seed: int, at_kinks: bool) -> list[Any]:
    """The inputs of a case: the same numbers in another order, and scaled if the op is defined there; rounded for ties and
    zeros."""
    generator = np.random.default_rng(seed)
    permuted, scaled = [], []
    for x in case.inputs:
        if not isinstance(x, np.ndarray) or isinstance(x, Constant) or x.dtype.kind != "f":
            permuted, scaled = [*permuted, x], [*scaled, x]
            continue
        array = generator.permutation(x.reshape(-1)).reshape(x.shape)
        larger = array * generator.uniform(0.7, 1.3)
        permuted.append(tensor(array, requires_grad=True))
        scaled.append(tensor(np.round(2 * larger) / 2 if at_kinks else larger, requires_grad=True))
    with no_grad():
        is_defined = not np.any(np.isnan(apply(case.op, *scaled, **case.options).array))
    return scaled if is_defined else permuted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--torch-seeds", type=int, default=20)
    options = parser.parse_args()
    start = time.perf_counter()
    names = [*MUTANTS, *FUNCTIONS]
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        counts = pool.map(count_mutant, names, [options.seeds] * len(names), [options.torch_seeds] * len(names),
                          chunksize=4)
        counts = dict(zip(names, counts))
    print_table(counts, options.seeds, options.torch_seeds)
    alarms = sum(counts[name][0] for name in FUNCTIONS)
    theirs = [name for name in FUNCTIONS if counts[name][1]]
    verdicts = right_op_runs()
    n_runs = sum(verdicts.values()) + len(FUNCTIONS) * options.seeds
    n_false, n_open = alarms + verdicts["fail"], verdicts["inconclusive"]
    print(f"\nFalse alarms: {n_false}, and {n_open} inconclusive, of {n_runs} runs on right ops.")
    print(f"PyTorch's gradcheck rejects {', '.join(theirs) or 'none'} of the right functions.")
    print(f"\n{time.perf_counter() - start:.0f} s")


def print_table(counts: dict[str, tuple[int, int]], seeds: int, torch_seeds: int) -> None:
    """A row for each function, then the mutants that either check missed."""
    print(f"| function | mutants | caught by minigrad, {seeds} seeds | by PyTorch, {torch_seeds} seeds |")
    print("|---|---|---|---|")
    wrong = list(MUTANTS)
    groups = {function: [name for name in wrong if MUTANTS[name].right.name == function] for function in FUNCTIONS}
    for function, members in {**groups, "all": wrong}.items():
        ours, theirs = (100 * sum(counts[name][i] for name in members) / (len(members) * max(n, 1))
                        for i, n in enumerate((seeds, torch_seeds)))
        print(f"| {function} | {len(members)} | {ours:.4g}% | {f'{theirs:.1f}%' if torch else 'not installed'} |")
    missed = [name for name in wrong if counts[name][0] < seeds]
    print(f"\nMissed by minigrad in some seed: {', '.join(missed) or 'none'}.")
    if torch:
        print("\n| mutant | the mistake | caught by PyTorch |\n|---|---|---|")
        for name in wrong:
            if counts[name][1] < torch_seeds:
                print(f"| {name} | {MUTANTS[name].mistake} | {counts[name][1]} of {torch_seeds} |")


if __name__ == "__main__":
    main()
