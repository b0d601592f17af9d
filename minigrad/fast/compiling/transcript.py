"""What a step did, call by call, to be compared with what it does another time.

Each call has a title, the user's line that made it, and what it was given:

- what the step has made itself, by number: values may differ each time, where they come from may not;
- Tensors from outside, by identity: they are read anew each time;
- all else by value, as a replay takes it as given: numbers, options, arrays that Python made, functions.
"""
import functools
import sys
import types
import weakref
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np

from ...arrays.versions import owner
from ...backend import is_tensor
from ...random import Generator
from .code import USERS, whose
from .places import SIMPLE

NUMBERS = float, complex, np.generic  # which are the same if their bits are
PARTS = {  # what functions consist of
    functools.partial: ("func", "args", "keywords"), types.FunctionType: ("__code__", "__closure__", "__defaults__"),
    types.CellType: ("cell_contents",), types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}


class Thing(NamedTuple):
    """What is the same if it has the same identity: a tensor that the step made, by its number; what it did not, by id."""

    identity: Any
    shown: str

    def __eq__(self, other: Any) -> bool:
        return type(other) is Thing and self.identity == other.identity

    def __repr__(self) -> str:
        return self.shown


class Given(NamedTuple):
    """An array that Python made, or that lies outside."""

    array: np.ndarray

    def __eq__(self, other: Any) -> bool:
        return type(other) is Given and (self.array is other.array or same_bits(self.array, other.array))

    def __repr__(self) -> str:
        return np.array2string(self.array, threshold=8, edgeitems=2, separator=", ").replace("\n", "")


class Call(NamedTuple):
    """One call of a step."""

    title: str
    where: str  # the user's line, as "file:line"
    given: tuple

    def __str__(self) -> str:
        return f"{self.title} ({self.where})"


class Transcript:
    """The calls of a step, in order."""

    def __init__(self, began: int):
        self.began = began  # when the step began, by the engine's clock
        self.calls: list[Call] = []
        self._memories: dict[int, weakref.ref] = {}  # the arrays that own what the step has made, by id
        self._count = 0

    def number(self, array: np.ndarray) -> int:
        """The number of a tensor that the step makes now, of this array."""
        self.own(array)
        self._count += 1
        return self._count

    def own(self, array: np.ndarray) -> None:
        """The step has made this array."""
        memory = owner(array)
        self._memories[id(memory)] = weakref.ref(memory)

    def note(self, title: str, *given: Any) -> None:
        self.calls.append(Call(title, users_line(), tuple(map(self._fact, given))))

    def ends(self, results: Any) -> None:
        """The step has returned these."""
        self.calls.append(Call("return", "at its end", (self._fact(results),)))

    def _fact(self, value: Any) -> Any:
        """What is compared of it."""
        if isinstance(value, SIMPLE):
            return value
        if is_tensor(value):
            if hasattr(value, "number"):
                return made(value.number)
            if not self.is_from_outside(value):
                return self._fact(value._array)
            return outside(value, f"a tensor of shape {value.shape}")
        if isinstance(value, np.ndarray):
            return self._of_array(value)
        if isinstance(value, types.CodeType):
            return Thing(value, f"the function {value.co_qualname}")
        parts = next((names for kind, names in PARTS.items() if isinstance(value, kind)), None)
        if parts is not None:
            return tuple(self._fact(getattr(value, name)) for name in parts)
        if isinstance(value, type):
            return value.__qualname__, *[self._fact(part) for part in vars(value).values() if callable(part)]
        if isinstance(value, (tuple, list, dict)):
            items = value.items() if isinstance(value, dict) else value
            return type(value).__name__, *map(self._fact, items)
        is_new = isinstance(value, Generator) and not self.is_from_outside(value)
        return type(value).__qualname__ if is_new else outside(value, type(value).__qualname__)

    def is_from_outside(self, value: Any) -> bool:
        """Was this Tensor or Generator there before the step began?"""
        return (value.made if getattr(value, "node", None) is None else value.node.order) <= self.began

    def _of_array(self, array: np.ndarray) -> Thing | Given:
        memory = owner(array)
        reference = self._memories.get(id(memory))
        return made(0) if reference is not None and reference() is memory else Given(array)

    def difference(self, before: "Transcript") -> str | None:
        """In words, how this step differs from one of before; None if it does not."""
        for now, then in zip(self.calls, before.calls):
            if now.title != then.title:
                return f"it called {now}, where it had called {then}"
            if pair := _different(now.given, then.given):
                return "it gave {} {!r}, where it had given {!r}".format(now, *pair)
        more, fewer = (now, then) = self.calls[len(before.calls) :], before.calls[len(self.calls) :]
        if more:
            return f"it called {now[0]}, which it did not when it was captured"
        return f"it did not call {then[0]}, which it did when it was captured" if fewer else None

    def constants(self) -> list[tuple[str, str, Any]]:
        """(what it was given to, where, value) of the numbers and arrays that are not computed anew."""
        found = []
        for call in self.calls:
            found += [(call.title, call.where, getattr(fact, "array", fact)) for fact in _leaves(call.given)
                      if isinstance(fact, (*NUMBERS, int, Given)) and not isinstance(fact, bool)]
        return found


def users_line() -> str:
    """The line of the user's code that is running, as "file:line"."""
    frame = sys._getframe(2)
    while frame.f_back is not None and whose(frame.f_globals.get("__name__")) is not USERS:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def made(number: int) -> Thing:
    """The tensor that the step made as its n-th; 0 for an array that it made."""
    return Thing(number, f"tensor {number} of those that it made")


def outside(value: Any, kind: str) -> Thing:
    """A Tensor, or an object, that the step did not make."""
    return Thing((id(value),), f"another object ({kind})")


def _different(a: Any, b: Any) -> tuple[Any, Any] | None:
    """The first pair of facts that differ."""
    if type(a) is type(b) is tuple and len(a) == len(b):
        return next(filter(None, map(_different, a, b)), None)
    if isinstance(a, NUMBERS) and type(a) is type(b):
        is_same = same_bits(np.asarray(a), np.asarray(b))
    else:
        is_same = type(a) is type(b) and a == b
    return None if is_same else (a, b)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _leaves(facts: Sequence) -> Iterator:
    for fact in facts:
        if type(fact) is tuple:
            yield from _leaves(fact)
        else:
            yield fact
