"""What is wrong with a backward that somebody wrote?"""
import difflib
from typing import Callable

import numpy as np

from .base import FUNCTIONS, MUTANTS, Differentiable, Mutant


def function_named(name: str) -> Differentiable:
    """One of FUNCTIONS; ValueError, with the nearest name, if there is none."""
    if name not in FUNCTIONS:
        nearest = difflib.get_close_matches(name, FUNCTIONS, 1, 0.0)[0]
        raise ValueError(f"there is no function {name!r}; did you mean {nearest!r}? See mutants.FUNCTIONS")
    return FUNCTIONS[name]


def with_backward(name: str, backward: Callable) -> Differentiable:
    """The function `name` with somebody's backward(dout, *inputs) -> gradients, for `gradcheck` to check."""
    right = function_named(name)
    return Differentiable(f"{name} as handed in", right.forward, backward, right.inputs, {}, right.constants,
                          right.arguments, right.statement)


def diagnose(name: str, backward: Callable, seed: int = 0) -> Mutant | None:
    """The known mistake with the same gradients as backward(dout, *inputs) of the function `name`, or None.

    >>> wrong = lambda dout, x: dout * (1 - np.tanh(x))
    >>> diagnose("tanh", wrong).mistake
    '1 - out'
    """
    right = function_named(name)
    arrays = right.inputs(np.random.default_rng(seed))
    dout = np.random.default_rng(seed + 1).standard_normal(np.shape(right.forward(*arrays)))

    def gradients(function: Differentiable) -> list[np.ndarray | None]:
        with np.errstate(all="ignore"):
            found = function.gradients(dout.copy(), *[a.copy() for a in arrays])
        return [None if g is None else np.asarray(g, dtype=np.float64) for g in found]

    handed_in = gradients(with_backward(name, backward))
    if agree(handed_in, gradients(right)):
        return None
    for mutant in MUTANTS.values():
        if mutant.right is right and not mutant.equivalent and agree(handed_in, gradients(mutant)):
            return mutant
    return None


def agree(a: list, b: list) -> bool:
    def same(x, y) -> bool:
        if x is None or y is None:
            return x is y
        return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)

    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
