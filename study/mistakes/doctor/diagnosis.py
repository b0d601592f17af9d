"""What the doctor is shown, and what it says."""
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Evidence:
    """One input, what is right for it, and what somebody's routine gave. All by name.

    A name that `given` lacks is a result that nobody has seen: there are no numbers if the routine raised.
    """

    inputs: dict[str, Any]  # {"dout": ..., "x": ...}
    right: dict[str, np.ndarray]  # {"dx": ...}
    given: dict[str, np.ndarray | None]  # the same names; any shape, or None if that was returned


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong: mistakes that explain every number, or else what is seen. It is true if a mistake is known."""

    names: tuple[str, ...] = ()  # of the mistakes: ("no rowsum",), ("negated",)
    mistakes: tuple[str, ...] = ()  # a sentence for each of them
    facts: tuple[str, ...] = ()  # what is seen, whatever the reason
    certainty: str = ""  # what the mistakes were found to explain: "all 21 wrong numbers, on 4 inputs"
    is_right: bool = False
    is_whole: bool = False  # the mistakes explain all that is wrong

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
