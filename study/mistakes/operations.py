"""The backward of an op of the library, as a program: its own lines in `minigrad.ops`, forward's and backward's."""
import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from minigrad import textbook
from minigrad.extend import Node, Op, unbroadcast

from .rewriting import Program

HOUSE = "minigrad.ops."
SHARED = "operands", "kinds", "numpy_protocol", "dtypes", "elementary"  # how ops are written, which no op gets wrong


def program_of(op: type[Op], **options: Any) -> Program:
    """The statements that make the op, from the functions that it calls to itself."""
    names: dict[str, Any] = {}
    sources = {}
    for module, statement in statements_of(op):
        names = {**vars(module), **names}
        sources[module, statement.lineno] = source_in(module, statement)
    return Program("\n\n".join(sources.values()), names, lambda made: backward_of(made[op.__name__], **options))


def backward_of(op: type[Op], **options: Any) -> Callable[..., tuple[Any, ...]]:
    """backward(dout, *inputs): forward first, for what it saves; a gradient for each array of floats."""
    def backward(dout: np.ndarray, *inputs: Any) -> tuple[Any, ...]:
        with textbook():
            node = object.__new__(op)
            node.parents = tuple(Node(x.shape, x.dtype) if is_learned(x) else None for x in inputs)
            node.forward(*inputs, **options)
            found = node.backward(dout, *node.saved)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(None if gradient is None else unbroadcast(gradient, x.shape, node)
                     for x, gradient in zip(inputs, found) if is_learned(x))
    return backward


def is_learned(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def statements_of(op: Any, seen: set[Any] | None = None) -> Iterator[tuple[ModuleType, ast.stmt]]:
    """Those that make the op, its bases, and the functions of the house that they call; first what is used."""
    module, seen = sys.modules[op.__module__], {op} if seen is None else seen
    statement = named_in(module).get(op.__name__)
    for node in ast.walk(statement) if statement is not None else ():
        used = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
        home = str(getattr(used, "__module__", ""))
        is_part = inspect.isfunction(used) or used in getattr(op, "__mro__", ())
        is_ours = home.startswith(HOUSE) and home.removeprefix(HOUSE) not in SHARED
        makes_memory = "empty" in getattr(getattr(used, "__code__", None), "co_names", ())  # which edits would lay bare
        if is_part and is_ours and not makes_memory and used not in seen:
            seen.add(used)
            yield from statements_of(used, seen)
    if statement is not None:
        yield module, statement


@functools.cache
def named_in(module: ModuleType) -> dict[str, ast.stmt]:
    """The functions, classes and assignments of a module, by name."""
    body = ast.parse(inspect.getsource(module)).body
    found = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return {**found, **{node.targets[0].id: node for node in body
                        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}}


def source_in(module: ModuleType, statement: ast.stmt) -> str:
    """With its comments."""
    lines = inspect.getsource(module).splitlines()
    return "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
