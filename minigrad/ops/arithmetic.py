"""Arithmetic: + - * / ** % //, and rounding. Inputs of different shapes are broadcast.

Broadcasting copies a value to many places, so its gradient is the sum over them: the tape does that (`unbroadcast`).
"""
import functools
import operator
from typing import Callable

import numpy as np

from .. import backend
from ..arrays.dtypes import bool_, int64
from ..backend import is_tensor
from ..runner import compute
from ..tape import Op
from .elementary import Elementwise, elementary
from .numpy_protocol import answers, named
from .operands import binary, cast, common_dtype, floating, of_floats, of_one_dtype, operand, promote, scaled


def product(a, b):
    return backend.elementwise(operator.mul, a, b)


def negative(x):
    return backend.elementwise(operator.neg, x)


def div_backward_b(dout, a, b):
    return -(dout / b) * a / b


class Add(Op):
    """out = a + b:  da = dout,  db = dout"""

    def forward(self, a, b):
        return backend.elementwise(operator.add, a, b)

    def backward(self, dout):
        return dout, dout


class Sub(Op):
    """out = a - b:  da = dout,  db = -dout"""

    def forward(self, a, b):
        return backend.elementwise(operator.sub, a, b)

    def backward(self, dout):
        return dout, (negative(dout) if self.needs(1) else None)


class Mul(Op):
    """out = a * b:  da = dout * b,  db = dout * a"""

    fresh_gradients = True
    saved_for = (1,), (0,)

    def forward(self, a, b):
        self.save(a, b)
        return product(a, b)

    def backward(self, dout, a, b):
        return (product(dout, b) if self.needs(0) else None), (product(dout, a) if self.needs(1) else None)


class Div(Op):
    """out = a / b:  da = dout / b,  db = -dout * a / b^2"""

    fresh_gradients = True
    saved_for = (1,), (0, 1)

    def forward(self, a, b):
        self.save(a, b)
        return backend.elementwise(operator.truediv, a, b)

    def backward(self, dout, a, b):
        da = backend.elementwise(operator.truediv, dout, b) if self.needs(0) else None
        return da, (backend.elementwise(div_backward_b, dout, a, b) if self.needs(1) else None)


class Neg(Op):
    """out = -x:  dx = -dout"""

    fresh_gradients = True

    def forward(self, x):
        return negative(x)

    def backward(self, dout):
        return negative(dout)


def power_backward_a(dout, a, b):
    if isinstance(b, (int, float)):
        return dout * (b * Pow.call(a, b - 1)) if b != 0 else dout * 0.0
    return dout * np.where(b == 0, 0.0, b * a ** np.where(b == 0, 1.0, b - 1))


def power_backward_b(dout, a, b):
    a = np.asarray(a, dout.dtype) if isinstance(a, (int, float)) else a  # for a logarithm in full precision
    at_zero = (a == 0) & (b >= 0)
    return dout * np.where(at_zero, 0.0, a**b * np.log(np.where(at_zero, 1.0, a)))


def lerp(a, b, w):
    way = b - a
    return np.where(abs(w) < 0.5, a + w * way, b - (1 - w) * way)


def lerp_backward_weight(dout, a, b):
    return dout * (b - a)


class Lerp(Op):
    """out = a + w (b - a) where |w| < 1/2, else b - (1 - w) (b - a):  da = dout (1 - w),  db = dout w,  dw = dout (b - a)

    Starting from the nearer end reaches both ends exactly.
    """

    fresh_gradients = True
    saved_for = (2,), (2,), (0, 1)

    def forward(self, a, b, w):
        self.save(a, b, w)
        return backend.elementwise(lerp, a, b, np.asarray(w, a.dtype))

    def backward(self, dout, a, b, w):
        da = product(dout, 1 - w) if self.needs(0) else None
        db = product(dout, w) if self.needs(1) else None
        dw = backend.elementwise(lerp_backward_weight, dout, a, b) if self.needs(2) else None
        return da, db, dw


class Pow(Elementwise):
    """out = a^b:  da = dout * b * a^(b-1),  db = dout * a^b * log a, taken as 0 where a = 0 and b >= 0

    At b = 0 the function is constant in a, so da is 0 there, even where a = 0 makes a^(b-1) infinite.
    """

    function, gradients = operator.pow, (power_backward_a, power_backward_b)


Abs = elementary("out = |x|:  dx = dout * sign x, 0 at 0", np.abs, lambda dout, x: dout * np.sign(x), name="abs")


class Remainder(Op):
    """out = a - b * floor(a / b), with the sign of b:  da = dout,  db = -dout * floor(a / b)"""

    saved_for = (1,), (1,)
    function = staticmethod(np.remainder)
    of_divisor = staticmethod(lambda dout, a, b: -dout * np.floor_divide(a, b))

    def forward(self, a, b):
        self.save(a, b)
        return backend.elementwise(self.function, a, b)

    def backward(self, dout, a, b):
        return dout, (backend.elementwise(self.of_divisor, dout, a, b) if self.needs(1) else None)


class Fmod(Remainder):
    """out = a - b * trunc(a / b), with the sign of a:  da = dout,  db = -dout * trunc(a / b)"""

    function = staticmethod(np.fmod)
    of_divisor = staticmethod(lambda dout, a, b: -dout * np.trunc(a / b))


class FloorDivide(Op):
    """out = floor(a / b):  da = 0,  db = 0, as it is constant between its jumps"""

    def forward(self, a, b):
        return backend.elementwise(np.floor_divide, a, b)

    def backward(self, dout):
        return np.zeros_like(dout), np.zeros_like(dout)


class Step(Op):
    """out = floor, ceil, round, trunc or sign of x, by `function`:  dx = 0, as it is constant between its jumps"""

    fresh_gradients = True

    def forward(self, x, *, function):
        if x.dtype.kind != "f":
            return function(x).astype(x.dtype, copy=False)  # integers stay integers
        return backend.elementwise(function, x)

    def backward(self, dout):
        return backend.elementwise(np.zeros_like, dout)


def whole_quotient(operation, a, b):
    """The floor of a / b, or the remainder. Dividing integers by 0 is an error."""
    a, b = promote(operand(a), operand(b))
    tensor = a if is_tensor(a) else b
    if tensor.dtype == bool_:
        a, b = cast(a, int64), cast(b, int64)
    if tensor.dtype.kind != "f":
        compute(_check_divisor, operation.__name__, a, b)
    return of_one_dtype(operation, a, b)


def _check_divisor(name: str, dividend, divisor) -> np.ndarray:
    if np.size(dividend) and not np.all(divisor):
        raise ZeroDivisionError(f"{name}: integer division by zero")
    return np.asarray(divisor)


def both_ways(ufunc: np.ufunc, name: str, apply: Callable, operation) -> tuple[Callable, Callable]:
    """The method of an operator, also called by `ufunc`, and the one for a left operand that is not a Tensor."""
    def method(self, other):
        return apply(operation, self, other)

    def reflected(self, other):
        return apply(operation, other, self)

    return answers(ufunc)(named(method, name)), named(reflected, name)


def step(function: np.ufunc) -> Callable:
    """The method that rounds with `function`, also called by it."""
    def method(self):
        return self.apply_op(Step, self, function=function)

    return answers(function)(named(method, function.__name__))


class ArithmeticMethods:
    __add__, __radd__ = both_ways(np.add, "add", binary, Add)
    __sub__, __rsub__ = both_ways(np.subtract, "sub", binary, Sub)
    __mul__, __rmul__ = both_ways(np.multiply, "mul", binary, Mul)
    __truediv__, __rtruediv__ = both_ways(np.divide, "div", of_floats, Div)
    __pow__, __rpow__ = both_ways(np.power, "pow", binary, Pow)
    __mod__, __rmod__ = both_ways(np.remainder, "remainder", whole_quotient, Remainder)
    __floordiv__, __rfloordiv__ = both_ways(np.floor_divide, "floor_divide", whole_quotient, FloorDivide)
    mul, div, pow, remainder, floor_divide = __mul__, __truediv__, __pow__, __mod__, __floordiv__
    fmod = both_ways(np.fmod, "fmod", whole_quotient, Fmod)[0]

    def add(self, other, *, alpha: float = 1): return binary(Add, self, scaled(other, alpha))
    def sub(self, other, *, alpha: float = 1): return binary(Sub, self, scaled(other, alpha))

    @answers(np.negative)
    def __neg__(self): return self.apply_op(Neg, self)
    def __pos__(self): return self
    neg = __neg__

    @answers(np.abs)
    def __abs__(self): return self.apply_op(Abs, self)
    abs = __abs__

    def frac(self):
        x = floating(self)
        return x - x.constant(functools.partial(backend.elementwise, np.trunc), x)

    @answers(np.reciprocal)
    def reciprocal(self): return of_floats(Div, 1.0, self)
    @answers(np.square)
    def square(self): return cast(self, int64) ** 2 if self.dtype == bool_ else self * self
    @answers(np.sign)
    def sign(self): return self.clone() if self.dtype == bool_ else self.apply_op(Step, self, function=np.sign)

    def addcmul(self, tensor1, tensor2, *, value: float = 1):
        """self + value * tensor1 * tensor2"""
        return self + scaled(tensor1 * tensor2, value)

    def addcdiv(self, tensor1, tensor2, *, value: float = 1):
        """self + value * tensor1 / tensor2"""
        return self + scaled(tensor1 / tensor2, value)

    def lerp(self, end, weight):
        """self + weight * (end - self), for one weight or one for each element; reaches both ends exactly."""
        values = self, operand(end), operand(weight)
        dtype = common_dtype(*values)
        return of_one_dtype(Lerp, *[cast(value, dtype) for value in values])

    floor, ceil, round, trunc = map(step, (np.floor, np.ceil, np.rint, np.trunc))
