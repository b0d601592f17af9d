"""Finished runs side by side: grouped by their settings, with the mean and the spread over seeds.

A group has the runs that differ only in their seed. The validation loss is that at the end, over the whole validation text
if it is a text; `best` is the lowest of the curve, whose evaluations take some windows of it.
"""
import collections
import csv
import dataclasses
import hashlib
import io
import json
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.loading import model_config, training_config
from models.recipes import RECIPES, nearest
from models.run import METRICS, read_metrics

FORMAT = "minigrad comparison 1"
LOSS, BITS = "val_loss", "bits_per_byte"
MEASURES = LOSS, "best_val_loss", BITS, "best_bits_per_byte", "accuracy", "seconds", "tokens_per_second", "parameters"
STATISTICS = "mean", "sd", "median", "min", "max"
LONGEST = 35  # characters of a setting's value
HEADS = {LOSS: "loss", "best_val_loss": "best of curve", BITS: "bits/byte", "seconds": "time",
         "tokens_per_second": "tokens/s"}
NO_SETTINGS = "seed", "text"  # a text is identified by its hash
Settings = dict[str, Any]  # everything that determines a run's result, in JSON's types


@dataclasses.dataclass(frozen=True)
class Run:
    """A run, as read from its folder."""

    folder: pathlib.Path
    settings: Settings
    rows: list[dict[str, Any]]  # of metrics.jsonl
    measured: dict[str, float]  # {measure: value}, for the known MEASURES
    problem: str = ""  # why it does not count: it is unfinished or damaged

    def curve(self, measure: str) -> list[tuple[int, float]]:
        """(step, measure) of each evaluation."""
        return [(row["step"], row[measure]) for row in self.rows if _is_number(row.get(measure))]


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    runs: list[Run]
    remarks: list[str]
    is_comparable: bool  # with the other groups: same text or task, same measure

    @property
    def settings(self) -> Settings:
        return self.runs[0].settings

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if not run.problem]

    def summary(self, measure: str) -> dict[str, float | None]:
        """The STATISTICS of a measure over the finished runs that have it."""
        return summary([run.measured[measure] for run in self.finished if measure in run.measured])


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Groups, the best first by the median of a measure."""

    groups: list[Group]
    measure: str  # LOSS; or BITS, if tokenizers differ
    columns: list[str]  # the settings in which groups differ

    @property
    def problems(self) -> list[tuple[pathlib.Path, str]]:
        """The runs that do not count, and why."""
        return [(run.folder, run.problem) for group in self.groups for run in group.runs if run.problem]

    def label(self, group: Group) -> str:
        """What distinguishes a group from the others."""
        return ", ".join(f"{name}={shown(group.settings.get(name))}" for name in self.columns) or "all runs"

    @property
    def _measures(self) -> list[str]:
        """The MEASURES of at least one run."""
        return [measure for measure in MEASURES if measure in (LOSS, "parameters")
                or any(measure in run.measured for group in self.groups for run in group.finished)]

    def records(self) -> list[dict[str, Any]]:
        """A flat row for each group."""
        return [{name: group.settings.get(name) for name in self.columns}
                | {"runs": len(group.finished), "without_result": len(group.runs) - len(group.finished)}
                | {f"{measure}_{name}": value for measure in MEASURES for name, value in group.summary(measure).items()
                   if measure in self._measures}
                | {"remarks": "; ".join(group.remarks)} for group in self.groups]

    def as_csv(self) -> str:
        """The records, one line per group."""
        text = io.StringIO()
        records = self.records()
        writer = csv.DictWriter(text, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def as_json(self) -> str:
        """The records, with each group's settings and runs."""
        groups = [record | {"settings": {name: value for name, value in group.settings.items() if name != "seed"},
                            "members": [{"folder": str(run.folder), "seed": run.settings.get("seed"),
                                         "problem": run.problem, **run.measured} for run in group.runs]}
                  for group, record in zip(self.groups, self.records())]
        return json.dumps({"format": FORMAT, "sorted_by": self.measure, "groups": groups}, indent=1) + "\n"

    def table(self) -> str:
        """The records as text, with a line for each run that does not count."""
        single = [measure for measure in self._measures if measure not in (self.measure, "best_bits_per_byte")]
        name = HEADS.get(self.measure)
        heads = [*self.columns, "runs", f"{name}: median (min to max)", "mean +- sd",
                 *(HEADS.get(measure, measure) for measure in single), "remarks"]
        lines = [[*(shown(group.settings.get(name)) for name in self.columns), str(len(group.finished)),
                  *_spread(group.summary(self.measure)),
                  *(_number(measure, group.summary(measure)["median"]) for measure in single),
                  "; ".join(group.remarks)] for group in self.groups]
        widths = [max(map(len, column)) for column in zip(heads, *lines)]
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in (heads, *lines)]
        return "\n".join([*rows, *(f"{folder}: {problem}" for folder, problem in self.problems)])


def _spread(found: dict[str, float | None]) -> list[str]:
    median, least, most, mean, deviation = (_number("", found[name]) for name in ("median", "min", "max", "mean", "sd"))
    return ["-", "-"] if found["mean"] is None else [f"{median} ({least} to {most})", f"{mean} +- {deviation}"]


def _number(measure: str, value: float | None) -> str:
    layout = {"seconds": "{:,.1f} s", "tokens_per_second": "{:,.0f}", "parameters": "{:,.0f}"}.get(measure, "{:.4f}")
    return "-" if value is None else layout.format(value)


def shown(value: Any) -> str:
    """A setting's value as text; if it is long, such as a path, only its end.

    >>> shown(0.001), shown(None), shown(True), shown("/a/long/path/to/the/folder/runs/nano-12")
    ('0.001', '-', 'yes', '.../path/to/the/folder/runs/nano-12')
    """
    text = "-" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST else f"...{text[3 - LONGEST:]}"


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """The STATISTICS of some numbers; None where there are too few. The deviation is the sample's.

    >>> summary([1.0, 2.0, 6.0])
    {'mean': 3.0, 'sd': 2.6457513110645907, 'median': 2.0, 'min': 1.0, 'max': 6.0}
    """
    if not values:
        return dict.fromkeys(STATISTICS)
    return {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else None,
            "median": statistics.median(values), "min": min(values), "max": max(values)}


# ---- from folders ----

def read_runs(names: Sequence[str]) -> list[Run]:
    """The runs in these folders; CheckpointError if one is not a run's. Damaged runs say so as their problem."""
    runs = []
    for name in dict.fromkeys(map(str, names)):
        folder = checkpoints.find(name).parent
        if not checkpoints.has_checkpoint(folder):
            raise checkpoints.NoCheckpoint(f"{name} is not in the folder of a run; give that")
        try:
            runs.append(read_run(folder))
        except CheckpointError as error:
            runs.append(Run(folder, {}, [], {}, str(error)))
    return list({run.folder.resolve(): run for run in runs}.values())


def read_run(folder: pathlib.Path) -> Run:
    """A run from its checkpoint and metrics; CheckpointError if the checkpoint is missing or damaged."""
    path = checkpoints.find(folder)
    checkpoint = checkpoints.load(path)
    config, training = model_config(checkpoint, path), training_config(checkpoint, path)
    settings = settings_of(checkpoint.architecture, dataclasses.asdict(config), dataclasses.asdict(training),
                           checkpoint.dataset)
    rows = [row for _, row in read_metrics(folder / METRICS) if row["step"] <= checkpoint.step]
    last = rows[-1] if rows else {}
    if checkpoint.step < training.steps:
        problem = f"is unfinished: it has done {checkpoint.step} of {training.steps} steps"
    elif last.get("step") != checkpoint.step or last["val_loss"] is None:
        problem = f"its {METRICS} lacks the last step, {checkpoint.step}"
    else:
        problem = ""
    measured: dict[str, float] = {"parameters": sum(array.size for array in checkpoint.model.values())}
    last = last | {name: last[f"full_{name}"] for name in (LOSS, BITS) if f"full_{name}" in last}
    measured |= {name: last[name] for name in (LOSS, BITS, "accuracy", "seconds") if _is_number(last.get(name))}
    for name, source, summarise in (("best_val_loss", LOSS, min), ("best_bits_per_byte", BITS, min),
                                    ("tokens_per_second", "tokens_per_second", statistics.median)):
        if values := [row[source] for row in rows if _is_number(row.get(source))]:
            measured[name] = summarise(values)
    return Run(folder, settings, rows, measured, problem)


def settings_of(architecture: str, config: dict[str, Any], training: dict[str, Any], dataset: dict[str, Any]) -> Settings:
    """The settings of a run from the fields of its checkpoint; a text and its tokenizer are identified by hashes."""
    data = {name: value for name, value in dataset.items() if name not in ("path", "sha256", "tokenizer")}
    if dataset.get("task") is None:
        path, state = dataset["path"], dataset["tokenizer"]
        data |= {"text": pathlib.Path(path).name if path else "the language reference", "text_sha256": dataset["sha256"],
                 "recipe": nearest(config | training), "tokenizer": state["kind"], "tokenizer_sha256": _digest(state)}
    return json.loads(json.dumps(data | {"model": architecture} | config | training))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


# ---- side by side ----

def compare(runs: Sequence[Run]) -> Comparison:
    """Group the runs, note what cannot be compared, and sort."""
    members = collections.defaultdict(list)
    for run in runs:
        key = {name: value for name, value in sorted(run.settings.items()) if name not in NO_SETTINGS}
        members[json.dumps(key)].append(run)
    finished = [run for run in runs if not run.problem] or runs
    data, _ = collections.Counter(map(_data, finished)).most_common(1)[0]
    same_data = [run for run in finished if _data(run) == data]
    tokenizers = collections.Counter(run.settings.get("tokenizer_sha256") for run in same_data)
    measure = BITS if len(tokenizers) > 1 and all(BITS in run.measured for run in same_data) else LOSS
    tokenizer = tokenizers.most_common(1)[0][0]
    groups = [_group(group, data, None if measure == BITS else tokenizer) for group in members.values()]
    groups.sort(key=lambda group: (not group.finished, not group.is_comparable,
                                   group.summary(measure)["median"] if group.finished else 0.0))
    return Comparison(groups, measure, _columns([group.settings for group in groups]))


def _data(run: Run) -> str:
    return run.settings.get("task") or run.settings.get("text_sha256", "")


def _group(runs: list[Run], data: str, tokenizer: str | None) -> Group:
    """A group to compare with others of these data, and of this tokenizer unless it is None."""
    runs = sorted(runs, key=lambda run: run.settings.get("seed", 0))
    remarks, settings = [], runs[0].settings
    if _data(runs[0]) != data:
        remarks.append("not comparable: another " + ("task" if settings.get("task") else "text"))
    elif tokenizer not in (None, settings.get("tokenizer_sha256")):
        remarks.append("not comparable: another tokenizer, and not all have bits per byte")
    is_comparable = not remarks
    seeds = collections.Counter(run.settings.get("seed") for run in runs if not run.problem)
    remarks += [f"seed {seed} occurs {count} times" for seed, count in seeds.items() if count > 1]
    without = sum(bool(run.problem) for run in runs)
    remarks += [f"{without} of {len(runs)} without result"] if without else []
    return Group(runs, remarks, is_comparable)


def _columns(groups: list[Settings]) -> list[str]:
    """The settings in which groups differ (damaged runs have none). A recipe stands for its fields unless a group deviates
    from it; hashes appear only if nothing else distinguishes the groups."""
    groups = [settings for settings in groups if settings]
    names = list(dict.fromkeys(name for settings in groups for name in settings if name != "seed"))
    differing = [name for name in names if len({json.dumps(settings.get(name)) for settings in groups}) > 1]
    plain = [name for name in differing if not (name.endswith("_sha256") or all(_is_of_recipe(name, s) for s in groups))]
    is_told = len({json.dumps([settings.get(name) for name in plain]) for settings in groups}) == len(groups)
    return plain if is_told else differing


def _is_of_recipe(name: str, settings: Settings) -> bool:
    recipe = RECIPES.get(settings.get("recipe", ""))
    return recipe is not None and name in recipe.fields and settings.get(name) == recipe.fields[name]
