"""What someone is asked to write, and the known mistakes in it."""
import functools
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from ..base import FUNCTIONS, MUTANTS, as_tuple


@dataclass(frozen=True)
class Known:
    """A known mistake: the parts of the right routine that it replaces."""

    name: str  # "no rowsum"
    sentence: str  # what is wrong, addressed to the author
    changes: dict[str, Any]
    is_only_single: bool = False  # not tried together with another mistake or with a relation


@dataclass(frozen=True)
class Routine:
    """right(*inputs, **parts) -> one result or a tuple, for inputs with these names; None means no result."""

    name: str
    right: Callable
    arguments: tuple[str, ...]  # ("dout", "x", "weight")
    results: tuple[str, ...]  # ("dx", "dweight")
    mistakes: tuple[Known, ...] = field(default=())
    edits: Callable[[], tuple[Known, ...]] = tuple  # more mistakes, made only if none of these explains the numbers

    def run(self, inputs: dict[str, Any], changes: dict[str, Any] | None = None) -> dict[str, np.ndarray | None]:
        """The results by name, for inputs by name, with these parts replaced, or all of it (`instead`). Copies inputs."""
        parts = dict(changes or {})
        function = parts.pop("instead", self.right)
        arrays = [a.copy() if isinstance(a, np.ndarray) else a for a in (inputs[name] for name in self.arguments)]
        with np.errstate(all="ignore"):
            found = as_tuple(function(*arrays, **parts))
        return dict(zip(self.results, found, strict=True))


@functools.cache
def routine_of(name: str) -> Routine:
    """The backward of one of `mutants.FUNCTIONS`, with its mutants as the known mistakes."""
    function = FUNCTIONS[name]
    wanted = [function.arguments.index(argument) for argument in function.learned]

    def right(dout, *inputs, **parts):
        found = as_tuple(function.backward(dout, *inputs, **parts))
        return tuple(found[i] for i in wanted)

    mistakes = tuple(
        Known(title.removeprefix(f"{name}: "), mutant.mistake, mutant.changes) for title, mutant in MUTANTS.items()
        if mutant.right is function and not mutant.equivalent)
    return Routine(name, right, ("dout", *function.arguments), tuple(f"d{name}" for name in function.learned), mistakes)
