"""What the doctor is shown, and what it answers."""
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Evidence:
    """One set of inputs, the right results, and the results of someone's routine, all by name.

    `given` may lack a result, and is empty if the routine raised.
    """

    inputs: dict[str, Any]  # {"dout": ..., "x": ...}
    right: dict[str, np.ndarray]  # {"dx": ...}
    given: dict[str, np.ndarray | None]  # the same names; of any shape, or None if None was returned
    output: np.ndarray | None = None  # of the function, where the formulas may be said that would be right


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong: mistakes that explain every number, or else what can be seen. True if a mistake is known."""

    names: tuple[str, ...] = ()  # of the mistakes: ("no rowsum",), ("negated",)
    mistakes: tuple[str, ...] = ()  # a sentence for each of them
    facts: tuple[str, ...] = ()  # what can be seen, whatever the reason
    certainty: str = ""  # how much the mistakes explain: "explains all 21 wrong numbers of dx, on 4 inputs"
    is_right: bool = False
    is_whole: bool = False  # the mistakes explain everything that is wrong

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

    def __str__(self) -> str:
        return self.sentence
