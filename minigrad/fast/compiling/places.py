"""Places that may change: how they are read, compared and restored."""
import collections
import functools
import inspect
import io
import itertools
import math
import operator
import pickle
import random
import types
import weakref
from contextvars import ContextVar
from typing import Any, Callable, Collection

import numpy as np

from ... import random as own_random
from ...tape import Node
from ...tensor import Tensor
from .code import OURS, USERS, is_a, whose

MISSING = object()  # the value of a variable that is not there
SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice, np.generic, np.dtype)
EQUAL = {int, float, str, bytes, bytearray, bool}  # compared by value; others by identity
CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, types.MappingProxyType)

OF_LEAF = "grad", "hooks", "accumulation_hooks", "retains_grad", "name"
OF_TENSORS = {"_array", "node", "made", "frozen", "_memory", "_capture", "number"}  # attributes not set by users
CHECKED = "checked"  # before each replay
OUTDATING = "outdating"  # setting it outdates captured steps
DRAWN = "drawn from"  # a random generator or an iterator: a step that draws from it is refused
REPLAYED = "replayed"  # minigrad's own generator: a replay draws from it as the step does


class Place:
    """Something that may change: a variable, an attribute, the contents of a value."""

    def __init__(self, within: Any, key: str, name: str, read: Callable, write: Callable, kind: str = CHECKED):
        self.within, self.key, self.name, self.read, self.write, self.kind = within, key, name, read, write, kind
        self.value = self.latest = read()  # when the function began; after the last change that was allowed

    def has_changed(self) -> bool:
        return not same(self.read(), self.latest)

    def restore(self) -> None:
        if not same(self.read(), self.value):
            self.write(self.value)


def same(a: Any, b: Any) -> bool:
    """Are these the same object, or equal numbers or strings, or tuples of such?"""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and (all(map(operator.is_, a, b)) or all(map(same, a, b)))
    return type(a) in EQUAL and a == b and (type(a) is not float or math.copysign(1, a) == math.copysign(1, b))


class Undo:
    """Saves values with everything they hold: arrays, containers, and the library's objects such as optimizers.

    >>> options = {"lr": 0.1, "moment": np.zeros(2)}
    >>> undo = Undo(options)
    >>> options["lr"] = 0.2; options["moment"] += 1
    >>> undo.restore()
    >>> options
    {'lr': 0.1, 'moment': array([0., 0.])}
    """

    def __init__(self, *values: Any, places: Collection[Place] = ()):
        self._found, self._saved = places, {}  # places found elsewhere; contents, by id of the value
        for value in values:
            self.save(value)

    def save(self, value: Any) -> None:
        """Remember the current state, unless it is saved already."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            look = _attributes(value, *OF_LEAF) if type(value) is Node else inside(value)
            if look is None and is_ours(type(value)) and not isinstance(value, (type, Node)):
                value = getattr(value, "__dict__", None)
                look = inside(value)
            if look is not None and id(value) not in self._saved:
                place = self._saved[id(value)] = Place(value, "", "", *look)
                waiting += place.value if type(place.value) is tuple else ()
            elif isinstance(value, tuple):
                waiting += value

    def restore(self) -> None:
        """Set everything back."""
        for place in (*self._saved.values(), *self._found):  # which were found before anything was saved
            place.restore()


class NoUndo(Undo):
    """For a step that is final."""

    def save(self, value: Any) -> None: ...


def is_ours(kind: type) -> bool:
    """Is it a class of this library, or derived from one?"""
    return any(whose(base) == OURS for base in kind.__mro__)


def each(results: Any, function: Callable) -> Any:
    """Apply the function to everything in nested tuples, named tuples, lists and dicts, keeping the structure."""
    if type(results) in (dict, collections.OrderedDict):
        return type(results)((key, each(value, function)) for key, value in results.items())
    if type(results) in (tuple, list):
        return type(results)(each(value, function) for value in results)
    if isinstance(results, tuple) and hasattr(results, "_fields"):
        return type(results)(*[each(value, function) for value in results])
    return function(results)


# ---------------------------------------------------------------------------------------------- contents of values

def inside(value: Any) -> tuple[Callable[[], Any], Callable[[Any], None], str] | None:
    """How to read the contents of a value, if they can change, how to restore them, and what kind of place it is."""
    if is_a(value, Tensor):
        return _attributes(value, "_array", "node", "frozen")
    if is_a(value, np.ndarray) and value.dtype.hasobject:
        return None
    if is_a(value, own_random.Generator):
        return *inside(value.numpy_generator)[:2], REPLAYED
    if is_a(value, np.random.Generator):
        return inside(value.bit_generator)
    for types_of, read, write, kind in INSIDE:
        if is_a(value, types_of):
            return read(value), functools.partial(write, value), kind
    if whose(next((base for base in type(value).__mro__ if "__next__" in vars(base)), None)) is not USERS:
        is_output = is_a(value, io.IOBase) and (value.closed or value.writable())
        position = getattr(value, "__length_hint__", object)  # without one it is new each time: to reach it is to draw
        return None if is_output else (position, functools.partial(_leave, value), DRAWN)
    return None


def hides_its_position(value: Any) -> bool:
    """Is it an iterator, such as a zip, of which only drawing shows where it is?"""
    look = inside(value) if hasattr(type(value), "__next__") else None
    return look is not None and look[0] is object


def _attributes(value: Any, *names: str) -> tuple[Callable, Callable, str]:
    """Like `inside`, for these attributes. By name: that takes half the time while nobody has asked for __dict__."""
    def write(before: tuple) -> None:
        for name, part in zip(names, before):
            setattr(value, name, part)

    return functools.partial(operator.attrgetter(*names), value), write, CHECKED


def _leave(value: Any, before: Any) -> None:
    """It cannot be restored."""


def _refill(container: Any, before: tuple) -> None:
    """Put the former contents back, even if a user's subclass overrides the methods."""
    kind = next(base for base in type(container).__mro__ if whose(base) is not USERS)
    kind.clear(container)
    if isinstance(container, dict):
        for key, value in zip(before[: len(before) // 2], before[len(before) // 2 :]):
            kind.__setitem__(container, key, value)
    else:
        (kind.update if isinstance(container, set) else kind.extend)(container, before)


def _bytes_of(array: np.ndarray) -> Callable[[], bytes | bytearray]:
    """A function that returns an array's bytes: the same object until they change, so nothing large is copied."""
    if not (type(array) is np.ndarray and array.flags.c_contiguous and array.size):
        return array.tobytes
    now, before = memoryview(array.reshape(-1).view(np.uint8)), bytearray()

    def read() -> bytearray:
        nonlocal before
        if before != now:
            before = bytearray(now)
        return before

    return read


def _refill_array(array: np.ndarray, data: bytes) -> None:
    if array.flags.writeable:
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


def _refill_bytes(value: bytearray | memoryview, before: bytes) -> None:
    (value if isinstance(value, bytearray) else value.cast("B"))[:] = before


INSIDE = [  # types, how to read the contents, how to restore them, the kind of place
    (dict, lambda value: lambda: (*dict.keys(value), *dict.values(value)), _refill, CHECKED),
    (types.MappingProxyType, lambda value: lambda: (*value, *value.values()), _leave, CHECKED),
    ((list, set, collections.deque), lambda value: functools.partial(tuple, value), _refill, CHECKED),
    (np.ndarray, _bytes_of, _refill_array, CHECKED),
    ((bytearray, memoryview), lambda value: functools.partial(bytes, value), _refill_bytes, CHECKED),
    (ContextVar, lambda value: functools.partial(value.get, MISSING), ContextVar.set, CHECKED),
    (weakref.ref, lambda value: lambda: id(value()), _leave, CHECKED),  # which must not be kept alive
    ((random.Random, np.random.RandomState, np.random.BitGenerator),
     lambda value: lambda: pickle.dumps(value.__getstate__()),
     lambda value, state: value.__setstate__(pickle.loads(state)), DRAWN),
    (type(functools.lru_cache(len)), lambda value: lambda: value.cache_info().misses,
     lambda value, before: value.cache_clear(), DRAWN),
    (types.GeneratorType, lambda value: lambda: (getattr(value.gi_frame, "f_lasti", None),
                                                 repr(inspect.getgeneratorlocals(value))), _leave, DRAWN),
    ((itertools.count, itertools.repeat), lambda value: functools.partial(repr, value), _leave, DRAWN),
]
