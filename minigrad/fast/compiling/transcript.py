"""What a step did, call by call, for comparison with what it does another time.

Each call has a title, the user's line that made it, and its arguments:

- what the step itself made, by number: the values may differ each time, but not where they come from;
- Tensors from outside, by identity: they are read again each time;
- everything else by value, since a replay takes it as constant: numbers, options, arrays made in Python, functions.
"""
import functools
import sys
import types
import weakref
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np

from ...arrays.versions import owner
from ...autograd.function import Run
from ...backend import is_tensor
from ...random import Generator
from .reached import SIMPLE, is_users

NUMBERS = float, complex, np.generic  # compared bit by bit
PARTS = {  # by which functions are compared
    functools.partial: ("func", "args", "keywords"), types.FunctionType: ("__code__", "__closure__", "__defaults__"),
    types.CellType: ("cell_contents",), types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",), classmethod: ("__func__",), Run: ("function", "inputs", "numbers"),
}


class ByIdentity(NamedTuple):
    """Compared by identity: a tensor that the step made by its number, anything else by its id; and how it is shown."""

    identity: Any
    shown: str

    def __repr__(self) -> str:
        return self.shown


class ByValue(NamedTuple):
    """An array made in Python, or outside the step: compared by value."""

    array: np.ndarray

    def __eq__(self, other: Any) -> bool:
        return type(other) is ByValue and (self.array is other.array or same_bits(self.array, other.array))

    def __repr__(self) -> str:
        return np.array2string(self.array, threshold=8, edgeitems=2, separator=", ").replace("\n", "")


class Call(NamedTuple):
    """One call of a step."""

    title: str
    where: str  # the user's line, as "file:line"
    given: tuple  # its arguments

    def __str__(self) -> str:
        return f"{self.title} ({self.where})"


class Transcript:
    """The calls of a step, in order."""

    def __init__(self, began: int):
        self.began = began  # when the step began, by the engine's clock
        self.calls: list[Call] = []
        self._memories: dict[int, weakref.ref] = {}  # the arrays that own the memory of what the step made, by id
        self._count = 0

    def number(self, array: np.ndarray) -> int:
        """The number of a new tensor that the step makes of this array."""
        self.own(array)
        self._count += 1
        return self._count

    def own(self, array: np.ndarray) -> None:
        """The step made this array."""
        memory = owner(array)
        self._memories[id(memory)] = weakref.ref(memory)

    def note(self, title: str, *given: Any) -> None:
        self.calls.append(Call(title, users_line(), tuple(map(self._fact, given))))

    def ends(self, results: Any) -> None:
        """The step returned these."""
        self.calls.append(Call("return", "at its end", (self._fact(results),)))

    def _fact(self, value: Any) -> Any:
        """What of an argument is compared."""
        if isinstance(value, SIMPLE):
            return value
        if is_tensor(value):
            if hasattr(value, "number"):
                return made(value.number)
            if value.node is None or not self.is_from_outside(value):
                return self._fact(value._array)
            return outside(value, f"a tensor of shape {value.shape}")
        if isinstance(value, np.ndarray):
            memory = self._memories.get(id(owner(value)), lambda: None)
            return made(0) if memory() is owner(value) else ByValue(value)
        if isinstance(value, types.CodeType):
            return ByIdentity(value, f"the function {value.co_qualname}")
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
        """Did this Tensor or Generator exist before the step began?"""
        if isinstance(value, Generator):
            return value.made <= self.began
        return value.node is None or value.node.order <= self.began  # of a constant, it is not known

    def difference(self, before: "Transcript") -> str | None:
        """How this step differs from an earlier one, in words; None if it does not."""
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
        """(title of the call, where, value) for numbers and arrays that a replay does not compute again."""
        found = []
        for call in self.calls:
            found += [(call.title, call.where, getattr(fact, "array", fact)) for fact in _leaves(call.given)
                      if isinstance(fact, (*NUMBERS, int, ByValue)) and not isinstance(fact, bool)]
        return found


def users_line() -> str:
    """The line of the user's code that is running, as "file:line"."""
    frame = sys._getframe(2)
    while frame.f_back is not None and not is_users(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def made(number: int) -> ByIdentity:
    """The n-th tensor that the step made; 0 for an array that it made."""
    return ByIdentity(number, f"tensor {number} of those that it made")


def outside(value: Any, kind: str) -> ByIdentity:
    """A Tensor or other object that the step did not make."""
    return ByIdentity((id(value),), f"another object ({kind})")


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
