"""What names a function's code uses, and whose code it is, from its bytecode alone: no value is looked at.

>>> def step(x):
...     scale = settings.scales
...     return model(x).mean() * scale.first
>>> [(chain.name, *chain.attributes) for chain in named(step.__code__).chains]
[('settings', 'scales'), ('model',), ('x',), ('scale', 'first')]
>>> named(step.__code__).loose  # attributes of what a call returns, known only when the code runs
{'mean'}
"""
import dis
import functools
import sys
import types
from typing import Any, Iterable, Iterator, NamedTuple

LIBRARIES = {"minigrad", "numpy", "numba"}  # whose code is not followed: they report what they read
COMPILED: set[str] = set()  # installed packages that compile a step of their own: they are followed like the user's
OURS, OTHERS, USERS = "ours", "others'", "the user's"
HEAP_TYPE = 1 << 9  # a flag of classes made at run time

IMPORT, GLOBAL, CELL, LOCAL = "import", "global", "cell", "local"
KINDS = {"NAME": GLOBAL, "GLOBAL": GLOBAL, "GLOBALS": GLOBAL, "DEREF": CELL, "CLASSDEREF": CELL, "FAST": LOCAL}
ROOTS = ("IMPORT_NAME", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "LOAD_FAST",
         "STORE_FAST_LOAD_FAST")
SET_VARIABLES = ("STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_NAME", "DELETE_DEREF")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
SET_ATTRIBUTES = ("STORE_ATTR", "DELETE_ATTR")
LEFT_OUT = {"EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL", "COPY"}  # which may interrupt a chain of names
BY_STRING = {"getattr", "setattr", "hasattr", "delattr", "globals", "attrgetter", "methodcaller", "getattr_static",
             "__getattribute__"}
READS_ALL = {"vars", "__dict__", "eval", "exec", "asdict", "astuple", "replace", "copy", "deepcopy"}  # all attributes
CHANGING = {"append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear", "update", "setdefault", "add",
            "discard", "sort", "reverse", "fill", "popitem"}  # methods of containers


def is_a(value: Any, kinds: Any) -> bool:
    """isinstance by the type alone, which runs no code of the user's, as a `__getattribute__` of its class."""
    return issubclass(type(value), kinds)


def whose(part: Any) -> str:
    """Whose a function, a class, or a module (or its name) is: `OURS`, `OTHERS` or `USERS`, which alone is followed."""
    if isinstance(part, types.FunctionType):
        part = part.__globals__.get("__name__")  # a wrapper has the __module__ of what it wraps
    elif isinstance(part, types.ModuleType):
        part = part.__name__
    elif isinstance(part, type):
        made_by_exec = part.__module__ == "builtins" and part.__flags__ & HEAP_TYPE
        part = None if made_by_exec else part.__module__
    package = (part or "").partition(".")[0]
    return OURS if package in LIBRARIES else _whose_package(package)


def follow_package(function: Any) -> None:
    """A function is compiled: its package is the user's from now on, even if it is installed."""
    module = getattr(getattr(function, "func", function), "__module__", None)  # of a partial's function
    COMPILED.add((module or "").partition(".")[0])
    _whose_package.cache_clear()


@functools.lru_cache(maxsize=4096)
def _whose_package(package: str) -> str:
    """`OTHERS` for the standard library and installed packages, else `USERS`."""
    if package == "__main__":  # the user's, also if an installed program such as pytest or IPython runs it
        return USERS
    folder = str(getattr(sys.modules.get(package), "__file__", None))
    is_library = package in sys.stdlib_module_names or package.startswith("namedtuple_")
    is_installed = "site-packages" in folder or "dist-packages" in folder
    return OTHERS if is_library or is_installed and package not in COMPILED else USERS


class Chain(NamedTuple):
    """A variable and attributes read or set one after the other, such as a.b.c."""

    kind: str
    name: str
    attributes: list[str]


class Named(NamedTuple):
    """The names that code uses."""

    chains: list[Chain]
    loose: set[str]  # attributes of objects that are known only when the code runs
    strings: list[str]  # that may also name attributes
    reads_all: bool  # may it read any attribute of its objects?
    inner: list[types.CodeType]


def named(code: types.CodeType) -> Named:
    """The names that this code uses, not counting those of functions inside it."""
    names, chains, loose, strings = set(code.co_names), [], set(), []
    if by_string := names & BY_STRING:
        loads = [load for load in _instructions(code) if load.opname.startswith("LOAD_CONST")]  # not the docstring
        values = [part for load in loads for part in (load.argval if isinstance(load.argval, tuple) else (load.argval,))]
        texts = [value for value in values if isinstance(value, str)]
        strings = [part for text in texts for part in text.split(".") if part.isidentifier()]
    chain = None  # the next instruction may lengthen it
    for load in _instructions(code):
        *others, name = _names(load)
        if load.opname in ATTRIBUTES + SET_ATTRIBUTES:
            chain = None if load.is_jump_target else chain
            (loose.add if chain is None else chain.attributes.append)(name)
            chain = chain if load.opname in ATTRIBUTES else None
            continue
        chain = Chain(_kind(load), name, []) if load.opname.startswith(ROOTS) else None
        if load.opname.startswith("LOAD_FAST"):
            chains += [Chain(LOCAL, other, []) for other in others]
        if chain is not None or load.opname in SET_VARIABLES:
            chains.append(chain or Chain(_kind(load), name, []))
    if "globals" in names:
        chains += [Chain(GLOBAL, text, []) for text in strings]
    reads_all = bool(names & READS_ALL) or len(strings) < len(by_string)  # some are computed
    reads_all |= any(load.opname == "MATCH_CLASS" for load in _instructions(code))
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return Named(chains, {*loose, *strings}, strings, reads_all, inner)


def _kind(load: dis.Instruction) -> str:
    """Where the variable lives."""
    return IMPORT if load.opname == "IMPORT_NAME" else KINDS.get(load.opname.rpartition("_")[2], LOCAL)


def line_of(codes: Iterable[types.CodeType], key: str) -> str:
    """Where code sets the variable or attribute of this name, or changes its contents, as "file:line"."""
    def lines(opnames: tuple, names: set) -> Iterator[tuple]:
        for code in codes:
            for load in _instructions(code):
                if load.opname.startswith(opnames) and _names(load)[0] in names:
                    yield code.co_filename, load.positions.lineno

    stores = set(lines(SET_VARIABLES + SET_ATTRIBUTES, {key}))
    changes = set(lines(("STORE_SUBSCR", "DELETE_SUBSCR"), {None})) | set(lines(ATTRIBUTES, CHANGING))
    loads = set(lines((*ROOTS, *ATTRIBUTES), {key}))
    found = sorted(stores or changes & loads or loads)
    return "{}:{}".format(*found[0]) if found else "a function that it calls"


@functools.lru_cache(maxsize=4096)
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return [load for load in dis.get_instructions(code) if load.opname not in LEFT_OUT]


def _names(load: dis.Instruction) -> tuple:
    """The variables that an instruction names: one or two."""
    return load.argval if isinstance(load.argval, tuple) and "FAST" in load.opname else (load.argval,)
