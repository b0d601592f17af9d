"""What the doctor is shown, and what it says."""
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Evidence:
    """One input, what is right for it, and what somebody's routine gave. All by name."""

    inputs: dict[str, Any]  # {"dout": ..., "x": ...}
    right: dict[str, np.ndarray]  # {"dx": ...}
    given: dict[str, np.ndarray | None]  # the same names; any shape, or None where there was none


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong: mistakes that explain every number, or else what is seen. It is true if a mistake is known."""

    names: tuple[str, ...] = ()  # of the known mistakes: ("no rowsum",)
    mistakes: tuple[str, ...] = ()  # a sentence for each of them
    facts: tuple[str, ...] = ()  # what is seen, whatever the reason

    def __bool__(self) -> bool:
        return bool(self.mistakes)

    @property
    def mistake(self) -> str | None:
        """The mistakes in one line, or None if none is known."""
        return "; ".join(self.mistakes) or None

    @property
    def sentence(self) -> str:
        """Mistakes and facts in one line."""
        return "; ".join((*self.mistakes, *self.facts))
