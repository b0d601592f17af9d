"""`minigrad train`: a new run on a text or a task, or more of an old one."""
import argparse
import dataclasses
import itertools
import math
import os
import pathlib
import sys

import minigrad as mg
from models import run as runs
from models import task_run as task_runs
from models.checkpoint import Checkpoint, find, load
from models.commands.shared import UsageError, add_fields, check_writable
from models.data import Corpus, load_corpus
from models.task_training import MODELS, TaskTraining
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig, model_config, training_config
from models.transformer import PRESETS, CausalTransformer, TransformerConfig

BYTES_PER_CHARACTER = 16  # of memory, while a text becomes token ids
RUNS = pathlib.Path("runs")  # where runs go without --out
FILES = *runs.FILES, task_runs.MODEL, task_runs.PICTURE  # of which a new run writes over none
MAY_CHANGE = {"steps", "eval_every", "eval_windows"}  # what a resumed run may do otherwise than before
TASKS_ONLY = {field.name for field in dataclasses.fields(TaskTraining)} - {
    field.name for field in dataclasses.fields(TrainingConfig)}  # flags that need --task


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=PRESETS, help="sizes of model and batch (default: nano)")
    parser.add_argument("--text", metavar="FILE", help="a text in UTF-8 (default: Python's language reference)")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/PRESET or "
                        "runs/TASK-MODEL, numbered if taken)")
    parser.add_argument("--resume", metavar="RUN", nargs="?", const=None,
                        help="go on with this run (default: the one saved last)")
    add_fields(parser.add_argument_group("training (defaults of preset nano)"), TrainingConfig)
    add_fields(parser.add_argument_group("model (defaults of preset nano)"), TransformerConfig)
    add_task_flags(parser)


def add_task_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `minigrad train --task`, beside those that training on a text has too."""
    config, training = task_runs.CONFIG, TaskTraining()
    group = parser.add_argument_group("tasks", f"defaults here: --steps {training.steps}, --batch-size "
                                     f"{training.batch_size}, --lr {training.lr}, --seed {training.seed}; --layers "
                                     f"{config.layers}, --heads {config.heads}, --width {config.width}, --context "
                                     f"{config.context}")
    group.add_argument("--task", choices=TASKS, help="train on this instead of a text")
    group.add_argument("--model", help=f"one of {', '.join(MODELS)} (default: encoder-decoder, or encoder where the "
                       "answer is a class)")
    add_fields(group, TaskTraining, TASKS_ONLY)


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    if "task" in given:
        return train_on_task(given)
    astray = sorted((TASKS_ONLY | {"model"}) & given.keys())
    if astray:
        raise UsageError(f"--{astray[0].replace('_', '-')} needs --task; name a task, or leave it out")
    trainer, folder = resumed_run(given) if "resume" in given else new_run(given)
    runs.train(trainer, folder)
    return 0


def announce(folder: pathlib.Path, config: TransformerConfig, corpus: Corpus, step: int, steps: int) -> None:
    """Say what is going to be trained."""
    print(f"{folder}: {config.parameter_count():,} parameters, {len(corpus.train):,} characters to train on, "
          f"{len(corpus.validation):,} to validate, steps {step} to {steps}", file=sys.stderr)


def train_on_task(given: dict) -> int:
    """`minigrad train --task`: always a new run."""
    try:
        task_runs.check_flags(given)
        task = TASKS[given["task"]]
        training = TaskTraining(**{"steps": task.steps} | chosen(given, TaskTraining))
        config = dataclasses.replace(task_runs.CONFIG, **{"positions": task.positions} | chosen(given, TransformerConfig))
        check_memory(config, training.batch_size)
        task_run = task_runs.TaskRun(given["task"], given.get("model"), config, training)
    except ValueError as error:
        raise UsageError(error) from None
    folder = new_folder(given.get("out"), task_run.name, can_resume=False)
    print(f"{folder} ({task_run.task.description}): {task_run.parameter_count:,} parameters, {training.steps} steps",
          file=sys.stderr)
    task_runs.run(task_run, folder)
    return 0


def new_run(given: dict) -> tuple[Trainer, pathlib.Path]:
    """A trainer at step 0, and a folder of its own."""
    name = given.get("preset", "nano")
    preset = PRESETS[name]
    try:
        config = dataclasses.replace(preset.config, **chosen(given, TransformerConfig))
        training = TrainingConfig(**{"batch_size": preset.batch_size} | chosen(given, TrainingConfig))
        check_memory(config, training.batch_size)
        corpus = read_corpus(given.get("text"), config.context)
        if given.get("vocabulary_size", len(corpus.vocabulary)) != len(corpus.vocabulary):
            raise UsageError(f"--vocabulary-size is {config.vocabulary_size}, but the text has "
                             f"{len(corpus.vocabulary)} symbols; leave the flag out")
        config = dataclasses.replace(config, vocabulary_size=len(corpus.vocabulary))
    except ValueError as error:
        raise UsageError(error) from None
    folder = new_folder(given.get("out"), name)
    announce(folder, config, corpus, 0, training.steps)  # large models take long to build
    mg.manual_seed(training.seed)
    return Trainer(CausalTransformer(config), corpus, config.context, training), folder


def resumed_run(given: dict) -> tuple[Trainer, pathlib.Path]:
    """A trainer where a checkpoint left it; what was not said now is as it was then."""
    path = find(named_run(given))
    folder = path.parent
    if pathlib.Path(given.get("out", folder)).resolve() != folder.resolve():
        raise UsageError(f"--out {given['out']} is not the folder of the run, {folder}; leave --out out")
    checkpoint = load(path)
    config, training = model_config(checkpoint, path), training_config(checkpoint, path)
    check_unchanged(checkpoint, given, path)
    try:
        training = dataclasses.replace(training, **chosen(given, TrainingConfig))
        check_memory(config, training.batch_size)
    except ValueError as error:
        raise UsageError(error) from None
    if training.steps < checkpoint.step:
        raise UsageError(f"--steps is {training.steps}, but {folder} has done {checkpoint.step}; ask for more steps")
    newline = "" if "\r" in checkpoint.corpus["symbols"] else None  # once, every "\r" of a text was kept
    corpus = read_corpus(given.get("text", checkpoint.corpus["path"]), config.context, newline)
    if corpus.sha256 != checkpoint.corpus["sha256"]:
        raise UsageError(f"{corpus.path or 'the language reference of this Python'} is not the text that {folder} was "
                         "trained on; give that one with --text, or start a new run")
    check_writable(folder)
    trainer = Trainer(CausalTransformer(config), corpus, config.context, training)
    trainer.restore(checkpoint, path)
    announce(folder, config, corpus, trainer.step, training.steps)
    return trainer, folder


def named_run(given: dict) -> str | pathlib.Path:
    """The run that --resume or --out names, or else the last one."""
    names = [name for name in (given["resume"], given.get("out")) if name is not None]
    if "" in names:
        raise UsageError("the name of the run to resume is empty; name one, or give --resume alone for the last one")
    return names[0] if names else last_run()


def chosen(given: dict, config_class: type) -> dict:
    """The fields of a config that were given as flags."""
    return {field.name: given[field.name] for field in dataclasses.fields(config_class) if field.name in given}


def check_unchanged(checkpoint: Checkpoint, given: dict, path: pathlib.Path) -> None:
    """UsageError if a flag contradicts the run that is resumed."""
    saved = checkpoint.config | checkpoint.training
    if "preset" in given:
        preset = PRESETS[given["preset"]]
        given = {**dataclasses.asdict(preset.config), "batch_size": preset.batch_size,
                 "vocabulary_size": saved.get("vocabulary_size"), **given}
    for name, value in given.items():
        if name in saved and name not in MAY_CHANGE and value != saved[name]:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} is {value}, but {path} was trained with {saved[name]}; a resumed run keeps it: "
                             f"leave {flag} out, or start a new run")


def last_run() -> pathlib.Path:
    """The folder under runs/ whose checkpoint is the newest."""
    checkpoints = sorted(RUNS.glob("*/checkpoint*.npz"), key=lambda path: path.stat().st_mtime)
    if not checkpoints:
        raise UsageError(f"there is no run to resume in {RUNS}{os.sep}; name one: --resume RUN")
    return checkpoints[-1].parent


def new_folder(out: str | None, name: str, can_resume: bool = True) -> pathlib.Path:
    """The folder of a new run: --out if it holds no run, else the first free of runs/nano, runs/nano-2, ..."""
    if out == "":
        raise UsageError("--out is empty; name a folder, or leave it out")
    if out is not None:
        folder = pathlib.Path(out)
        taken = next((file for file in FILES if (folder / file).exists()), None)
        if taken:
            resume = f"go on with --resume {folder}, or " if can_resume else ""
            raise UsageError(f"{folder} already holds {taken}; {resume}choose another --out")
    else:
        numbered = (RUNS / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
        folder = next(folder for folder in numbered if not folder.exists())
    check_writable(folder)
    return folder


def read_corpus(path: str | None, context: int, newline: str | None = None) -> Corpus:
    """The corpus; UsageError if the text is missing or of no use."""
    try:
        if path is not None:
            check_size(path)
        return load_corpus(path, context, newline)
    except OSError as error:
        raise UsageError(f"cannot read {path or repr(path)} ({error.strerror}); give a text file with --text") from None
    except ValueError as error:
        raise UsageError(error) from None


def memory_size() -> float:
    """The bytes of memory that this computer has; infinity where it does not tell."""
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_size(text: str) -> None:
    """UsageError if reading a text would take more memory than this computer has."""
    needed, available = BYTES_PER_CHARACTER * os.path.getsize(text), memory_size()
    if needed > available:
        raise UsageError(f"{text} takes about {needed / 1e9:,.0f} GB to read, and this computer has "
                         f"{available / 1e9:,.0f} GB; give a shorter text")


def check_memory(config: TransformerConfig, batch_size: int) -> None:
    """UsageError if training would take more memory than this computer has."""
    needed, available = config.training_bytes(batch_size), memory_size()
    if needed > available:
        raise UsageError(f"a model with width {config.width}, {config.layers} layers, context {config.context} and "
                         f"batch size {batch_size} takes about {needed / 1e9:,.0f} GB to train, and this "
                         f"computer has {available / 1e9:,.0f} GB; choose smaller ones")
