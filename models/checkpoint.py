"""Checkpoints: everything a run needs to go on, in one `.npz` without pickle, safe from crashes and bit flips.

A new one is written to a temporary file beside the old one, flushed to the disk, and renamed over it; the one before
is kept. So a kill at any moment leaves `checkpoint.npz`, or between the two renames `checkpoint.previous.npz`, whole.
"""
import dataclasses
import io
import json
import os
import pathlib
import re
import reprlib
import textwrap
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from models.data import Vocabulary

NAME, PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
TEMPORARY = ".checkpoint-{}.tmp"
FORMAT = "minigrad checkpoint 1"
HEADER = "header"  # the member that holds, as JSON, all that is not an array


class CheckpointError(Exception):
    """A checkpoint cannot be saved or loaded; the message names the file and what to do, in one line."""


@dataclasses.dataclass
class Checkpoint:
    """A run at the end of a step."""

    step: int  # updates done
    config: dict  # the fields of the model's config
    training: dict  # the fields of the TrainingConfig
    corpus: dict  # path, sha256 and symbols of the text
    generators: dict  # the state of each random generator
    model: dict[str, np.ndarray]  # parameters and buffers by name
    optimizer: dict[str, np.ndarray]  # its state, by parameter and name

    ARRAYS = "model", "optimizer"  # the fields that hold arrays; the others go into the header


def _is_vocabulary(symbols: Any) -> bool:
    try:
        Vocabulary(symbols)
        symbols.encode()  # half of a surrogate pair cannot be written
    except (TypeError, ValueError, AttributeError):
        return False
    return True


def _is_generator_state(state: Any) -> bool:
    """Does a generator that is put there say the same?"""
    generator = np.random.PCG64(0)
    try:
        generator.state = state
    except Exception:  # noqa: BLE001  NumPy has many for what is missing, of another type or too large
        return False
    return generator.state == state


ABSENT = object()
REQUIREMENTS = {  # what fields hold that are no arrays: where, a test of the value, and how it reads in an error
    "step": (lambda step: type(step) is int and step >= 0, "a whole number from 0"),
    "config": (lambda config: isinstance(config, dict), "the fields of a model's config"),
    "training": (lambda config: isinstance(config, dict), "the fields of a TrainingConfig"),
    "corpus.path": (lambda path: path is None or isinstance(path, str) and "\0" not in path, "a path or null"),
    "corpus.sha256": (lambda digest: isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest),
                      "64 hexadecimal digits"),
    "corpus.symbols": (_is_vocabulary, "characters in ascending order, each once"),
    "generators.batches": (_is_generator_state, "the state of a PCG64 generator"),
    "generators.minigrad": (_is_generator_state, "the state of a PCG64 generator"),
}


def save(folder: str | os.PathLike, checkpoint: Checkpoint) -> pathlib.Path:
    """Write `checkpoint.npz` into a folder; the one there becomes `checkpoint.previous.npz`.

    CheckpointError if that fails (a full disk, no permission); the checkpoints there stay as they were.
    """
    folder = pathlib.Path(folder)
    path, temporary = folder / NAME, folder / TEMPORARY.format(os.getpid())
    try:
        for stale in folder.glob(TEMPORARY.format("*")):
            stale.unlink()
        with open(temporary, "wb") as file:
            _write(file, checkpoint)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.replace(path, folder / PREVIOUS)
        os.replace(temporary, path)
        _flush_folder(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        has_one = path.exists() or (folder / PREVIOUS).exists()
        intact, then = ("the checkpoint before it is intact", "use --resume") if has_one else (
            "there is none before it", "start anew")
        raise CheckpointError(f"cannot save {path}: {error.strerror or error}; {intact}: make room there or make the "
                              f"folder writable, then {then}") from None
    return path


def _write(file: BinaryIO, checkpoint: Checkpoint) -> None:
    """The layout of np.savez; the header lists the arrays, so that a missing one is noticed."""
    arrays = {f"{group}/{name}": array for group in Checkpoint.ARRAYS
              for name, array in getattr(checkpoint, group).items()}
    values = {field.name: getattr(checkpoint, field.name) for field in dataclasses.fields(Checkpoint)
              if field.name not in Checkpoint.ARRAYS}
    header = json.dumps({"format": FORMAT, "arrays": list(arrays), **values})
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {HEADER: np.frombuffer(header.encode(), dtype=np.uint8), **arrays}.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _flush_folder(folder: pathlib.Path) -> None:
    """Make the renames themselves survive a power cut; Windows cannot open folders, and needs nothing."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def find(run: str | os.PathLike) -> pathlib.Path:
    """The checkpoint file of a run folder, or the file itself; CheckpointError if there is none."""
    run = pathlib.Path(run)
    try:
        if run.is_file():
            return run
        candidates = [run / name for name in (NAME, PREVIOUS)]
        found = next((path for path in candidates if path.is_file()), None)
        problem = (f"holds no {NAME}" if run.is_dir() else "is a pipe, socket or device, not a file" if run.exists()
                   else "does not exist")
    except OSError as error:
        raise CheckpointError(f"cannot read {run}: {error.strerror or error}; give the folder of a run") from None
    if found is None:
        raise CheckpointError(f"{run} {problem}; give the folder of a run, or train one with `minigrad train`")
    return found


def load(run: str | os.PathLike) -> Checkpoint:
    """Read the checkpoint of a run folder, or a checkpoint file; CheckpointError if it is not whole."""
    path = find(run)
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise CheckpointError(f"{path} is no checkpoint, or only a part of one{remedy(path)}")
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # noqa: BLE001  a damaged zip raises much: BadZipFile, zlib.error, NotImplementedError, KeyError, ...
        reason = textwrap.shorten(str(error) or type(error).__name__, 160, placeholder=" ...")
        raise CheckpointError(f"{path} is damaged ({reason}){remedy(path)}") from None


def remedy(path: str | os.PathLike) -> str:
    """What to do about a bad checkpoint."""
    path = pathlib.Path(path)
    previous = path.with_name(PREVIOUS)
    if path.name == NAME and previous.is_file():
        return f"; use the one before it: {previous}"
    return "; give a checkpoint.npz that `minigrad train` wrote"


def _read(archive: zipfile.ZipFile) -> Checkpoint:
    header = json.loads(_read_array(archive, HEADER).tobytes())
    if not isinstance(header, dict) or header.pop("format", None) != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    members, listed = [name.removesuffix(".npy") for name in archive.namelist()], header.pop("arrays", None)
    if not isinstance(listed, list) or members != [HEADER, *listed]:
        raise ValueError("it holds other arrays than it says")
    groups = {group: {} for group in Checkpoint.ARRAYS}
    for member in listed:
        group, _, name = member.partition("/")
        if group not in groups:
            raise ValueError(f"it holds an unknown array, {member}")
        groups[group][name] = _read_array(archive, member)
    return Checkpoint(**header, **groups)


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array. The whole member is read first, because zipfile compares its CRC at the end only."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    return np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)


def check_values(checkpoint: Checkpoint, path: str | os.PathLike) -> None:
    """CheckpointError unless what is not an array meets the REQUIREMENTS."""
    for place, (is_right, expected) in REQUIREMENTS.items():
        field, _, name = place.partition(".")
        value = getattr(checkpoint, field)
        if name:
            value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
        if not is_right(value):
            came = "missing" if value is ABSENT else reprlib.repr(value)
            raise CheckpointError(f"{path} is damaged: its {place} is {came}, expected {expected}{remedy(path)}")


def check_arrays(checkpoint: Checkpoint, group: str, expected: Mapping[str, np.ndarray],
                 path: str | os.PathLike) -> None:
    """CheckpointError that names the first array of the group that is missing or not expected, is of another shape or
    dtype than the expected one, or holds NaN or infinity."""
    arrays = getattr(checkpoint, group)
    for name in dict.fromkeys((*expected, *arrays)):
        came, wanted = _describe(arrays.get(name)), _describe(expected.get(name))
        if came != wanted:
            raise CheckpointError(f"{path} is from another architecture: its {group}/{name} is {came}, expected "
                                  f"{wanted}{remedy(path)}")
        if not np.isfinite(arrays[name]).all():
            raise CheckpointError(f"{path} is of no use: its {group}/{name} holds NaN or infinity{remedy(path)}")


def _describe(array: np.ndarray | None) -> str:
    return "missing" if array is None else f"{array.dtype.newbyteorder('=')} {array.shape}"
