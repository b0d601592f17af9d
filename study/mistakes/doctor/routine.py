"""What someone is asked to write, and the known mistakes in it."""
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np


@dataclass(frozen=True)
class Known:
    """A known mistake: the parts of the right routine that it replaces."""

    name: str  # "no rowsum"
    sentence: str  # what is wrong, addressed to the author
    changes: dict[str, Any]
    is_only_single: bool = False  # not tried together with another mistake


@dataclass(frozen=True)
class Routine:
    """right(*inputs, **parts) -> one result or a tuple, for inputs with these names; None means no result."""

    name: str
    right: Callable
    arguments: tuple[str, ...]  # ("dout", "x", "weight")
    results: tuple[str, ...]  # ("dx", "dweight")
    mistakes: tuple[Known, ...] = field(default=())
    edits: Callable[[], tuple[Known, ...]] = tuple  # more mistakes, made only if none of these explains the numbers
    forward: Callable[..., Any] | None = None  # of the inputs but the upstream gradient
    say: Callable[[str], str] = str  # a sentence in the names that the inputs have

    def run(self, inputs: dict[str, Any], changes: dict[str, Any] | None = None) -> dict[str, np.ndarray | None]:
        """The results by name, for inputs by name, with these parts replaced, or all of it (`instead`). Copies inputs."""
        parts = dict(changes or {})
        function = parts.pop("instead", self.right)
        arrays = [a.copy() if isinstance(a, np.ndarray) else a for a in (inputs[name] for name in self.arguments)]
        with np.errstate(all="ignore"):
            found = function(*arrays, **parts)
        return dict(zip(self.results, found if isinstance(found, tuple) else (found,), strict=True))
