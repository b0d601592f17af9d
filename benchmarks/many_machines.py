"""Training on several ranks: the time of a step and of its communication here, and an estimate for 2 to 64 machines.

    mpiexec -n 2 python -m benchmarks.many_machines step --preset nano --threads 1  # compare: one process, --threads 2
    mpiexec -n 2 python -m benchmarks.many_machines allreduce
    python -m benchmarks.many_machines paper

`step` alternates between five kinds of step. "overlapped" is that of `minigrad train`; in "thread" a separate thread waits
for MPI; in "after" nothing is sent before backward has ended; "none" has no communication; "alone" is communication without
a step. The hidden part is 1 - (overlapped - none) / alone.
"""
import argparse
import queue
import statistics
import threading
from collections.abc import Callable

import numpy as np

import minigrad as mg
from benchmarks.common import seconds_of
from models import PRESETS, Trainer, TrainingConfig, load_corpus
from models.architectures import make_model
from models.distributed import BUCKET_BYTES, GradientSums, Ranks, connected

# A step of one machine of two cores, compiled, in seconds, from docs/benchmarks.md.
SECONDS = {"nano": 0.0288, "small": 0.244, "baby": 2.086}
BACKWARD = 2 / 3  # of a step, which can hide communication
LINKS = {"10 Gbit/s": (1.25e9, 30e-6), "100 Gbit/s": (12.5e9, 5e-6)}  # bytes per second, seconds of latency
MACHINES = 2, 4, 8, 16, 32, 64


class Kinds(GradientSums):
    """Sums gradients in one of several ways."""

    kind = "overlapped"

    def __enter__(self) -> None:
        super().__enter__()
        self.sent = 0
        if self.kind == "thread" and not hasattr(self, "todo"):
            self.todo: queue.Queue = queue.Queue()
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self.ranks.communicator.Allreduce(self.ranks.mpi.IN_PLACE, self.todo.get())
            self.todo.task_done()

    def _arrived(self, parameter) -> None:
        if self.kind == "overlapped":
            super()._arrived(parameter)
        elif self.is_open:
            self._put_into_bucket(parameter)
            self.missing[self.bucket_of[parameter]].discard(parameter)
            while self.kind == "thread" and self.sent < len(self.buckets) and not self.missing[self.sent]:
                self.todo.put(self.buckets[self.sent])
                self.sent += 1

    def __exit__(self, *exception) -> None:
        if self.kind in ("overlapped", "after"):
            super().__exit__(*exception)
        self.is_open = False
        if self.kind == "thread":
            self.todo.join()

    def alone(self) -> None:
        super().__enter__()
        super().__exit__(None)


def median(function: Callable[[], object], times: int) -> float:
    return statistics.median(seconds_of(function) for _ in range(times))


def step(ranks, options: argparse.Namespace) -> None:
    """Print the median times of the kinds of steps, in milliseconds."""
    mg.set_num_threads(options.threads)
    preset = PRESETS[options.preset]
    corpus = load_corpus(None, preset.config.context)
    training = TrainingConfig(batch_size=preset.batch_size, steps=10**6, eval_every=10**6)
    trainer = Trainer(make_model(None, "causal", preset.config, 0), corpus, training, ranks=ranks)
    if ranks.size == 1:
        trainer.train_step()
        seconds = median(trainer.train_step, options.steps)
        print(f"{options.preset}: 1 rank, {options.threads} threads: {1e3 * seconds:.2f} ms")
        return
    for parameter in trainer.model.parameters():
        parameter.node.accumulation_hooks = ()  # removes the trainer's
    sums = trainer._summing_gradients = Kinds(ranks, list(trainer.model.parameters()))
    trainer.train_step()
    found: dict[str, list[float]] = {kind: [] for kind in ("overlapped", "thread", "after", "none", "alone")}
    for _ in range(options.rounds):
        for kind, seconds in found.items():
            sums.kind = "overlapped" if kind == "alone" else kind
            ranks.wait()
            seconds.append(median(sums.alone if kind == "alone" else trainer.train_step, options.steps))
    if ranks.is_first:
        best = {kind: min(seconds) for kind, seconds in found.items()}
        print(f"{options.preset}: {ranks.size} ranks, {options.threads} threads each, {len(sums.buckets)} buckets, "
              f"{sum(bucket.nbytes for bucket in sums.buckets) / 1e6:.1f} MB; ms: "
              + ", ".join(f"{kind} {1e3 * seconds:.2f}" for kind, seconds in best.items())
              + "; hidden: " + ", ".join(f"{kind} {1 - (best[kind] - best['none']) / best['alone']:.0%}"
                                         for kind in ("overlapped", "thread", "after")))


def allreduce(ranks: Ranks, options: argparse.Namespace) -> None:
    """Print the time and bandwidth of sums of several sizes."""
    for size in (4, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24):
        array = np.ones(size // 4, np.float32)

        def summed(array=array):
            ranks.finish([ranks.communicator.Iallreduce(ranks.mpi.IN_PLACE, array)])

        summed()
        ranks.wait()
        seconds = median(summed, options.steps)
        array[...] = 0
        if ranks.is_first:
            print(f"{size:>10,} bytes: {1e6 * seconds:>9.1f} us, {size / seconds / 1e9:6.2f} GB/s")


def communication(machines: int, bytes_: float, bandwidth: float, latency: float) -> float:
    """Seconds for a sum over machines, in a ring (each sends 2 (N - 1) parts of 1 / N to its neighbour) or, for small sums,
    in a tree (2 log2 N times the whole)."""
    ring = 2 * (machines - 1) * (latency + bytes_ / machines / bandwidth)
    return min(ring, 2 * np.log2(machines) * (latency + bytes_ / bandwidth))


def paper() -> None:
    """Print two tables of the efficiency of N machines: their speed divided by N times that of one."""
    table("Each machine has a batch as large as the preset's:", lambda name, machines: 1.0)
    table("The preset's batch is divided among the machines:",
          lambda name, machines: None if PRESETS[name].batch_size % machines else 1 / machines)


def table(title: str, share: Callable[[str, int], float | None]) -> None:
    """Print efficiencies if nothing is hidden, and if backward hides all it can. `share` is the part of one machine's step
    that each of N machines computes."""
    print(f"{title}\n\n| preset | parameters | step | link | {' | '.join(f'N = {n}' for n in MACHINES)} |")
    print("|---" * (4 + len(MACHINES)) + "|")
    for name, seconds in SECONDS.items():
        count = PRESETS[name].config.parameter_count()
        for link, (bandwidth, latency) in LINKS.items():
            cells = []
            for machines in MACHINES:
                part = share(name, machines)
                if part is None:
                    cells.append("")
                    continue
                own = part * seconds
                whole = communication(machines, 4 * count, bandwidth, latency)
                last = communication(machines, min(4 * count, BUCKET_BYTES), bandwidth, latency)  # is sent after backward
                exposed = max(last, whole - BACKWARD * own)
                cells.append(f"{own / (own + whole):.0%} to {own / (own + exposed):.0%}")
            print(f"| {name} | {count / 1e6:.1f} M | {1e3 * seconds:.0f} ms | {link} | {' | '.join(cells)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["step", "allreduce", "paper"])
    parser.add_argument("--preset", choices=PRESETS, default="nano")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30, help="of which the median is taken")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best is taken")
    options = parser.parse_args()
    if options.what == "paper":
        paper()
        return
    with connected() as ranks:
        {"step": step, "allreduce": allreduce}[options.what](ranks, options)


if __name__ == "__main__":
    main()
