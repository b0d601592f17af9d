"""Does every kernel compute the same bits in every process? Processes that are killed while they compile show it.

    python tests/check_same_bits.py [--processes 20] [--cpu host haswell ...] [--jobs 2] [--only LayerNorm]

For each CPU that kernels are compiled for, processes start on one kernel cache, empty at first. Each runs all rows of
tests/cases.py, forward and backward, decoding and trainings, in an order of its own, so that each compiles and loads the
kernels in another order; some are killed at a random moment, and between them files of the cache are damaged. All that
finish must have the same bits. Between CPUs bits may differ: how much is printed.
"""
import argparse
import collections
import concurrent.futures
import importlib
import os
import pathlib
import pkgutil
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
AVX2 = "+sse4.2,+popcnt,+avx,+avx2,+fma,+bmi,+bmi2,+lzcnt,+f16c"
AVX512 = f"{AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
CPUS = {  # what Numba is told to compile for; the processor at hand must be able to run it
    "host": {},
    "skylake-avx512": {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": AVX512},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": AVX2},
}


def probes() -> dict[str, Callable[[], list[np.ndarray]]]:
    """What a process computes, by name."""
    from cases import CASES

    found = {}
    for dtype in "float32", "float64":
        for i, case in enumerate(CASES):
            found[f"{i}-{case}-{dtype}"] = lambda case=case, dtype=dtype: forward_and_backward(case, dtype)
        found[f"decode-{dtype}"] = lambda dtype=dtype: decoded(dtype)
        found[f"train-wide-{dtype}"] = lambda dtype=dtype: trained("micro", 2, dtype=dtype, width=128, context=64)
    return found | {"train-micro": lambda: trained("micro", 20)}


def forward_and_backward(case, dtype: str) -> list[np.ndarray]:
    """The result of an operation, and its gradients."""
    from minigrad import Tensor
    from minigrad.tensor import apply
    from naive import Constant

    inputs = [Tensor(x.astype(dtype), requires_grad=not isinstance(x, Constant)) if isinstance(x, np.ndarray) else x
              for x in case.inputs]
    out = apply(case.op, *inputs, **case.options)
    out.backward(Tensor(np.random.default_rng(3).standard_normal(out.shape), dtype=out.dtype))
    return [out.array] + [x.grad.array for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def make_model(preset: str, **fields):
    """A seeded transformer of a preset's sizes, or of others."""
    import dataclasses

    import minigrad as mg
    from models.transformer import PRESETS, CausalTransformer

    mg.manual_seed(0)
    return CausalTransformer(dataclasses.replace(PRESETS[preset].config, **fields))


def decoded(dtype: str) -> list[np.ndarray]:
    """Logits after a prompt, and token by token; for one sequence and for several."""
    from models.decode import Decoder

    model, logits = make_model("micro", width=128, dtype=dtype), []
    for batch_size in 1, 5:
        decoder, tokens = Decoder(model, batch_size), np.random.default_rng(1).integers(96, size=(batch_size, 32))
        logits += [decoder.logits(tokens[:, :end]) for end in (20, 21, 22, 32)]
    return logits


def trained(preset: str, steps: int, **fields) -> list[np.ndarray]:
    """The parameters after some steps of training, as the command does them."""
    from models.data import load_corpus
    from models.train import Trainer, TrainingConfig

    model = make_model(preset, **fields)
    trainer = Trainer(model, load_corpus(), model.config.context, TrainingConfig(steps=steps, batch_size=4, seed=0))
    for _ in range(steps):
        trainer.train_step()
    return [parameter.array for parameter in model.parameters()]


def kernels_never_run() -> list[str]:
    """The kernels of minigrad that this process has not used."""
    import minigrad.kernels

    names = []
    for module in pkgutil.iter_modules(minigrad.kernels.__path__):
        for name, value in vars(importlib.import_module(f"minigrad.kernels.{module.name}")).items():
            if hasattr(value, "ungated") and value.__module__.endswith(f".{module.name}") and not value.dispatcher.overloads:
                names.append(f"{module.name}.{name}")
    return names


def compute(path: str, order: int, only: str) -> int:
    """What each process does: all probes in the order of that number, into an .npz file."""
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


def run(cache: pathlib.Path, order: int, cpu: str = "host", only: str = "", timeout: float | None = None):
    """The arrays that a new process computes, by name; None if it is killed after `timeout` seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "results.npz"
        command = [sys.executable, __file__, "--compute", str(path), "--seed", str(order), "--only", only]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        try:
            subprocess.run(command, env=environment | CPUS[cpu], timeout=timeout, check=True, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"a process of order {order} on {cpu} ended with {error.returncode}: "
                               f"{error.stderr[-2000:]}") from None
        return dict(np.load(path))


def damage(cache: pathlib.Path, chance: random.Random) -> int:
    """Delete, cut, change or exchange a third of the cache's files, as crashes and full disks do; how many."""
    files = sorted(cache.rglob("*.bin"))
    chosen = chance.sample(files, len(files) // 3)
    for file in chosen:
        kind = chance.choice(["deleted", "cut", "changed", "another's"])
        try:
            content = bytearray(file.read_bytes())
            if kind == "deleted":
                file.unlink()
            elif kind == "another's":
                shutil.copy(chance.choice(files), file)
            else:
                place = chance.randrange(len(content))
                content[place] ^= 1
                file.write_bytes(content[:place] if kind == "cut" else content)
        except OSError:  # another process has replaced it
            pass
    return len(chosen)


def differing(runs: list[dict[str, np.ndarray]]) -> list[str]:
    """The names of what is not the same, bit by bit, in all runs."""
    kinds = collections.defaultdict(set)
    for results in runs:
        for name, array in results.items():
            kinds[name].add((array.dtype.str, array.shape, array.tobytes()))
    return sorted(name for name in kinds if len(kinds[name]) > 1 or any(name not in results for results in runs))


def check_cpu(cpu: str, options: argparse.Namespace) -> list[dict[str, np.ndarray]]:
    """The results of all processes that were not killed."""
    chance, lock = random.Random(options.seed), threading.Lock()
    plan = [(order, chance.uniform(1, 40) if order % 3 == 1 else None) for order in range(options.processes)]
    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:

        def one(order: int, timeout: float | None):
            results = run(pathlib.Path(cache), order, cpu, options.only, timeout)
            with lock:
                damaged = damage(pathlib.Path(cache), chance)
            state = "killed" if results is None else "finished"
            print(f"{cpu}: process {order} {state}, {damaged} files damaged", file=sys.stderr, flush=True)
            return results

        return [results for results in pool.map(one, *zip(*plan)) if results is not None]


def compare_cpus(results: dict[str, dict[str, np.ndarray]]) -> None:
    """Print how far the results of each CPU are from the first one's."""
    (first, expected), *others = results.items()
    for cpu, got in others:
        names = differing([expected, got])
        distances = [np.max(np.abs(got[name] - expected[name]), initial=0) / np.max(np.abs(expected[name]), initial=1e-30)
                     for name in names if got[name].dtype == np.float32 and not name.startswith("train")]
        print(f"{cpu} and {first}: {len(names)} of {len(expected)} arrays have other bits; float32 results of one "
              f"operation by up to {max(distances, default=0.0):.1e} of their largest element")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20, help="how many for each CPU (default: 20)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--cpu", nargs="+", choices=CPUS, default=["host"], help="CPUs to compile for (default: host)")
    parser.add_argument("--only", default="", help="probes whose name contains this")
    parser.add_argument("--seed", type=int, default=0, help="of orders, kills and damage (default: 0)")
    parser.add_argument("--compute", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compute:
        return compute(options.compute, options.seed, options.only)
    wrong, first_of = 0, {}
    for cpu in options.cpu:
        runs = check_cpu(cpu, options)
        names = differing(runs)
        first_of[cpu], wrong = runs[0], wrong + len(names)
        print(f"{cpu}: {len(runs)} of {options.processes} processes finished; "
              f"{len(names)} of {len(runs[0])} arrays differ {' '.join(names[:10])}", flush=True)
    compare_cpus(first_of)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
