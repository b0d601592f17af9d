"""`minigrad train`: start a run on a text or a task, or resume one."""
import argparse
import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import minigrad as mg
from minigrad.extend import compile_ahead
from models import hub, loading
from models import run as runs
from models.architectures import ARCHITECTURES, architecture_for, make_model
from models.checkpoint import STARTER, Checkpoint, find, has_checkpoint, load
from models.commands.shared import UsageError, add_fields, as_flag, check_writable, usage_errors
from models.data import Corpus, load_corpus
from models.distributed import ALONE, Alone, Ranks, connected
from models.extras import quoted
from models.loading import model_config, task_of, training_config
from models.recipes import DEFAULT, PRESETS, RECIPES, SIZES, given_fields
from models.task import DEFAULTS
from models.tasks import TASKS
from models.tokenizers import KINDS, Tokenizer, TokenizerJson, Vocabulary, tokenizer_of
from models.train import Trainer, TrainingConfig
from models.config import TransformerConfig

RUNS = pathlib.Path("runs")  # where runs go without --out
MAY_CHANGE = {"steps", "eval_every", "eval_windows"}  # when a run is resumed
ANY = object()
UNUSED_BY_RNNS = set(TransformerConfig.__dataclass_fields__) - {"width", "dtype"}
CONFLICTS: dict[tuple[str, Any], set[str]] = {  # {(flag or field of a config, its value): flags that make no sense with it}
    ("task", ANY): {"preset", "recipe", "text", "tokenizer", "vocabulary_size"},
    ("init_from", ANY): {"preset", "recipe", "tokenizer", "vocabulary_size"},
    ("resume", ANY): {"init_from"},
    ("model", "rnn"): UNUSED_BY_RNNS,
    ("model", "rnn-attention"): UNUSED_BY_RNNS,
    ("optimizer", "adamw"): {"muon_lr", "muon_momentum"},
    ("annealing", "constant"): {"final_lr"},
}


def add_flags(parser: Any) -> None:
    parser.add_argument("--preset", choices=PRESETS, help="sizes of model and batch (default: nano)")
    names = "; ".join(f"{name}: {recipe.description}" for name, recipe in RECIPES.items())
    parser.add_argument("--recipe", choices=RECIPES, help="how a model of a text is built and trained; the flags below "
                        f"override parts of it ({names}; default: {DEFAULT})")
    parser.add_argument("--text", metavar="FILE", nargs="+", help="a text of any size, in UTF-8; several are one text "
                        "(default: Python's language reference)")
    parser.add_argument("--tokenizer", metavar="KIND", help="characters, bytes, a tokenizer.json, or a run or folder "
                        "with a tokenizer (default: characters)")
    parser.add_argument("--task", choices=TASKS, help="train on this task instead of a text")
    models = dict.fromkeys(name for kind in ("sequence", "class") for name in ARCHITECTURES[kind])
    parser.add_argument("--model", help=f"for a task: one of {', '.join(models)} (default: encoder-decoder, or encoder "
                        "where the answer is a class)")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/PRESET or runs/TASK-MODEL, numbered "
                        "if taken)")
    parser.add_argument("--resume", metavar="RUN", nargs="?", const=None,
                        help="resume this run (default: the one saved last)")
    parser.add_argument("--init-from", metavar="RUN", help="start a new run from the parameters of this run or Hugging "
                        "Face folder")
    recipe, plain, of_tasks = RECIPES[DEFAULT], RECIPES["nanogpt"], TASKS["copy"].config
    for name, kind, defaults, others, with_task in (
            ("training", TrainingConfig, recipe.training, plain.training, DEFAULTS),
            ("model", TransformerConfig, recipe.model, plain.model, {size: getattr(of_tasks, size) for size in SIZES})):
        group = parser.add_argument_group(name, (
            f"defaults for preset nano and recipe {DEFAULT}; with recipe nanogpt, --init-from or --task: "
            f"{as_flags(others)}; with --task also: {as_flags(with_task)}"))
        add_fields(group, kind, defaults)


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    check_conflicts(given, given, "")
    with connected() as ranks:
        threads = given.pop("threads", None)
        if isinstance(ranks, Ranks) and threads is None:
            mg.set_num_threads(ranks.default_threads())
        if ranks.is_first:
            compile_ahead()
        if "resume" in given:
            resume(given, ranks)
        else:
            start(given, ranks)
    return 0


def check_divisible(training: TrainingConfig, ranks: Alone) -> None:
    """UsageError if the ranks cannot divide a batch."""
    for name in ("batch_size", "final_batch_size"):
        size = getattr(training, name)
        if size is not None and size % ranks.size:
            raise UsageError(f"{as_flag(name)} is {size}, which {ranks.size} ranks cannot divide; make it a multiple of "
                             f"{ranks.size}, or start another number of ranks")


def check_conflicts(given: dict[str, Any], values: Mapping[str, Any], origin: str) -> None:
    """UsageError if a flag makes no sense with one of these values: of other flags, or of a config's fields. The origin is
    that of values without a flag."""
    for (name, value), others in CONFLICTS.items():
        if name in values and value in (ANY, values[name]):
            what = f"{as_flag(name)} {values[name] or ''}".strip()
            refuse_with(what if name in given else f"{what}, {origin}", given, others)


def refuse_with(what: str, given: dict[str, Any], others: set[str]) -> None:
    """UsageError if one of the others is given."""
    if others & given.keys():
        raise UsageError(f"{as_flag(min(others & given.keys()))} makes no sense with {what}; leave it out")


def as_flags(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{as_flag(field)} {value}" for field, value in values.items())


def start(given: dict[str, Any], ranks: Alone) -> None:
    trainer, name = new_trainer(given, ranks)
    folder = ranks.of_first(new_folder, given.get("out"), name)
    with locked(folder, ranks):
        train(trainer, folder)


def new_trainer(given: dict[str, Any], ranks: Alone = ALONE) -> tuple[Trainer, str]:
    """(The trainer of a new run, the run's name): the model of a preset, a task or another run, as changed by flags.
    UsageError if they make no sense."""
    name, task = given.get("preset", "nano"), TASKS.get(given.get("task", ""))
    recipe = RECIPES[given.get("recipe", DEFAULT)]
    config = PRESETS[name].config
    batch_size: dict[str, Any] = {"batch_size": PRESETS[name].batch_size}
    architecture, source, tokenizer = None, None, named_tokenizer(given)
    if task:
        config, batch_size = task.config, {}
    if "init_from" in given:
        source = loading.source(given["init_from"])
        name, config, architecture = source.name, source.config, source.architecture
        tokenizer = source.tokenizer or tokenizer  # a run on a task has none
        source.codec()
    with usage_errors():
        if not (task or source):
            config, batch_size = dataclasses.replace(config, **recipe.model), {**batch_size, **recipe.training}
        config = dataclasses.replace(config, **chosen(given, TransformerConfig))
        training = TrainingConfig(**(task.defaults if task else {}) | batch_size | chosen(given, TrainingConfig))
        check_conflicts(given, vars(training), "the default here")
        architecture = architecture_for(task, given.get("model", architecture), config)
        check_divisible(training, ranks)
        check_memory(config, training)
        dataset: Any = task or read_corpus(given.get("text"), config.context, tokenizer, ranks)
        if not task:
            config = with_vocabulary(config, dataset, given)
            check_memory(config, training)
        model = make_model(task, architecture, config, training.seed)
        if source:
            source.load_into(model)
        if task:
            task.check_context(model)
        trainer = Trainer(model, dataset, training, architecture, ranks)
    return trainer, f"{task.name}-{architecture}" if task else name


def named_tokenizer(given: dict[str, Any]) -> Tokenizer | str:
    """What --tokenizer names: a kind, or the tokenizer of a run, file or folder; UsageError if it names none of these."""
    name = given.get("tokenizer", Vocabulary.kind)
    if name in KINDS:
        return name
    if not name:
        raise UsageError(f"--tokenizer is empty; choose {', '.join(KINDS)}, or a file or folder with a tokenizer")
    try:
        with usage_errors("--tokenizer: "):
            if has_checkpoint(name):
                tokenizer = loading.source(name).tokenizer
                if tokenizer is None:
                    raise ValueError(f"{name} was trained on a task; give a run on a text")
                return tokenizer
            return (hub.read_tokenizer(name) if hub.is_folder(name) else None) or TokenizerJson.read(name)
    except OSError as error:
        raise UsageError(f"--tokenizer {name!r} is neither {' nor '.join(KINDS)}, nor a readable file or folder "
                         f"({error.strerror})") from None


def with_vocabulary(config: TransformerConfig, corpus: Corpus, given: dict[str, Any]) -> TransformerConfig:
    """The config with the vocabulary size of the tokenizer, or of the initial model; UsageError if flags contradict it."""
    size = len(corpus.tokenizer)
    if given.get("vocabulary_size", size) != size:
        raise UsageError(f"--vocabulary-size is {config.vocabulary_size}, but the tokenizer has {size} tokens; leave the "
                         "flag out")
    if "init_from" in given and corpus.tokenizer.fits(config.vocabulary_size):
        return config
    return dataclasses.replace(config, vocabulary_size=size)


def locked(folder: pathlib.Path, ranks: Alone) -> contextlib.AbstractContextManager[Any]:
    """The first rank keeps other processes out of the folder."""
    return runs.locked(folder) if ranks.is_first else contextlib.nullcontext()


def resume(given: dict[str, Any], ranks: Alone) -> None:
    """Resume a run from its checkpoint, with its settings unless flags change them."""
    path = ranks.of_first(lambda: find(named_run(given)))
    folder = path.parent
    if pathlib.Path(given.get("out", folder)).resolve() != folder.resolve():
        raise UsageError(f"--out {given['out']} is not the folder of the run, {folder}; drop --out")
    with locked(folder, ranks):  # before reading the checkpoint, which another process may be about to replace
        checkpoint = ranks.of_first(load, path)
        config, before, task = model_config(checkpoint, path), training_config(checkpoint, path), task_of(checkpoint)
        check_conflicts(given, vars(before), "that of the run")
        check_unchanged(checkpoint, given, path)
        with usage_errors():
            training = dataclasses.replace(before, **chosen(given, TrainingConfig) | {"precision": before.precision})
        check_divisible(training, ranks)
        check_memory(config, training)
        step, steps = checkpoint.step, training.steps
        if step and not checkpoint.optimizer:
            raise UsageError(f"{path} cannot be resumed: it holds a finished model without its optimizer; start a new run "
                             f"from it with --init-from {quoted(given['resume'] or folder)}")
        if steps < step:
            raise UsageError(f"--steps is {steps}, but {folder} has done {step}; give more steps")
        dataset = task or same_text(checkpoint, given, folder, config.context, ranks)
        ranks.of_first(check_writable, folder, None)
        with usage_errors(f"{folder}: "):
            trainer = Trainer(make_model(task, checkpoint.architecture, config, training.seed), dataset, training,
                              checkpoint.architecture, ranks)
        trainer.restore(checkpoint, path)
        was, rate = before.learning_rate_at(max(step - 1, 0)), training.learning_rate_at(step)
        if ranks.is_first and steps != before.steps and step < steps and rate > 1.1 * was:
            print(f"{folder}: the learning rate rises from {was:.1e} to {rate:.1e}, that of step {step} of {steps}, not "
                  f"of {before.steps}", file=sys.stderr)
        train(trainer, folder)


def same_text(checkpoint: Checkpoint, given: dict[str, Any], folder: pathlib.Path, context: int, ranks: Alone) -> Corpus:
    """The text of a checkpoint; UsageError if it has changed."""
    saved = checkpoint.dataset
    corpus = read_corpus(given.get("text", saved["path"]), context, tokenizer_of(saved["tokenizer"]), ranks)
    if corpus.sha256 != saved["sha256"]:
        raise UsageError(f"{corpus.name} is not the text that {folder} was "
                         "trained on; name that text with --text, or start a new run")
    return corpus


def train(trainer: Trainer, folder: pathlib.Path) -> None:
    """Say what will be trained, and train it."""
    ranks, dataset = trainer.ranks, trainer.dataset
    if ranks.is_first:
        count = sum(parameter.numel() for parameter in trainer.model.parameters())
        on = f", on {ranks.size} ranks" if ranks.size > 1 else ""
        print(f"{folder}: {count:,} parameters, {dataset.description}, steps {trainer.step} to {trainer.config.steps}{on}",
              file=sys.stderr)
    runs.train(trainer, folder)


def named_run(given: dict[str, Any]) -> str | pathlib.Path:
    """The run named by --resume or --out, or else the last one."""
    names = [name for name in (given["resume"], given.get("out")) if name is not None]
    run = names[0] if names else last_run()
    if run is None:
        raise UsageError(f"there is no run in {RUNS}{os.sep}; name one: --resume RUN")
    return run


def chosen(given: dict[str, Any], config_class: type[Any]) -> dict[str, Any]:
    return {name: given[name] for name in config_class.__dataclass_fields__ if name in given}


def check_unchanged(checkpoint: Checkpoint, given: dict[str, Any], path: pathlib.Path) -> None:
    """UsageError if a flag contradicts the run that is resumed."""
    task = checkpoint.dataset["task"]
    if task:
        refuse_with(f"{path}, which was trained on task {task}", given, {"text", "tokenizer"})
    config = model_config(checkpoint, path)
    saved = vars(config) | vars(training_config(checkpoint, path)) | {
        "mlp_ratio": given_fields(config)["mlp_ratio"], "task": task or "a text", "model": checkpoint.architecture}
    if "tokenizer" in given:
        state: dict[str, Any] = checkpoint.dataset["tokenizer"]
        named: Any = named_tokenizer(given)  # a kind, or a TokenizerJson
        is_same = named == state["kind"] if isinstance(named, str) else named.described == state.get("tokenizer")
        saved["tokenizer"] = given["tokenizer"] if is_same else state["kind"]
    asked = [(as_flag(name), f"is {value}", name, value) for name, value in given.items()]
    for flag, fields in stands_for(given).items():
        asked += [(flag, f"has {as_flag(name)} {fields[name]}", name, fields[name]) for name in fields if name not in given]
    for flag, what, name, value in asked:
        is_same = value == saved.get(name, value) or (name, value) == ("precision", "auto")
        if name not in MAY_CHANGE and not is_same:
            raise UsageError(f"{flag} {what}, but {path} was trained with {saved[name]}; a resumed run cannot change it: "
                             f"leave {flag} out, or start a new run")


def stands_for(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{"--preset nano": the fields that it sets}, and the same for --recipe, if they are given."""
    fields = {}
    if "preset" in given:
        preset = PRESETS[given["preset"]]
        sizes = {size: getattr(preset.config, size) for size in SIZES}
        fields[f"--preset {given['preset']}"] = sizes | {"batch_size": preset.batch_size}
    if "recipe" in given:
        fields[f"--recipe {given['recipe']}"] = RECIPES[given["recipe"]].fields
    return fields


def last_run() -> pathlib.Path | None:
    """The folder under runs/ with the newest checkpoint."""
    checkpoints = RUNS.glob("*/checkpoint*.npz")
    newest = max(checkpoints, key=lambda path: path.stat().st_mtime, default=None)
    return newest and newest.parent


def last_run_or_starter() -> pathlib.Path:
    """The last run, or the model that comes with minigrad if there is none; says which on stderr."""
    run, what = last_run(), "the run saved last"
    if run is None:
        run, what = pathlib.Path(STARTER), "the small model that comes with minigrad (`minigrad train` makes your own)"
    print(f"{run}, {what}:", file=sys.stderr)
    return run


def new_folder(out: str | None, name: str) -> pathlib.Path:
    """The folder of a new run: --out, or the first free one of runs/nano, runs/nano-2, ..."""
    if out == "":
        raise UsageError("--out is empty; name a folder, or leave it out")
    if out is not None:
        folder = pathlib.Path(out)
        taken = next((file for file in runs.TAKEN if (folder / file).exists()), None)
        if taken:
            raise UsageError(f"{folder} already holds {taken}; continue with --resume {quoted(folder)}, or choose another "
                             "--out")
    else:
        numbered = (RUNS / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
        folder = next(folder for folder in numbered if not folder.exists())
    check_writable(folder)
    return folder


def read_corpus(path: str | list[str] | None, context: int, tokenizer: Tokenizer | str, ranks: Alone) -> Corpus:
    """The corpus; UsageError if the text is missing or unusable."""
    try:
        with usage_errors():
            if ranks.size > 1:  # the first one makes the file of tokens
                ranks.of_first(lambda: load_corpus(path, context, tokenizer) and None)
            return load_corpus(path, context, tokenizer)
    except OSError as error:
        if path is None or error.filename not in (path if isinstance(path, list) else [path]):
            raise
        raise UsageError(f"cannot read {error.filename or repr(error.filename)} ({error.strerror}); give a text file with "
                         "--text") from None


def memory_size() -> float:
    """The bytes of memory of this computer; infinity if unknown."""
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(config: TransformerConfig, training: TrainingConfig) -> None:
    """UsageError if training would take more memory than this computer has."""
    batch_size = training.final_batch_size or training.batch_size
    needed, available = config.training_bytes(batch_size), memory_size()
    if needed > available:
        raise UsageError(f"a model with {config.vocabulary_size:,} tokens, width {config.width}, {config.layers} layers, "
                         f"context {config.context} and batch size {batch_size} takes about {needed / 1e9:,.0f} GB to "
                         f"train, and this computer has {available / 1e9:,.0f} GB; choose smaller ones")
