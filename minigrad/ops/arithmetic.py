"""Arithmetic: + - * / ** % //, and rounding. Inputs of different shapes are broadcast.

Broadcasting copies a value to many places, so its gradient is the sum over them: the tape does that (`unbroadcast`).
"""
from __future__ import annotations

import operator
from typing import Any, Callable, Final, Generic

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.dtypes import bool_, int64
from ..backend import is_tensor
from ..runner import compute
from ..tape import Op
from .elementary import Elementwise, elementary
from .numpy_protocol import answers, named
from .operands import binary, call, cast, of_floats, of_one_dtype, operand, promote, scaled


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

    saved_for = (1,), (0,)

    def forward(self, a, b):
        self.save(a, b)
        return backend.elementwise(operator.mul, a, b)

    def backward(self, dout, a, b):
        da = backend.elementwise(operator.mul, dout, b) if self.needs(0) else None
        db = backend.elementwise(operator.mul, dout, a) if self.needs(1) else None
        return da, db


class Div(Op):
    """out = a / b:  da = dout / b,  db = -dout * a / b^2"""

    saved_for = (1,), (0, 1)

    def forward(self, a, b):
        self.save(a, b)
        return backend.elementwise(operator.truediv, a, b)

    def backward(self, dout, a, b):
        da = backend.elementwise(operator.truediv, dout, b) if self.needs(0) else None
        return da, (backend.elementwise(div_backward_b, dout, a, b) if self.needs(1) else None)


class Neg(Op):
    """out = -x:  dx = -dout"""

    def forward(self, x):
        return negative(x)

    def backward(self, dout):
        return negative(dout)


def power_backward_a(dout, a, b):
    if isinstance(b, (int, float)):
        return dout * (b * call(Pow, a, b - 1)) if b != 0 else dout * 0.0
    return dout * np.where(b == 0, 0.0, b * a ** np.where(b == 0, 1.0, b - 1))


def power_backward_b(dout, a, b):
    a = np.asarray(a, dout.dtype) if isinstance(a, (int, float)) else a  # for a logarithm in full precision
    at_zero = (a == 0) & (b >= 0)
    return dout * np.where(at_zero, 0.0, a**b * np.log(np.where(at_zero, 1.0, a)))


class Pow(Elementwise):
    """out = a^b:  da = dout * b * a^(b-1),  db = dout * a^b * log a, taken as 0 where a = 0 and b >= 0

    At b = 0 the function is constant in a, so da is 0 there, even where a = 0 makes a^(b-1) infinite.
    """

    function, gradients = operator.pow, (power_backward_a, power_backward_b)


Abs = elementary("out = |x|:  dx = dout * sign x, 0 at 0", np.abs, lambda dout, x: dout * np.sign(x), name="abs")


def remainder_backward_b(dout, a, b):
    return -dout * np.floor_divide(a, b)


class Remainder(Op):
    """out = a - b * floor(a / b), with the sign of b:  da = dout,  db = -dout * floor(a / b)"""

    saved_for = (1,), (1,)

    def forward(self, a, b):
        self.save(a, b)
        return backend.elementwise(np.remainder, a, b)

    def backward(self, dout, a, b):
        return dout, (backend.elementwise(remainder_backward_b, dout, a, b) if self.needs(1) else None)


class FloorDivide(Op):
    """out = floor(a / b):  da = 0,  db = 0, as it is constant between its jumps"""

    def forward(self, a, b):
        return backend.elementwise(np.floor_divide, a, b)

    def backward(self, dout):
        return np.zeros_like(dout), np.zeros_like(dout)


class Step(Op):
    """out = floor, ceil, round, trunc or sign of x, by `function`:  dx = 0, as it is constant between its jumps"""

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


def power(a, b):
    """a to the power b; of booleans a boolean, as in PyTorch, where NumPy has int8."""
    out = binary(Pow, a, b)
    return out.to(bool_) if out.dtype.kind == "i" and out.dtype != int64 else out


def _check_divisor(name: str, dividend, divisor) -> np.ndarray:
    if np.size(dividend) and not np.all(divisor):
        raise ZeroDivisionError(f"{name}: integer division by zero")
    return np.asarray(divisor)


def step(name: str, function: np.ufunc, meaning: str) -> Callable[[ArithmeticMethods[Tensor]], Tensor]:
    """The method that rounds with `function`, also called by it."""
    def method(self: Any) -> Any:
        return self.apply_op(Step, self, function=function)

    return answers(function)(named(method, name, f"{meaning}; the gradient is 0."))


class ArithmeticMethods(Generic[Tensor]):
    @answers(np.add)
    def __add__(self: Tensor, other: TensorLike) -> Tensor: return binary(Add, self, other)
    def __radd__(self: Tensor, other: TensorLike) -> Tensor: return binary(Add, other, self)
    @answers(np.subtract)
    def __sub__(self: Tensor, other: TensorLike) -> Tensor: return binary(Sub, self, other)
    def __rsub__(self: Tensor, other: TensorLike) -> Tensor: return binary(Sub, other, self)
    def __rmul__(self: Tensor, other: TensorLike) -> Tensor: return binary(Mul, other, self)
    def __rtruediv__(self: Tensor, other: TensorLike) -> Tensor: return of_floats(Div, other, self)
    def __rpow__(self: Tensor, other: TensorLike) -> Tensor: return power(other, self)
    def __rmod__(self: Tensor, other: TensorLike) -> Tensor: return whole_quotient(Remainder, other, self)
    def __rfloordiv__(self: Tensor, other: TensorLike) -> Tensor: return whole_quotient(FloorDivide, other, self)
    def __pos__(self: Tensor) -> Tensor: return self

    def add(self: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
        """self + alpha * other, elementwise and broadcast."""
        return binary(Add, self, scaled(other, alpha))

    def sub(self: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
        """self - alpha * other, elementwise and broadcast."""
        return binary(Sub, self, scaled(other, alpha))

    @answers(np.multiply)
    def mul(self: Tensor, other: TensorLike) -> Tensor:
        """self * other, elementwise and broadcast."""
        return binary(Mul, self, other)

    @answers(np.divide)
    def div(self: Tensor, other: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
        """self / other, elementwise and broadcast; of integers, in float32.

        With rounding_mode "floor" it is self // other.
        """
        if rounding_mode not in (None, "floor"):
            raise ValueError(f"div: rounding_mode is None or 'floor', got {rounding_mode!r}; x.trunc() rounds towards 0")
        return of_floats(Div, self, other) if rounding_mode is None else whole_quotient(FloorDivide, self, other)

    @answers(np.power)
    def pow(self: Tensor, exponent: TensorLike) -> Tensor:
        """self ** exponent, elementwise and broadcast."""
        return power(self, exponent)

    @answers(np.remainder)
    def remainder(self: Tensor, other: TensorLike) -> Tensor:
        """self - other * floor(self / other), with the sign of other. ZeroDivisionError for an integer 0."""
        return whole_quotient(Remainder, self, other)

    @answers(np.floor_divide)
    def floor_divide(self: Tensor, other: TensorLike) -> Tensor:
        """floor(self / other), with gradient 0. ZeroDivisionError for an integer 0."""
        return whole_quotient(FloorDivide, self, other)

    @answers(np.negative)
    def neg(self: Tensor) -> Tensor:
        """-self."""
        return self.apply_op(Neg, self)

    @answers(np.abs)
    def abs(self: Tensor) -> Tensor:
        """|self|; the gradient is 0 at 0."""
        return self.apply_op(Abs, self)

    __mul__ = mul
    __truediv__ = div
    __pow__ = pow
    __mod__ = remainder
    __floordiv__ = floor_divide
    __neg__ = neg
    __abs__ = abs

    @answers(np.reciprocal)
    def reciprocal(self: Tensor) -> Tensor:
        """1 / self."""
        return of_floats(Div, 1.0, self)

    @answers(np.square)
    def square(self: Tensor) -> Tensor:
        """self * self."""
        return cast(self, int64) ** 2 if self.dtype == bool_ else self * self

    @answers(np.sign)
    def sign(self: Tensor) -> Tensor:
        """-1, 0 or 1, with the sign of self; the gradient is 0."""
        return self.clone() if self.dtype == bool_ else self.apply_op(Step, self, function=np.sign)

    def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """self + value * tensor1 * tensor2."""
        return self + scaled(tensor1 * tensor2, value)

    def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """self + value * tensor1 / tensor2."""
        return self + scaled(tensor1 / tensor2, value)

    @answers(np.round)
    @answers(np.rint)
    def round(self: Tensor, *, decimals: int = 0) -> Tensor:
        """The nearest integer, of two the even one, or the nearest multiple of 10^-decimals; the gradient is 0."""
        if decimals == 0:
            return self.apply_op(Step, self, function=np.rint)
        if self.dtype.kind != "f":
            raise TypeError(f"round: decimals={decimals} needs floats, got {self.dtype}; convert with .to(dtype)")
        scale = 10.0 ** abs(decimals)
        return (self * scale).round() / scale if decimals > 0 else (self / scale).round() * scale

    floor: Final = step("floor", np.floor, "The largest integer <= self")
    ceil: Final = step("ceil", np.ceil, "The smallest integer >= self")
    trunc: Final = step("trunc", np.trunc, "self without its fraction")
