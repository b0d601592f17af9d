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
from typing import Any, NamedTuple, Sequence

import numpy as np

from ...arrays.versions import owner
from ...backend import is_tensor
from ...random import Generator
from .surroundings import SIMPLE, is_of_library


class Made(NamedTuple):
    """The n-th tensor that the step made; 0 for an array that it made."""

    number: int


class Outside(NamedTuple):
    """A Tensor, or an object, that the step did not make."""

    identity: int
    shown: str


class Given(NamedTuple):
    """An array that Python made, or that lies outside."""

    array: np.ndarray

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
            number = getattr(value, "number", None)
            if number is not None:
                return Made(number)
            is_outside = self.is_from_outside(value)
            return Outside(id(value), f"a tensor of shape {value.shape}") if is_outside else self._fact(value._array)
        if isinstance(value, np.ndarray):
            return self._of_array(value)
        if isinstance(value, (tuple, list)):
            return type(value).__name__, *map(self._fact, value)
        if isinstance(value, dict):
            return "dict", *[(key, self._fact(item)) for key, item in value.items()]
        if isinstance(value, functools.partial):
            return "partial", self._fact(value.func), self._fact(value.args), self._fact(value.keywords)
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return value.__code__, *map(self._fact, cells), self._fact(value.__defaults__)
        if isinstance(value, types.MethodType):
            return self._fact(value.__func__), self._fact(value.__self__)
        if isinstance(value, (staticmethod, classmethod)):
            return self._fact(value.__func__)
        if isinstance(value, type):
            return value.__qualname__, *[self._fact(part) for part in vars(value).values() if callable(part)]
        is_new = isinstance(value, Generator) and not self.is_from_outside(value)
        return type(value).__qualname__ if is_new else Outside(id(value), type(value).__qualname__)

    def is_from_outside(self, value: Any) -> bool:
        """Was this Tensor or Generator there before the step began?"""
        return (value.made if getattr(value, "node", None) is None else value.node.order) <= self.began

    def _of_array(self, array: np.ndarray) -> Made | Given:
        memory = owner(array)
        reference = self._memories.get(id(memory))
        return Made(0) if reference is not None and reference() is memory else Given(array)

    def difference(self, before: "Transcript") -> str | None:
        """In words, how this step differs from one of before; None if it does not."""
        for now, then in zip(self.calls, before.calls):
            if now.title != then.title:
                return f"it called {now}, where it had called {then}"
            facts = list(_different(now.given, then.given))
            if facts:
                return f"it gave {now} {_shown(facts[0][0])}, where it had given {_shown(facts[0][1])}"
        more, fewer = (now, then) = self.calls[len(before.calls) :], before.calls[len(self.calls) :]
        if more:
            return f"it called {now[0]}, which it did not when it was captured"
        return f"it did not call {then[0]}, which it did when it was captured" if fewer else None

    def constants(self) -> list[tuple[str, str, Any]]:
        """(what it was given to, where, value) of the numbers and arrays that are not computed anew."""
        found = []
        for call in self.calls:
            found += [(call.title, call.where, _plain(fact)) for fact in _leaves(call.given)
                      if isinstance(fact, (int, float, complex, np.generic, Given)) and not isinstance(fact, bool)]
        return found


def users_line() -> str:
    """The line of the user's code that is running, as "file:line"."""
    frame = sys._getframe(2)
    while frame.f_back is not None and is_of_library(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _different(a: Any, b: Any):
    """The pairs of facts that differ."""
    if type(a) is not type(b):
        yield a, b
    elif isinstance(a, Given):
        if a.array is not b.array and not _same_bits(a.array, b.array):
            yield a, b
    elif isinstance(a, tuple) and not isinstance(a, (Made, Outside)):
        if len(a) != len(b):
            yield a, b
        for pair in zip(a, b):
            yield from _different(*pair)
    elif isinstance(a, Outside):
        if a.identity != b.identity:
            yield a, b
    elif isinstance(a, (float, complex, np.generic)):
        if np.asarray(a).tobytes() != np.asarray(b).tobytes() or np.asarray(a).dtype != np.asarray(b).dtype:
            yield a, b
    elif a != b:
        yield a, b


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _leaves(facts: Sequence):
    for fact in facts:
        if isinstance(fact, tuple) and not isinstance(fact, (Made, Outside, Given)):
            yield from _leaves(fact)
        else:
            yield fact


def _plain(fact: Any) -> Any:
    return fact.array if isinstance(fact, Given) else fact


def _shown(fact: Any) -> str:
    if isinstance(fact, Made):
        return f"tensor {fact.number} of those that it made"
    if isinstance(fact, Outside):
        return f"another object ({fact.shown})"
    if isinstance(fact, types.CodeType):
        return f"the function {fact.co_qualname}"
    return repr(fact)
