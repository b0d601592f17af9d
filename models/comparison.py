"""Runs side by side: the mean and the spread over runs that differ only in their seed, as a table and a picture.

The loss is the validation loss at the end, over the whole validation text if it is a text.
"""
import collections
import dataclasses
import hashlib
import itertools
import json
import math
import os
import pathlib
import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from minigrad.drawing.figures import CURVES, MARKERS, new_figure
from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.loading import model_config, training_config
from models.pictures import save
from models.recipes import RECIPES, given_fields, nearest
from models.run import METRICS, read_metrics

LOSS, BITS = "val_loss", "bits_per_byte"
LAYOUTS = {LOSS: "{:.4f}", BITS: "{:.4f}", "accuracy": "{:.4f}", "seconds": "{:,.1f} s"}  # of means
PICTURE = "minigrad: comparison of runs"  # in the metadata of the file


@dataclasses.dataclass(frozen=True)
class Run:
    """A run, as read from its folder."""

    folder: pathlib.Path
    settings: dict[str, Any]  # all that determines its result, in JSON's types
    rows: list[dict[str, Any]]  # of metrics.jsonl
    problem: str = ""  # why it has no result: it is unfinished or damaged

    def result(self, measure: str) -> float | None:
        """A measure at the end."""
        return None if self.problem else self.rows[-1].get(f"full_{measure}", self.rows[-1].get(measure))


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    name: str  # the settings that distinguish it from other groups
    runs: list[Run]

    def results(self, measure: str) -> list[float]:
        return [result for run in self.runs if (result := run.result(measure)) is not None]

    def curve(self, measure: str) -> dict[int, list[float]]:
        """{step: the measure of each run evaluated there}"""
        found = collections.defaultdict(list)
        for row in (row for run in self.runs for row in run.rows if row.get(measure) is not None):
            found[row["step"]].append(row[measure])
        return dict(sorted(found.items()))


def read_run(name: str) -> Run:
    """The run in a folder; CheckpointError if it is none. A damaged one says so as its problem."""
    folder = checkpoints.find(name).parent
    if not checkpoints.has_checkpoint(folder):
        raise checkpoints.NoCheckpoint(f"{name} is not in the folder of a run; give that")
    try:
        checkpoint = checkpoints.load(folder)
        config, training = model_config(checkpoint, folder), training_config(checkpoint, folder)
    except CheckpointError as error:
        return Run(folder, {}, [], str(error))
    settings = {"model": checkpoint.architecture, **given_fields(config), **dataclasses.asdict(training)}
    if (data := checkpoint.dataset)["task"]:
        settings = data | settings
    else:
        state = json.dumps(data["tokenizer"], sort_keys=True).encode()
        tokenizer = f"{data['tokenizer']['kind']} {hashlib.sha256(state).hexdigest()[:8]}"
        settings = {"text": data["sha256"][:8], "tokenizer": tokenizer, "recipe": nearest(settings), **settings}
    rows, problem = [row for _, row in read_metrics(folder / METRICS) if row["step"] <= checkpoint.step], ""
    if checkpoint.step < training.steps:
        problem = f"is unfinished: it has done {checkpoint.step} of {training.steps} steps"
    elif not rows or rows[-1]["step"] != checkpoint.step or rows[-1][LOSS] is None:
        problem = f"its {METRICS} lacks the last step, {checkpoint.step}"
    return Run(folder, json.loads(json.dumps(settings)), rows, problem)


def compare(runs: Sequence[Run]) -> tuple[list[Group], str]:
    """(Groups, the best first, the measure of their loss): bits per byte if tokenizers differ, and all runs have them."""
    members = collections.defaultdict(list)
    for run in sorted(runs, key=lambda run: run.settings.get("seed", 0)):
        members[json.dumps(run.settings | {"seed": None}, sort_keys=True)].append(run)
    finished = [run for run in runs if not run.problem]
    in_bits = _differ(finished, "tokenizer") and all(run.result(BITS) is not None for run in finished)
    measure, columns = BITS if in_bits else LOSS, _columns([same[0].settings for same in members.values()])
    groups = [Group(", ".join(f"{name} {same[0].settings.get(name, '-')}" for name in columns) or "all runs", same)
              for same in members.values()]
    return sorted(groups, key=lambda group: statistics.fmean(group.results(measure) or [math.inf])), measure


def _differ(runs: Sequence[Run], *names: str) -> bool:
    return len({tuple(run.settings.get(name) for name in names) for run in runs}) > 1


def _columns(groups: list[dict[str, Any]]) -> list[str]:
    """The settings in which groups differ. A recipe stands for its fields unless a group deviates from it."""
    groups = [settings for settings in groups if settings]  # damaged runs have none
    recipes = [RECIPES[settings["recipe"]].fields if "recipe" in settings else {} for settings in groups]
    names = dict.fromkeys(name for settings in groups for name in settings if name != "seed")
    return [name for name in names if len({json.dumps(settings.get(name)) for settings in groups}) > 1
            and not all(name in fields and settings[name] == fields[name] for fields, settings in zip(recipes, groups))]


def table(groups: list[Group], measure: str) -> str:
    """A line for each group; below, why a run has no result, and what makes the comparison doubtful."""
    others = [name for name in LAYOUTS if name != measure and any(group.results(name) for group in groups)]
    lines = [["group", "runs", f"{measure}: mean +- sd", "min to max", *others]]
    for group in groups:
        lines.append([group.name, str(len(found := group.results(measure)))])
        if found:
            spread = f" +- {statistics.stdev(found):.4f}" if len(found) > 1 else ""
            lines[-1] += [f"{statistics.fmean(found):.4f}{spread}", f"{min(found):.4f} to {max(found):.4f}"]
            means = [statistics.fmean(group.results(name) or [math.nan]) for name in others]
            lines[-1] += [LAYOUTS[name].format(mean).replace("nan", "-") for name, mean in zip(others, means)]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*lines, fillvalue="")]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    runs = [(group.name, run) for group in groups for run in group.runs]
    rows += [f"{run.folder}: {run.problem}" for _, run in runs if run.problem]
    seeds = collections.Counter((name, run.settings["seed"]) for name, run in runs if not run.problem)
    rows += [f"{name}: seed {seed} occurs {count} times" for (name, seed), count in seeds.items() if count > 1]
    finished = [run for _, run in runs if not run.problem]
    if _differ(finished, "text", "task") or measure == LOSS and _differ(finished, "tokenizer"):
        rows.append("losses on other data, or of another tokenizer without bits per byte, cannot be compared")
    return "\n".join(rows)


def draw(groups: list[Group], measure: str, path: str | os.PathLike[str]) -> bool:
    """Draw the curves of the best groups, mean and range over seeds; False if no run has been evaluated."""
    drawn = [(group, curve) for group in groups if (curve := group.curve(measure))][:len(CURVES)]
    if not drawn:
        return False
    figure, axes = new_figure(1, 1, 8, 5)
    for (group, curve), colour, marker in zip(drawn, CURVES, MARKERS):
        steps, values = list(curve), curve.values()
        axes.fill_between(steps, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.2, linewidth=0)
        axes.plot(steps, list(map(statistics.fmean, values)), color=colour, marker=marker,
                  label=textwrap.shorten(group.name, 70, placeholder=" ..."))
    firsts = [max(next(iter(curve.values()))) for _, curve in drawn]
    axes.set(xlabel="step", ylabel="validation loss, " + ("nats per token" if measure == LOSS else "bits per byte"),
             ylim=(None, 1.05 * statistics.median(firsts)))  # a diverging loss would hide the others
    axes.set_title(f"mean and range over seeds; the best {len(drawn)} of {len(groups)} groups", fontsize=10)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8)
    save(figure, path, PICTURE, dpi=100)
    return True
