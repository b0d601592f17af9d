"""Contestants run in separate processes and take turns in short blocks, so that drift of the machine affects all alike."""
import contextlib
import dataclasses
import os
import pathlib
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from minigrad.drawing.figures import CURVES

BLOCK_SECONDS = 0.2
STEPS_COMPARED = 3
# All contestants keep freed memory for the next step: `minigrad train` does so, and its peers gain from it too.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


@dataclasses.dataclass(frozen=True)
class Contestant:
    """Its package, our module that builds its steps, options for that, and its colour in plots."""

    package: str
    module: str
    colour: str
    options: dict = dataclasses.field(default_factory=dict)
    is_peer: bool = True


CONTESTANTS = {
    "minigrad": Contestant("minigrad", "minigrad_steps", CURVES[0], is_peer=False),
    "compiled": Contestant("minigrad", "minigrad_steps", CURVES[5], {"compiled": True}, is_peer=False),
    "PyTorch": Contestant("torch", "torch_steps", CURVES[1]),
    "torch.compile": Contestant("torch", "torch_steps", CURVES[3], {"compiled": True}),
    "ours in bfloat16": Contestant("minigrad", "minigrad_steps", CURVES[0], {"compiled": True, "precision": "bfloat16"},
                                   is_peer=False),
    "PyTorch in bfloat16": Contestant("torch", "torch_steps", CURVES[4], {"precision": "bfloat16"}),
    "JAX": Contestant("jax", "jax_steps", CURVES[2]),
    "Hugging Face": Contestant("transformers", "huggingface_steps", CURVES[7]),
}


@dataclasses.dataclass(frozen=True)
class Effort:
    """Seconds per contestant and case, the least number of rounds, and the number of threads."""

    seconds: float
    least_rounds: int
    threads: int

    def rounds(self, contestants: int = 1) -> Iterator[None]:
        """A turn at a time, until the time is up."""
        end = time.perf_counter() + self.seconds * contestants
        done = 0
        while done < self.least_rounds or time.perf_counter() < end:
            yield
            done += 1


@dataclasses.dataclass(frozen=True)
class Case:
    """A line of a table: the function in each contestant's module that builds the step, and its arguments.

    `measure(case, effort)` returns each contestant's samples; a table shows scale * sample.
    """

    group: str
    name: str | int  # a number if it is the x axis of a plot
    function: str
    arguments: dict
    contestants: tuple[str, ...]
    measure: Callable[["Case", Effort], dict[str, np.ndarray]]
    scale: float = 1.0
    threads: int | None = None  # unless those of the effort
    tolerance: float = 2e-4  # between contestants' results, relative to the largest entry of the array

    def __str__(self) -> str:
        return f"{self.group} {self.name}".strip()


class ContestError(Exception):
    """A contestant failed, or its results differ from the others'."""


class Worker:
    """The process of a contestant."""

    def __init__(self, name: str, case: Case, threads: int, environment: dict[str, str] | None):
        self.name, self.case = name, case
        counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
        root = str(pathlib.Path(__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), **counts,
                 **ALLOCATOR, **(environment or {})})
        contestant = CONTESTANTS[name]
        self.send("build", f"benchmarks.{contestant.module}", case.function, case.arguments | contestant.options,
                  threads)

    def send(self, method: str, *arguments) -> None:
        """Call a method of `worker.Session`."""
        pickle.dump((method, *arguments), self.process.stdin)
        self.process.stdin.flush()

    def receive(self):
        """The result of the call."""
        try:
            return pickle.load(self.process.stdout)
        except EOFError:
            raise ContestError(f"{self.case}: {self.name} failed, see above") from None

    def call(self, method: str, *arguments):
        self.send(method, *arguments)
        return self.receive()


@contextlib.contextmanager
def workers(names: tuple[str, ...], case: Case, threads: int,
            environment: dict[str, str] | None = None) -> Iterator[list[Worker]]:
    """A worker for each contestant; all start at the same time."""
    started = [Worker(name, case, threads, environment) for name in names]
    try:
        for worker in started:
            worker.receive()
        yield started
    finally:
        for worker in started:
            worker.process.communicate()  # closes its input, which ends it


def time_in_turns(case: Case, effort: Effort) -> dict[str, np.ndarray]:
    """The seconds of each contestant's steps, once their results have been compared."""
    with workers(case.contestants, case, effort.threads) as started:
        for worker in started:
            worker.send("results", STEPS_COMPARED)
        compare({worker.name: worker.receive() for worker in started}, case)
        blocks = {worker.name: [] for worker in started}
        for _ in effort.rounds(len(started)):
            for worker in started:
                blocks[worker.name].append(worker.call("time", BLOCK_SECONDS))
    return {name: np.concatenate(own) for name, own in blocks.items()}


def compare(results: dict[str, list[list[np.ndarray]]], case: Case) -> None:
    """ContestError unless all contestants computed the same arrays, within rounding."""
    (first, expected), *others = results.items()
    for name, steps in others:
        for number, (ours, theirs) in enumerate(zip(expected, steps, strict=True), 1):
            for a, b in zip(ours, theirs, strict=True):
                error = np.max(np.abs(a - b)) / np.max(np.abs(a)) if a.shape == b.shape else np.inf
                if not error <= case.tolerance:
                    raise ContestError(f"{case}, step {number}: {first} and {name} differ by {error:.1e}, in arrays "
                                       f"of shapes {a.shape} and {b.shape}")


def summarise(case: Case, samples: dict[str, np.ndarray]) -> list[dict]:
    """A row for each contestant: median, quartiles, and the ratio of times to the fastest peer's, below 1 if faster."""
    times = {name: np.percentile(own, [25, 50, 75]) for name, own in samples.items()}
    best = min((own[1] for name, own in times.items() if CONTESTANTS[name].is_peer), default=np.nan)
    rows = []
    for name, own in times.items():
        low, median, high = case.scale * own
        rows.append(dict(group=case.group, case=case.name, contestant=name, median=median, quartiles=[low, high],
                         n=len(samples[name]), ratio=own[1] / best))
    return rows
