"""Comparisons and logic, and selecting values: where, maximum, minimum, clamp."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, ClassVar, Final, Generic, TypeAlias

import numpy as np

from .. import backend
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.dtypes import as_array, bool_, check_fits
from ..backend import is_tensor
from ..runner import compute
from ..tape import Op
from .elementary import Elementwise, elementary
from .numpy_protocol import answers, named
from .operands import binary, broadcast_error, common_dtype, operand, promote, values_of

Comparison: TypeAlias = Callable[["ComparisonMethods[Tensor]", TensorLike], Tensor]


def select(condition, a, b):
    """np.where, for formulas on arrays and Tensors"""
    return backend.elementwise(np.where, condition, a, b)


class Where(Op):
    """out = a where condition, else b:  da = dout where condition, else 0,  db = 0 where condition, else dout

    Multiplying by a mask would turn an infinite gradient of the other branch into 0 * inf = NaN.
    """

    def forward(self, a, b, *, condition):
        self.condition = condition
        return select(condition, a, b)

    def backward(self, dout):
        da = select(self.condition, dout, 0.0) if self.needs(0) else None
        return da, (select(self.condition, 0.0, dout) if self.needs(1) else None)


@answers(np.where)
def where(condition: TensorLike, input: TensorLike, other: TensorLike) -> Any:
    """input where condition holds, else other; broadcast. Each element's gradient goes to the operand that it came from."""
    tensor = next(filter(is_tensor, (input, other)), condition)
    if not is_tensor(tensor):
        raise TypeError("where: expected a Tensor among the arguments; for arrays there is np.where")
    condition = compute(_mask, condition)
    a, b = operand(input), operand(other)
    if not is_tensor(a) and not is_tensor(b):
        dtype = common_dtype(a, b)
        a, b = as_array(a, dtype), as_array(b, dtype)
    if int in (type(a), type(b)) and common_dtype(a, b).kind != "f":
        check_fits("where", a, b)  # np.where would take the lower bits
    a, b = promote(a, b)
    try:
        return tensor.apply_op(Where, a, b, condition=condition)
    except ValueError:
        raise broadcast_error("where", condition, a, b) from None


def _mask(condition) -> np.ndarray:
    """A copy of the condition, which nothing overwrites before backward."""
    if type(condition) is np.ndarray and condition.dtype is bool_:
        return condition.copy("K")
    return as_array(condition, bool_, copy=True)


def gradient_of_larger(dout, a, b):
    """For a: dout where a > b, half of it where they are equal; where the result is NaN, all of it"""
    return select(a < b, 0.0, select(a == b, 0.5 * dout, dout))


class Maximum(Elementwise):
    """out = max(a, b) elementwise:  da = dout where a > b, dout / 2 where a = b, else 0,  db = the same from b's side"""

    function, gradients = np.maximum, (gradient_of_larger, lambda dout, a, b: gradient_of_larger(dout, b, a))


class Minimum(Elementwise):
    """out = min(a, b) elementwise:  da = dout where a < b, dout / 2 where a = b, else 0,  db = the same from b's side"""

    function, gradients = np.minimum, Maximum.gradients[::-1]


def clamp(x, low, high):
    return np.minimum(high, np.maximum(low, x))  # of two equal ones, the latter is taken


Clamp = elementary("out = min(max(x, low), high), low and high numbers:  dx = dout where low <= x <= high, the edges too",
                   clamp, lambda dout, x, low, high: select((x >= low) & (x <= high), dout, 0.0),
                   low=-math.inf, high=math.inf)


def comparison(ufunc: np.ufunc, meaning: str) -> Callable[[ComparisonMethods[Tensor], TensorLike], Tensor]:
    """The method of a comparison or a logical function of two, also called by `ufunc`; it has no gradient."""
    def compute_it(*operands: np.ndarray) -> np.ndarray:
        return backend.elementwise(ufunc, *operands)

    def of_two(self: Any, other: Any) -> Any:
        tensor = self if is_tensor(self) else other
        if not (is_tensor(self) and is_tensor(other)):
            self, other = operand(self), operand(other)
        try:
            return tensor.constant(compute_it, self, other)
        except ValueError:
            raise broadcast_error(ufunc.__name__, self, other) from None

    return answers(ufunc)(named(of_two, ufunc.__name__, f"{meaning}, elementwise and broadcast, as booleans."))


def predicate(ufunc: np.ufunc, meaning: str) -> Callable[[ComparisonMethods[Tensor]], Tensor]:
    """The method of a logical function of one, also called by `ufunc`; it has no gradient."""
    def of_one(self: Any) -> Any:
        return self.constant(lambda x: backend.elementwise(ufunc, x), self)

    return answers(ufunc)(named(of_one, ufunc.__name__, f"{meaning}, elementwise, as booleans."))


class ComparisonMethods(Generic[Tensor]):
    __hash__: Final = object.__hash__

    eq: Final = comparison(np.equal, "self == other")
    ne: Final = comparison(np.not_equal, "self != other")
    __eq__: ClassVar[Comparison[Tensor]] = eq  # type: ignore
    __ne__: ClassVar[Comparison[Tensor]] = ne  # type: ignore
    __lt__: Final = comparison(np.less, "self < other")
    __le__: Final = comparison(np.less_equal, "self <= other")
    __gt__: Final = comparison(np.greater, "self > other")
    __ge__: Final = comparison(np.greater_equal, "self >= other")
    __and__: Final = comparison(np.bitwise_and, "self & other")
    __or__: Final = comparison(np.bitwise_or, "self | other")
    __xor__: Final = comparison(np.bitwise_xor, "self ^ other")
    __invert__: Final = predicate(np.invert, "~self")
    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__
    lt = __lt__
    le = __le__
    gt = __gt__
    ge = __ge__

    logical_not: Final = predicate(np.logical_not, "not self")
    isnan: Final = predicate(np.isnan, "self is NaN")
    isinf: Final = predicate(np.isinf, "self is infinite")
    isfinite: Final = predicate(np.isfinite, "self is neither infinite nor NaN")

    def isclose(
        self: Tensor, other: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Tensor:
        """|self - other| <= atol + rtol |other|, elementwise."""
        is_close = functools.partial(np.isclose, rtol=rtol, atol=atol, equal_nan=equal_nan)
        return self.constant(is_close, self, other)

    def allclose(
        self: Tensor, other: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Is |self - other| <= atol + rtol |other| everywhere?"""
        return self.isclose(other, rtol, atol, equal_nan).array.all().item()

    def equal(self: Tensor, other: TensorLike) -> bool:
        """Do both have the same shape and the same elements?"""
        a, b = values_of(self), np.asarray(values_of(other))
        return a.shape == b.shape and not np.count_nonzero(backend.elementwise(np.not_equal, a, b))

    @answers(np.maximum)
    def maximum(self: Tensor, other: TensorLike) -> Tensor:
        """The larger of both, elementwise; equal ones get half the gradient each. NaN where either is NaN."""
        return binary(Maximum, self, other)

    @answers(np.minimum)
    def minimum(self: Tensor, other: TensorLike) -> Tensor:
        """The smaller of both, elementwise; equal ones get half the gradient each. NaN where either is NaN."""
        return binary(Minimum, self, other)

    @answers(np.clip, a_min="min", a_max="max")
    def clamp(self: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
        """self, but at least min and at most max: numbers or Tensors, which get the gradient where they replace self.

        At the edges the gradient goes to self. NaN stays NaN, even as a bound; where min > max the result is max.
        """
        if min is None and max is None:
            raise ValueError("clamp: at least one of min and max must be given")
        if not is_tensor(min) and not is_tensor(max) and self.dtype.kind == "f":
            low, high = -np.inf if min is None else float(min), np.inf if max is None else float(max)
            return self.apply_op(Clamp, self, low=low, high=high)
        x = self if min is None else where((self < min) | (min != min), min, self)  # NaN is unequal to itself
        return x if max is None else where((x > max) | (max != max), max, x)

    clip = clamp

    def where(self: Tensor, condition: TensorLike, other: TensorLike) -> Tensor:
        """self where condition holds, else other."""
        return where(condition, self, other)

    def masked_fill(self: Tensor, mask: TensorLike, value: float | Tensor) -> Tensor:
        """self, but `value` where mask holds, without gradient there."""
        return where(mask, bool(value) if self.dtype == bool_ and not is_tensor(value) else value, self).contiguous()
