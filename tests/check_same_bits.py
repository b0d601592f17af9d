"""Does every kernel compute the same bits in every process, even if processes are killed while they compile?

    python tests/check_same_bits.py [--processes 20] [--cpu host haswell ...] [--jobs 2] [--only LayerNorm]

For each CPU that kernels are compiled for, processes share a kernel cache, which is empty at first. Each computes all of
tests/probes.py in its own order, so each compiles and loads the kernels in a different order; some are killed at a random
moment, and in between files of the cache are damaged. All that finish must have the same bits. Between CPUs bits may differ;
by how much is printed.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
AVX2 = "+sse4.2,+popcnt,+avx,+avx2,+fma,+bmi,+bmi2,+lzcnt,+f16c"
AVX512 = f"{AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
CPUS = {  # what Numba is told to compile for; the processor at hand must be able to run it
    "host": {},
    "skylake-avx512": {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": AVX512},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": AVX2},
}


def run(cache: pathlib.Path, order: int, cpu: str = "host", only: str = "", timeout: float | None = None):
    """The arrays that a new process computes, by name; None if it is killed after `timeout` seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "results.npz"
        command = [sys.executable, ROOT / "tests/probes.py", path, str(order), only]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)} | CPUS[cpu]
        try:
            subprocess.run(command, env=environment, timeout=timeout, check=True, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"a process of order {order} on {cpu} ended with {error.returncode}: "
                               f"{error.stderr[-2000:]}") from None
        return dict(np.load(path))


def damage(cache: pathlib.Path, chance: random.Random) -> int:
    """Delete, truncate, change or swap a third of the cache's files, as crashes and full disks do; return how many."""
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
                i = chance.randrange(len(content))
                content[i] ^= 1
                file.write_bytes(content[:i] if kind == "cut" else content)
        except OSError:  # another process has replaced it
            pass
    return len(chosen)


def differing(runs: list[dict[str, np.ndarray]]) -> list[str]:
    """The names of arrays that are not the same, bit by bit, in all runs."""
    kinds = collections.defaultdict(set)
    for results in runs:
        for name, array in results.items():
            kinds[name].add((array.dtype.str, array.shape, array.tobytes()))
    return sorted(name for name in kinds if len(kinds[name]) > 1 or any(name not in results for results in runs))


def check_cpu(cpu: str, options: argparse.Namespace) -> list[dict[str, np.ndarray]]:
    """The results of all processes that finished."""
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
        distances = [np.max(np.abs(got[name] - expected[name])) / np.max(np.abs(expected[name]))
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
    options = parser.parse_args()
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
