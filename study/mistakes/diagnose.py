"""What is wrong with someone's backward?"""
import difflib
from dataclasses import replace
from typing import Any, Callable

import numpy as np

from minigrad.gradcheck.blame import told

from . import textbook  # noqa: F401  fills FUNCTIONS
from .base import FUNCTIONS, ROUTINES, Differentiable, as_tuple
from .doctor import Diagnosis, Evidence, diagnose_numbers

DRAWS = 6  # inputs that a backward is tried on


def function_named(name: str) -> Differentiable:
    """One of FUNCTIONS; a ValueError that suggests the nearest name if there is none."""
    if name not in FUNCTIONS:
        nearest = difflib.get_close_matches(name, FUNCTIONS, 1, 0.0)[0]
        raise ValueError(f"there is no function {name!r}; did you mean {nearest!r}? See mutants.FUNCTIONS")
    return FUNCTIONS[name]


def with_backward(name: str, backward: Callable[..., Any]) -> Differentiable:
    """The function `name` with someone's backward(dout, *inputs) -> gradients, for `gradcheck` to check."""
    right = function_named(name)
    return Differentiable(f"{name} as handed in", right.forward, backward, right.inputs, right.constants, right.arguments,
                          right.statement)


def diagnose(name: str, backward: Callable[..., Any], seed: int = 0) -> Diagnosis:
    """What is wrong with backward(dout, *inputs) of the function `name`, judging by its results on several inputs?

    The diagnosis is true if it names a mistake; `is_right` if nothing is wrong. If backward raises, it says so.

    >>> found = diagnose("tanh", lambda dout, x: dout * (1 - np.tanh(x)))
    >>> found.names, found.certainty
    (('the power is missing',), 'explains all 72 wrong numbers of dx, on 6 inputs')
    >>> diagnose("tanh", lambda dout, x: dout * (1 - np.tanh(x) ** 2)).is_right
    True
    """
    function, routine = function_named(name), ROUTINES[name]
    evidence, raised = [], []
    for draw in range(DRAWS):
        generator = np.random.default_rng((seed, draw))
        arrays = function.inputs(generator)
        dout = generator.standard_normal(np.shape(function.forward(*arrays)))
        inputs = dict(zip(routine.arguments, (dout, *arrays, *function.options.values())))
        try:
            with np.errstate(all="ignore"):
                found = as_tuple(backward(dout.copy(), *[a.copy() for a in arrays]))
        except Exception as error:  # noqa: BLE001  whatever it raises is described
            raised.append(f"it raises {told(error)}")
            continue
        if len(found) == len(function.arguments):  # with a None for each input that needs no gradient
            found = tuple(g for g, argument in zip(found, function.arguments) if argument in function.learned)
        if len(found) != len(routine.results):
            return Diagnosis(facts=(f"it returns {len(found)} gradient{'s' * (len(found) != 1)}; expected "
                                    f"{', '.join(routine.results)}",))
        evidence.append(Evidence(inputs, routine.run(inputs), dict(zip(routine.results, found))))
    if not evidence:
        return Diagnosis(facts=(raised[0],))
    found = diagnose_numbers(evidence, routine)
    if not raised:
        return found
    return replace(found, facts=(*found.facts, f"{raised[0]}, on {len(raised)} of {DRAWS} inputs"), is_right=False)
