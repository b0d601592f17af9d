"""What a function takes as given: the variables and attributes that it reads or sets, and what is inside of them.

Python decides anew in each call, a replay does not. `Surroundings` finds what the decisions rest on, before the function
runs: from its code and from the values around it. It follows

- chains of names that begin at a global, at a variable of a function around, or at `self`, such as `self.config.scale`;
- functions that such a chain leads to, through methods, decorators, partials, properties, and modules' `forward`;
- what a chain ends in, as that may go anywhere: contents of containers, and attributes of objects whose names occur in
  the code where it is not known of what.

Each thing found is a `Place`: it has a name, can be looked at again, and set back. What cannot be found from the code is
told afterwards by the functions that ran (`add`), and at last found by comparing whole runs (fast/compiled.py).
"""
import builtins
import collections
import dis
import functools
import inspect
import operator
import pickle
import random
import sys
import threading
import types
import weakref
from contextvars import ContextVar
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from ... import random as own_random
from ...backend import is_tensor

LIBRARIES = {"minigrad", "numpy", "numba"}  # whose code is not followed: what it reads, it tells in other ways
MISSING = object()  # the value of a variable that is not there
SIMPLE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice, np.generic, np.dtype)
EQUAL = {int, float, str, bytes, bytearray, bool}  # equal ones are the same; of others, one object is
CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, types.MappingProxyType)
MOST_PLACES = MOST_OBJECTS = 10_000  # of one function
LARGEST_CONTAINER, LARGEST_ARRAY = 1 << 17, 1 << 24  # elements, bytes; a larger one is not looked at

ROOTS = ("IMPORT_NAME", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "LOAD_FAST",
         "STORE_FAST_LOAD_FAST")
SET_VARIABLES = ("STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_NAME", "DELETE_DEREF")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
SET_ATTRIBUTES = ("STORE_ATTR", "DELETE_ATTR")
LEFT_OUT = {"EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL", "COPY"}  # they may stand within a chain of names
BY_STRING = {"getattr", "setattr", "hasattr", "delattr", "globals", "attrgetter", "methodcaller", "getattr_static"}
OF_DATACLASSES = {"__eq__", "__repr__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__", "__delattr__"}
OF_ALL = {"vars", "__dict__", "eval", "exec", "asdict", "astuple", "replace", "copy", "deepcopy"}  # read all attributes
CHANGING = {"append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear", "update", "setdefault", "add",
            "discard", "sort", "reverse", "fill", "popitem"}  # methods of containers


class Place:
    """Something that may change: a variable, an attribute, the contents of a container."""

    def __init__(self, name: str, key: str, read: Callable[[], Any], write: Callable[[Any], None], *,
                 is_told: bool = False, is_drawn_from: bool = False):
        self.name, self.key, self.read, self.write = name, key, read, write
        self.is_told = is_told  # are captured steps told when this is set?
        self.is_drawn_from = is_drawn_from  # is it a generator of random numbers, or an iterator?
        self.value = self.latest = read()  # when the function began; after what was last allowed to change it

    def has_changed(self) -> bool:
        return not same(self.read(), self.latest)

    def restore(self) -> None:
        if not same(self.read(), self.value):
            self.write(self.value)


def same(a: Any, b: Any) -> bool:
    """Are these one object, or equal numbers or strings, or tuples of such?"""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and (all(map(operator.is_, a, b)) or all(map(same, a, b)))
    return type(a) in EQUAL and a == b and (type(a) is not float or a != 0)  # 0.0 and -0.0 differ


def is_of_library(module: str | None) -> bool:
    """Is code of this module not followed?"""
    return _is_library((module or "").partition(".")[0])


@functools.lru_cache(maxsize=4096)
def _is_library(package: str) -> bool:
    """Does it come with Python, or is it installed beside it? Users' code is elsewhere, and libraries have no end."""
    if package in LIBRARIES or package in sys.stdlib_module_names or package.startswith("namedtuple_"):
        return True
    if package == "__main__":  # the user's, also where an installed program runs it, as `python -m pytest` or IPython
        return False
    folder = str(getattr(sys.modules.get(package), "__file__", None))
    return "site-packages" in folder or "dist-packages" in folder


class Surroundings:
    """The places that a function's code reads or sets.

    >>> __name__, scale = "a_file_of_the_user", 2.0
    >>> [place.name for place in Surroundings(lambda x: x * scale).places.values()]
    ['<lambda>.__code__', 'scale']
    """

    def __init__(self, function: Callable, ran: dict | None = None):
        self.places: dict[tuple, Place] = {}  # by what they are in and their key
        self.codes: dict[types.CodeType, None] = {}  # that have been read
        self._seen: dict[Any, Any] = {}  # what has been followed, by id
        self.known: dict[int, Any] = {}  # objects that the code has in hand, by id
        self._kept: list = []  # what places are in, so that ids stay its own
        self._loose: set[str] = set()  # names of attributes of what is known only when the code runs
        self._strings: set[str] = set()  # those of them that strings name
        self._read_whole: set[int] = set()  # ids of objects of which any attribute may be read
        self._open: dict[int, tuple[Any, str, set]] = {}  # (object, its name, names of attributes followed), by id
        self._generators: dict[int, list] = {}  # minigrad's own, from which a replay draws, too, and their states
        self._generator(own_random.generator())
        self._follow(function, getattr(function, "__name__", type(function).__name__))
        self._settle()
        self.add(ran or {})

    def begin(self) -> None:
        """The function is about to run: what is now, is as it was."""
        for place in self.places.values():
            place.value = place.latest = place.read()
        for generator, _ in list(self._generators.values()):
            self._generator(generator)

    def changed(self) -> list[Place]:
        """The places that have been changed since `allow`, or since the beginning."""
        return [place for place in self.places.values() if place.has_changed()]

    def allow(self) -> None:
        """What has changed until now was changed by what a replay does, too."""
        for place in self.places.values():
            place.latest = place.read()

    def restore(self) -> None:
        """Set all places back to what they were."""
        for place in self.places.values():
            place.restore()
        for generator, state in self._generators.values():
            generator.bit_generator.state = state

    def _generator(self, generator: np.random.Generator) -> None:
        self._generators[id(generator)] = generator, generator.bit_generator.state

    def to_check(self, apart: set[int]) -> list[Place]:
        """The places that must be looked at before a replay, apart from those in objects of these ids."""
        return [place for (within, _), place in self.places.items()
                if not (place.is_told or place.is_drawn_from or within in apart)]

    def add(self, ran: dict[types.CodeType, tuple[dict, Any]]) -> None:
        """Functions have run, with these globals and first arguments; those that were not found before are read now."""
        for code, (variables, first) in ran.items():
            if code not in self.codes:
                known = self._locals(code, MISSING if first is None else first)
                self._read_code(code, _Scope(variables, {}, known))
        self._settle()

    def line_of(self, place: Place) -> str:
        """Where the code sets it, as "file:line"; or, of contents, where it changes them."""
        def lines(opnames: tuple, names: set) -> Iterator[tuple]:
            for code in self.codes:
                for load in _instructions(code):
                    if load.opname.startswith(opnames) and _names(load)[0] in names:
                        yield code.co_filename, load.positions.lineno

        stores = set(lines(SET_VARIABLES + SET_ATTRIBUTES, {place.key}))
        changes = set(lines(("STORE_SUBSCR", "DELETE_SUBSCR"), {None})) | set(lines(ATTRIBUTES, CHANGING))
        loads = set(lines((*ROOTS, *ATTRIBUTES), {place.key}))
        found = sorted(stores or changes & loads or loads)
        return "{}:{}".format(*found[0]) if found else "a function that it calls"

    # ------------------------------------------------------------------------------------------------ places

    def _note(self, within: Any, name: str, key: str, read: Callable, write: Callable, **how) -> None:
        if (id(within), key) not in self.places and len(self.places) < MOST_PLACES:
            self._kept.append(within)
            self.places[id(within), key] = Place(name, key, read, write, **how)

    def _variable(self, scope: dict, key: str, name: str, owner: Any = None, is_told: bool = False) -> Any:
        """A place in a dict of variables, or with an owner of attributes; its value."""
        def write(value: Any) -> None:
            if owner is not None:
                delattr(owner, key) if value is MISSING else setattr(owner, key, value)
            elif value is MISSING:
                scope.pop(key, None)
            else:
                scope[key] = value

        within = scope if owner is None else owner
        self._note(within, name, key, functools.partial(scope.get, key, MISSING), write, is_told=is_told)
        return scope.get(key, MISSING)

    def _cell(self, cell: types.CellType, name: str) -> Any:
        def write(value: Any) -> None:
            cell.cell_contents = value

        self._note(cell, name, name, functools.partial(_contents, cell), write)
        return _contents(cell)

    def _contents_of(self, container: Any, name: str) -> None:
        """What a container holds; and what is inside of that."""
        if len(container) > LARGEST_CONTAINER:
            return
        key = name.rpartition(".")[2].partition("[")[0]
        if isinstance(container, (dict, types.MappingProxyType)):
            self._note(container, name, key, lambda: (*dict.keys(container), *dict.values(container))
                       if isinstance(container, dict) else (*container, *container.values()),
                       lambda value: _refill(container, zip(value[: len(value) // 2], value[len(value) // 2 :])))
            items = dict.items(container) if isinstance(container, dict) else container.items()
        else:
            if not isinstance(container, (tuple, frozenset)):
                self._note(container, name, key, lambda: tuple(container), lambda value: _refill(container, value))
            items = enumerate(container)
        for key, item in list(items):
            self._follow(item, f"{name}[{key!r}]" if isinstance(key, SIMPLE) else f"an item of {name}")

    # ------------------------------------------------------------------------------------------------ values

    def _follow(self, value: Any, name: str) -> None:
        """A value that the function has in hand: it may call it, look into it, or hand it on."""
        if isinstance(value, SIMPLE) or id(value) in self._seen or len(self._seen) > MOST_OBJECTS:
            return
        if is_tensor(value):
            self.known[id(value)] = value
            self._note(value, name, name.rpartition(".")[2], lambda: (value._array, value.node), lambda before: None)
            return
        if isinstance(value, types.MethodType):  # made anew each time that it is looked up
            if _state_of(value.__self__) is not None:
                self._follow(value.__self__, name)
            self._function(value.__func__, value.__self__, name)
            return
        self._seen[id(value)] = self.known[id(value)] = value
        if isinstance(value, types.FunctionType):
            self._function(value, MISSING, name)
            if vars(value):
                self._open.setdefault(id(value), (value, name, set()))
        elif isinstance(value, types.BuiltinFunctionType):
            if not isinstance(value.__self__, (types.ModuleType, type(None), type)):
                self._follow(value.__self__, name.rpartition(".")[0] or name)
        elif isinstance(value, CONTAINERS):
            self._contents_of(value, name)
            self._open.setdefault(id(value), (value, name, set()))  # its class may be the user's
        elif isinstance(value, np.ndarray):
            if value.nbytes <= LARGEST_ARRAY and not value.dtype.hasobject:
                self._note(value, name, name.rpartition(".")[2], _bytes_of(value), lambda data: _refill_array(value, data))
        elif isinstance(value, (bytearray, memoryview)):
            view = memoryview(value).cast("B") if isinstance(value, memoryview) else value
            self._note(value, name, name.rpartition(".")[2], functools.partial(bytes, value),
                       functools.partial(view.__setitem__, slice(None)))
        elif isinstance(value, ContextVar):
            self._note(value, name, name.rpartition(".")[2], functools.partial(value.get, MISSING), value.set)
            self._follow(value.get(None), name)
        elif isinstance(value, weakref.ref):  # what it refers to must not live longer by this
            self._note(value, name, name.rpartition(".")[2], lambda: id(value()), lambda before: None)
        elif isinstance(value, weakref.WeakKeyDictionary):
            pass  # a cache
        elif isinstance(value, (staticmethod, classmethod)):
            self._follow(value.__func__, name)
        elif isinstance(value, own_random.Generator):
            self._generator(value.numpy_generator)
        elif (state := _state_of(value)) is not None:
            self._note(value, name, name.rpartition(".")[2], *state, is_drawn_from=True)
            self._follow(_attributes_of(value).get("__wrapped__"), name)
        else:
            self._object(value, name)

    def _object(self, value: Any, name: str) -> None:
        if isinstance(value, type):
            self._methods(value, ("__init__", "__new__", "__post_init__"), MISSING, name)
        elif not isinstance(value, types.ModuleType):
            own = _attributes_of(value)
            self._methods(type(value), ("forward", *_operators(type(value))), value, name)
            for key in ("__wrapped__", "func", "args", "keywords"):  # of wrappers and partials
                if key in own or type(value).__module__ == "functools":
                    self._follow(getattr(value, key, None), name)
            if _tells(value):
                for key, part in list(own.items()):
                    if not key.startswith("_"):
                        self._variable(own, key, f"{name}.{key}", is_told=True)
                        if is_tensor(part):
                            self.known[id(part)] = part
                        else:
                            self._follow(part, f"{name}.{key}")
                return
        is_module = isinstance(value, types.ModuleType)
        if is_module and is_of_library(value.__name__) or isinstance(value, type) and is_library_class(value):
            return
        self._open.setdefault(id(value), (value, name, set()))

    def _settle(self) -> None:
        """Follow attributes of objects by names, until there is nothing new."""
        count = -1
        while count != (count := len(self._seen) + len(self.places) + len(self._loose)):
            for value, name, followed in list(self._open.values()):
                own = _attributes_of(value)
                is_foreign = is_library_class(type(value)) and not is_ours(type(value))
                reads_all = id(value) in self._read_whole or is_foreign
                reads_all = reads_all and not isinstance(value, (type, types.ModuleType))
                names = {*self._loose, *own} if reads_all else self._loose
                kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__[:-1]
                if reads_all and own and len(own) <= LARGEST_CONTAINER:
                    self._note(own, f"vars({name})", name, lambda own=own: tuple(own), lambda before: None)
                for key in [key for key in names if key not in followed]:
                    followed.add(key)
                    if key in own or key in self._strings or any(key in vars(kind) for kind in kinds):
                        for found, path in self._attribute(value, key, name):
                            self._follow(found, path)

    def _attribute(self, value: Any, key: str, name: str) -> list[tuple[Any, str]]:
        """The value of an attribute and its name, if it is there and no code has to run for it. Each place is noted where
        it could be changed."""
        path = f"{name}.{key}"
        self.known[id(value)] = value
        if _tells(value):
            self._follow(value, name)
        if key == "__class__":
            return [(type(value), path)]
        changing = (*CONTAINERS, np.ndarray, bytearray, memoryview, ContextVar, own_random.Generator)
        if isinstance(value, changing) or is_tensor(value) or _state_of(value) is not None:
            self._follow(value, name)  # a method may change it
        if isinstance(value, types.ModuleType):
            found = self._variable(vars(value), key, path)
            if found is MISSING and isinstance(vars(value).get("__getattr__"), types.FunctionType):
                self._follow(vars(value)["__getattr__"], path)
            return [] if found is MISSING else [(found, path)]
        if isinstance(value, type):
            found = self._of_class(value, key, path)
            if found is not MISSING:
                return [(_bound(found, value, value), path)]
            if not is_library_class(value):  # a property of its class, perhaps
                self._open.setdefault(id(value), (value, name, set()))
        if isinstance(value, types.MethodType):
            value = value.__func__
        own, of_class = _attributes_of(value), _in_class(type(value), key)
        if key not in own:
            self._of_class(type(value), key, path)
        if isinstance(of_class, property):
            for function in (of_class.fget, of_class.fset):
                self._function(function, value, path)
            return []
        if isinstance(of_class, (functools.partialmethod, functools.cached_property)):
            self._function(of_class.func, value, path)
        elif "__get__" in _operators(type(of_class)):
            self._follow(of_class, path)
            self._follow(value, name)
            return []
        if isinstance(of_class, types.MemberDescriptorType):  # of __slots__
            def write(before: Any) -> None:
                delattr(value, key) if before is MISSING else setattr(value, key, before)

            self._note(value, path, key, lambda: getattr(value, key, MISSING), write)
            found = getattr(value, key, MISSING)
            return [] if found is MISSING else [(found, path)]
        found = own.get(key, MISSING) if _is_frozen(value) else MISSING
        is_users = not is_library_class(type(value))
        if found is MISSING and own is not NOTHING and (key in own or of_class is MISSING or is_users):
            found = self._variable(own, key, path, is_told=_tells(value))
        if found is MISSING and of_class is not MISSING:
            found = _bound(of_class, value, type(value))
        elif found is MISSING:
            self._methods(type(value), ("__getattr__",), value, name)
        return [] if found is MISSING else [(found, path)]

    def _of_class(self, kind: type, key: str, name: str) -> Any:
        """What a class or those that it inherits from have of this name; where it could be changed is noted."""
        for base in kind.__mro__:
            if not is_library_class(base):
                self._variable(vars(base), key, name, owner=base)
            if key in vars(base):
                return vars(base)[key]
        return MISSING

    def _methods(self, kind: type, names: Iterable[str], owner: Any, name: str) -> None:
        """Methods that are called without being named."""
        for key in names:
            method = _in_class(kind, key)
            method = method.fget if isinstance(method, property) else _attributes_of(method).get("__wrapped__", method)
            if isinstance(method, types.FunctionType) and not _is_library_function(method):
                self._of_class(kind, key, f"{name}.{key}")
                self._function(method, owner, f"{name}.{key}")

    # ------------------------------------------------------------------------------------------------ code

    def _function(self, function: Any, owner: Any, name: str) -> None:
        if not isinstance(function, types.FunctionType):
            self._follow(function, name)
            return
        if (function, id(owner)) in self._seen:
            return
        self._seen[function, id(owner)] = owner
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        if owner is not MISSING and not code.co_argcount:  # it is among *arguments
            self._follow(owner, name)
        if _is_library_function(function):  # it may be around a function of the user's
            for key, cell in cells.items():
                inner = _contents(cell)
                if isinstance(inner, types.FunctionType):
                    self._function(inner, owner, name)
                else:
                    self._follow(inner, key)
            return
        for kind in ("__code__", "__defaults__", "__kwdefaults__"):
            if (part := getattr(function, kind)) is not None:
                self._note(function, f"{name}.{kind}", kind, functools.partial(getattr, function, kind),
                           functools.partial(setattr, function, kind))
                self._follow(part if kind != "__code__" else None, f"a default of {name}")
        self._read_code(code, _Scope(function.__globals__, cells, self._locals(code, owner)))

    def _locals(self, code: types.CodeType, owner: Any) -> dict[str, list]:
        first = code.co_varnames[0] if code.co_argcount else None
        return {} if owner is MISSING or first is None else {first: [(owner, first)]}

    def _read_code(self, code: types.CodeType, scope: "_Scope") -> None:
        self.codes[code] = None
        names = set(code.co_names)
        scope.reads_all = bool(names & OF_ALL)
        if names & BY_STRING:
            texts = [text for text in code.co_consts if isinstance(text, str)]
            strings = [part for text in texts for part in text.split(".") if part.isidentifier()]
            self._loose.update(strings)
            self._strings.update(strings)
            scope.reads_all |= len(strings) < len(names & BY_STRING)  # some are computed
            for text in strings if "globals" in names else ():
                self._follow(self._variable(scope.variables, text, text), text)
        if "super" in names:
            for owner, name in scope.locals.get(code.co_varnames[0], []) if code.co_varnames else ():
                for base in type(owner).__mro__:
                    self._methods(base, names & vars(base).keys(), owner, name)
        loads = _instructions(code)
        scope.reads_all |= any(load.opname == "MATCH_CLASS" for load in loads)
        for i, load in enumerate(loads):
            if load.opname in ATTRIBUTES + SET_ATTRIBUTES:
                if load.is_jump_target or not (i and loads[i - 1].opname.startswith((*ROOTS, *ATTRIBUTES))):
                    self._loose.add(load.argval)  # it does not belong to a chain
            elif load.opname in SET_VARIABLES:
                self._values(load, scope)
            elif load.opname.startswith(ROOTS):
                self._chain(loads, i, scope)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType) and inner not in self.codes:
                self._read_code(inner, scope)

    def _chain(self, loads: list[dis.Instruction], i: int, scope: "_Scope") -> None:
        """What a chain of names, such as a.b.c, leads to."""
        found = self._values(loads[i], scope)
        for load in loads[i + 1 :]:
            if load.opname in SET_ATTRIBUTES:
                for value, name in found:
                    self._attribute(value, load.argval, name)
                found = []
            if load.opname not in ATTRIBUTES or load.is_jump_target:
                break
            before, found = found, [pair for value, name in found for pair in self._attribute(value, load.argval, name)]
            if len(found) < max(1, len(before)):
                self._loose.add(load.argval)
        if load.opname.startswith("STORE_FAST") and found:  # it is called by another name from here on
            scope.locals.setdefault(_names(load)[0], []).extend(found)
            return
        for value, name in found:
            if scope.reads_all:
                self._read_whole.add(id(value))
            self._follow(value, name)

    def _values(self, load: dis.Instruction, scope: "_Scope") -> list[tuple[Any, str]]:
        """What the variable may be that an instruction loads or sets; nothing if that is known only when it runs."""
        *others, name = _names(load)
        for other in others if load.opname.startswith("LOAD_FAST") else ():
            for value, path in scope.locals.get(other, []):
                self._follow(value, path)
        if name in scope.locals and "GLOBAL" not in load.opname:
            return scope.locals[name]
        if name in scope.cells and load.opname.endswith(("DEREF", "DEREF_OR_NULL")):
            value = self._cell(scope.cells[name], name)
        elif load.opname == "IMPORT_NAME":
            value = sys.modules.get(load.argval, MISSING)
        elif load.opname.endswith(("GLOBAL", "NAME", "GLOBALS")):
            if name not in scope.variables and hasattr(builtins, name):
                return [(getattr(builtins, name), name)]
            value = self._variable(scope.variables, name, name)
        else:
            return []
        return [] if value is MISSING else [(value, name)]


class _Scope:
    """The variables of a function: globals, those of functions around it, and locals as far as they are known."""

    def __init__(self, variables: dict, cells: dict[str, types.CellType], known: dict[str, list]):
        self.variables, self.cells, self.locals = variables, cells, known
        self.reads_all = False


NOTHING: dict = {}


def _attributes_of(value: Any) -> dict:
    """An object's own attributes."""
    try:
        own = value.__dict__ if isinstance(value, threading.local) else object.__getattribute__(value, "__dict__")
    except AttributeError:
        return NOTHING
    return own if isinstance(own, dict) else NOTHING


def _in_class(kind: type, key: str) -> Any:
    return next((vars(base)[key] for base in kind.__mro__ if key in vars(base)), MISSING)


def _tells(value: Any) -> bool:
    """Does it tell captured steps when an attribute is set, as nn.Module does?"""
    setter = type(value).__setattr__
    return isinstance(setter, types.FunctionType) and (setter.__module__ or "").partition(".")[0] in LIBRARIES


def is_ours(kind: type) -> bool:
    """Is it a class of the library, or made from one?"""
    return any(base.__module__.partition(".")[0] in LIBRARIES for base in kind.__mro__)


HEAP_TYPE = 1 << 9  # a flag of classes that are made at run time


def is_library_class(kind: type) -> bool:
    """Is a class's code not followed? One of "builtins" that is made at run time is of text that was run by exec()."""
    return is_of_library(kind.__module__) and not (kind.__module__ == "builtins" and kind.__flags__ & HEAP_TYPE)


def _is_library_function(function: types.FunctionType) -> bool:
    return is_of_library(function.__globals__.get("__name__"))  # what wraps another has that one's __module__


def _is_frozen(value: Any) -> bool:
    """Is it of a dataclass whose attributes can't be set?"""
    return getattr(type(value), "__dataclass_params__", None) is not None and type(value).__dataclass_params__.frozen


def _operators(kind: type) -> list[str]:
    """The methods of the user's classes that Python calls without their being named."""
    return [key for base in kind.__mro__ if not is_library_class(base) for key in vars(base)
            if key.startswith("__") and key not in ("__init__", "__new__", "__post_init__", "__init_subclass__")
            and not ("__dataclass_fields__" in vars(base) and key in OF_DATACLASSES)]


def _bound(found: Any, value: Any, kind: type) -> Any:
    """A class's attribute as an object has it."""
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return types.MethodType(found.__func__, kind)
    return types.MethodType(found, value) if isinstance(found, types.FunctionType) and value is not kind else found


def _state_of(value: Any) -> tuple[Callable, Callable] | None:
    """How to look at what changes when somebody draws from it, and how to set that back."""
    if isinstance(value, random.Random):
        return value.getstate, value.setstate
    if isinstance(value, np.random.RandomState):
        return (lambda: pickle.dumps(value.get_state())), (lambda state: value.set_state(pickle.loads(state)))
    if isinstance(value, np.random.Generator):
        value = value.bit_generator
    if isinstance(value, np.random.BitGenerator):
        return (lambda: pickle.dumps(value.state)), (lambda state: setattr(value, "state", pickle.loads(state)))
    if isinstance(value, type(_instructions)):  # of functools.lru_cache
        return (lambda: value.cache_info().misses), (lambda state: value.cache_clear())
    if isinstance(value, types.GeneratorType):
        return (lambda: (getattr(value.gi_frame, "f_lasti", None), repr(inspect.getgeneratorlocals(value))),
                lambda state: None)
    if hasattr(type(value), "__next__") and hasattr(type(value), "__length_hint__"):
        return value.__length_hint__, lambda state: None
    if type(value).__module__ == "itertools":
        return lambda: repr(value), lambda state: None
    return None


def _refill(container: Any, items: Any) -> None:
    if isinstance(container, types.MappingProxyType):
        return
    kind = next(kind for kind in CONTAINERS if isinstance(container, kind))  # whatever a subclass makes of it
    items = list(items)
    kind.clear(container)
    (kind.extend if kind in (list, collections.deque) else kind.update)(container, items)


def _bytes_of(array: np.ndarray) -> Callable[[], bytes | bytearray]:
    """A function that returns what an array holds: the same object until that changes, so that nothing large is copied."""
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
    array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet, as of a function that refers to itself
        return MISSING


@functools.lru_cache(maxsize=4096)
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return [load for load in dis.get_instructions(code) if load.opname not in LEFT_OUT]


def _names(load: dis.Instruction) -> tuple:
    """The variables that an instruction names; some name two."""
    return load.argval if isinstance(load.argval, tuple) else (load.argval,)
