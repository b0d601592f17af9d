"""The folder of a run: checkpoint.npz, metrics.jsonl, loss.png and sample.txt, and the loop that fills it."""
import contextlib
import json
import math
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator

import numpy as np
import tqdm

from minigrad.figures import new_figure
from models import checkpoint as checkpoints
from models.generate import generate
from models.train import Trainer

METRICS, PLOT, SAMPLE = "metrics.jsonl", "loss.png", "sample.txt"
FILES = checkpoints.NAME, checkpoints.PREVIOUS, METRICS, PLOT, SAMPLE
SAMPLE_LENGTH = 300  # characters in sample.txt
LAST_CHARACTERS = 1_000_000  # of the validation text, in the last evaluation: seconds, or a few minutes for large models
SECONDS_BETWEEN_LINES = 10  # of progress, when there is no terminal for a bar


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed, and a checkpoint saved."""


def train(trainer: Trainer, folder: pathlib.Path) -> None:
    """Train to the last step, then print the losses, a sample, and where things are.

    Interrupted after Ctrl-C; TrainingError and CheckpointError if it cannot go on. The last checkpoint stays.
    """
    started = time.perf_counter()
    if trainer.step == 0:
        checkpoints.save(folder, trainer.checkpoint())  # from now on the run can be resumed, whatever happens
    with keep_metrics(folder / METRICS, trainer.step) as metrics, show_progress(trainer) as show, \
            catch_interrupt() as interrupted:
        row = None
        while not trainer.is_finished():
            row = trainer.train_step()
            is_stop = trainer.step % trainer.config.eval_every == 0 or trainer.is_finished()
            if is_stop:
                limit = last_windows(trainer) if trainer.is_finished() else trainer.config.eval_windows
                row["val_loss"] = trainer.evaluate(trainer.corpus.validation, limit)
            metrics.write(json.dumps(row) + "\n")
            show(row)
            if is_stop or interrupted:
                metrics.flush()
                checkpoints.save(folder, trainer.checkpoint())
            if interrupted:
                raise Interrupted(f"stopped after step {trainer.step}; the checkpoint is saved: go on with "
                                  f"--resume {folder}")
    report(trainer, folder, row, time.perf_counter() - started)


def last_windows(trainer: Trainer) -> int:
    """How many windows of the validation text the last evaluation takes: all, unless the text is very long."""
    return max(trainer.config.eval_windows, -(-LAST_CHARACTERS // trainer.context))


def report(trainer: Trainer, folder: pathlib.Path, row: dict | None, seconds: float) -> None:
    """Draw the losses, write a sample, and say what came out and where; `row` is of the last step, if just done."""
    total, seen = len(trainer.corpus.validation), last_windows(trainer) * trainer.context
    share = f"all {total:,} characters" if seen >= total - 1 else f"{seen:,} of {total:,} characters, evenly spread"
    validation_loss = row["val_loss"] if row else trainer.evaluate(trainer.corpus.validation, last_windows(trainer))
    training_loss = trainer.evaluate(trainer.corpus.train, trainer.config.eval_windows)
    plot_losses(folder / METRICS, folder / PLOT)
    vocabulary = trainer.corpus.vocabulary
    ids = generate(trainer.model, [0], SAMPLE_LENGTH, temperature=0.8, seed=trainer.config.seed)
    text = vocabulary.decode(ids)
    (folder / SAMPLE).write_text(text + "\n", encoding="utf-8")
    print(text)
    print(f"\n{trainer.step} steps in {seconds:.1f} s; training loss {training_loss:.4f}, validation loss "
          f"{validation_loss:.4f} ({share})")
    print(f"{folder}{os.sep} holds {checkpoints.NAME}, {METRICS}, {PLOT} and {SAMPLE}; go on with: "
          f"minigrad sample --checkpoint {folder}")


@contextlib.contextmanager
def keep_metrics(path: pathlib.Path, step: int):
    """Open metrics.jsonl for appending, without the lines that are later than a resumed checkpoint."""
    kept = [line for line, row in read_metrics(path) if row["step"] <= step]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, path)
    with open(path, "a", buffering=1, encoding="utf-8") as file:
        yield file


def read_metrics(path: pathlib.Path) -> list[tuple[str, dict]]:
    """The lines of metrics.jsonl, each with what it says; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [(line, json.loads(line)) for line in lines if line.endswith("}\n")]


@contextlib.contextmanager
def catch_interrupt() -> Iterator[list]:
    """A list that is empty until Ctrl-C; the second Ctrl-C stops at once, as ever."""
    pressed = []

    def remember(number, frame):
        pressed.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def show_progress(trainer: Trainer):
    """Yield a function that shows a row of metrics: a bar on a terminal, otherwise a line now and then."""
    total = trainer.config.steps
    last_line = time.monotonic() - SECONDS_BETWEEN_LINES
    validation = ""

    def describe(row):
        nonlocal validation
        if row["val_loss"] is not None:
            validation = f", validation loss {row['val_loss']:.3f}"
        return f"loss {row['loss']:.3f}{validation}, {row['tokens_per_second']:,} tokens/s"

    def show_bar(row):
        bar.set_postfix_str(describe(row), refresh=False)
        bar.update()

    def show_line(row):
        nonlocal last_line
        text = describe(row)
        if row["val_loss"] is not None or time.monotonic() - last_line > SECONDS_BETWEEN_LINES:
            last_line = time.monotonic()
            print(f"step {row['step']}/{total}: {text}", file=sys.stderr)

    if not sys.stderr.isatty():
        yield show_line
        return
    layout = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} [{remaining} left]{postfix}"
    with tqdm.tqdm(total=total, initial=trainer.step, bar_format=layout, dynamic_ncols=True) as bar:
        yield show_bar


def plot_losses(metrics: pathlib.Path, image: pathlib.Path) -> None:
    """Draw the losses of metrics.jsonl over the steps: training (each batch, and smoothed), and validation."""
    rows = [row for _, row in read_metrics(metrics)]
    steps, losses = np.array([(row["step"], row["loss"]) for row in rows]).T
    evaluated = [(row["step"], row["val_loss"]) for row in rows if row["val_loss"] is not None]
    pieces = min(40, len(rows))
    smooth = [[piece.mean() for piece in np.array_split(values, pieces)] for values in (steps, losses)]
    figure, axes = new_figure(1, 1, 7, 4.5)
    axes.plot(steps, losses, color="C0", alpha=0.25, linewidth=0.8, label="training, each batch")
    axes.plot(*smooth, color="C0", label=f"training, mean of {math.ceil(len(rows) / pieces)} batches")
    axes.plot(*zip(*evaluated), color="C1", marker="o", label="validation")
    axes.set(xlabel="step", ylabel="loss (nats per character)", ylim=(0.95 * min(losses), None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(image, dpi=120)
