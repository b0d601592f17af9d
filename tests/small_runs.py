"""Flags of runs that take a moment, and comparisons of their results, times aside."""
import json
import pathlib

import numpy as np

from models import checkpoint as checkpoints
from models import run as runs

SIZES = "--layers", 1, "--heads", 2, "--width", 8
STEPS = "--steps", 6, "--batch-size", 4, "--eval-every", 2, "--eval-windows", 6
COPY = "--task", "copy", *SIZES, *STEPS
TEXT = "--context", 16, "--recipe", "nanogpt", *SIZES, *STEPS  # and --text
CLOCK = "tokens_per_second", "seconds"


def metrics_of(folder: str | pathlib.Path) -> list[dict]:
    """The rows of metrics.jsonl."""
    rows = [json.loads(line) for line in pathlib.Path(folder, runs.METRICS).read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in rows]


def assert_same_runs(one: str | pathlib.Path, other: str | pathlib.Path) -> None:
    """AssertionError if metrics, checkpoints or samples differ in any bit."""
    assert metrics_of(one) == metrics_of(other)
    for best in (False, True):
        a, b = checkpoints.load(one, best), checkpoints.load(other, best)
        assert (a.step, a.best_loss, a.generators) == (b.step, b.best_loss, b.generators)
        for group in a.ARRAYS:
            assert all(np.array_equal(array, getattr(b, group)[name]) for name, array in getattr(a, group).items())
    assert pathlib.Path(one, runs.SAMPLE).read_text() == pathlib.Path(other, runs.SAMPLE).read_text()
