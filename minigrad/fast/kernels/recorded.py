"""Formulas of single float32 numbers, recorded from an op's function in NumPy's notation.

The function is called with symbols in place of arrays, and what it does with them is recorded as a function of numbers,
with float32 constants and the kernels' versions of NumPy's functions.
"""
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .formulas import SCALARS


class CannotRecord(Exception):
    """A function calls one of NumPy's that formulas do not have."""


class Recorded(NamedTuple):
    """A function of numbers made from a function of arrays, and its source.

    >>> print(Recorded.of(lambda dout, out: dout * (1 - out * out), 2).source)
    def formula(x0, x1):
        v0 = multiply(x1, x1)
        v1 = subtract(number(1.0), v0)
        v2 = multiply(x0, v1)
        return v2
    """

    source: str
    scalar: Callable

    @classmethod
    def of(cls, function: Callable, count: int) -> "Recorded":
        """`count` is the number of operands."""
        steps: dict[str, str] = {}
        scalars: dict[str, Callable] = {}
        operands = [Symbol(f"x{i}", steps, scalars) for i in range(count)]
        result = _named(function(*operands))
        head = f"def formula({', '.join(map(_named, operands))}):"
        body = [f"    {name} = {call}" for call, name in steps.items()]
        source = "\n".join([head, *body, f"    return {result}"])
        names = dict(scalars, number=np.float32, inf=math.inf, nan=math.nan)
        exec(source, names)
        return cls(source, names["formula"])


class Symbol(NDArrayOperatorsMixin):
    """A number in a formula that is being recorded. Functions of it are symbols too; equal calls are one step."""

    def __init__(self, name: str, steps: dict[str, str], scalars: dict[str, Callable]):
        self._name, self._steps, self._scalars = name, steps, scalars

    def __array_ufunc__(self, ufunc, method, *inputs):
        return self.__array_function__(ufunc, (), inputs, {})

    def __array_function__(self, function, types, inputs, options):
        if function not in SCALARS:
            raise CannotRecord(function)
        name = function.__name__
        self._scalars[name] = SCALARS[function]
        call = f"{name}({', '.join(map(_named, (*inputs, *options.values())))})"
        return Symbol(self._steps.setdefault(call, f"v{len(self._steps)}"), self._steps, self._scalars)

    def apply_op(self, op, *inputs, **options):
        """Runs an op that a function calls, as for a Tensor."""
        return object.__new__(op).forward(*inputs, **options)

    def __bool__(self):
        raise TypeError("a formula of single numbers has no branch; write np.where(condition, a, b)")


def _named(value: Symbol | float) -> str:
    return value._name if isinstance(value, Symbol) else f"number({float(value)!r})"
