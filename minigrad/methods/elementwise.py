"""Arithmetic, comparisons, and functions of single elements."""
import functools

import numpy as np

from .. import ops
from ..arrays import as_array, bool_, int64
from ..runner import compute
from .operands import broadcast_error, cast, common_dtype, floating, is_tensor, operand, promote, values_of


def binary(operation, a, b):
    """An elementwise operation on two operands, one of them a Tensor at least."""
    if not (is_tensor(a) and is_tensor(b) and a._array.dtype == b._array.dtype):
        a, b = promote(operand(a), operand(b))
    return of_two(operation, a, b)


def of_two(operation, a, b):
    """An elementwise operation on operands of one dtype."""
    tensor = a if is_tensor(a) else b
    try:
        return tensor.apply_op(operation, a, b)
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        raise broadcast_error(operation.__name__.lower(), a, b) from None


def divide(a, b):
    """a / b, in floats."""
    return of_floats(ops.Div, a, b)


def of_floats(operation, a, b):
    """An elementwise operation on two operands as floats."""
    return of_two(operation, *map(floating, promote(operand(a), operand(b))))


def whole_quotient(operation, a, b):
    """The floor of a / b, or what remains then. Between integers, dividing by 0 is an error."""
    a, b = promote(operand(a), operand(b))
    tensor = a if is_tensor(a) else b
    if tensor.dtype == bool_:
        a, b = cast(a, int64), cast(b, int64)
    if tensor.dtype.kind != "f":
        compute(_check_divisor, operation.__name__, a, b)
    return of_two(operation, a, b)


def _check_divisor(name: str, dividend, divisor) -> np.ndarray:
    if np.size(dividend) and not np.all(divisor):
        raise ZeroDivisionError(f"{name}: an integer is divided by zero")
    return np.asarray(divisor)


def compare(ufunc: np.ufunc, a, b):
    """Comparisons and logic: no gradients."""
    tensor = a if is_tensor(a) else b
    a, b = operand(a), operand(b)
    try:
        return tensor.constant(ufunc, a, b)
    except ValueError:
        raise broadcast_error(ufunc.__name__, a, b) from None


def where(condition, a, b):
    """a where condition holds, else b; broadcast. Each element's gradient goes where it came from."""
    tensor = next((x for x in (a, b, condition) if is_tensor(x)), None)
    if tensor is None:
        raise TypeError("where: expected a Tensor among the arguments; for arrays there is np.where")
    condition = compute(_mask, condition)
    a, b = operand(a), operand(b)
    if not is_tensor(a) and not is_tensor(b):
        dtype = common_dtype(a, b)
        a, b = as_array(a, dtype), as_array(b, dtype)
    a, b = promote(a, b)
    try:
        return tensor.apply_op(ops.Where, a, b, condition=condition)
    except ValueError:
        raise broadcast_error("where", condition, a, b) from None


def _mask(condition) -> np.ndarray:
    return as_array(condition, bool_, copy=True)  # nobody writes to it before backward


def clamp(x, min=None, max=None):
    """x, but no less than min and no more than max: numbers, or Tensors, which get the gradient where they hold.

    At the edges x itself does, with gradient 1. NaN stays NaN, also of a bound; where min > max the result is max.
    """
    if min is None and max is None:
        raise ValueError("clamp: at least one of min and max must be given")
    if not is_tensor(min) and not is_tensor(max) and x.dtype.kind == "f":
        low, high = -np.inf if min is None else float(min), np.inf if max is None else float(max)
        return x.apply_op(ops.Clamp, x, low=low, high=high)
    if min is not None:
        x = where((x < min) | (min != min), min, x)  # NaN is unequal to itself
    return x if max is None else where((x > max) | (max != max), max, x)


def elementary(function, x):
    """One of the functions that ops.DERIVATIVES lists."""
    return x.apply_op(ops.Elementary, floating(x), function=function)


class ElementwiseMethods:
    """One line each: which operation, on which operands."""

    def __add__(self, other): return binary(ops.Add, self, other)
    def __radd__(self, other): return binary(ops.Add, other, self)
    def __sub__(self, other): return binary(ops.Sub, self, other)
    def __rsub__(self, other): return binary(ops.Sub, other, self)
    def __mul__(self, other): return binary(ops.Mul, self, other)
    def __rmul__(self, other): return binary(ops.Mul, other, self)
    def __truediv__(self, other): return divide(self, other)
    def __rtruediv__(self, other): return divide(other, self)
    def __pow__(self, other): return binary(ops.Pow, self, other)
    def __rpow__(self, other): return binary(ops.Pow, other, self)
    def __mod__(self, other): return whole_quotient(ops.Remainder, self, other)
    def __rmod__(self, other): return whole_quotient(ops.Remainder, other, self)
    def __floordiv__(self, other): return whole_quotient(ops.FloorDivide, self, other)
    def __rfloordiv__(self, other): return whole_quotient(ops.FloorDivide, other, self)
    def __neg__(self): return self.apply_op(ops.Neg, self)
    def __pos__(self): return self
    def __abs__(self): return self.apply_op(ops.Abs, self)

    __hash__ = object.__hash__

    def __eq__(self, other): return compare(np.equal, self, other)
    def __ne__(self, other): return compare(np.not_equal, self, other)
    def __lt__(self, other): return compare(np.less, self, other)
    def __le__(self, other): return compare(np.less_equal, self, other)
    def __gt__(self, other): return compare(np.greater, self, other)
    def __ge__(self, other): return compare(np.greater_equal, self, other)
    def __and__(self, other): return compare(np.bitwise_and, self, other)
    def __rand__(self, other): return compare(np.bitwise_and, other, self)
    def __or__(self, other): return compare(np.bitwise_or, self, other)
    def __ror__(self, other): return compare(np.bitwise_or, other, self)
    def __xor__(self, other): return compare(np.bitwise_xor, self, other)
    def __rxor__(self, other): return compare(np.bitwise_xor, other, self)
    def __invert__(self): return self.constant(np.invert, self)

    add, sub, mul, div, pow, neg, abs = __add__, __sub__, __mul__, __truediv__, __pow__, __neg__, __abs__
    remainder, floor_divide = __mod__, __floordiv__
    eq, ne, lt, le, gt, ge = __eq__, __ne__, __lt__, __le__, __gt__, __ge__

    def logical_and(self, other): return compare(np.logical_and, self, other)
    def logical_or(self, other): return compare(np.logical_or, self, other)
    def logical_xor(self, other): return compare(np.logical_xor, self, other)
    def logical_not(self): return self.constant(np.logical_not, self)
    def isnan(self): return self.constant(np.isnan, self)
    def isinf(self): return self.constant(np.isinf, self)
    def isfinite(self): return self.constant(np.isfinite, self)

    def isclose(self, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False):
        """|self - other| <= atol + rtol |other|, elementwise."""
        is_close = functools.partial(np.isclose, rtol=rtol, atol=atol, equal_nan=equal_nan)
        return self.constant(is_close, self, other)

    def allclose(self, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Is |self - other| <= atol + rtol |other| everywhere?"""
        return self.isclose(other, rtol, atol, equal_nan).array.all().item()

    def equal(self, other) -> bool:
        """Have both the same shape and the same elements?"""
        return np.array_equal(values_of(self), values_of(other))

    def exp(self): return self.apply_op(ops.Exp, floating(self))
    def expm1(self): return self.apply_op(ops.Expm1, floating(self))
    def log(self): return self.apply_op(ops.Log, floating(self))
    def log1p(self): return self.apply_op(ops.Log1p, floating(self))
    def sqrt(self): return self.apply_op(ops.Sqrt, floating(self))
    def rsqrt(self): return self.apply_op(ops.Rsqrt, floating(self))
    def reciprocal(self): return divide(1.0, self)
    def square(self): return cast(self, int64) ** 2 if self.dtype == bool_ else self * self
    def sin(self): return self.apply_op(ops.Sin, floating(self))
    def cos(self): return self.apply_op(ops.Cos, floating(self))
    def tanh(self): return self.apply_op(ops.Tanh, floating(self))
    def sigmoid(self): return self.apply_op(ops.Sigmoid, floating(self))
    def erf(self): return self.apply_op(ops.Erf, floating(self))
    def erfc(self): return elementary(ops.erfc, self)
    def exp2(self): return elementary(np.exp2, self)
    def log2(self): return elementary(np.log2, self)
    def log10(self): return elementary(np.log10, self)
    def tan(self): return elementary(np.tan, self)
    def sinh(self): return elementary(np.sinh, self)
    def cosh(self): return elementary(np.cosh, self)
    def asin(self): return elementary(np.arcsin, self)
    def acos(self): return elementary(np.arccos, self)
    def atan(self): return elementary(np.arctan, self)
    def asinh(self): return elementary(np.arcsinh, self)
    def acosh(self): return elementary(np.arccosh, self)
    def atanh(self): return elementary(np.arctanh, self)

    arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh

    def relu(self): return self.apply_op(ops.Relu, self)
    def sign(self): return self.clone() if self.dtype == bool_ else self.apply_op(ops.Step, self, function=np.sign)
    def floor(self): return self.apply_op(ops.Step, self, function=np.floor)
    def ceil(self): return self.apply_op(ops.Step, self, function=np.ceil)
    def round(self): return self.apply_op(ops.Step, self, function=np.rint)
    def trunc(self): return self.apply_op(ops.Step, self, function=np.trunc)
    def maximum(self, other): return binary(ops.Maximum, self, other)
    def minimum(self, other): return binary(ops.Minimum, self, other)
    def fmod(self, other): return whole_quotient(ops.Fmod, self, other)
    def frac(self): return self.fmod(1.0)
    def atan2(self, other): return of_floats(ops.Atan2, self, other)
    def logaddexp(self, other): return of_floats(ops.LogAddExp, self, other)
    def clamp(self, min=None, max=None): return clamp(self, min, max)

    arctan2, clip = atan2, clamp

    def lerp(self, end, weight):
        """self + weight * (end - self), measured from the nearer of the two, so that both are reached exactly."""
        way = end - self
        return where(abs(weight) < 0.5, self + weight * way, end - (1 - weight) * way)

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None):
        """self with numbers for NaN and infinities, these by default the extremes of the dtype; no gradient there."""
        replace = functools.partial(np.nan_to_num, nan=nan, posinf=posinf, neginf=neginf)
        return where(self.isfinite(), self, self.constant(replace, self))

    def gelu(self, approximate: str = "none"):
        """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation."""
        if approximate not in ("none", "tanh"):
            raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
        return self.apply_op(ops.Gelu, floating(self), approximate=approximate)

    def where(self, condition, other):
        """self where condition holds, else other."""
        return where(condition, self, other)

    def masked_fill(self, mask, value: float):
        """self, but `value` where mask holds; no gradient there."""
        return where(mask, bool(value) if self.dtype == bool_ and not is_tensor(value) else value, self)
