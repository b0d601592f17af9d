"""A student's progress, in a small file next to the answers: which exercises are right, how many hints were read."""
import contextlib
import json
import pathlib
from typing import Any

from minigrad.serialization import replacing

FILE = ".minigrad-exercises.json"


def read(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """{exercise: {"right": bool, "hints": number}}; empty if the file is missing or damaged."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {name: {"right": bool(entry["right"]), "hints": int(entry["hints"])} for name, entry in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def note(folder: pathlib.Path, exercise: str, right: bool = False, hints: int = 0) -> None:
    """Note that an exercise is right, or that hints have been read. Does nothing if the folder is read-only."""
    entries = read(folder)
    before = entries.get(exercise, {"right": False, "hints": 0})
    entries[exercise] = {"right": before["right"] or right, "hints": before["hints"] + hints}
    with contextlib.suppress(OSError), replacing(folder / FILE) as file:
        file.write(json.dumps(entries, indent=1).encode())
