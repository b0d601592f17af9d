"""The functions of a teacher's file, in which anything that goes wrong is a Flaw, with the line of the file."""
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from study.mistakes.doctor import Known

from .flaw import Flaw, shapes_in, shown, told
from .parts import taken


def watched(function: Callable, title: str, path: pathlib.Path) -> Callable:
    """The function, where an exception is a Flaw."""

    def call(*arguments):
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except Exception as error:  # noqa: BLE001  whatever the teacher's function does
            arrays = arguments if title == "forward" else arguments[1:]
            raise Flaw(f"{title} raises {told(error, path)}, for {shapes_in(arrays)}") from None

    return call


def one_array(forward: Callable) -> Callable:
    """forward, where a result other than one float64 array is a Flaw."""

    def call(*arguments):
        out = forward(*arguments)
        if not isinstance(out, (np.ndarray, np.floating, float)) or np.asarray(out).dtype != np.float64:
            kind = f"one of {out.dtype}" if isinstance(out, (np.ndarray, np.generic)) else shown(out)
            raise Flaw(f"forward must return one float64 array, not {kind}")
        return np.asarray(out)

    return call


def all_gradients(backward: Callable, title: str, learned: list[str]) -> Callable:
    """backward, where a result other than one array for each learned argument is a Flaw."""

    def call(*arguments):
        found = backward(*arguments)
        found = found if type(found) is tuple else (found,)
        if len(found) != len(learned) or not all(isinstance(g, (np.ndarray, np.floating, float)) for g in found):
            wanted = ", ".join(f"d{name}" for name in learned)
            raise Flaw(f"{title} must return {wanted}: an array for each argument that gets a gradient")
        return tuple(np.asarray(g) for g in found)

    return call


def mistakes_of(names: dict[str, Any], path: pathlib.Path, learned: list[str]) -> tuple[Known, ...]:
    """The teacher's own known mistakes."""
    found = []
    for name, entry in taken(names, "mistakes", dict, {}).items():
        title = f"mistakes[{name!r}]"
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and callable(entry[1])):
            raise Flaw(f'{title} must be a sentence and a wrong backward: ("...", function)')
        found.append(Known(str(name), entry[0], {"instead": all_gradients(watched(entry[1], title, path), title, learned)}))
    return tuple(found)
