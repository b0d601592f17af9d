"""How the textbook's functions are registered."""
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minigrad import textbook
from minigrad.extend import Op, definition

from .base import FUNCTIONS, ROUTINES, Differentiable
from .doctor.routine import Routine
from .operations import backward_of, is_learned, program_of
from .rewriting import mistakes_in
from .solutions import routine_of as routine_of_solution


def function(name: str, forward: Callable[..., Any], backward: Callable[..., Any], inputs: Callable[..., list[Any]],
             own: dict[str, tuple[str, ...]] | None = None, forms: Sequence[Callable[..., Any]] = (),
             constants: tuple[str, ...] = (), statement: str = "", **options: Any) -> Differentiable:
    """Register a function; `own` are the mistakes in its backward that no rule makes, as solutions.routine_of has them."""
    found = Differentiable(name, functools.partial(forward, **options) if options else forward,
                           functools.partial(backward, **options) if options else backward, inputs, constants,
                           statement=statement, options=options)
    results = tuple(f"d{argument}" for argument in found.learned)
    ROUTINES[name] = replace(routine_of_solution(backward, results, own or {}, statement, forms), forward=forward)
    FUNCTIONS[name] = found
    return found


def operation(name: str, op: type[Op], inputs: Callable[..., list[Any]], **options: Any) -> Differentiable:
    """Register an op of the library with these options: its statement is the first line of its docstring."""
    def forward(*inputs: Any) -> np.ndarray:
        with textbook():
            return np.asarray(definition(op, *inputs, **options))

    drawn = inputs(np.random.default_rng(0))
    names = argument_names(op, len(drawn))
    constants = tuple(name for name, x in zip(names, drawn) if not is_learned(x))
    found = Differentiable(name, forward, backward_of(op, **options), inputs, constants, names,
                           (op.__doc__ or name).partition(":  ")[0].partition("\n")[0].rstrip(":"))
    edits = functools.cache(lambda: tuple(mistakes_in({"dout", *names}, program_of(op, **options))))
    results = tuple(f"d{argument}" for argument in found.learned)
    ROUTINES[name] = Routine(name, found.backward, ("dout", *names), results, (), edits, forward)
    FUNCTIONS[name] = found
    return found


def argument_names(op: type[Op], count: int) -> tuple[str, ...]:
    """Those of forward; of the op's function, if forward takes any number."""
    parameters = inspect.signature(op.forward).parameters.values()
    found = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    return tuple(found[:count]) if len(found) >= count else tuple("abcde"[:count])
