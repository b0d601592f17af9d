"""The outcome of calling somebody's function: arrays, or what went wrong. Nothing else that it says is trusted."""
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from study.exercises.worker.returned import copy_of, unwrap

RETURNED, RAISED, TIMEOUT, DIED = "returned", "raised", "timeout", "died"


@dataclass(frozen=True)
class Answer:
    """One call. `results` are arrays, None for whatever is not an array; `container` is what held them.

    A bare array or number is one result in the container "array".
    """

    kind: str  # "returned", "raised", "timeout" or "died"
    results: tuple[np.ndarray | None, ...] = ()
    container: str = "array"  # "tuple", "list", "array", or the name of another type
    given: tuple[str, ...] = ()  # what each result was: "an array", "a list", "a number", "None", "a string", ...
    inputs_after: tuple[Any, ...] = ()  # what the arguments were after the call
    message: str = ""  # the exception, or why the process ended: "ValueError: ..."
    line: int | None = None  # of the student's file
    place: str = ""  # that line in words: "line 12", or "cell 3, line 2"
    code: str = ""  # that line

    @property
    def where(self) -> str:
        """' (line 12: `return x @ dout`)' or ''."""
        return f" ({self.place}: `{self.code}`)" if self.place and self.code else f" ({self.place})" if self.place else ""


class Caller(Protocol):
    """Calls a function, in this process or in another."""

    def call(self, arguments: list[Any]) -> Answer: ...


class Direct:
    """Calls a function in this process."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def call(self, arguments: list[Any]) -> Answer:
        arguments = copy_of(arguments)
        try:
            with np.errstate(all="ignore"):
                found = self.function(*arguments)
        except Exception as error:  # noqa: BLE001  whatever it raises is an answer
            frames = traceback.extract_tb(error.__traceback__)
            file = getattr(getattr(self.function, "__code__", None), "co_filename", None)
            frame = ([frame for frame in frames if frame.filename == file] or frames)[-1]
            return Answer(RAISED, message=f"{type(error).__name__}: {error}", line=frame.lineno,
                          place=f"line {frame.lineno}", code=frame.line or "")
        container, given, results = unwrap(found)
        return Answer(RETURNED, tuple(results), container, tuple(given), tuple(arguments))
