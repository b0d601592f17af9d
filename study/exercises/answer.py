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
        except Exception as error:  # noqa: BLE001  whatever it raises is an answer
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Answer("raised", message=f"{type(error).__name__}: {error}", line=last.lineno, code=last.line or "")
        container = {tuple: "tuple", list: "list"}.get(type(found), "array")
        results = tuple(found) if container == "tuple" else (found,)
        return Answer("returned", tuple(None if g is None else np.asarray(g) for g in results), container,
                      tuple(arguments))
