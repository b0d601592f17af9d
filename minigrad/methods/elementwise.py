"""Arithmetic, comparisons, and functions of single elements."""
import numpy as np

from .. import ops
from ..arrays import as_array, bool_
from .operands import broadcast_error, data_of, floating, is_tensor, operand, promote


def binary(operation, a, b):
    """An elementwise operation on two operands, one of them a Tensor at least."""
    if not (is_tensor(a) and is_tensor(b) and a.data.dtype == b.data.dtype):
        a, b = promote(operand(a), operand(b))
    tensor = a if is_tensor(a) else b
    try:
        return tensor.apply_op(operation, a, b)
    except ValueError:
        raise broadcast_error(operation.__name__.lower(), a, b) from None


def divide(a, b):
    """a / b, in floats."""
    return binary(ops.Div, floating(operand(a)), floating(operand(b)))


def compare(ufunc: np.ufunc, a, b):
    """Comparisons and logic: no gradients."""
    tensor = a if is_tensor(a) else b
    a, b = operand(a), operand(b)
    try:
        return tensor.constant(ufunc(data_of(a), data_of(b)))
    except ValueError:
        raise broadcast_error(ufunc.__name__, a, b) from None


def in_place(ufunc: np.ufunc, operator, a, b):
    """`a += b` writes into a's array if neither is on the tape; otherwise it makes a new tensor, as `a = a + b`."""
    b = operand(b)
    if a.requires_grad or is_tensor(b) and b.requires_grad:
        return operator(a, b)
    ufunc(a.data, data_of(b), out=a.data, casting="same_kind")
    return a


def where(condition, a, b):
    """a where condition holds, else b; broadcast. Each element's gradient goes where it came from."""
    tensor = next((x for x in (a, b, condition) if is_tensor(x)), None)
    if tensor is None:
        raise TypeError("where: expected a Tensor among the arguments; for arrays there is np.where")
    condition = as_array(condition, bool_)
    a, b = promote(operand(a), operand(b))
    if not is_tensor(a) and not is_tensor(b):
        a, b = as_array(a), as_array(b)
    try:
        return tensor.apply_op(ops.Where, a, b, condition=condition)
    except ValueError:
        raise broadcast_error("where", condition, a, b) from None


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
    def __neg__(self): return self.apply_op(ops.Neg, self)
    def __abs__(self): return self.apply_op(ops.Abs, self)
    def __iadd__(self, other): return in_place(np.add, type(self).__add__, self, other)
    def __isub__(self, other): return in_place(np.subtract, type(self).__sub__, self, other)
    def __imul__(self, other): return in_place(np.multiply, type(self).__mul__, self, other)
    def __itruediv__(self, other): return in_place(np.divide, type(self).__truediv__, self, other)

    __hash__ = object.__hash__

    def __eq__(self, other): return compare(np.equal, self, other)
    def __ne__(self, other): return compare(np.not_equal, self, other)
    def __lt__(self, other): return compare(np.less, self, other)
    def __le__(self, other): return compare(np.less_equal, self, other)
    def __gt__(self, other): return compare(np.greater, self, other)
    def __ge__(self, other): return compare(np.greater_equal, self, other)
    def __and__(self, other): return compare(np.bitwise_and, self, other)
    def __or__(self, other): return compare(np.bitwise_or, self, other)
    def __xor__(self, other): return compare(np.bitwise_xor, self, other)
    def __invert__(self): return self.constant(~self.data)

    add, sub, mul, div, pow, neg, abs = __add__, __sub__, __mul__, __truediv__, __pow__, __neg__, __abs__

    def exp(self): return self.apply_op(ops.Exp, floating(self))
    def log(self): return self.apply_op(ops.Log, floating(self))
    def sqrt(self): return self.apply_op(ops.Sqrt, floating(self))
    def rsqrt(self): return 1.0 / self.sqrt()
    def tanh(self): return self.apply_op(ops.Tanh, floating(self))
    def sigmoid(self): return self.apply_op(ops.Sigmoid, floating(self))
    def erf(self): return self.apply_op(ops.Erf, floating(self))
    def relu(self): return self.apply_op(ops.Relu, self)
    def maximum(self, other): return binary(ops.Maximum, self, other)
    def minimum(self, other): return binary(ops.Minimum, self, other)

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
        return where(mask, value, self)
