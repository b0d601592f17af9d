"""What does the gradient check catch and name of wrong backwards in PyTorch or JAX, next to that library's own check?

    python tests/gradcheck_wrong.py --library torch [--count 200] [--seed 0] [--only NAME]
    python tests/gradcheck_wrong.py --by-hand

The wrong backwards are mutants of `minigrad.gradcheck.mutants`: as torch.autograd.Functions, next to torch.autograd.gradcheck;
as jax.custom_vjp, next to jax.test_util.check_grads. It prints those that either check misses, those that the diagnosis does
not name as the table of mutants does, and those that are right in this library.
With --by-hand, they are those of for_pytorch/by_hand.py.
"""
import argparse
import collections
import contextlib
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ContextManager

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np

from minigrad.gradcheck import GradcheckReport, gradcheck_report
from minigrad.gradcheck.mutants import MUTANTS, Mutant, diagnose
from study.mistakes.base import as_tuple


class InTorch:
    """Mutants as torch.autograd.Functions."""

    surroundings = contextlib.nullcontext
    right = ()

    @staticmethod
    def check(function: Any, inputs: Sequence[Any]) -> bool:
        import torch

        return torch.autograd.gradcheck(getattr(function, "apply", function), inputs)

    @staticmethod
    def made(mutant: Mutant, arrays: Sequence[np.ndarray]) -> tuple[Any, list[Any]]:
        """A function and its inputs."""
        import torch

        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                ctx.save_for_backward(*tensors)
                return torch.tensor(np.array(mutant.forward(*(x.numpy(force=True) for x in tensors))))

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, dout):
                found = mutant.gradients(dout.numpy(), *(x.numpy(force=True) for x in ctx.saved_tensors))
                return tuple(None if g is None else torch.tensor(np.array(g)) for g in found)

        drawn = map(torch.tensor, arrays)
        return Wrong, [x.requires_grad_() if x.is_floating_point() else x for x in drawn]

    @staticmethod
    def is_right(mutant: Mutant, arrays: Sequence[np.ndarray]) -> bool:
        """Does the engine mend it? It sums a gradient over the axes that its input lacks."""
        import torch

        dout = np.random.default_rng(0).normal(size=np.shape(mutant.forward(*arrays)))
        pairs = [(torch.tensor(g), torch.tensor(expected)) for g, expected in zip(
            *(f.gradients(dout, *arrays) for f in (mutant, mutant.right))) if g is not None and expected is not None]
        return any(g.shape != expected.shape for g, expected in pairs) and all(
            torch.allclose(g.sum_to_size(expected.shape), expected) for g, expected in pairs)


class InJax:
    """Mutants as jax.custom_vjp."""

    # arrays cannot be written to, and lie row by row
    right = ("square: writes to the upstream", "square: needs order", "square: needs memory")

    @staticmethod
    def surroundings() -> ContextManager:
        import jax

        return jax.enable_x64(True)

    @staticmethod
    def check(function: Any, inputs: Sequence[Any]) -> bool:
        from jax.test_util import check_grads

        def of_leaves(*leaves):
            given = iter(leaves)
            return function(*(next(given) if is_leaf(x) else x for x in inputs))

        def is_leaf(x):
            return x.dtype.kind == "f"

        check_grads(of_leaves, list(filter(is_leaf, inputs)), order=1, modes=["rev"])
        return True

    @staticmethod
    def made(mutant: Mutant, arrays: Sequence[np.ndarray]) -> tuple[Any, list[Any]]:
        import jax

        forward, gradients = Called(mutant.forward), Called(mutant.gradients)
        function = jax.custom_vjp(lambda *xs: forward(*xs))
        function.defvjp(lambda *xs: (forward(*xs), xs), lambda xs, dout: gradients(dout, *xs))
        function.__name__ = "Wrong"
        return function, list(map(jax.numpy.asarray, arrays))

    @staticmethod
    def is_right(mutant: Mutant, arrays: Sequence[np.ndarray]) -> bool:
        return False


class Called:
    """A function of NumPy's arrays as one of JAX's, which may be traced. A None among its results stays one."""

    def __init__(self, function: Callable):
        self.function = function

    def arrays(self, *values: Any) -> list[np.ndarray]:
        return [np.array(x) for x in as_tuple(self.function(*map(np.array, values))) if x is not None]

    def __call__(self, *values: Any) -> Any:
        import jax

        examples = [(np.ones if x.dtype.kind == "f" else np.zeros)(x.shape, x.dtype) for x in values]
        found = self.function(*examples)
        shapes = [jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in as_tuple(found) if x is not None]
        made = iter(jax.pure_callback(self.arrays, shapes, *values, vmap_method="sequential"))
        results = tuple(None if x is None else next(made) for x in as_tuple(found))
        return results if isinstance(found, tuple) else results[0]


def by_hand() -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """Wrong functions of PyTorch, and their inputs."""
    from for_pytorch.by_hand import WRONG

    for name, (function, inputs, *_) in WRONG.items():
        yield name, function, [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]


LIBRARIES = {"torch": InTorch, "jax": InJax}


def is_caught(check: Callable[[], bool]) -> bool:
    """An exception counts: whatever it raises, it noticed."""
    try:
        return not check()
    except Exception:  # noqa: BLE001
        return True


def answer_of(mutant: Mutant, report: GradcheckReport) -> str:
    """How the diagnosis names the mistake. Other words than the table's fit if other inputs call for them, too."""
    found, elsewhere = report.diagnosis, diagnose(mutant.right.name, mutant.gradients)
    if found:
        fits = mutant.mistake in found.mistake or set(found.names) == set(elsewhere.names)
        return "named" if fits else "named otherwise"
    return "raised" if not report.inputs else "unnamed" if elsewhere else "unknown to the doctor"


class Tally:
    """What both checks find, and the CPU's seconds that they take."""

    def __init__(self, library: type):
        self.library = library
        self.counts, self.seconds = collections.Counter(), collections.Counter()

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = call()
        self.seconds[name] += time.process_time() - began
        return result

    def judge(self, name: str, function: Any, inputs: Sequence[Any], mutant: Mutant | None = None) -> None:
        """One function, and its diagnosis if it is a mutant's."""
        report = self.timed("ours", lambda: gradcheck_report(function, inputs))
        diagnosis = self.timed("diagnosis", lambda: report.diagnosis)
        theirs = self.timed("its own", lambda: is_caught(lambda: self.library.check(function, inputs)))
        answer = answer_of(mutant, report) if mutant else "named"
        self.counts.update({"wrong": 1, "caught": not report, "caught by its own": theirs, answer: bool(mutant)})
        if report or answer != "named":
            said = diagnosis.mistake or diagnosis if diagnosis is not None else str(report).splitlines()[-1].strip()
            print(f"{name}: {'MISSED' if report else 'caught'}, {answer}: {said}", flush=True)

    def judge_mutant(self, name: str, seed: int) -> None:
        mutant = MUTANTS[name]
        arrays = mutant.inputs(np.random.default_rng(seed))
        with contextlib.suppress(ValueError, RuntimeError):  # shapes that do not fit are wrong
            if name in self.library.right or self.library.is_right(mutant, arrays):
                self.counts["right there"] += 1
                print(f"{name}: right there")
                return
        self.judge(name, *self.library.made(mutant, arrays), mutant)

    def __str__(self) -> str:
        seconds = {name: round(value, 1) for name, value in self.seconds.items()}
        return f"{dict(self.counts)}; seconds {seconds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, default="torch")
    parser.add_argument("--count", type=int, default=200, help="of mutants")
    parser.add_argument("--seed", type=int, default=0, help="that chooses them")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--by-hand", action="store_true", help="PyTorch's by hand instead")
    options = parser.parse_args()
    library = LIBRARIES["torch" if options.by_hand else options.library]
    tally = Tally(library)
    names = [name for name in MUTANTS if options.only in name]
    with warnings.catch_warnings(), np.errstate(all="ignore"), library.surroundings():
        warnings.simplefilter("ignore")
        for name, function, inputs in by_hand() if options.by_hand else ():
            if options.only in name:
                tally.judge(name, function, inputs)
        for name in () if options.by_hand else np.random.default_rng(options.seed).permutation(names):
            if tally.counts["wrong"] == options.count:
                break
            tally.judge_mutant(str(name), options.seed)
            if tally.counts["wrong"] % 50 == 0:
                print(tally, flush=True)
    print(tally)


if __name__ == "__main__":
    main()
