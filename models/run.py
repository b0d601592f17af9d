"""The folder of a run (checkpoints, metrics.jsonl, loss.png, sample.txt, pictures), and the loop that fills it."""
import contextlib
import json
import math
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tqdm

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from minigrad.drawing.figures import CURVES, new_figure
from minigrad.serialization import replacing
from models import checkpoint as checkpoints
from models.extras import quoted
from models.pictures import PICTURE, in_words
from models.progress import Progress, saying
from models.task import ALIGNMENT
from models.train import Trainer, TrainingError

METRICS, PLOT, SAMPLE = "metrics.jsonl", "loss.png", "sample.txt"
FILES = checkpoints.NAME, checkpoints.PREVIOUS, checkpoints.BEST, METRICS, PLOT, SAMPLE  # of every finished run
TAKEN = *FILES, PICTURE, ALIGNMENT  # a new run overwrites none of these
LAYER_MEASURES = "grad_norm", "update_to_weight"  # of each layer, in a row of metrics.jsonl
MOST_NAMES = 20  # of layers, in the legend of a plot
DARK_TO_BRIGHT = (0.3, 0.1, 0.9), (0.0, 0.6, 0.8), (0.4, 0.6, 0.1)  # red, green and blue, from the first layer to the last
FIRST_STEPS = 5  # after the first, before a line estimates the time left


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed, and a checkpoint is saved."""


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Keep other processes from working in the folder; TrainingError if one already is.

    The lock is on the folder itself, and the system releases it however the process ends. Windows, and file systems that
    cannot lock, have none.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(f"another process is training in {folder}; wait until it ends") from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def train(trainer: Trainer, folder: pathlib.Path) -> None:
    """Train to the last step, then print the losses, a sample, and where the files are.

    Interrupted after Ctrl-C; TrainingError and CheckpointError if it cannot continue. The last checkpoint stays.
    """
    started, ranks = time.perf_counter() - seconds_until(trainer.step, folder / METRICS), trainer.ranks
    trainer.check_ranks()
    if trainer.step == 0 and ranks.is_first:
        checkpoints.save(folder, trainer.checkpoint())  # from now on the run can be resumed
    row = None
    with recorder(trainer, folder) as record, catch_interrupt(trainer, folder) as interrupted:
        while not trainer.is_finished():
            row = trainer.train_step()
            is_stop, is_interrupted = trainer.is_stop(trainer.step), bool(ranks.sum([len(interrupted)]) > 0)
            if is_stop:
                with saying("evaluating"):
                    row |= trainer.evaluate()
                trainer.check_ranks()
            row["seconds"] = round(time.perf_counter() - started, 3)
            record(row)
            if is_stop or is_interrupted:
                with saying("saving"):
                    ranks.of_first(save, trainer, folder, row)
            if is_interrupted:
                if ranks.size == 1:  # Open MPI's mpiexec allows less than a second
                    draw(trainer, folder)
                raise Interrupted(f"stopped after step {trainer.step}; the checkpoint is saved: continue with "
                                  f"--resume {quoted(folder)}")
    ranks.of_first(report, trainer, folder, row or trainer.evaluate(), time.perf_counter() - started)


@contextlib.contextmanager
def recorder(trainer: Trainer, folder: pathlib.Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that writes a row of metrics.jsonl and shows it, on the first rank; elsewhere it does nothing."""
    if not trainer.ranks.is_first:
        yield lambda row: None
        return
    with keep_metrics(folder / METRICS, trainer.step) as metrics, show_progress(trainer) as show:
        def record(row):
            metrics.write(json.dumps(row) + "\n")
            show(row)

        yield record


def save(trainer: Trainer, folder: pathlib.Path, row: dict[str, Any]) -> None:
    """Save the checkpoint, also as the best if no validation loss has been lower."""
    checkpoint = trainer.checkpoint()
    if row["val_loss"] == trainer.best_loss:
        checkpoints.save(folder, checkpoint, checkpoints.BEST)
    checkpoints.save(folder, checkpoint)


def draw(trainer: Trainer, folder: pathlib.Path) -> list[str]:
    tqdm.tqdm.write("drawing pictures ...", file=sys.stderr)  # above the bar, if there is one
    trainer.model.eval()
    return plot_losses(folder / METRICS, folder / PLOT) + trainer.dataset.illustrate(trainer.model, folder)


def report(trainer: Trainer, folder: pathlib.Path, measured: dict[str, Any], seconds: float) -> None:
    """Draw pictures, write a sample, and print the results and where they are."""
    files = [checkpoints.NAME, checkpoints.BEST, METRICS, *draw(trainer, folder)]
    with saying("writing a sample"):
        sample = trainer.dataset.sample(trainer.model, trainer.config.seed)
    (folder / SAMPLE).write_text(sample + "\n", encoding="utf-8")
    print(f"{sample}\n\n{trainer.step} steps in {seconds:.1f} s; {trainer.dataset.summary(measured)}")
    print(f"{folder}{os.sep} holds {', '.join(files)} and {SAMPLE}; next: minigrad sample --checkpoint {quoted(folder)}")


@contextlib.contextmanager
def keep_metrics(path: pathlib.Path, step: int):
    """Open metrics.jsonl for appending, without damaged lines and those after a resumed checkpoint."""
    kept = [line for line, row in read_metrics(path) if row["step"] <= step]
    with replacing(path) as file:
        file.write("".join(kept).encode())
    with open(path, "a", buffering=1, encoding="utf-8") as file:
        yield file


def read_metrics(path: pathlib.Path) -> list[tuple[str, dict[str, Any]]]:
    """(line, row) for each line of metrics.jsonl that is complete and valid; TrainingError if it is not a file."""
    if not path.exists():
        return []
    if not path.is_file():
        raise TrainingError(f"{path} is a folder, pipe, socket or device, not a file; remove it")
    lines = path.read_bytes().decode("utf-8", errors="replace").splitlines(keepends=True)
    rows = [(line, _parse_row(line)) for line in lines if line.endswith("\n")]
    return [(line, row) for line, row in rows if row is not None]


def seconds_until(step: int, metrics: pathlib.Path) -> float:
    """How long a run has taken up to a step, over all its resumptions: training, evaluating and saving, without lost steps
    and without the pictures and the sample at the end."""
    return max((row.get("seconds", 0.0) for _, row in read_metrics(metrics) if row["step"] <= step), default=0.0)


def _parse_row(line: str) -> dict[str, Any] | None:
    """The row in a line of metrics.jsonl; None unless it has a step, a loss, a validation loss or null, and only numbers or
    nulls for layers."""
    try:
        row = json.loads(line)
        layers = [layer[measure] for layer in (row.get("layers") or {}).values() for measure in LAYER_MEASURES]
        evaluated = row["val_loss"], row.get("bits_per_byte"), *layers
        measured = [row["loss"], row.get("seconds", 0.0), *(value for value in evaluated if value is not None)]
        is_right = type(row["step"]) is int and all(map(math.isfinite, measured))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return row if is_right else None


@contextlib.contextmanager
def catch_interrupt(trainer: Trainer, folder: pathlib.Path) -> Iterator[list[Any]]:
    """Yield a list that is empty until Ctrl-C, which takes effect after the current step. In the first step, which may
    compile kernels, it stops at once, since the checkpoint has everything; so does a second Ctrl-C.

    Ranks get the signal from mpiexec: Open MPI's sends SIGTERM instead, and a second Ctrl-C is for mpiexec itself.
    """
    pressed, ranks, first, words = [], trainer.ranks, trainer.step, contextlib.ExitStack()

    def remember(number, frame):
        pressed.append(number)
        if ranks.size == 1:
            signal.signal(number, signal.default_int_handler)
            if trainer.step == first:
                raise Interrupted(f"stopped before step {first + 1}; continue with --resume {quoted(folder)}")
            words.enter_context(saying("finishing this step, to save it; another Ctrl-C stops at once"))

    numbers = [signal.SIGINT] if ranks.size == 1 else [signal.SIGINT, signal.SIGTERM]
    before = {number: signal.signal(number, remember) for number in numbers}
    try:
        with words:
            yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def show_progress(trainer: Trainer) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that shows a row of metrics."""
    total, first, validation = trainer.config.steps, trainer.step + 1, ""

    def show(row):
        nonlocal validation
        step, is_evaluated = row["step"], row["val_loss"] is not None
        if is_evaluated:
            validation = f", validation loss {row['val_loss']:.3f}"
        if step == first:  # it compiled the kernels
            progress.begin(step)
        text = f"loss {row['loss']:.3f}{validation}, {row['tokens_per_second']:,} tokens/s"
        left = progress.left(step)
        progress.show(step, f", {text}", f"step {step}/{total}: {text}{f' [{left}]' if left else ''}",
                      is_due=is_evaluated or step in (first, first + FIRST_STEPS))

    layout = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} [{remaining} left]{desc}"
    with Progress(total, trainer.step, layout) as progress:
        yield show


def plot_losses(metrics: pathlib.Path, image: pathlib.Path) -> list[str]:
    """Draw the losses of metrics.jsonl over the steps (training, raw and smoothed, and validation), and the size of each
    layer's gradient and update. Returns the picture's name in a list, which is empty if there are no losses."""
    rows = [row for _, row in read_metrics(metrics)]
    if not rows:
        return []
    measured = [row for row in rows if row.get("layers")]
    side, width, height = (2, 10, 8) if measured else (1, 7, 4.5)
    figure, panels = new_figure(side, side, width, height, layout=None, squeeze=False)
    figure.subplots_adjust(left=0.1, right=0.9, bottom=0.08 if measured else 0.12, top=0.97, wspace=0.35, hspace=0.2)
    _plot_losses(panels[0, 0], rows)
    if measured:
        _plot_layers(panels[1, 0], measured, "grad_norm", "norm of the gradient, before clipping")
        _plot_layers(panels[1, 1], measured, "update_to_weight", "norm of the update / norm of the weights")
        panels[0, 1].legend(*panels[1, 0].get_legend_handles_labels(), loc="center", title="below, a line for each layer")
        panels[0, 1].set_axis_off()
    figure.savefig(image, dpi=100)
    return [image.name]


def _plot_losses(axes, rows: list[dict[str, Any]]) -> None:
    steps, losses = np.array([(row["step"], row["loss"]) for row in rows]).T
    evaluated = [(row["step"], row["val_loss"]) for row in rows if row["val_loss"] is not None]
    pieces = min(40, len(rows))
    smooth = [[piece.mean() for piece in np.array_split(values, pieces)] for values in (steps, losses)]
    axes.plot(steps, losses, color=CURVES[0], alpha=0.25, linewidth=0.8, label="training, each batch")
    axes.plot(*smooth, color=CURVES[0], label=f"training, mean of {math.ceil(len(rows) / pieces)} batches")
    if evaluated:
        axes.plot(*zip(*evaluated), color=CURVES[1], marker="o", label="validation")
    lowest = min([*losses, *(loss for _, loss in evaluated)])
    axes.set(xlabel="step", ylabel="loss (nats per token)", ylim=(0.95 * lowest, None))
    compared = [row["bits_per_byte"] / row["val_loss"] for row in rows if row.get("bits_per_byte") and row["val_loss"]]
    if compared:  # only for texts, and the same in all rows
        bits = axes.secondary_yaxis("right", functions=(lambda loss: loss * compared[0], lambda bits: bits / compared[0]))
        bits.set_ylabel("bits per byte")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    axes.legend()


def _plot_layers(axes, rows: list[dict[str, Any]], measure: str, label: str) -> None:
    """A line for each layer, from dark to bright."""
    names = list(dict.fromkeys(name for row in rows for name in row["layers"]))
    places = np.linspace(0, 1, len(names))
    colours = np.transpose([np.interp(places, (0, 0.5, 1), channel) for channel in DARK_TO_BRIGHT])
    every = math.ceil(len(names) / MOST_NAMES)
    for i, (name, colour) in enumerate(zip(names, colours)):
        points = [(row["step"], row["layers"][name][measure]) for row in rows if name in row["layers"]]
        steps, values = zip(*[(step, value or math.nan) for step, value in points])  # on a log scale, zero has no place
        axes.plot(steps, values, color=colour, marker=".", linewidth=1, label=in_words(name) if i % every == 0 else None)
    axes.set(xlabel="step", ylabel=label, yscale="log")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
