"""The folder of a run on a task: metrics.jsonl, model.npz and attention.png, and the training that fills it."""
import dataclasses
import json
import math
import os
import pathlib
import sys
import time

import numpy as np

import minigrad as mg
from minigrad.figures import new_figure
from models.encoder_decoder import PAD, START, STOP
from models.task_training import TaskTraining, accuracy, arguments, make_model, train
from models.tasks import FIRST, TASKS, Task
from models.train import TrainingError
from models.transformer import TransformerConfig
from models.translate import greedy

METRICS, MODEL, PICTURE = "metrics.jsonl", "model.npz", "attention.png"
CONFIG = TransformerConfig(context=32, layers=2, heads=4, width=64)  # of the model, unless flags say otherwise
DEFAULT_MODELS = {"sequence": "encoder-decoder", "class": "encoder"}
LOOK_AT_THE_SOURCE = "encoder-decoder", "rnn-attention"  # their attention to it can be drawn
UNUSED_BY_RNNS = {field.name for field in dataclasses.fields(TransformerConfig)} - {"width", "dtype"}
LINES = 10  # of progress
EXAMPLES = 3  # shown at the end
TEST_EXAMPLES = 200  # of each length, for the accuracy
TEST_SEED = 2_000_000  # of the examples that are shown


def check_flags(given: dict) -> None:
    """ValueError if a flag of the command makes no sense with its task or model."""
    task, name = TASKS[given["task"]], given.get("model", "")
    known = {field.name for config in (TaskTraining, TransformerConfig) for field in dataclasses.fields(config)}
    known = known - {"vocabulary_size"} | {"threads", "task", "model", "out"}
    meaningless = [(flag, f"--task {task.name}") for flag in given if flag not in known]
    if name.startswith("rnn"):
        meaningless += [(flag, f"--model {name}") for flag in given if flag in UNUSED_BY_RNNS]
    if task.kind == "class" and "label_smoothing" in given:
        meaningless.append(("label_smoothing", f"--task {task.name}"))
    if meaningless:
        flag, reason = meaningless[0]
        raise ValueError(f"--{flag.replace('_', '-')} makes no sense with {reason}; leave it out")


class TaskRun:
    """A model before its training on a task; ValueError if the model cannot do it."""

    def __init__(self, task: str, model: str | None, config: TransformerConfig, training: TaskTraining):
        self.task, self.training = TASKS[task], training
        self.model_name = model or DEFAULT_MODELS[self.task.kind]
        self.model = make_model(self.task, self.model_name, config, training.seed)
        self._check_context()

    @property
    def name(self) -> str:
        return f"{self.task.name}-{self.model_name}"

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def examples(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The longest there are in training, but new ones."""
        return self.task.make(np.random.default_rng(TEST_SEED), count, self.task.lengths[1])

    def _check_context(self) -> None:
        """Here, and not in the middle of training, a context turns out to be too short."""
        try:
            with mg.no_grad():
                self.model(*arguments(self.task, self.examples(1)))
        except ValueError as error:
            raise ValueError(f"the examples of task {self.task.name!r} do not fit into --context "
                             f"{self.model.config.context} ({error})") from None


def run(task_run: TaskRun, folder: pathlib.Path) -> None:
    """Train, then print how often the model is right, some examples, and where things are."""
    started = time.perf_counter()
    with open(folder / METRICS, "w", buffering=1, encoding="utf-8") as metrics:
        steps = task_run.training.steps

        def report(step: int, loss: float) -> None:
            if not math.isfinite(loss):
                raise TrainingError(f"the loss became {loss} at step {step}; start anew with a smaller --lr")
            metrics.write(json.dumps({"step": step, "loss": loss}) + "\n")
            if step == 1 or step % math.ceil(steps / LINES) == 0 or step == steps:
                print(f"step {step}/{steps}: loss {loss:.3f}", file=sys.stderr)

        train(task_run.task, task_run.model, task_run.training, report)
        seconds = time.perf_counter() - started
        by_length, overall = accuracies(task_run)
        metrics.write(json.dumps({"step": steps, "accuracy": overall, "accuracy_by_length": by_length}) + "\n")
    np.savez(folder / MODEL, **{name: value.array for name, value in task_run.model.state_dict().items()})
    files = [METRICS, MODEL]
    if task_run.model_name in LOOK_AT_THE_SOURCE:
        plot_attention(task_run, folder / PICTURE)
        files.append(PICTURE)
    for source, wanted, got in example_texts(task_run):
        print(f"source: {source}\nwanted: {wanted}\ngot:    {got}\n")
    print(f"{steps} steps in {seconds:.1f} s; whole answers that are right:")
    for length, share in by_length.items():
        print(f"  length {length}: {share:7.1%}")
    print(f"  overall:  {overall:7.1%}")
    print(f"{folder}{os.sep} holds {', '.join(files[:-1])} and {files[-1]}")


def accuracies(task_run: TaskRun) -> tuple[dict[int, float], float]:
    """({length: the share of right answers}, the mean over all lengths)"""
    shortest, longest = task_run.task.lengths
    by_length = {length: accuracy(task_run.task, task_run.model, TEST_EXAMPLES, length=length)
                 for length in range(shortest, longest + 1)}
    return by_length, float(np.mean(list(by_length.values())))


def example_texts(task_run: TaskRun) -> list[tuple[str, str, str]]:
    """(source, wanted, got) of a few examples."""
    task, model = task_run.task, task_run.model
    source, target = task_run.examples(EXAMPLES)
    texts = [task.text(row) for row in source] if task.symbols else ["an image"] * EXAMPLES
    if task.kind == "sequence":
        answers = greedy(model, source, target.shape[1] + 1)
        return list(zip(texts, map(task.text, target), map(task.text, answers)))
    with mg.no_grad():
        logits, _ = model(mg.tensor(source))
    return [(text, task.classes[wanted], task.classes[got])
            for text, wanted, got in zip(texts, target, logits.array.argmax(axis=1))]


def symbol(task: Task, token: int) -> str:
    """What a token id is called."""
    return {PAD: "pad", START: "start", STOP: "stop"}.get(token) or task.symbols[token - FIRST]


def plot_attention(task_run: TaskRun, image: pathlib.Path) -> None:
    """Draw where the model looked at the source of one example, for each symbol of its answer."""
    task, model = task_run.task, task_run.model
    source, target = task_run.examples(1)
    answer = greedy(model, source, target.shape[1] + 1)
    inputs = np.hstack([[[START]], answer[:, :-1]])
    weights = model.attention_map(mg.tensor(source), mg.tensor(inputs))[0]  # (T, S)
    columns, rows = ([symbol(task, token) for token in ids.tolist()] for ids in (source[0], answer[0]))
    figure, axes = new_figure(1, 1, 2.5 + 0.4 * len(columns), 2 + 0.4 * len(rows))
    heat = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(columns)), columns, rotation=0 if max(map(len, columns)) < 3 else 90)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="source", ylabel="answer", title=task_run.name)
    figure.colorbar(heat, ax=axes, label="weight")
    figure.savefig(image, dpi=120)
