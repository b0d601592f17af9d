"""Elementary functions of each element: e^x, log x, sin x, ... For out = f(x), dx = dout * f'(x).

Each is a row of the table, with f' in terms of x, or of out if that is cheaper, and a method. The row's formula is for
readers; its code may use another form that keeps more digits.
"""
from __future__ import annotations

import functools
import math
from typing import Callable, ClassVar, Generic, TypeVar

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor
from ..backend import in_order
from ..tape import Op
from .numpy_protocol import answers, named
from .operands import floating


Method = TypeVar("Method", bound=Callable)


class Elementwise(Op):
    """out = function(*x) of several inputs:  dx[i] = gradients[i](dout, *x)"""

    function: Callable
    gradients: tuple[Callable, ...]

    def forward(self, *x):
        self.save(*x)
        return backend.elementwise(self.function, *x)

    def backward(self, dout, *x):
        return tuple([None if parent is None else backend.elementwise(gradient, dout, *x)
                      for parent, gradient in zip(self.parents, self.gradients)])


class Elementary(Op):
    """out = f(x):  dx = gradient(dout, x), or gradient(dout, out) if `saves` is "out"

    Outside of its domain and at its poles, f is NaN or infinite without a warning. Both functions get the `numbers` after
    the arrays.
    """

    function: Callable
    gradient: Callable
    saves = "x"
    numbers: ClassVar[dict[str, float]] = {}  # parameters of f: options of the op, with defaults
    values: tuple[float, ...] = ()  # those of this application

    def forward(self, x, **options):
        if self.numbers:
            self.values = tuple((self.numbers | options).values())
        out = backend.elementwise(self.function, x, *self.values)
        self.save(out if self.saves == "out" else x)
        return out

    def backward(self, dout, saved):
        return backend.elementwise(self.gradient, dout, saved, *self.values)


def elementary(
    formula: str, function: Callable, gradient: Callable, saves: str = "x", name: str | None = None, **numbers: float
) -> type[Elementary]:
    """The op of a function, named after it: a row of the table below. The formula is its docstring."""
    name = name or function.__name__
    row = dict(__doc__=formula, __module__=gradient.__module__, function=staticmethod(function),
               gradient=staticmethod(gradient), saves=saves, numbers=numbers)
    return type("".join(word.capitalize() for word in name.split("_")), (Elementary,), row)


def rsqrt(x):
    return 1 / np.sqrt(x)


def sigmoid(x):
    """0 where e^-x overflows. (1 + tanh(x/2)) / 2 cannot overflow, but loses all digits long before that."""
    return 1 / (1 + np.exp(-x))


def each_number(function: Callable[[float], float]) -> Callable:
    """A function of a number as one of arrays."""
    of_arrays = np.frompyfunc(function, 1, 1)

    @functools.wraps(function)
    def each(x): return of_arrays(in_order(x)[..., None])[..., 0].astype(x.dtype)  # also of 0 dimensions

    return each


erf = each_number(math.erf)  # 2/sqrt(pi) * integral of e^(-t^2) from 0 to x
erfc = each_number(math.erfc)  # 1 - erf x, to the last digit even where erf x is nearly 1

Exp = elementary("out = e^x:  dx = dout * out", np.exp, lambda dout, out: dout * out, saves="out")
Log = elementary("out = log x:  dx = dout / x", np.log, lambda dout, x: dout / x)
Log1p = elementary("out = log(1 + x):  dx = dout / (1 + x)", np.log1p, lambda dout, x: dout / (1 + x))
Sqrt = elementary("out = sqrt x:  dx = dout / (2 * out)", np.sqrt, lambda dout, out: dout * 0.5 / out, saves="out")
Rsqrt = elementary("out = 1 / sqrt x:  dx = -dout * out^3 / 2",
                   rsqrt, lambda dout, out: -0.5 * dout * out * out * out, saves="out")
Sin = elementary("out = sin x:  dx = dout * cos x", np.sin, lambda dout, x: dout * np.cos(x))
Cos = elementary("out = cos x:  dx = -dout * sin x", np.cos, lambda dout, x: -dout * np.sin(x))
# The gradients of tanh and sigmoid are right within roundings of dout: far out, 1 - out has no digits left, as in PyTorch.
Tanh = elementary("out = tanh x:  dx = dout * (1 - out^2)", np.tanh, lambda dout, out: dout * (1 - out * out), saves="out")
Sigmoid = elementary("out = 1 / (1 + e^-x):  dx = dout * out * (1 - out)",
                     sigmoid, lambda dout, out: dout * out * (1 - out), saves="out")
Erf = elementary("out = erf x:  dx = dout * 2 / sqrt(pi) * e^(-x^2)",
                 erf, lambda dout, x: dout * (2 / math.sqrt(math.pi)) * np.exp(-x * x))
Erfc = elementary("out = 1 - erf x:  dx = -dout * 2 / sqrt(pi) * e^(-x^2)",
                  erfc, lambda dout, x: dout * (-2 / math.sqrt(math.pi) * np.exp(-x * x)))


def method(op: type[Elementary]) -> Callable[[Method], Method]:
    """Decorate a definition that has only a docstring: it applies the op, and NumPy's function calls it for Tensors."""

    def of_self(self: Tensor) -> Tensor:
        return self.apply_op(op, floating(self))

    return lambda written: answers(op.function)(named(of_self, written.__name__, written.__doc__))  # type: ignore[return-value]


class ElementaryMethods(Generic[Tensor]):
    @method(Exp)
    def exp(self: Tensor) -> Tensor: """e^x, elementwise. Backward: dx = dout * out."""
    @method(Log)
    def log(self: Tensor) -> Tensor: """log x, elementwise. Backward: dx = dout / x."""
    @method(Log1p)
    def log1p(self: Tensor) -> Tensor: """log(1 + x), elementwise. Backward: dx = dout / (1 + x)."""
    @method(Sqrt)
    def sqrt(self: Tensor) -> Tensor: """sqrt x, elementwise. Backward: dx = dout / (2 * out)."""
    @method(Rsqrt)
    def rsqrt(self: Tensor) -> Tensor: """1 / sqrt x, elementwise. Backward: dx = -dout * out^3 / 2."""
    @method(Sigmoid)
    def sigmoid(self: Tensor) -> Tensor: """1 / (1 + e^-x), elementwise. Backward: dx = dout * out * (1 - out)."""
    @method(Erf)
    def erf(self: Tensor) -> Tensor: """erf x, elementwise. Backward: dx = dout * 2 / sqrt(pi) * e^(-x^2)."""
    @method(Erfc)
    def erfc(self: Tensor) -> Tensor: """1 - erf x, elementwise. Backward: dx = -dout * 2 / sqrt(pi) * e^(-x^2)."""
    @method(Sin)
    def sin(self: Tensor) -> Tensor: """sin x, elementwise. Backward: dx = dout * cos x."""
    @method(Cos)
    def cos(self: Tensor) -> Tensor: """cos x, elementwise. Backward: dx = -dout * sin x."""
    @method(Tanh)
    def tanh(self: Tensor) -> Tensor: """tanh x, elementwise. Backward: dx = dout * (1 - out^2)."""
