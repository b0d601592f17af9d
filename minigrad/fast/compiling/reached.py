"""What a step's code can reach in Python: the variables that it names, and what they hold.

Variables are compared before each replay, by identity. What they hold is constant: it is looked at whenever Python runs the
step, so that a step which changes it is refused, and set back, and an error can name what has changed.
"""
import collections
import dis
import functools
import itertools
import math
import pickle
import random
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...backend import is_tensor
from ...packages import LIBRARIES
from ...runner import Runner
from ...tape import Op

COMPILED: set[str] = set()  # packages that compile a step of their own: they are the user's, even if they are installed
SIMPLE = int, float, complex, str, bytes, types.NoneType, types.EllipsisType, range, slice, np.generic, np.dtype
EQUAL = {int, float, str, bytes, bool}  # compared by value, others by identity
MISSING = object()  # the value of a variable that is not there


def is_a(value: Any, kinds: Any) -> bool:
    """isinstance by the type alone, which runs no code of the user's."""
    return issubclass(type(value), kinds)


def is_users(module: str | None) -> bool:
    """Is a module of this name the user's: neither Python's, nor NumPy's, nor one of `LIBRARIES`, nor installed?"""
    package = str(module).partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) if package != "__main__" else None
    is_installed = package not in COMPILED and ("site-packages" in str(file) or "dist-packages" in str(file))
    return not (is_installed or package in {"numpy", "numba", *LIBRARIES} or package in sys.stdlib_module_names)


def same(a: Any, b: Any) -> bool:
    """Are these the same object, or equal numbers or strings?"""
    return a is b or (type(a) is type(b) and type(a) in EQUAL and a == b
                      and (type(a) is not float or math.copysign(1, a) == math.copysign(1, b)))


def each(nest: Any, function: Callable[[Any], Any]) -> Any:
    """Apply the function to everything in nested tuples, named tuples, lists and dicts, keeping the structure."""
    if type(nest) in (dict, collections.OrderedDict):
        return type(nest)((key, each(value, function)) for key, value in nest.items())
    if type(nest) in (tuple, list):
        return type(nest)(each(value, function) for value in nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*[each(value, function) for value in nest])
    return function(nest)


class Place:
    """Variables, or what a value holds, by key: how to read and to write them, their names, and what was there, at first
    and at the last look. Of variables `peek` reads the values alone, in less time."""

    def __init__(self, read: Callable, write: Callable, name_of: Callable[[Any], str], peek: Callable | None = None):
        self.read, self.write, self.name_of, self.peek = read, write, name_of, peek
        self.first = self.latest = read()

    def changes(self, before: dict) -> list[str]:
        """The names of what differs from before."""
        now = self.read()
        keys = [key for key in {**before, **now} if not same(now.get(key, MISSING), before.get(key, MISSING))]
        return [self.name_of(key) for key in keys or (key for key, old in zip(now, before) if not same(key, old))]


class Snapshot:
    """Values with all that they hold, as they are now: containers, arrays, objects, random generators.

    >>> options = {"lr": 0.1, "moment": np.zeros(2)}
    >>> snapshot = Snapshot().add(options, "options")
    >>> options["lr"] = 0.2; options["moment"] += 1
    >>> snapshot.changes()
    ["options['lr']", "options['moment']"]
    >>> snapshot.restore()
    >>> options
    {'lr': 0.1, 'moment': array([0., 0.])}
    """

    most: float = math.inf  # values
    largest: float = math.inf  # bytes of one of them

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.values: dict[int, Any] = {}  # all that are held, by id
        self._names = {"__call__", "__enter__", "__exit__", "__iter__", "__next__", "__getitem__", "forward"}  # in code
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
        return [name for place in self.places for name in place.changes(place.latest)]

    def restore(self) -> None:
        """Set everything back."""
        for place in self.places:
            if place.changes(place.first):
                place.write(place.first)

    def variables(self) -> list[Place]:
        return [place for place in self.places if place.peek]

    def opens(self, value: Any) -> bool:
        """Does it look at this object's attributes?"""
        bases = {base.__module__.partition(".")[0] for base in type(value).__mro__}
        is_known = is_users(type(value).__module__) or not bases.isdisjoint(LIBRARIES)
        return is_known and not is_a(value, (Op, Runner))

    # ------------------------------------------------------------------------------------------------ how it looks

    def _follow(self, value: Any, name: str) -> None:
        if is_a(value, types.FunctionType):
            self._function(value, name)
        elif is_a(value, types.MethodType):
            owner = name.rpartition(".")[0] or "self"
            self._waiting += (value.__func__, name), (value.__self__, owner)
            self._owners.append((dict_of(value.__self__), owner, is_users(type(value.__self__).__module__), set()))
        elif is_a(value, types.ModuleType):
            self._owners.append((vars(value), name, is_users(value.__name__), set()))
        elif is_a(value, (staticmethod, classmethod, property, functools.cached_property)):
            self._waiting += ((getattr(value, key, None), name) for key in ("__func__", "fget", "func"))
        elif is_a(value, functools.partial):
            self._waiting += (value.func, name), (value.args, name), (value.keywords, name)
        elif is_a(value, (types.BuiltinFunctionType, types.MethodWrapperType)):  # such as random.random
            if not is_a(value.__self__, (types.ModuleType, type, type(None))):
                self._waiting.append((value.__self__, name))
        elif is_a(value, np.random.Generator):
            self._waiting.append((value.bit_generator, name))
        elif row := next((row for row in HOLDERS if is_a(value, row[0])), None):
            _, size, read, write = row
            if size(value) <= self.largest:
                self._holds(functools.partial(read, value), functools.partial(write, value),
                            lambda key: f"{name}[{key!r}]" if is_a(key, SIMPLE) and size is pointers else name)
        elif is_users(value.__module__) if is_a(value, type) else self.opens(value):
            self._attributes(value, name)

    def _named(self) -> bool:
        """Let wait what code that was found since names: variables, and methods. Is there anything?"""
        for own, name, are_variables, done in self._owners:
            keys = self._names & own.keys() - done
            done |= keys
            if are_variables:
                self._scope(own, keys, f"{name}.")
            self._waiting += ((own[key], f"{name}.{key}") for key in keys)
        return bool(self._waiting)

    def _holds(self, read: Callable, write: Callable, name_of: Callable[[Any], str], peek: Callable | None = None) -> None:
        self.places.append(Place(read, write, name_of, peek))
        self._waiting += ((item, name_of(key)) for key, item in self.places[-1].first.items())

    def _attributes(self, value: Any, name: str) -> None:
        read, write = functools.partial(attributes, value), functools.partial(put_attributes, value)
        self._holds(read, write, lambda key: f"{name}.{key}")
        if is_a(value, type):
            self._owners.append((vars(value), name, False, set()))
        elif not is_a(value, types.FunctionType):
            self._waiting += ((base, base.__name__) for base in type(value).__mro__)

    def _variables(self, keys: Collection[str], peek: Callable, put: Callable, prefix: str = "") -> None:
        def write(before: dict[str, Any]) -> None:
            for key, value in before.items():
                put(key, value)

        if keys:
            self._holds(lambda: dict(zip(keys, peek())), write, lambda key: prefix + key, peek)

    def _scope(self, scope: dict[str, Any], keys: set[str], prefix: str = "") -> None:
        def put(key: str, value: Any) -> None:
            scope.pop(key, None) if value is MISSING else scope.update({key: value})

        self._variables(keys, lambda: map(scope.get, keys, itertools.repeat(MISSING)), put, prefix)

    def _function(self, function: types.FunctionType, name: str) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self._variables(cells, lambda: map(contents, cells.values()), lambda key, value: fill(cells[key], value))
        if is_users(function.__globals__.get("__name__")):  # a library's may hold one of the user's, as a decorator does
            codes = codes_in(function.__code__)
            self._names.update(*[code.co_names for code in codes])
            self._scope(function.__globals__, set().union(*map(globals_in, codes)))
            self._waiting += (function.__defaults__, name), (function.__kwdefaults__, name)
            self._attributes(function, name)


class Reached(Snapshot):
    """What a function's code can reach, except what minigrad looks after itself: Tensors, optimizers, its generators.

    >>> __name__, scale, config = "a_file_of_the_user", 2.0, {"eps": 1e-5}
    >>> reached = Reached(lambda x: x * scale + config["eps"])
    >>> scale, config["eps"] = 3.0, 1e-6
    >>> sorted(reached.changes())
    ["config['eps']", 'scale']
    """

    most, largest = 10_000, 1 << 20

    def __init__(self, function: Callable):
        super().__init__()
        is_plain = is_a(function, (types.FunctionType, types.MethodType, functools.partial))
        COMPILED.add(str(getattr(function, "__module__", "")).partition(".")[0])
        self.add(function if is_plain else types.MethodType(type(function).__call__, function),
                 getattr(function, "__name__", type(function).__name__))

    def opens(self, value: Any) -> bool:
        kind = type(value)
        is_module = hasattr(kind, "named_parameters")
        return not is_tensor(value) and (is_module or is_users(kind.__module__) or kind is types.SimpleNamespace)


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty, as in a function that refers to itself
        return MISSING


def fill(cell: types.CellType, value: Any) -> None:
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def codes_in(code: types.CodeType) -> list[types.CodeType]:
    """The code, and that of functions inside it."""
    return [code, *(part for inner in code.co_consts if is_a(inner, types.CodeType) for part in codes_in(inner))]


def globals_in(code: types.CodeType) -> set[str]:
    """The globals that code names. (`co_names` has attributes, too: `optimizer.step` is no variable `step`.)"""
    named = {load.argval for load in dis.get_instructions(code) if load.opname.endswith("_GLOBAL")}
    return named | {text for text in code.co_consts if is_a(text, str)} if "globals" in named else named


def dict_of(value: Any) -> dict[str, Any]:
    """An object's `__dict__`, found without the user's code."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def attributes(value: Any) -> dict[str, Any]:
    """Of a class, but not its methods; or of an object, with those in `__slots__`."""
    if is_a(value, type):
        return {key: part for key, part in vars(value).items() if not callable(part)}
    slots = (key for base in type(value).__mro__ if is_users(base.__module__) for key, part in vars(base).items()
             if is_a(part, types.MemberDescriptorType))
    return {**dict_of(value), **{key: getattr(value, key) for key in slots if hasattr(value, key)}}


def put_attributes(value: Any, before: dict[str, Any]) -> None:
    kind, now = type if is_a(value, type) else object, attributes(value)
    for key in now.keys() - before.keys():
        kind.__delattr__(value, key)
    for key, part in before.items():
        if now.get(key, MISSING) is not part:
            kind.__setattr__(value, key, part)


def refill(value: Any, before: dict) -> None:
    """Put former contents back into a container."""
    value.clear()
    if is_a(value, dict):
        for key, item in before.items():
            value[key] = item
    else:
        (value.update if is_a(value, set) else value.extend)(before.values())


def refill_array(array: np.ndarray, before: dict) -> None:
    if array.flags.writeable and not array.dtype.hasobject:
        array[...] = np.frombuffer(before[""], array.dtype).reshape(array.shape)


def pointers(container: Any) -> int:
    return 8 * len(container)


def nothing(*_: Any) -> int:
    return 0


HOLDERS: list[tuple] = [  # types; the size of a value; what it holds, by key; how to put that back
    (dict, pointers, dict, refill),
    ((list, collections.deque), pointers, lambda value: dict(enumerate(value)), refill),
    ((tuple, frozenset), pointers, lambda value: dict(enumerate(value)), nothing),
    (set, pointers, lambda value: dict(zip(value, value)), refill),
    (np.ndarray, lambda array: array.nbytes,
     lambda array: {"": b"" if array.dtype.hasobject else array.tobytes()}, refill_array),
    ((random.Random, np.random.RandomState, np.random.BitGenerator), nothing,
     lambda value: {"": pickle.dumps(value.__getstate__())},
     lambda value, before: value.__setstate__(pickle.loads(before[""]))),
    (type(functools.lru_cache(len)), nothing, lambda value: {"": value.cache_info().misses},
     lambda value, before: value.cache_clear()),
]
