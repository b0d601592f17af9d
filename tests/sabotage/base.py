"""What a sabotage is: a part of the library made wrong on purpose, to see whether a test notices."""
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sabotage:
    """`apply()` breaks the imported library, in a process of its own; then one of `tests` has to fail."""

    name: str  # what is broken and how: "Softmax: strides ignored", "encoder: blocks skipped"
    tests: tuple[str, ...]  # pytest's arguments that select the tests which are for this: files, "-k", "softmax"
    apply: Callable[[], None]
    explained: str = ""  # why no test can fail, where that is so
