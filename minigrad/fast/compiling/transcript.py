"""What a step did, call by call, for comparison with what it does another time.

Each call has a title, the user's line that made it, and its arguments: what the step itself made, by number, as values may
differ each time, but not where they come from; Tensors and other objects from outside, by identity; and all else by value,
since a replay takes it as constant: numbers, options, arrays made in Python, functions.
"""
import itertools
import weakref
from typing import Any, Iterable, Iterator, NamedTuple

import numpy as np

from ...arrays.versions import owner
from ...autograd.function import Run
from ...backend import is_tensor
from ...packages import users_line
from ...random import Generator
from ...tape import Node
from .reached import SIMPLE, leads


class Call(NamedTuple):
    """One call of a step."""

    title: str
    where: str  # the user's line, as "file:line"
    given: tuple  # its arguments, all in one row: numbers, texts and arrays

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

    def note(self, title: str, *given: Any, where: str | None = None) -> None:
        self.calls.append(Call(title, where or "{}:{}".format(*users_line()), tuple(_flat(map(self._fact, given)))))

    def _fact(self, value: Any) -> Any:
        """What of an argument is compared."""
        kind = getattr(value, "co_qualname", type(value).__qualname__)
        if is_tensor(value):
            if hasattr(value, "number"):
                return f"tensor {value.number} of those that it made"
            kind = f"a tensor of shape {value.shape}"
            value = value._array if value.node is None or not self.is_from_outside(value.node) else value
        if isinstance(value, np.ndarray):
            memory = self._memories.get(id(owner(value)), lambda: None)
            return "an array that it made" if memory() is owner(value) else value
        if isinstance(value, SIMPLE):
            return value
        parts = [value.function, value.inputs, value.numbers] if isinstance(value, Run) else leads(value)
        if isinstance(value, type):
            parts = [kind, value.__qualname__, *filter(callable, vars(value).values())]
        elif isinstance(value, (tuple, list, dict)):
            parts = [f"{kind} of {len(value)}", *(value.items() if isinstance(value, dict) else value)]
        if parts is not None:
            return tuple(map(self._fact, parts))
        return f"another object ({kind} at {id(value):#x})" if self.is_from_outside(value) else kind

    def is_from_outside(self, value: Any) -> bool:
        """Did this exist before the step began? Of most objects it is not known."""
        return (value.made if isinstance(value, Generator) else value.order if isinstance(value, Node) else 0) <= self.began

    def difference(self, before: "Transcript") -> str | None:
        """How this step differs from an earlier one, in words; None if it does not."""
        for now, then in itertools.zip_longest(self.calls, before.calls, fillvalue=Call("nothing", "at its end", ())):
            if now.title != then.title:
                return f"it called {now}, where it had called {then}"
            for a, b in itertools.zip_longest(now.given, then.given):
                if not are_same(a, b):
                    return f"it gave {now} {_shown(a)}, where it had given {_shown(b)}"
        return None

    def constants(self) -> list[tuple[str, str, Any]]:
        """(title of the call, where, value) for numbers and arrays that a replay does not compute again."""
        return [(call.title, call.where, fact) for call in self.calls for fact in call.given
                if isinstance(fact, (int, float, complex, np.generic, np.ndarray)) and not isinstance(fact, bool)]


def are_same(a: Any, b: Any) -> bool:
    """Are these the same, bit by bit?"""
    if type(a) is type(b) is np.ndarray and a is not b:
        return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    return a is b or type(a) is type(b) and repr(a) == repr(b)  # so that NaN is NaN, and 0 is not -0


def _shown(fact: Any) -> str:
    is_array = isinstance(fact, np.ndarray)
    return np.array2string(fact, threshold=8, edgeitems=2, separator=", ").replace("\n", "") if is_array else str(fact)


def _flat(facts: Iterable) -> Iterator:
    for fact in facts:
        yield from _flat(fact) if type(fact) is tuple else (fact,)
