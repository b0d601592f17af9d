"""Sabotage by changing a few words of the library's source, in memory and in this process only."""
import dataclasses
import functools
import importlib
import inspect
import operator
import pathlib
import types
from collections.abc import Callable
from typing import Any

from sabotage.base import Sabotage


def edits(tests: tuple[str, ...], module: str, rows: dict[str, tuple[str, str, str]]) -> list[Sabotage]:
    """A sabotage for each row, {name: (function or class in the module, old, new)}; see `edit`."""
    return [Sabotage(name, tests, edit(f"{module}:{path}", old, new)) for name, (path, old, new) in rows.items()]


def of_claims(note: str, rows: dict[str, dict[str, tuple[str, str, str]]]) -> list[Sabotage]:
    """Sabotages {row: {name: (place, old, new)}}, see `edit`, which the row's own claim on a lecture note has to notice."""
    return [of_claim(note, row, name, edit(*change)) for row, changes in rows.items() for name, change in changes.items()]


def of_claim(note: str, row: str, name: str, apply: Callable[[], None]) -> Sabotage:
    """A sabotage that one claim on a lecture note has to notice."""
    return Sabotage(f"note {note}, {row}: {name}", ("tests/study/test_claims.py", "-k", f"{row}-note_{note}"), apply)


def explained(reasons: dict[str, str], sabotages: list[Sabotage]) -> list[Sabotage]:
    """The sabotages, with the reasons why no test can see some of them, by their names."""
    if unknown := reasons.keys() - {sabotage.name for sabotage in sabotages}:
        raise ValueError(f"explained, but no sabotage: {', '.join(sorted(unknown))}")
    return [dataclasses.replace(sabotage, explained=reasons.get(sabotage.name, "")) for sabotage in sabotages]


def edit(place: str, old: str, new: str) -> Callable[[], None]:
    """What writes `new` for `old` in a function: in "nn.linear:Linear.forward", say. `old` must stand there just once.

    The function stays the same object with other code, so that whoever imported it by name is served too.
    """
    return functools.partial(_edit, place, old, new)


def edited(place: str, old: str, new: str) -> tuple[list[str], int, str]:
    """A function's lines, the number of the first, and the text that takes their place."""
    lines, first = inspect.getsourcelines(_function(place))
    before = "".join(lines)
    if before.count(old) != 1:
        raise LookupError(f"{place} has {before.count(old)} times {old!r}, expected once")
    return lines, first, before.replace(old, new)


def _edit(place: str, old: str, new: str) -> None:
    function, (lines, first, after) = _function(place), edited(place, old, new)
    path = pathlib.Path(inspect.getsourcefile(function))
    rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rest[first - 1 : first - 1 + len(lines)] = [after]
    name, start = function.__code__.co_qualname, function.__code__.co_firstlineno
    (function.__code__,) = (code for code in _codes(compile("".join(rest), str(path), "exec"))
                            if (code.co_qualname, code.co_firstlineno) == (name, start))


def default(place: str, name: str, value: Any) -> Callable[[], None]:
    """What gives an argument of a function or class another default."""
    return functools.partial(_default, place, name, value)


def _default(place: str, name: str, value: Any) -> None:
    function = _function(place)
    if name in (function.__kwdefaults__ or {}):
        function.__kwdefaults__ = {**function.__kwdefaults__, name: value}
        return
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    from_end = names.index(name) - len(names)
    defaults = list(function.__defaults__)
    defaults[from_end] = value
    function.__defaults__ = tuple(defaults)


def _function(place: str) -> types.FunctionType:
    """The plain function behind a method, property or decorator; of a class, its __init__."""
    module, _, path = place.partition(":")
    found = operator.attrgetter(path)(importlib.import_module(module))
    found = found.fget if isinstance(found, property) else found
    found = found.__init__ if inspect.isclass(found) else found
    return inspect.unwrap(getattr(found, "__func__", found))


def _codes(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
