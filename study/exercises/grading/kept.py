"""Results on disk, written as they arrive, so that a run can be killed at any moment and resume.

The folder has `minigrad-grades.json`, with the seed, and a file for each result. Its name is a hash of what the result
depends on: the submission, the exercise, the seed and the version. So a submission that has changed is judged again.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import secrets
from typing import Any

import minigrad as mg
from minigrad.serialization import replacing

MARKER, FORMAT = "minigrad-grades.json", "minigrad grades 2"


class Elsewhere(Exception):
    """The folder has other files."""


class Kept:
    """The results in a folder, which is created if necessary. The default seed is the last run's, or a new one.

    Elsewhere if the folder has other files, OSError if it is not writable.
    """

    def __init__(self, folder: pathlib.Path, seed: int | None = None):
        self.folder = folder
        before = read(folder / MARKER)
        if before is None and folder.is_dir() and any(folder.iterdir()):
            raise Elsewhere(f"{folder} exists, and has other files than grades")
        if seed is None:
            seed = (before or {}).get("seed", secrets.randbelow(10**6))
        self.seed = int(seed)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / MARKER, {"format": FORMAT, "seed": self.seed})

    def key(self, path: pathlib.Path, exercise: str) -> str:
        """A hash of all that a result depends on. The exercise is a name, or the file of a teacher's own."""
        exercise = digest(exercise) if exercise.endswith(".py") else exercise
        parts = [FORMAT, mg.__version__, exercise, digest(path), path.suffix, self.seed]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def get(self, key: str) -> dict[str, Any] | None:
        """A result; None if it is missing or damaged."""
        return read(self.folder / f"{key}.json")

    def keep(self, key: str, result: dict[str, Any]) -> None:
        write(self.folder / f"{key}.json", {"format": FORMAT, **result})


def digest(path: str | os.PathLike) -> str:
    """The hash of a file; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def is_ours(folder: str | os.PathLike) -> bool:
    """Are there grades in this folder?"""
    return os.path.isfile(os.path.join(folder, MARKER))


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """What `write` wrote; None if the file is missing, or is something else."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and found.get("format") == FORMAT:
            return found
    return None


def write(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Atomic."""
    with replacing(path) as file:
        file.write(json.dumps(content).encode())
