"""Checkpoints: everything a run needs to go on, in one `.npz` without pickle, safe from crashes and bit flips.

A new one is written to a temporary file beside the old one, flushed to the disk, and renamed over it; the one before
is kept. So a kill at any moment leaves `checkpoint.npz`, or between the two renames `checkpoint.previous.npz`, whole.
"""
import dataclasses
import io
import json
import os
import pathlib
import textwrap
import zipfile
from typing import BinaryIO

import numpy as np

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
        raise CheckpointError(
            f"cannot save {path}: {error.strerror or error}; the checkpoint before it is intact: make room there or "
            "make the folder writable, then use --resume"
        ) from None
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
    if run.is_dir():
        for name in (NAME, PREVIOUS):
            if (run / name).is_file():
                return run / name
        raise CheckpointError(f"{run} holds no {NAME}; give the folder of a run, or train one with `minigrad train`")
    if not run.exists():
        raise CheckpointError(f"{run} does not exist; give the folder of a run, or train one with `minigrad train`")
    return run


def load(run: str | os.PathLike) -> Checkpoint:
    """Read the checkpoint of a run folder, or a checkpoint file; CheckpointError if it is not whole."""
    path = find(run)
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise CheckpointError(f"{path} is no checkpoint, or only a part of one{_other(path)}")
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # noqa: BLE001  a damaged zip raises much: BadZipFile, zlib.error, NotImplementedError, KeyError, ...
        reason = textwrap.shorten(str(error) or type(error).__name__, 80, placeholder=" ...")
        raise CheckpointError(f"{path} is damaged ({reason}){_other(path)}") from None


def _other(path: pathlib.Path) -> str:
    """What to do about a bad checkpoint."""
    previous = path.with_name(PREVIOUS)
    if path.name == NAME and previous.is_file():
        return f"; use the one before it: {previous}"
    return "; give a checkpoint.npz that `minigrad train` wrote"


def _read(archive: zipfile.ZipFile) -> Checkpoint:
    header = json.loads(_read_array(archive, HEADER).tobytes())
    if header.pop("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    groups = {group: {} for group in Checkpoint.ARRAYS}
    for member in header.pop("arrays"):
        group, _, name = member.partition("/")
        groups[group][name] = _read_array(archive, member)
    return Checkpoint(**header, **groups)


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array. The whole member is read first, because zipfile compares its CRC at the end only."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    return np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)
