"""The cost of dropout in a training step: python -m benchmarks.dropout [PRESET ...]

The ratio of a step with dropout 0.1 (after the embedding, on attention weights, on the output of each sublayer) to one
without, here and in PyTorch: the median over rounds in which the two alternate.
"""
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks import minigrad_steps, torch_steps
from benchmarks.common import seconds_of
from models import PRESETS

SECONDS = 4  # for each row


def compare(plain: Callable[[], list], dropping: Callable[[], list]) -> tuple[float, float, float]:
    """(ms without, ms with, ratio)."""
    for step in (plain, dropping, plain, dropping):  # compiles
        step()
    rounds, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(rounds) < 3:
        a, b, c, d = (1e3 * seconds_of(step) for step in (plain, dropping, dropping, plain))
        rounds.append(((a + d) / 2, (b + c) / 2))
    return (*map(statistics.median, zip(*rounds)), statistics.median(b / a for a, b in rounds))


def main() -> None:
    steps = {
        "minigrad": minigrad_steps.training_step,
        "compiled": lambda *arguments: minigrad_steps.training_step(*arguments, compiled=True),
        "PyTorch": torch_steps.training_step,
    }
    print("preset  library   without, ms  with, ms  ratio")
    for name in sys.argv[1:] or ("nano", "small", "baby"):
        preset = PRESETS[name]
        sizes = [dataclasses.asdict(preset.config) | {"dropout": p} for p in (0.0, 0.1)]
        for library, make in steps.items():
            without, dropping, ratio = compare(*(make(each, preset.batch_size) for each in sizes))
            print(f"{name:6s}  {library:8s}  {without:11.2f}  {dropping:8.2f}  {ratio:5.3f}", flush=True)


if __name__ == "__main__":
    main()
