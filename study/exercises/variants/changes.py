"""What a variant has in place of an argument, such as 0.4 * x or x^T, and the way there and back."""
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Callable[[Any], Any]


def same(a: Any) -> Any:
    return a


@dataclass(frozen=True)
class Change:
    """What a variant has in place of an argument or of out: its own array goes `to` the exercise's, and the exercise's
    gradient goes `back` to that of the variant. `undo` is the inverse of `to`, and `forth` that of `back`."""

    written: str  # "{}^T"
    to: Array
    undo: Array
    back: Array = same
    forth: Array = same
    swaps: bool = False  # the last two axes
    is_in_words: bool = True  # the exercise's known mistakes are told in other words
    code: str = ""  # "np.swapaxes({}, -1, -2)", for `to` and, unless it is `same`, `back`; "": as it is written


def involution(written: str, function: Array, **what: Any) -> Change:
    """A linear change that is its own inverse, and its own transpose."""
    return Change(written, function, function, function, function, **what)


def times(factor: float) -> Change:
    return Change(f"{factor:g} * {{}}", *(lambda a: a * factor, lambda a: a / factor) * 2, is_in_words=False)


def plus(number: float) -> Change:
    text = f"({{}} {'-' if number < 0 else '+'} {abs(number):g})"
    return Change(text, lambda a: a + number, lambda a: a - number, is_in_words=False)


def swapped(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


TRANSPOSED = involution("{}^T", swapped, swaps=True, code="np.swapaxes({}, -1, -2)")
FLIPPED = involution("flip({})", lambda a: a[..., ::-1, :], code="{}[..., ::-1, :]")
NEGATED = involution("(-{})", np.negative)
NOT = Change("not {}", np.logical_not, np.logical_not, code="~{}")
REST = Change("(1 - {})", lambda a: 1 - a, lambda a: 1 - a, np.negative, np.negative)
SQUARED = Change("{}^2", lambda a: a**2, lambda a: a**0.5, is_in_words=False, code="{}**2")
FROM_ONE = Change("({} - 1)", lambda ids: ids - 1, lambda ids: ids + 1)
NOTATION = {"^T": "^T swaps the last two axes", "flip": "flip reverses the last axis but one"}

Changes = Mapping[str, Change]  # by argument; "out" for the result
Group = Sequence[Changes]  # a variant has one of them

FACTORS = [c / 10 for c in (*range(2, 10), *range(11, 20))]
NUMBERS = [c / 10 for c in (-8, -7, -6, -4, -3, 3, 4, 6, 7, 8)]


def factor_of(name: str) -> Group:
    return [{name: times(c)} for c in FACTORS]


def number_to(name: str) -> Group:
    return [{name: plus(c)} for c in NUMBERS]


def perhaps(change: Change, *names: str) -> Group:
    """This change in all of these arguments, or in none."""
    return [{}, dict.fromkeys(names, change)]


def together(chosen: Sequence[Changes]) -> dict[str, tuple[Change, ...]]:
    """All changes by argument."""
    found: dict[str, tuple[Change, ...]] = {}
    for changes in chosen:
        for name, change in changes.items():
            found[name] = (*found.get(name, ()), change)
    return found


def chain(changes: Sequence[Change], part: str, value: Any) -> Any:
    for change in changes:
        value = getattr(change, part)(value)
    return value


def undone(changes: Sequence[Change], value: Any) -> Any:
    return chain(changes[::-1], "undo", value)


def written(changes: Sequence[Change], text: str) -> str:
    for change in changes:
        text = change.written.format(text)
    return text


def coded(changes: Sequence[Change], text: str) -> str:
    for change in changes:
        text = (change.code or change.written).format(text)
    return text


def argument_of(changes: Sequence[Change], name: str) -> str:
    """Without brackets around all of it.

    >>> argument_of([plus(0.3)], "x"), argument_of([plus(0.3), times(2)], "x")
    ('x + 0.3', '2 * (x + 0.3)')
    """
    text = written(changes, name)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text
