"""Checkpoints: everything a run needs to resume, in one `.npz` without pickle, safe from crashes and bit flips.

A new one is written to a temporary file, flushed to disk and renamed over the old one, which is kept. So a kill at any
moment leaves `checkpoint.npz`, or between the two renames `checkpoint.previous.npz`, intact. `checkpoint.best.npz` is the
one with the lowest validation loss.

A finished model takes less room with its arrays in float16, or in bfloat16, stored as uint16 (`extend.to_bfloat16`), and
without those of the optimizer; then it cannot be resumed. It is read into float32.
"""
import collections
import dataclasses
import itertools
import math
import os
import pathlib
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minigrad.serialization import OtherFormat, read_archive, replacing, write_archive
from minigrad.extend import from_bfloat16
from models.tasks import TASKS
from models.tokenizers import tokenizer_of
from models.training_config import grouped

NAME, PREVIOUS, BEST = "checkpoint.npz", "checkpoint.previous.npz", "checkpoint.best.npz"
FORMAT = "minigrad checkpoint 3"
STARTER = "starter"  # the model that comes with minigrad, by this name if no file or folder has it
STARTER_FILE = pathlib.Path(__file__).with_name(STARTER) / "model.npz"


class CheckpointError(Exception):
    """A checkpoint cannot be saved or loaded; the message names the file and what to do, in one line."""


class NoCheckpoint(CheckpointError):
    """There is no checkpoint here."""

    exit_code = 2


@dataclasses.dataclass
class Checkpoint:
    """A run after a step."""

    step: int  # updates done
    best_loss: float  # the lowest validation loss so far; infinite before the first
    architecture: str  # a key of ARCHITECTURES
    config: dict[str, Any]  # the fields of the model's config
    training: dict[str, Any]  # the fields of the TrainingConfig
    dataset: dict[str, Any]  # {"task": its name}, or a text's {"task": None, "path", "sha256", "tokenizer": its state}
    generators: dict[str, Any]  # the state of each random generator
    model: dict[str, np.ndarray]  # parameters and buffers by name
    optimizer: dict[str, np.ndarray]  # its state, by parameter and name

    ARRAYS = "model", "optimizer"  # the fields that hold arrays; the others go into the header


def _are_paths(paths: list[Any]) -> bool:
    return bool(paths) and all(isinstance(path, str) and "\0" not in path for path in paths)


def _is_tokenizer_state(state: Any) -> bool:
    try:
        tokenizer_of(state)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False
    return True


def _is_generator_state(state: Any) -> bool:
    generator = np.random.PCG64(0)
    try:
        generator.state = state
    except Exception:  # noqa: BLE001  NumPy raises many kinds
        return False
    return generator.state == state


ABSENT = object()
Requirement = tuple[Callable[[Any], bool], str]  # a test of a value, and its wording in an error
REQUIREMENTS: dict[str, Requirement] = {  # for everything that is not an array, by its place
    "step": (lambda step: type(step) is int and step >= 0, "a whole number from 0"),
    "best_loss": (lambda loss: type(loss) is float and not math.isnan(loss), "a number"),
    "architecture": (lambda name: isinstance(name, str), "the name of a kind of model"),
    "config": (lambda config: isinstance(config, dict), "the fields of a model's config"),
    "training": (lambda config: isinstance(config, dict), "the fields of a TrainingConfig"),
    "dataset.task": (lambda task: task is None or isinstance(task, str) and task in TASKS, "the name of a task or null"),
    "generators.batches": (_is_generator_state, "the state of a PCG64 generator"),
    "generators.minigrad": (_is_generator_state, "the state of a PCG64 generator"),
}
OF_TEXTS: dict[str, Requirement] = {
    "dataset.path": (lambda path: path is None or _are_paths(path if isinstance(path, list) else [path]),
                     "a path, a list of paths, or null"),
    "dataset.sha256": (lambda digest: isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) is not None,
                       "64 hexadecimal digits"),
    "dataset.tokenizer": (_is_tokenizer_state, "the state of a tokenizer"),
}


def save(folder: str | os.PathLike[str], checkpoint: Checkpoint, name: str = NAME) -> pathlib.Path:
    """Write a checkpoint into a folder; an existing `checkpoint.npz` becomes `checkpoint.previous.npz`.

    CheckpointError if that fails (a full disk, no permission); existing checkpoints stay as they were.
    """
    folder = pathlib.Path(folder)
    path = folder / name
    arrays = {f"{group}/{key}": array for group in Checkpoint.ARRAYS
              for key, array in getattr(checkpoint, group).items()}
    header = {field.name: getattr(checkpoint, field.name) for field in dataclasses.fields(Checkpoint)
              if field.name not in Checkpoint.ARRAYS}
    try:
        for stale in folder.glob(".checkpoint.*.tmp"):
            stale.unlink()
        with replacing(path, previous=folder / PREVIOUS if name == NAME else None) as file:
            write_archive(file, {"format": FORMAT, **header}, arrays)
    except OSError as error:
        intact, then = ("the previous checkpoint is intact", "use --resume") if has_checkpoint(folder) else (
            "there is no previous checkpoint", "start again")
        raise CheckpointError(f"cannot save {path}: {error.strerror or error}; {intact}: free some space or make the "
                              f"folder writable, then {then}") from None
    return path


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in (NAME, PREVIOUS))


def find(run: str | os.PathLike[str], best: bool = False) -> pathlib.Path:
    """The last or best checkpoint file in a run's folder, the file itself, or STARTER's; NoCheckpoint if there is none."""
    if run == "":
        raise NoCheckpoint("the name of the run is empty; give the folder of a run")
    run = pathlib.Path(run)
    if str(run) == STARTER and not os.path.lexists(run):
        return STARTER_FILE
    names = [BEST] if best else [NAME, PREVIOUS]
    try:
        if run.is_file() and not best:
            return run
        found = next((run / name for name in names if (run / name).is_file()), None)
        problem = (f"holds no {names[0]}" if run.is_dir() else "is not a folder" if run.is_file()
                   else "is a pipe, socket or device, not a file" if run.exists() else "does not exist")
    except OSError as error:
        raise NoCheckpoint(f"cannot read {run}: {error.strerror or error}; give the folder of a run") from None
    if found is None:
        raise NoCheckpoint(f"{run} {problem}; {hint(run)}")
    return found


def hint(run: pathlib.Path) -> str:
    """What to do with a folder that has no checkpoint."""
    if (run / "config.json").is_file():
        return "it is a Hugging Face folder, for `minigrad train --init-from` and `minigrad sample`, without --best"
    return "give the folder of a run, or train one with `minigrad train`"


def load(run: str | os.PathLike[str], best: bool = False) -> Checkpoint:
    """Read a checkpoint from a run's folder or a file; CheckpointError if it is incomplete or invalid."""
    path = find(run, best)
    try:
        header, members = read_archive(path, FORMAT)
        groups: dict[str, dict[str, Any]] = {group: {} for group in Checkpoint.ARRAYS}
        for member, array in members.items():
            group, _, name = member.partition("/")
            if group not in groups:
                raise ValueError(f"{path} is damaged: it holds an unknown array, {reprlib.repr(member)}")
            groups[group][name] = widened(array) if group == "model" else array
        fields = {field.name for field in dataclasses.fields(Checkpoint)} - groups.keys()
        if header.keys() != fields:
            raise ValueError(f"{path} is damaged: missing or unknown in its header: "
                             f"{reprlib.repr(sorted(header.keys() ^ fields))}")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except OtherFormat as error:
        raise CheckpointError(f"{error}; use the version of minigrad that wrote it, or train again") from None
    except ValueError as error:
        raise CheckpointError(f"{error}{remedy(path)}") from None
    checkpoint = Checkpoint(**{**header, **groups})
    check_values(checkpoint, path)
    try:
        return packed(checkpoint)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error!r:.100}){remedy(path)}") from None


def packed(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with one matrix in each layer for all queries, keys and values. Earlier versions had three for groups
    of heads and for relative positions, and numbered the optimizer's arrays accordingly."""
    parts: dict[str, list[str]] = collections.defaultdict(list)  # {name: its former names}
    for name in checkpoint.model:
        parts[re.sub(r"attention\.((query|key|value)\.|out(?=\.))",
                     lambda found: "attention.in_proj_" if found[2] else "attention.out_proj", name)].append(name)
    arrays = {name: [checkpoint.model[part] for part in parts[name]] for name in parts}
    if len(parts) == len(checkpoint.model) or any(len({x.shape[1:] for x in found}) > 1 for found in arrays.values()):
        return checkpoint
    model = {name: np.concatenate(found) if len(found) > 1 else found[0] for name, found in arrays.items()}
    config, training = checkpoint.config, checkpoint.training
    head_size = config["head_size"] or config["width"] // config["heads"]

    def numbers(arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
        groups = grouped({name: array.shape for name, array in arrays.items()}, training["decay_all"],
                         head_size if training.get("optimizer") == "muon" else None)
        return {name: i for i, name in enumerate(itertools.chain.from_iterable(groups.values()))}

    former, optimizer = numbers(checkpoint.model), {}
    kinds = {key.partition(".")[2] for key in checkpoint.optimizer}
    for (name, i), kind in itertools.product(numbers(model).items(), sorted(kinds)):
        keys = [f"{former[part]}.{kind}" for part in parts[name]]
        found = [checkpoint.optimizer[key] for key in keys if key in checkpoint.optimizer]
        if found:
            optimizer[f"{i}.{kind}"] = np.concatenate(found) if found[0].ndim else found[0]
    return dataclasses.replace(checkpoint, model=model, optimizer=optimizer)


def widened(array: np.ndarray) -> np.ndarray:
    """A parameter in float32 if it is stored in two bytes, else the array itself."""
    if array.dtype == np.uint16:
        return from_bfloat16(array)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def remedy(path: str | os.PathLike[str]) -> str:
    """What to do about a damaged checkpoint."""
    path = pathlib.Path(path)
    if path == STARTER_FILE:
        return "; install minigrad again"
    previous = path.with_name(PREVIOUS)
    if path.name == NAME and previous.is_file():
        return f"; use the one before it: {previous}"
    return "; give a checkpoint.npz that `minigrad train` wrote"


def check_values(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """CheckpointError unless everything but the arrays meets the REQUIREMENTS."""
    is_text = isinstance(checkpoint.dataset, dict) and checkpoint.dataset.get("task") is None
    for place, (is_right, expected) in (REQUIREMENTS | OF_TEXTS if is_text else REQUIREMENTS).items():
        field, _, name = place.partition(".")
        value = getattr(checkpoint, field)
        if name:
            value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
        if not is_right(value):
            came = "missing" if value is ABSENT else reprlib.repr(value)
            raise CheckpointError(f"{path} is damaged: its {place} is {came}, expected {expected}{remedy(path)}")


def check_arrays(checkpoint: Checkpoint, group: str, expected: Mapping[str, np.ndarray],
                 path: str | os.PathLike[str]) -> None:
    """CheckpointError names the first array of the group that is missing, unexpected, of another shape or dtype, or that
    contains NaN or infinity."""
    arrays = getattr(checkpoint, group)
    for name in dict.fromkeys((*expected, *arrays)):
        came, wanted = _describe(arrays.get(name)), _describe(expected.get(name))
        if came != wanted:
            raise CheckpointError(f"{path} is from another architecture: its {group}/{name} is {came}, expected {wanted}; "
                                  "leave out flags that change the model, or use the version of minigrad that wrote it")
        if not np.isfinite(arrays[name]).all():
            raise CheckpointError(f"{path} is unusable: its {group}/{name} contains NaN or infinity{remedy(path)}")


def _describe(array: np.ndarray | None) -> str:
    return "missing" if array is None else f"{array.dtype.newbyteorder('=')} {array.shape}"
