"""Measurements of one contestant at a time, in fresh processes: imports, the first step, memory."""
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.contest import CONTESTANTS, Case, Effort, workers

MEMORY_STEPS = 30
IMPORT = "import time; started = time.perf_counter(); import {}; print(time.perf_counter() - started)"


def seconds_to_import(case: Case, effort: Effort) -> dict[str, np.ndarray]:
    """The seconds that importing each contestant's package takes."""
    commands = {name: [sys.executable, "-c", IMPORT.format(CONTESTANTS[name].package)] for name in case.contestants}
    return {name: np.array([float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                            for _ in effort.rounds()]) for name, command in commands.items()}


def seconds_to_first_step(case: Case, effort: Effort, is_warm: bool) -> dict[str, np.ndarray]:
    """The seconds from the start of a process to the end of the first step, with and without compiled code on disk."""
    seconds = {}
    for name in case.contestants:
        with tempfile.TemporaryDirectory() as folder:
            if is_warm:
                first_step(name, case, effort.threads, folder)
            seconds[name] = np.array([
                first_step(name, case, effort.threads, folder if is_warm else tempfile.mkdtemp(dir=folder))
                for _ in effort.rounds()])
    return seconds


def first_step(name: str, case: Case, threads: int, folder: str) -> float:
    """The seconds to the end of the first step, with compiled code cached in the folder."""
    caches = dict(NUMBA_CACHE_DIR=folder, TORCHINDUCTOR_CACHE_DIR=folder, JAX_COMPILATION_CACHE_DIR=folder,
                  JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    started = time.perf_counter()
    with workers((name,), case, threads, caches) as (worker,):
        worker.call("results", 1)
        return time.perf_counter() - started


def peak_memory(case: Case, effort: Effort) -> dict[str, np.ndarray]:
    """Each contestant's peak memory over some steps, in megabytes, with compiled code on disk."""

    def run(name: str) -> float:
        with workers((name,), case, effort.threads) as (worker,):
            worker.call("results", MEMORY_STEPS)
            return worker.call("peak_megabytes")

    for name in case.contestants:
        run(name)  # compiles
    return {name: np.array([run(name) for _ in range(effort.least_rounds)]) for name in case.contestants}
