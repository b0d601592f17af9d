"""What a function's code names, and whose code it is. It is read from the bytecode alone: no value is looked at.

>>> def step(x):
...     scale = settings.scales
...     return model(x).mean() * scale.first
>>> [(chain.name, *chain.attributes) for chain in named(step.__code__).chains]
[('settings', 'scales'), ('model',), ('x',), ('scale', 'first')]
>>> named(step.__code__).loose  # of what a call returns, which is known only when the code runs
{'mean'}
"""
import dis
import functools
import sys
import types
from typing import Any, Iterable, Iterator, NamedTuple

LIBRARIES = {"minigrad", "numpy", "numba"}  # whose code is not followed: what it reads, it tells in other ways
OURS, OTHERS, USERS = "ours", "others'", "the user's"
HEAP_TYPE = 1 << 9  # a flag of classes that are made at run time

IMPORT, GLOBAL, CELL, LOCAL = "import", "global", "cell", "local"
KINDS = {"NAME": GLOBAL, "GLOBAL": GLOBAL, "GLOBALS": GLOBAL, "DEREF": CELL, "CLASSDEREF": CELL, "FAST": LOCAL}
ROOTS = ("IMPORT_NAME", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "LOAD_FAST",
         "STORE_FAST_LOAD_FAST")
SET_VARIABLES = ("STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_NAME", "DELETE_DEREF")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
SET_ATTRIBUTES = ("STORE_ATTR", "DELETE_ATTR")
LEFT_OUT = {"EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL", "COPY"}  # they may stand within a chain of names
BY_STRING = {"getattr", "setattr", "hasattr", "delattr", "globals", "attrgetter", "methodcaller", "getattr_static"}
OF_ALL = {"vars", "__dict__", "eval", "exec", "asdict", "astuple", "replace", "copy", "deepcopy"}  # read all attributes
CHANGING = {"append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear", "update", "setdefault", "add",
            "discard", "sort", "reverse", "fill", "popitem"}  # methods of containers


def whose(part: Any) -> str:
    """Whose code a function, a class, or a module (or its name) is: `OURS`, `OTHERS`, `USERS`, which alone is followed."""
    if isinstance(part, types.FunctionType):
        part = part.__globals__.get("__name__")  # what wraps another has that one's __module__
    elif isinstance(part, types.ModuleType):
        part = part.__name__
    elif isinstance(part, type):
        made_by_exec = part.__module__ == "builtins" and part.__flags__ & HEAP_TYPE
        part = None if made_by_exec else part.__module__
    package = (part or "").partition(".")[0]
    return OURS if package in LIBRARIES else _whose_package(package)


@functools.lru_cache(maxsize=4096)
def _whose_package(package: str) -> str:
    """Does it come with Python, or is it installed beside it? Users' code is elsewhere, and libraries have no end."""
    if package == "__main__":  # the user's, also where an installed program runs it, as `python -m pytest` or IPython
        return USERS
    folder = str(getattr(sys.modules.get(package), "__file__", None))
    is_library = package in sys.stdlib_module_names or package.startswith("namedtuple_")
    return OTHERS if is_library or "site-packages" in folder or "dist-packages" in folder else USERS


class Chain(NamedTuple):
    """A variable, and the attributes that are read or set one after the other, such as a.b.c."""

    kind: str
    name: str
    attributes: list[str]


class Named(NamedTuple):
    """What code names."""

    chains: list[Chain]
    loose: set[str]  # attributes of what is known only when it runs
    strings: list[str]  # that may name attributes, too
    reads_all: bool  # may it read any attribute of what it has in hand?
    inner: list[types.CodeType]


def named(code: types.CodeType) -> Named:
    """What this code names, without that of functions inside."""
    names, chains, loose, strings = set(code.co_names), [], set(), []
    if by_string := names & BY_STRING:
        texts = [text for text in code.co_consts if isinstance(text, str)]
        strings = [part for text in texts for part in text.split(".") if part.isidentifier()]
    chain = None  # that the next instruction may lengthen
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
    reads_all = bool(names & OF_ALL) or len(strings) < len(by_string)  # some are computed
    reads_all |= any(load.opname == "MATCH_CLASS" for load in _instructions(code))
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return Named(chains, {*loose, *strings}, strings, reads_all, inner)


def _kind(load: dis.Instruction) -> str:
    """Where the variable is."""
    return IMPORT if load.opname == "IMPORT_NAME" else KINDS.get(load.opname.rpartition("_")[2], LOCAL)


def line_of(codes: Iterable[types.CodeType], key: str) -> str:
    """Where code sets the variable or attribute of this name, as "file:line"; or, of contents, where it changes them."""
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
    """The variables that an instruction names; some name two."""
    return load.argval if isinstance(load.argval, tuple) and "FAST" in load.opname else (load.argval,)
