"""What a step's code can reach in Python: the variables that it names, and what they hold.

Variables are compared before each replay, by identity. What they hold is constant: it is looked at whenever Python runs the
step, so that a step which changes it is refused, and set back, and an error can name what has changed.
"""
import collections
import dis
import functools
import gc
import math
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...backend import is_tensor
from ...packages import COMPILED, LIBRARIES, is_users
from ...runner import Runner
from ...tape import Op

SIMPLE = int, float, complex, str, bytes, types.NoneType, types.EllipsisType, range, slice, np.generic, np.dtype
MISSING = object()  # the value of a variable that is not there
LEADS: dict[type, tuple[str, ...]] = {  # functions, and the attributes in which they lead to other values
    types.FunctionType: ("__code__", "__closure__", "__defaults__", "__kwdefaults__"), property: ("fget",),
    types.MethodType: ("__func__", "__self__"), functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",), classmethod: ("__func__",), functools.cached_property: ("func",),
    types.BuiltinFunctionType: ("__self__", "__name__"), types.MethodWrapperType: ("__self__", "__name__"),
    np.random.Generator: ("bit_generator",),
}
BY_OTHER_NAMES = {"getattr", "setattr", "delattr", "vars", "globals", "exec", "eval", "__dict__", "__setattr__"}


def is_a(value: Any, kinds: Any) -> bool:
    """isinstance by the type alone, which runs no code of the user's."""
    return issubclass(type(value), kinds)


def same(a: Any, b: Any) -> bool:
    """Are these the same object, or equal numbers or strings? 0.0 and -0.0 are not."""
    return a is b or type(a) is type(b) and type(a) in (int, float, str, bytes) and a == b and bool(a or repr(a) == repr(b))


def row_of(value: Any, table: dict) -> Any:
    """The row of its type, or of the type's nearest base."""
    return next((table[kind] for kind in type(value).__mro__ if kind in table), None)


def leads(value: Any) -> list[Any] | None:
    """The values to which a function leads; None if it is none."""
    if is_a(value, types.CellType):
        return [contents(value)]
    names = row_of(value, LEADS)
    return None if names is None else [getattr(value, name) for name in names]


class Place:
    """Variables and attributes, which are `put` back one by one, or what a value holds, which is refilled: what was there,
    by key, at first and at the last look."""

    def __init__(self, read: Callable, name_of: Callable[[Any], str], put: Callable | None = None,
                 refill: Callable | None = None):
        self.read, self.name_of, self.put, self.refill = read, name_of, put, refill
        self.first = self.latest = read()

    def changed(self, before: dict) -> list:
        """The keys of what differs from before."""
        now = self.read()
        return [key for key in {**before, **now} if not same(now.get(key, MISSING), before.get(key, MISSING))]


class Snapshot:
    """Values with all that they hold, as they are now: containers, arrays, objects, random generators."""

    most: float = math.inf  # values
    largest: float = math.inf  # bytes of one of them
    opens_tensors: bool = True  # and what else minigrad looks after itself

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.variables: list[Place] = []  # some of these
        self.values: dict[int, Any] = {}  # all that are held, by id
        self._names = {"__call__", "__enter__", "__exit__", "__iter__", "__next__", "__getitem__", "forward"}  # in code
        self._written: set[str] = set()  # names to which this code writes
        self._is_alone = threading.active_count() == 1  # at first: a thread may end while the step runs
        self._owners: list[tuple] = []  # of named attributes: these, its name, are they variables?, those looked at
        self._waiting: collections.deque[tuple[Any, str]] = collections.deque()

    def add(self, value: Any, name: str) -> "Snapshot":
        """Look at this value, too, and at all that it holds."""
        self._waiting.append((value, name))
        while (self._waiting or self._named()) and len(self.values) < self.most:
            value, name = self._waiting.popleft()  # near things come first
            if id(value) not in self.values and value is not MISSING and not is_a(value, SIMPLE):
                self.values[id(value)] = value
                self._follow(value, name)
        return self

    def look(self) -> None:
        """Take the present state as the one before."""
        for place in self.places:
            place.latest = place.read()

    def changes(self) -> list[str]:
        """The names of what has changed since the last look."""
        return [place.name_of(key) for place in self.places for key in self._own(place, place.changed(place.latest))]

    def restore(self) -> None:
        """Set everything back."""
        for place in self.places:
            keys = self._own(place, place.changed(place.first))
            if keys and place.refill:
                place.refill(place.first)
            for key in keys if place.put else ():
                place.put(key, place.first.get(key, MISSING))

    def _own(self, place: Place, keys: list) -> list:
        """Those that the step may have changed: beside other threads, of variables and attributes what its code writes."""
        if self._is_alone or not place.put or self._names & BY_OTHER_NAMES:
            return keys
        return [key for key in keys if key in self._written]

    def opens(self, value: Any) -> bool:
        """Does it look at this object's attributes?"""
        kind = type(value)
        if is_users(kind.__module__) or hasattr(kind, "named_parameters") or kind is types.SimpleNamespace:
            return self.opens_tensors or not is_tensor(value)
        is_ours = any(base.__module__.partition(".")[0] in LIBRARIES for base in kind.__mro__)
        return self.opens_tensors and is_ours and not is_a(value, (Op, Runner))

    def _follow(self, value: Any, name: str) -> None:
        kind = type(value)
        row = row_of(value, HOLDERS)
        if row is not None:
            read, refill, are_items = row
            if sys.getsizeof(value) + getattr(value, "nbytes", 0) <= self.largest:
                self._hold(lambda: read(value), lambda key: f"{name}[{key!r}]" if are_items and is_a(key, SIMPLE) else name,
                           refill=functools.partial(refill, value))
        elif issubclass(kind, types.FunctionType):
            self._function(value, name)
        elif issubclass(kind, types.MethodType):
            owner, name = value.__self__, name.rpartition(".")[0] or "self"
            self._owners.append((getattr(owner, "__dict__", {}), name, is_users(type(owner).__module__), set()))
        elif issubclass(kind, types.ModuleType):
            self._owners.append((vars(value), name, is_users(value.__name__), set()))
        elif is_users(value.__module__) if issubclass(kind, type) else self.opens(value):
            self._attributes(value, name)
        self._waiting += ((found, name) for found in leads(value) or ())

    def _named(self) -> bool:
        """Let wait what code that was found since names: variables, and methods. Is there anything?"""
        for own, name, are_variables, done in self._owners:
            keys = self._names & own.keys() - done
            done |= keys
            if are_variables:
                self._scope(*items(own, keys), f"{name}.")
            self._waiting += ((own[key], f"{name}.{key}") for key in keys)
        return bool(self._waiting)

    def _hold(self, *how: Any, **options: Any) -> Place:
        self.places.append(place := Place(*how, **options))
        self._waiting += ((item, place.name_of(key)) for key, item in place.first.items())
        return place

    def _attributes(self, value: Any, name: str) -> None:
        self._hold(lambda: attributes(value), lambda key: f"{name}.{key}", functools.partial(put_attribute, value))
        if is_a(value, type):
            self._owners.append((vars(value), name, False, set()))
        elif not is_a(value, types.FunctionType):
            self._waiting += ((base, base.__name__) for base in type(value).__mro__ if is_users(base.__module__))

    def _scope(self, read: Callable, put: Callable, prefix: str = "") -> None:
        if (place := self._hold(read, lambda key: prefix + key, put)).first:
            self.variables.append(place)

    def _function(self, function: types.FunctionType, name: str) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self._scope(lambda: {key: contents(cell) for key, cell in cells.items()},
                    lambda key, value: None if value is MISSING else setattr(cells[key], "cell_contents", value))
        if is_users(function.__globals__.get("__name__")):  # a library's may hold one of the user's, as a decorator does
            names, variables, written = named_in(function.__code__)
            self._names |= names
            self._written |= written
            self._scope(*items(function.__globals__, variables))
            self._attributes(function, name)


class Reached(Snapshot):
    """What a function's code can reach, except what minigrad looks after itself: Tensors, optimizers, its generators."""

    most, largest, opens_tensors = 10_000, 1 << 20, False

    def __init__(self, function: Callable):
        super().__init__()
        package = str(getattr(function, "__module__", "")).partition(".")[0]
        if package not in COMPILED:
            COMPILED.add(package)
            is_users.cache_clear()
        name = getattr(function, "__name__", type(function).__name__)
        self.add(function if leads(function) else types.MethodType(type(function).__call__, function), name)


@functools.lru_cache(4096)
def named_in(code: types.CodeType) -> tuple[set[str], ...]:
    """What code, and functions inside it, names: all names; those of globals; and those that it writes to.
    (`co_names` has attributes, too: `optimizer.step` is no variable `step`.)"""
    named = [(step.opname, step.argval) for step in dis.get_instructions(code) if is_a(step.argval, str)]
    variables = {name for kind, name in named if kind.endswith("_GLOBAL")}
    variables |= {text for text in code.co_consts if "globals" in variables and is_a(text, str)}
    written = {name for kind, name in named if kind.startswith(("STORE_", "DELETE_"))}
    inside = [named_in(part) for part in code.co_consts if is_a(part, types.CodeType)]
    return tuple(set().union(*sets) for sets in zip((set(code.co_names), variables, written), *inside))


def contents(cell: types.CellType) -> Any:
    return next(iter(gc.get_referents(cell)), MISSING)  # it may still be empty


def items(own: dict[str, Any], keys: Collection[str]) -> tuple[Callable, Callable]:
    """How to read and to put back these items of a dict."""
    return (lambda: {key: own.get(key, MISSING) for key in keys},
            lambda key, value: own.pop(key) if value is MISSING else own.update({key: value}))


def attributes(value: Any) -> dict[str, Any]:
    """Of a class, but not its methods; or of an object, with those in `__slots__`."""
    if is_a(value, type):
        return {key: part for key, part in vars(value).items() if not callable(part)}
    slots = (key for base in type(value).__mro__ if is_users(base.__module__) for key, part in vars(base).items()
             if is_a(part, types.MemberDescriptorType))
    return {**getattr(value, "__dict__", {}), **{key: getattr(value, key) for key in slots if hasattr(value, key)}}


def put_attribute(value: Any, key: str, part: Any) -> None:
    kind = type if is_a(value, type) else object
    kind.__delattr__(value, key) if part is MISSING else kind.__setattr__(value, key, part)


def refill(value: Any, before: dict) -> None:
    """Put former contents back into a container."""
    value.clear()
    (value.extend if hasattr(value, "extend") else value.update)(before if is_a(value, dict) else before.values())


def refill_array(array: np.ndarray, before: dict) -> None:
    if array.flags.writeable and not array.dtype.hasobject:
        array[...] = np.frombuffer(before[""], array.dtype).reshape(array.shape)


BY_INDEX = (lambda value: dict(enumerate(value))), refill, True
FIXED = (lambda value: dict(enumerate(value))), (lambda *_: None), True
AS_STATE = (lambda value: {"": pickle.dumps(value.__getstate__())},
            lambda value, before: value.__setstate__(pickle.loads(before[""])), False)
HOLDERS: dict[type, tuple] = {  # what a value of this type holds, by key; how to refill it; are these items?
    dict: (dict, refill, True), list: BY_INDEX, collections.deque: BY_INDEX, set: BY_INDEX, tuple: FIXED, frozenset: FIXED,
    np.ndarray: (lambda array: {"": b"" if array.dtype.hasobject else array.tobytes()}, refill_array, False),
    random.Random: AS_STATE, np.random.RandomState: AS_STATE, np.random.BitGenerator: AS_STATE,
}
