"""A grid of runs: flags of `minigrad train` with several values each, their combinations, and a name for each."""
import argparse
import collections
import itertools
import math
import re
from collections.abc import Callable, Collection
from typing import Any

from models.commands.shared import UsageError, as_flag

MOST_RUNS = 1000  # more are a typo, or take weeks
LONGEST_NAME = 200  # file systems allow names of 255 bytes
YES_OR_NO = {"yes": True, "no": False}
Grid = dict[str, list[Any]]  # {flag: its values}


class SeveralValues:
    """Wraps a parser so that each added flag takes several values, separated by commas: the result is a Grid. A switch such
    as --bias takes yes and no. Flags in `without` are skipped.

    >>> parser = argparse.ArgumentParser()
    >>> SeveralValues(parser).add_argument("--lr", type=float)
    >>> parser.parse_args(["--lr", "1e-3,0.1"])
    Namespace(lr=[0.001, 0.1])
    """

    def __init__(self, parser: Any, without: Collection[str] = ()):
        self._parser, self._without = parser, without

    def add_argument_group(self, *arguments: Any, **options: Any) -> "SeveralValues":
        return SeveralValues(self._parser.add_argument_group(*arguments, **options), self._without)

    def add_argument(self, flag: str, type: Callable[[str], Any] = str, choices: Collection[str] | None = None,
                     action: Any = None, metavar: str | None = None, **options: Any) -> None:
        if flag in self._without:
            return
        if action in (argparse.BooleanOptionalAction, "store_true"):
            options |= {"nargs": "?", "const": [True]}
            no = f"--no-{flag.removeprefix('--')}"
            self._parser.add_argument(no, dest=flag[2:].replace("-", "_"), action="append_const", const=False,
                                      help=argparse.SUPPRESS)
            type, choices, metavar = YES_OR_NO.get, YES_OR_NO, "YES,NO"
        if choices is not None and metavar is None:
            metavar = f"{{{','.join(choices)}}}"
        self._parser.add_argument(flag, type=_values(type, choices), action="extend", metavar=metavar, **options)


def _values(kind: Callable[[str], Any], choices: Collection[str] | None) -> Callable[[str], list[Any]]:
    """A function from "a,b,c" to a list of values."""
    def value(text: str) -> Any:
        if choices is not None and text not in choices:
            raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {', '.join(choices)})")
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"invalid {kind.__name__} value: {text!r}") from None

    return lambda texts: [value(text.strip()) for text in texts.split(",")]


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of the values, the first seed's first, so that every setting soon has a result. UsageError if a
    value is repeated, or if there are more than MOST_RUNS.

    >>> combinations({"seed": [0, 1], "lr": [0.1, 0.2]})[1:3]
    [{'lr': 0.2, 'seed': 0}, {'lr': 0.1, 'seed': 1}]
    """
    for name, values in grid.items():
        twice = [value for value, count in collections.Counter(values).items() if count > 1]
        if twice:
            raise UsageError(f"{as_flag(name)} has {twice[0]} twice; give each value once")
    count = math.prod(map(len, grid.values()))
    if count > MOST_RUNS:
        sizes = " x ".join(f"{len(values)} of {as_flag(name)}" for name, values in varied(grid).items())
        raise UsageError(f"this grid has {count:,} runs ({sizes}), but a sweep takes at most {MOST_RUNS:,}; leave some out")
    others = [name for name in grid if name != "seed"]
    names = [*others, "seed"] if "seed" in grid else others
    return [dict(zip(names, (*values, *seed))) for seed in itertools.product(*([grid["seed"]] if "seed" in grid else []))
            for values in itertools.product(*(grid[name] for name in others))]


def varied(grid: Grid) -> Grid:
    """The flags with more than one value."""
    return {name: values for name, values in grid.items() if len(values) > 1}


def name_of(run: dict[str, Any], grid: Grid) -> str:
    """A file name that distinguishes a run from the others of its grid: the values that vary, then the seed.

    >>> grid = {"lr": [0.1, 0.2], "text": ["a/b c.txt"], "seed": [0]}
    >>> name_of({"lr": 0.1, "text": "a/b c.txt", "seed": 0}, grid)
    'lr=0.1,seed=0'
    """
    telling = [name for name in run if name in varied(grid) or name == "seed"]
    name = ",".join(f"{name.replace('_', '-')}={run[name]}" for name in telling)
    return re.sub(r"[^\w.,=+-]+", "_", name)[:LONGEST_NAME] or "run"
