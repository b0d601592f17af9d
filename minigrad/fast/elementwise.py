"""Elementwise functions with kernels: one pass over memory, on all threads, for large float32 arrays.

Their formulas are recorded from the functions that ops pass to `backend.elementwise`. The table here says from which size
on a kernel is faster than NumPy.
"""
import functools
import operator
from collections.abc import Callable

import numpy as np

from .. import backend
from ..ops import activations, arithmetic, elementary
from ..implementations import implements
from ..tape import Op
from .kernels import activations as kernels
from .pool import empty_like
from .kernels.elementwise import Formula, ndarray
from .kernels.recorded import CannotRecord
from .kernels.thresholds import LARGE, SINGLE_PASS, VECTORISED

OPTIONS: dict[Callable, dict] = {function: options for options, *functions in (
    (dict(least=SINGLE_PASS, only_moves=True), operator.add, operator.sub, operator.mul, operator.truediv, operator.neg,
     np.abs, np.square, np.sqrt, np.sign, np.maximum, np.minimum, elementary.Exp.gradient, elementary.Log.gradient),
    (dict(least=VECTORISED), np.exp, np.expm1, np.log, np.log1p, np.tanh, elementary.rsqrt, elementary.Log1p.gradient,
     elementary.Sqrt.gradient, activations.Relu.function),
    (dict(takes=(np.dtype(bool),)), np.where),
) for function in functions}
FORMULAS: dict[Callable, Formula | None] = dict.fromkeys((  # NumPy computes: booleans, and a loop of Python's functions
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.bitwise_and, np.bitwise_or,
    elementary.erf, elementary.erfc))


def formula_of(function: Callable, count: int) -> Formula | None:
    """Of `count` operands. None where only NumPy has the function."""
    if function not in FORMULAS:
        try:
            FORMULAS[function] = Formula(function, count, **OPTIONS.get(function, {}))
        except CannotRecord:
            FORMULAS[function] = None
    return FORMULAS[function]


PRIMITIVES = {  # the functions of forward and backward, and their numbers of operands
    arithmetic.Sub: {operator.sub: 2, operator.neg: 1}, arithmetic.Mul: {operator.mul: 2},
    arithmetic.Neg: {operator.neg: 1}, arithmetic.Div: {operator.truediv: 2, arithmetic.div_backward_b: 3},
}


@functools.cache
def formulas_of(op: type[Op]) -> tuple[Formula, ...]:
    """The formulas of forward and backward, if kernels alone can compute both."""
    functions = PRIMITIVES.get(op, {})
    if issubclass(op, elementary.Elementary):
        functions = {op.function: 1 + len(op.numbers), op.gradient: 2 + len(op.numbers)}
    found = [formula_of(*item) for item in functions.items()]
    return () if None in found else tuple(found)


def elementwise(function: Callable, *operands):
    for x in operands:
        if type(x) is ndarray and x.size >= LARGE:
            formula = FORMULAS[function] if function in FORMULAS else formula_of(function, len(operands))
            if formula is None:
                break
            if x.size >= formula.least:
                result = formula.of(*operands)
                if result is not None:
                    return result
                break
    return function(*operands)


backend.replaced_by(elementwise=elementwise)


@implements(arithmetic.Add)
class Add(arithmetic.Add):
    """Large arrays of one shape and dtype, as in a residual connection: compiled ahead, and float64 too."""

    by_kernels = True

    @classmethod
    def takes(cls, arrays):
        a, b = arrays
        return (
            isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size >= LARGE and a.shape == b.shape
            and a.dtype == b.dtype and a.dtype.kind == "f" and a.flags.carray and b.flags.carray
        )

    def forward(self, a, b):
        out = empty_like(a)
        kernels.add_forward(a.reshape(-1), b.reshape(-1), out.reshape(-1))
        return out
