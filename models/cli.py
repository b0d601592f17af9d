"""The command `minigrad`: train, sample, gradcheck, notes, info.

Whatever a user can get wrong ends in one line on stderr, before any long work: exit code 2 for bad usage, 1 for a run
or check that failed, 130 after Ctrl-C.
"""
import argparse
import contextlib
import dataclasses
import importlib.metadata
import inspect
import itertools
import math
import os
import pathlib
import platform
import re
import sys
import tempfile
from collections.abc import Container
from typing import NoReturn

import minigrad as mg
from minigrad.kernels import cache, threads
from models import run as runs
from models import task_run as task_runs
from models.checkpoint import Checkpoint, CheckpointError, find, load
from models.data import Corpus, Vocabulary, load_corpus
from models.generate import generate
from models.gradcheck import check_model
from models.notes import plots, report
from models.task_training import MODELS, TaskTraining
from models.tasks import TASKS
from models.train import Trainer, TrainingConfig, TrainingError, load_parameters, model_config, training_config
from models.transformer import PRESETS, CausalTransformer, TransformerConfig, check_whole

BYTES_PER_CHARACTER = 16  # of memory, while a text becomes token ids
RUNS = pathlib.Path("runs")  # where runs go without --out
FILES = *runs.FILES, task_runs.MODEL, task_runs.PICTURE  # of which a new run writes over none
DOCUMENT, PICTURES = "docs/lecture_notes.md", "docs/lecture_notes"  # where notes go
MAY_CHANGE = {"steps", "eval_every", "eval_windows"}  # what a resumed run may do otherwise than before
TASKS_ONLY = {field.name for field in dataclasses.fields(TaskTraining)} - {
    field.name for field in dataclasses.fields(TrainingConfig)}  # flags that need --task


class UsageError(Exception):
    """The user asked for what cannot be; the message names the thing and the fix, in one line."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a text may hold what the terminal's encoding lacks
    try:
        code = run_command(arguments)
        sys.stdout.flush()
    except (KeyboardInterrupt, runs.Interrupted) as reason:
        code = stop(str(reason) or "interrupted", 130)
    except UsageError as error:
        code = stop(f"error: {error}", 2)
    except (TrainingError, CheckpointError) as error:
        code = stop(f"error: {error}", 1)
    except MemoryError:
        code = stop("error: out of memory; choose a smaller model, context or batch size", 1)
    except BrokenPipeError:  # `minigrad sample | head`: nobody reads on
        code = 1
    except OSError as error:
        code = stop(f"error: {error.filename or 'output'}: {error.strerror or error}; make room or choose another "
                    "place with --out", 1)
    finish_output()
    return code


def run_command(arguments: list[str] | None) -> int:
    """What the arguments ask for; its exit code."""
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit as exit:  # argparse has printed help, or its one line
        return exit.code
    return options.command(options)


def stop(reason: str, code: int) -> int:
    """Say why in one line on stderr, if anybody reads it; the exit code."""
    with contextlib.suppress(OSError):
        print("minigrad:", " ".join(reason.split()), file=sys.stderr)
    return code


def finish_output() -> None:
    """Throw away what cannot be written any more, or Python would complain of it at its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"minigrad: error: {message}; see `{self.prog} --help`\n")


def make_parser() -> Parser:
    """All commands with their flags. A flag that is not given leaves no trace, so that a preset or run decides."""
    parser = Parser(prog="minigrad", description="Train, sample and check tiny transformers on a CPU.")
    parser.add_argument("--version", action="version", version=f"minigrad {version('minigrad')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name, function, text):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False,
                                      argument_default=argparse.SUPPRESS)
        command.set_defaults(command=function)
        command.add_argument("--threads", type=int, help="threads for the kernels (default: all cores)")
        return command

    train = add("train", train_command, "Train a causal transformer on a text, or a model on a task, and show it.")
    train.add_argument("--preset", choices=PRESETS, help="sizes of model and batch (default: nano)")
    train.add_argument("--text", metavar="FILE", help="a text in UTF-8 (default: Python's language reference)")
    train.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/PRESET or "
                       "runs/TASK-MODEL, numbered if taken)")
    train.add_argument("--resume", metavar="RUN", nargs="?", const=None,
                       help="go on with this run (default: the one saved last)")
    add_fields(train.add_argument_group("training (defaults of preset nano)"), TrainingConfig)
    add_fields(train.add_argument_group("model (defaults of preset nano)"), TransformerConfig)
    add_task_flags(train)

    sample = add("sample", sample_command, "Continue a prompt with a trained model.")
    sample.add_argument("--checkpoint", metavar="RUN", required=True, help="folder of a run, or a checkpoint file")
    sample.add_argument("--prompt", help="the text to continue (default: the vocabulary's first symbol)")
    sample.add_argument("--tokens", type=int, default=300, help="how many to generate (default: 300)")
    sample.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest (default: 0.8)")
    sample.add_argument("--top-k", type=int, default=None, help="draw from the k likeliest only")
    sample.add_argument("--top-p", type=float, default=None, help="draw from the likeliest that reach p only")
    sample.add_argument("--seed", type=int, default=None, help="for the same text again (default: a new one)")

    check = add("gradcheck", gradcheck_command, "Check all gradients of a small float64 model by finite differences.")
    check.add_argument("--seed", type=int, default=0, help="of parameters, tokens and directions (default: 0)")
    notes = add("notes", notes_command, "Find out, claim by claim, whether what the lecture notes say is so.")
    notes.add_argument("--row", metavar="ROW", nargs="+", help="only these rows of the list, such as A5")
    notes.add_argument("--write", metavar="FILE", nargs="?", const=DOCUMENT,
                       help=f"write the results as a document (default: {DOCUMENT})")
    notes.add_argument("--plot", metavar="DIR", nargs="?", const=PICTURES,
                       help=f"draw pictures into this folder (default: {PICTURES})")
    add("info", info_command, "Show versions, cores, threads and where compiled kernels are kept.")
    return parser


def add_task_flags(train: Parser) -> None:
    """The flags of `minigrad train --task`, beside those that training on a text has too."""
    config, training = task_runs.CONFIG, TaskTraining()
    group = train.add_argument_group("tasks", f"defaults here: --steps {training.steps}, --batch-size "
                                     f"{training.batch_size}, --lr {training.lr}, --seed {training.seed}; --layers "
                                     f"{config.layers}, --heads {config.heads}, --width {config.width}, --context "
                                     f"{config.context}")
    group.add_argument("--task", choices=TASKS, help="train on this instead of a text")
    group.add_argument("--model", help=f"one of {', '.join(MODELS)} (default: encoder-decoder, or encoder where the "
                       "answer is a class)")
    add_fields(group, TaskTraining, TASKS_ONLY)


def add_fields(group, config_class: type, names: Container[str] | None = None) -> None:
    """A flag for each field of a config (or those with these names); the comment behind the field is its help."""
    comments = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(config_class), re.MULTILINE))
    for field in dataclasses.fields(config_class):
        if names is not None and field.name not in names:
            continue
        flag = "--" + field.name.replace("_", "-")
        kind = int if field.type == int | None else field.type
        text = f"{comments[field.name].replace('%', '%%')} (default: {field.default})"
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            group.add_argument(flag, type=kind, metavar=kind.__name__.upper(), help=text)


# train

def train_command(options: argparse.Namespace) -> int:
    """`minigrad train`: a new run, or more of an old one."""
    given = vars(options)
    set_threads(given)
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


def check_writable(folder: pathlib.Path, flag: str = "--out") -> None:
    """Make the folder if need be; UsageError if no file can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {folder} ({error.strerror}); choose another folder with {flag}") from None


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


def set_threads(given: dict) -> None:
    """Obey --threads; UsageError if there are not so many."""
    try:
        if "threads" in given:
            mg.set_num_threads(given["threads"])
    except ValueError as error:
        raise UsageError(f"--threads: {error}") from None


# sample, gradcheck, notes, info

def sample_command(options: argparse.Namespace) -> int:
    """`minigrad sample`: the prompt and its continuation, as they come."""
    set_threads(vars(options))
    path = find(options.checkpoint)
    checkpoint = load(path)
    model = CausalTransformer(model_config(checkpoint, path))
    load_parameters(model, checkpoint, path)
    vocabulary = Vocabulary(checkpoint.corpus["symbols"])
    try:
        prompt = vocabulary.symbols[0] if "prompt" not in options else options.prompt
        ids = generate(model, vocabulary.encode(prompt), options.tokens, options.temperature, options.top_k,
                       options.top_p, options.seed)
    except ValueError as error:
        raise UsageError(error) from None
    print(prompt, end="")
    try:
        for token in ids:
            print(vocabulary.symbols[token], end="", flush=True)
    except ValueError as error:  # logits that overflow
        raise CheckpointError(f"{path}: {error}; train anew, with a smaller --lr") from None
    finally:
        print()
    return 0


def gradcheck_command(options: argparse.Namespace) -> int:
    """`minigrad gradcheck`: a table of all parameters; exit code 1 if the gradient of one is wrong."""
    set_threads(vars(options))
    try:
        check_whole("seed", options.seed, least=0)
    except ValueError as error:
        raise UsageError(error) from None
    report = check_model(options.seed)
    print(report)
    right = sum(entry.verdict == "pass" for entry in report.inputs)
    print(f"{right} of {len(report.inputs)} gradients are right")
    return 0 if report else 1


def notes_command(options: argparse.Namespace) -> int:
    """`minigrad notes`: a table of all claims; exit code 1 if one is refuted."""
    given = vars(options)
    set_threads(given)
    if "row" in given and "write" in given:
        raise UsageError("--write takes all rows, got --row; leave one of the two out")
    if "write" in given and pathlib.Path(given["write"]).is_dir():
        raise UsageError(f"{given['write'] or repr('')} is a folder; name a file with --write")
    for flag in ("write", "plot"):
        if flag in given:
            path = pathlib.Path(given[flag])
            check_writable(path.parent if flag == "write" else path, f"--{flag}")
    try:
        claims = report.select(given.get("row"))
    except ValueError as error:
        raise UsageError(error) from None
    print(report.header())
    outcomes = []
    for claim in claims:
        outcomes.append(report.check(claim))
        print(report.as_line(outcomes[-1]), flush=True)
    refuted = [f"{outcome.claim.row} (note {outcome.claim.note})" for outcome in outcomes if not outcome.holds]
    if refuted:
        return stop(f"error: refuted: {', '.join(refuted)}", 1)
    print(report.summary(outcomes))
    if "plot" in given:
        plots.draw_all(pathlib.Path(given["plot"]))
    if "write" in given:
        report.write(outcomes, pathlib.Path(given["write"]), plots.captions())
        print(given["write"])
    return 0


def info_command(options: argparse.Namespace) -> int:
    """`minigrad info`: what a bug report needs."""
    set_threads(vars(options))
    rows = {
        **{name: version(name) for name in ("minigrad", "numpy", "numba", "llvmlite", "matplotlib", "tqdm")},
        "python": f"{platform.python_version()} on {platform.system()}",
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": mg.get_num_threads(),
        "threading layer": threads.layer(),
        "kernel cache": cache.cache_folder() or "none: no folder is writable, kernels are compiled each time",
    }
    for name, value in rows.items():
        print(f"{name:15}  {value}")
    return 0


def version(package: str) -> str:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def cpu_name() -> str:
    """The model of the processor, as far as the system tells."""
    try:
        names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor() or platform.machine()
