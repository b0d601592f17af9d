"""Results on the disk as they come, so that a run that is killed at any moment goes on where it was.

A folder holds `minigrad-grades.json`, which has the seed, and a file for each result, named by what it depends on: the
file that was handed in, the exercise, the seed and the version. A submission that changed has another name, and so is
judged again.
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

MARKER, FORMAT = "minigrad-grades.json", "minigrad grades 1"


class Elsewhere(Exception):
    """The folder holds other files."""


class Kept:
    """The results in a folder, which is made if need be. Without a seed it is the last run's, or a new one.

    Elsewhere if the folder holds other files, OSError if it cannot be written to.
    """

    def __init__(self, folder: pathlib.Path, seed: int | None = None):
        self.folder = folder
        before = read(folder / MARKER)
        if before is None and folder.is_dir() and any(folder.iterdir()):
            raise Elsewhere(f"{folder} is there, and holds other things than grades")
        if seed is None:
            seed = (before or {}).get("seed", secrets.randbelow(10**6))
        self.seed = int(seed)
        self.goes_on = before is not None
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / MARKER, {"format": FORMAT, "seed": self.seed})

    def key(self, path: pathlib.Path, exercise: str) -> str:
        """What a result depends on, as a name. The exercise is a name, too, or the file of a teacher's own."""
        exercise = digest(exercise) if exercise.endswith(".py") else exercise
        parts = [FORMAT, mg.__version__, exercise, digest(path), path.suffix, self.seed]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def get(self, key: str) -> dict[str, Any] | None:
        """A result, or None if it is not there or damaged."""
        return read(self.folder / f"{key}.json")

    def keep(self, key: str, result: dict[str, Any]) -> None:
        write(self.folder / f"{key}.json", {"format": FORMAT, **result})


def digest(path: str | os.PathLike) -> str:
    """Of a file's content; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def is_ours(folder: str | os.PathLike) -> bool:
    """Are there grades in this folder?"""
    return os.path.isfile(os.path.join(folder, MARKER))


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """What `write` wrote; None if it is not there, or something else is."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and found.get("format") == FORMAT:
            return found
    return None


def write(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    with replacing(path) as file:
        file.write(json.dumps(content).encode())
