"""What a function takes as constant: the variables and attributes that it reads or sets, and their contents.

Python decides again in each call, a replay does not. `Surroundings` finds what the decisions depend on before the function
runs, from its code (code.py) and from the values it can reach. It follows

- chains of names that begin at a global, at a variable of an enclosing function, or at `self`, such as `self.config.scale`;
- functions at the end of such a chain, through methods, decorators, partials, properties, and modules' `forward`;
- the value at the end of a chain, which may be passed anywhere: contents of containers, and attributes whose names occur in
  the code on objects that are not known yet.

Each thing found is a `Place` (places.py). What the code does not show, the functions that ran show afterwards (`add`), and
finally a comparison of whole runs (compiled.py).
"""
import builtins
import functools
import sys
import threading
import types
import weakref
from contextvars import ContextVar
from typing import Any, Callable, Iterable, Mapping, NamedTuple

import numpy as np

from ... import random as own_random
from ...backend import is_tensor
from .code import CELL, GLOBAL, IMPORT, OURS, USERS, Chain, is_a, named, whose
from .places import (
    CHECKED, CONTAINERS, MISSING, OF_TENSORS, OUTDATING, REPLAYED, SIMPLE, Place, hides_its_position, inside, is_ours,
)

MOST_OBJECTS = 10_000  # of one function; items of containers, which come last, are not followed beyond
LARGEST_CONTAINER, LARGEST_ARRAY = 1 << 17, 1 << 24  # elements, bytes; larger ones are not checked
OF_DATACLASSES = {"__eq__", "__repr__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__setattr__", "__delattr__"}
NOTHING: dict = {}


class Scope(NamedTuple):
    """The variables of code by name: globals, those of enclosing functions, and the first argument if it is known."""

    variables: dict
    cells: dict[str, types.CellType]
    first: dict[str, Any]


class Surroundings:
    """The places that a function's code reads or sets.

    >>> __name__, scale = "a_file_of_the_user", 2.0
    >>> [place.name for place in Surroundings(lambda x: x * scale).places.values()]
    ['<lambda>.__code__', 'scale']
    """

    def __init__(self, function: Callable, ran: dict | None = None):
        self.places: dict[tuple, Place] = {}  # by id of the owner, and key
        self.codes: dict[types.CodeType, None] = {}  # already read
        self.known: dict[int, Any] = {}  # objects that the code can reach, by id
        self._seen: dict[Any, Any] = {}  # already followed, by id
        self._loose: set[str] = set()  # names of attributes of objects known only when the code runs
        self._strings: set[str] = set()  # those named by strings
        self._read_whole: set[int] = set()  # ids of objects whose attributes may all be read
        self._items: list[tuple[Any, str]] = []  # of containers, with their names: to be followed once all names are
        self._iterators: list[tuple[Any, str, str]] = []  # in modules, with their names: followed if the code names them
        self._open: dict[int, tuple[Any, str, set]] = {}  # (object, its name, names of attributes followed), by id
        self._follow(function, getattr(function, "__name__", type(function).__name__))
        self._settle()
        self.add(ran or {})

    def begin(self) -> None:
        """The function is about to run: take the present state as the original one."""
        generator = own_random.generator()
        self._note(generator, "state", "minigrad's generator", *inside(generator)[:2], REPLAYED)
        for place in self.places.values():
            place.value = place.latest = place.read()

    def changed(self) -> list[Place]:
        """The places that have changed since `allow`, or since the beginning."""
        return [place for place in self.places.values() if place.kind is not REPLAYED and place.has_changed()]

    def allow(self) -> None:
        """Accept all changes so far: a replay makes them too."""
        for place in self.places.values():
            place.latest = place.read()

    def to_check(self, apart: set[int]) -> list[Place]:
        """The places to check before a replay, except those in objects with these ids."""
        return [place for (within, _), place in self.places.items() if place.kind is CHECKED and within not in apart]

    def add(self, ran: dict[types.CodeType, tuple[dict, Any]]) -> None:
        """Read the functions that ran, with these globals and first arguments, and were not found before."""
        for code, (variables, first) in ran.items():
            if code not in self.codes:
                self._read(code, Scope(variables, {}, _first(code, MISSING if first is None else first)))
        self._settle()

    # ------------------------------------------------------------------------------------------------ places

    def _note(self, within: Any, key: str, name: str, read: Callable, write: Callable, kind: str = CHECKED) -> None:
        if (id(within), key) not in self.places:
            self.places[id(within), key] = Place(within, key, name, read, write, kind)

    def _variable(self, scope: Mapping, key: str, name: str, owner: Any = None, kind: str = CHECKED) -> Any:
        """The value of a variable in a dict, or of an owner's attribute; its place is noted."""
        within, put = (scope, _set_item) if owner is None else (owner, _set_attribute)
        self._note(within, key, name, functools.partial(scope.get, key, MISSING), functools.partial(put, within, key), kind)
        return scope.get(key, MISSING)

    def _slot(self, owner: Any, key: str, name: str) -> Any:
        """The value of an attribute that is not in a dict."""
        read = functools.partial(getattr, owner, key, MISSING)
        self._note(owner, key, name, read, functools.partial(_set_attribute, owner, key))
        return read()

    def _inside(self, value: Any, name: str) -> bool:
        """Follow the contents of a value, if they can change. Can they?"""
        is_container, look = is_a(value, CONTAINERS), inside(value)
        if is_container or is_tensor(value):
            self._opens(value, name)  # its class may be a user's
        is_large_array = is_a(value, np.ndarray) and value.nbytes > LARGEST_ARRAY
        if is_large_array or is_container and len(value) > LARGEST_CONTAINER:
            return True
        if look:
            self._note(value, name.rpartition(".")[2].partition("[")[0], name, *look)
            wrapped = value.get(None) if is_a(value, ContextVar) else _attributes_of(value).get("__wrapped__")
            self._follow(wrapped, name)
        for key, item in _items(value) if is_container else ():
            if not is_a(item, SIMPLE) and (is_a(value, tuple) or not hides_its_position(item)):  # as in a partial
                self._items.append((item, f"{name}[{key!r}]" if is_a(key, SIMPLE) else f"an item of {name}"))
        return is_container or look is not None

    # ------------------------------------------------------------------------------------------------ values

    def _follow(self, value: Any, name: str) -> None:
        """Follow a value that the function can reach: it may call it, look into it, or pass it on."""
        is_simple = is_a(value, (*SIMPLE, types.CodeType, weakref.WeakKeyDictionary))  # the latter is a cache
        if value is MISSING or is_simple or id(value) in self._seen or len(self._seen) > MOST_OBJECTS:
            return
        if is_a(value, types.MethodType):  # a new one at each look-up
            if inside(value.__self__):
                self._follow(value.__self__, name)
            self._function(value.__func__, value.__self__, name)
            return
        self._seen[id(value)] = self.known[id(value)] = value
        if is_a(value, types.FunctionType):
            self._function(value, MISSING, name)
            self._opens(value, name)
        elif is_a(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            if not is_a(value.__self__, (types.ModuleType, type(None), type)):
                self._follow(value.__self__, name.rpartition(".")[0] or name)
        elif is_a(value, (staticmethod, classmethod)):
            self._follow(value.__func__, name)
        elif not self._inside(value, name):
            self._object(value, name)

    def _object(self, value: Any, name: str) -> None:
        if is_a(value, (type, types.ModuleType)):
            if is_a(value, type):
                self._methods(value, ("__init__", "__new__", "__post_init__"), MISSING, name)
        else:
            own = _attributes_of(value)
            self._methods(type(value), ("forward", *_operators(type(value))), value, name)
            for key in ("__wrapped__", "func", "args", "keywords"):  # of wrappers and partials
                if key in own or type(value).__module__ == "functools":
                    self._follow(getattr(value, key, None), name)
            if _outdates_steps(value):
                self._opens(type(value), type(value).__name__)
                for key in [key for key in own if not key.startswith("_")]:
                    part = self._variable(own, key, f"{name}.{key}", kind=OUTDATING)
                    if is_tensor(part):
                        self.known[id(part)] = part
                        self._opens(part, f"{name}.{key}")
                    elif hides_its_position(part):
                        self._iterators.append((part, f"{name}.{key}", key))
                    else:
                        self._follow(part, f"{name}.{key}")
        self._opens(value, name)

    def _opens(self, value: Any, name: str) -> None:
        """The names in the code may be attributes of this value, unless it reports changes or is a library's."""
        is_library = is_a(value, (type, types.ModuleType)) and whose(value) is not USERS
        is_plain = is_tensor(value) and not _attributes_of(value).keys() - OF_TENSORS
        if not (is_library or is_plain or _outdates_steps(value)):
            self._open.setdefault(id(value), (value, name, set()))

    def _settle(self) -> None:
        """Follow what is named until nothing new is found; then items of containers, and what is named in them."""
        self._follow_attributes()
        while self._items:
            items, self._items = self._items, []
            for item, name in items:
                self._follow(item, name)
            self._follow_attributes()
        for iterator, name, key in self._iterators:
            if key in self._loose:
                self._follow(iterator, name)

    def _follow_attributes(self) -> None:
        count = -1
        while count != (count := len(self._seen) + len(self.places) + len(self._loose)):
            for value, name, followed in list(self._open.values()):
                own, kind = _attributes_of(value), value if is_a(value, type) else type(value)
                is_foreign = whose(type(value)) is not USERS and not is_ours(type(value))
                reads_all = id(value) in self._read_whole or is_foreign
                reads_all = reads_all and not is_a(value, (type, types.ModuleType))
                if reads_all and own and len(own) <= LARGEST_CONTAINER:
                    self._note(own, name, f"vars({name})", functools.partial(tuple, own), lambda before: None)
                for key in ({*self._loose, *own} if reads_all else self._loose) - followed:
                    followed.add(key)
                    if key in own or key in self._strings or any(key in vars(base) for base in kind.__mro__[:-1]):
                        self._follow(self._attribute(value, key, name), f"{name}.{key}")

    def _attribute(self, value: Any, key: str, name: str) -> Any:
        """The value of an attribute, if it exists and needs no code to run. The places where it could change are noted."""
        path = f"{name}.{key}"
        self.known[id(value)] = value
        if _outdates_steps(value) or inside(value) or is_a(value, CONTAINERS):
            self._follow(value, name)  # a method may change it
        if key == "__class__":
            return type(value)
        if is_a(value, types.ModuleType):
            found = self._variable(vars(value), key, path)
            if found is MISSING:
                self._follow(vars(value).get("__getattr__"), path)
            return found
        if is_a(value, type):
            found = self._of_class(value, key, path)
            if found is not MISSING:
                return _bound(found, value, value)
            self._opens(value, name)  # a property of its class, perhaps
        if is_a(value, types.MethodType):
            value = value.__func__
        own, kind = _attributes_of(value), type(value)
        of_class = _in_class(kind, key) if key in own else self._of_class(kind, key, path)
        if is_a(of_class, property):
            for function in (of_class.fget, of_class.fset):
                self._function(function, value, path)
            return MISSING
        if is_a(of_class, types.MemberDescriptorType):  # of __slots__
            return self._slot(value, key, path)
        if is_a(of_class, (functools.partialmethod, functools.cached_property)):
            self._function(of_class.func, value, path)
        elif "__get__" in _operators(type(of_class)):
            self._follow(of_class, path)
            self._follow(value, name)
            self._read_whole.add(id(value))  # its code is given the object
            return MISSING
        if key in own and getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
            return own[key]  # which can't be set
        found = MISSING
        if own is not NOTHING and (key in own or of_class is MISSING or whose(kind) is USERS):
            found = self._variable(own, key, path, kind=OUTDATING if _outdates_steps(value) else CHECKED)
        if found is MISSING and of_class is not MISSING:
            return _bound(of_class, value, kind)
        self._methods(kind, ("__getattr__", "__getattribute__") if found is MISSING else ("__getattribute__",), value, name)
        return found

    def _of_class(self, kind: type, key: str, name: str) -> Any:
        """The attribute of a class or its bases; each place where it could be changed is noted."""
        for base in kind.__mro__:
            if whose(base) is USERS:
                self._variable(vars(base), key, name, owner=base)
            if key in vars(base):
                return vars(base)[key]
        return MISSING

    def _methods(self, kind: type, names: Iterable[str], owner: Any, name: str) -> None:
        """Follow methods that are called without being named."""
        for key in names:
            method = _in_class(kind, key)
            method = method.fget if is_a(method, property) else _attributes_of(method).get("__wrapped__", method)
            if is_a(method, types.FunctionType) and whose(method) is USERS:
                self._of_class(kind, key, f"{name}.{key}")
                self._function(method, owner, f"{name}.{key}")

    # ------------------------------------------------------------------------------------------------ code

    def _function(self, function: Any, owner: Any, name: str) -> None:
        if not is_a(function, types.FunctionType):
            self._follow(function, name)
            return
        if (function, id(owner)) in self._seen:
            return
        self._seen[function, id(owner)] = owner
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        if owner is not MISSING and not code.co_argcount:  # it is one of *arguments
            self._follow(owner, name)
        if whose(function) is not USERS:  # it may wrap a user's function
            for cell in cells.values():
                self._function(_contents(cell), owner, name)
            return
        for kind in ("__code__", "__defaults__", "__kwdefaults__"):
            if getattr(function, kind) is not None:
                self._follow(self._slot(function, kind, f"{name}.{kind}"), f"a default of {name}")
        self._read(code, Scope(function.__globals__, cells, _first(code, owner)))

    def _read(self, code: types.CodeType, scope: Scope) -> None:
        """Follow the names in code, and in functions inside it."""
        self.codes[code] = None
        names = named(code)
        self._loose |= names.loose
        self._strings.update(names.strings)
        if "super" in code.co_names:
            owner = scope.first.get((*code.co_varnames, "")[0])
            for base in type(owner).__mro__:
                self._methods(base, set(code.co_names) & vars(base).keys(), owner, code.co_varnames[0])
        for chain in names.chains:
            value, name = self._end(chain, scope)
            if names.reads_all:
                self._read_whole.add(id(value))
            self._follow(value, name)
        for inner in names.inner:
            if inner not in self.codes:
                self._read(inner, scope)

    def _end(self, chain: Chain, scope: Scope) -> tuple[Any, str]:
        """The value at the end of a chain, and its name; MISSING if it is known only when the code runs."""
        value, name = self._root(chain, scope), chain.name
        for key in chain.attributes:
            value = MISSING if value is MISSING else self._attribute(value, key, name)
            name = f"{name}.{key}"
            if value is MISSING:
                self._loose.add(key)
        return value, name

    def _root(self, chain: Chain, scope: Scope) -> Any:
        """The value of the variable at which a chain begins."""
        name = chain.name
        if chain.kind is IMPORT:  # absolute or relative; `import a.b as c` makes the module itself a variable
            names = name, f"{scope.variables.get('__package__')}.{name}".rstrip(".")
            modules = [sys.modules[name] for name in names if name in sys.modules]
            for module in modules:
                self._follow(module, name)
            return modules[0] if modules else MISSING
        if chain.kind is GLOBAL:
            is_builtin = name not in scope.variables and hasattr(builtins, name)
            return getattr(builtins, name) if is_builtin else self._variable(scope.variables, name, name)
        if name in scope.first:
            return scope.first[name]
        if chain.kind is not CELL or name not in scope.cells:
            return MISSING
        read, put = functools.partial(_contents, scope.cells[name]), functools.partial(_set_attribute, scope.cells[name])
        self._note(scope.cells[name], name, name, read, functools.partial(put, "cell_contents"))
        return read()


def _first(code: types.CodeType, owner: Any) -> dict[str, Any]:
    return {} if owner is MISSING or not code.co_argcount else {code.co_varnames[0]: owner}


def _items(container: Any) -> list[tuple[Any, Any]]:
    """A container's items, with keys or indices."""
    if is_a(container, dict):
        return list(dict.items(container))
    return list(container.items() if is_a(container, types.MappingProxyType) else enumerate(container))


def _set_item(scope: dict, key: str, value: Any) -> None:
    if value is MISSING:
        scope.pop(key, None)
    else:
        scope[key] = value


def _set_attribute(owner: Any, key: str, value: Any) -> None:
    delattr(owner, key) if value is MISSING else setattr(owner, key, value)


def _attributes_of(value: Any) -> dict:
    """An object's own attributes."""
    try:
        own = value.__dict__ if is_a(value, threading.local) else object.__getattribute__(value, "__dict__")
    except AttributeError:
        return NOTHING
    return own if is_a(own, dict) else NOTHING


def _in_class(kind: type, key: str) -> Any:
    return next((vars(base)[key] for base in kind.__mro__ if key in vars(base)), MISSING)


def _outdates_steps(value: Any) -> bool:
    """Does setting an attribute outdate captured steps, as in nn.Module?"""
    setter = type(value).__setattr__
    return is_a(setter, types.FunctionType) and whose(setter) is OURS


def _operators(kind: type) -> list[str]:
    """The methods of a user's class that Python calls without naming them."""
    return [key for base in kind.__mro__ if whose(base) is USERS for key in vars(base)
            if key.startswith("__") and key not in ("__init__", "__new__", "__post_init__", "__init_subclass__")
            and not ("__dataclass_fields__" in vars(base) and key in OF_DATACLASSES)]


def _bound(found: Any, value: Any, kind: type) -> Any:
    """A class's attribute, bound to the object or to the class itself."""
    is_method = is_a(found, (types.FunctionType, staticmethod, classmethod))
    return found.__get__(None if value is kind else value, kind) if is_method else found


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty, as in a function that refers to itself
        return MISSING
