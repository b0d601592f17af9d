"""What a sabotage is: a part of the library made wrong on purpose, to see whether a test notices."""
import importlib
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NO_PARTS = "__init__", "__main__", "base", "edit"
PARTS = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*.py") if path.stem not in NO_PARTS)


@dataclass(frozen=True)
class Sabotage:
    """`apply()` breaks the imported library, in a process of its own; then one of `tests` has to fail."""

    name: str  # what is broken and how: "Softmax: strides ignored", "encoder: blocks skipped"
    tests: tuple[str, ...]  # pytest's arguments that select the tests which are for this: files, "-k", "softmax"
    apply: Callable[[], None]
    explained: str = ""  # why no test can fail, where that is so


def all_sabotages(parts: Iterable[str]) -> list[Sabotage]:
    found = [sabotage for part in parts for sabotage in importlib.import_module(f"sabotage.{part}").SABOTAGES]
    if twice := [name for name, count in Counter(sabotage.name for sabotage in found).items() if count > 1]:
        raise ValueError(f"two sabotages have one name: {', '.join(sorted(twice))}")
    return found
