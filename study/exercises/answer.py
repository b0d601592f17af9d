"""What came of calling somebody's function: arrays, or what went wrong. Nobody's word is taken for more than that."""
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Answer:
    """One call. `results` are arrays as they came, None for None; `container` is what they came in."""

    kind: str  # "returned", "raised", "timeout" or "died"
    results: tuple[np.ndarray | None, ...] = ()
    container: str = "array"  # "tuple", "list", "array", or the type's name of what is none of these
    inputs_after: tuple[Any, ...] = ()  # what the arguments were after the call
    message: str = ""  # of what it raised, or why it ended: "ValueError: ..."
    line: int | None = None  # of the student's file
    code: str = ""  # that line
    printed: str = ""  # the beginning of what it printed
    seconds: float = 0.0


class Caller(Protocol):
    """Who calls the function: here, or in a process of its own."""

    def call(self, arguments: list[Any]) -> Answer: ...


class Direct:
    """Calls a function of the user's own, in this process."""

    def __init__(self, function: Callable):
        self.function = function

    def call(self, arguments: list[Any]) -> Answer:
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            with np.errstate(all="ignore"):
                found = self.function(*arguments)
            container, results = unpacked(found)
        except Exception as error:  # noqa: BLE001  whatever it raises is an answer
            frames = traceback.extract_tb(error.__traceback__)
            file = getattr(getattr(self.function, "__code__", None), "co_filename", None)
            frame = ([frame for frame in frames if frame.filename == file] or frames)[-1]
            return Answer("raised", message=f"{type(error).__name__}: {error}", line=frame.lineno, code=frame.line or "")
        return Answer("returned", results, container, tuple(arguments))


def unpacked(found: Any) -> tuple[str, tuple[np.ndarray | None, ...]]:
    """What it came in, and the arrays: "array" for an array or a number, else the type's name, such as "tuple".

    >>> unpacked((np.ones(2), None))
    ('tuple', (array([1., 1.]), None))
    """
    if isinstance(found, (np.ndarray, float, int, np.generic)):
        return "array", (np.array(found),)
    if isinstance(found, (tuple, list)):
        return type(found).__name__, tuple(None if item is None else np.array(item) for item in found)
    return type(found).__name__, ()
