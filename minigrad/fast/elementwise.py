"""Elementwise functions with kernels: one pass over memory, on all threads, for large float32 arrays.

Their formulas are recorded from the functions that ops pass to `backend.elementwise`. The table here adds from which size
on a kernel is faster than NumPy, dtypes other than float32, and formulas that kernels compute in another form.
"""
import operator
from collections.abc import Callable

import numpy as np

from .. import backend
from ..ops import activations, arithmetic, elementary
from ..tape import Op, implements
from .kernels import activations as kernels, formulas
from .kernels.buffers import empty_like
from .kernels.elementwise import BOOL, FLOAT, Formula, is_apart, ndarray
from .kernels.thresholds import BYTES, LARGE, SINGLE_PASS, VECTORISED, VECTORISED_IN_512


def formula_of(function: Callable) -> Formula | None:
    """None where only NumPy has the function."""
    if function not in FORMULAS:
        is_numpys = isinstance(function, np.ufunc) and function not in formulas.SCALARS
        FORMULAS[function] = None if is_numpys else Formula(function)
    return FORMULAS[function]


def cast(dtype: np.dtype, order: str) -> Callable:
    def astype(x):
        return x.astype(dtype, order)

    return astype


CASTS = {(source, dtype, order): cast(dtype, order) for other in map(np.dtype, (np.float64, np.int64, np.bool_))
         for source, dtype in ((FLOAT, other), (other, FLOAT)) for order in "CK"}

SINGLE = dict(least=SINGLE_PASS, only_moves=True)
PREDICATE = dict(SINGLE, dtype=BOOL, least_apart=LARGE)

FORMULAS: dict[Callable, Formula | None] = {}
for options, *functions in (
    (SINGLE, operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, np.abs, np.square, np.sqrt, np.sign,
     np.floor, np.ceil, np.trunc, np.rint, np.maximum, np.minimum, np.zeros_like, elementary.Exp.gradient,
     elementary.Log.gradient),
    (dict(least=VECTORISED, least_apart=LARGE),  # NumPy has vector code for contiguous arrays
     np.exp, np.expm1, np.exp2, np.log, np.log1p, np.tanh, elementary.rsqrt, elementary.Log1p.gradient,
     elementary.Sqrt.gradient, activations.Relu.function),
    (dict(least=VECTORISED_IN_512), np.log2, np.log10, np.tan),
    (PREDICATE, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
     np.isnan, np.isinf, np.isfinite),
    (dict(PREDICATE, least=BYTES, takes=(BOOL, BOOL)), np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
     np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert),
    (dict(takes=(BOOL,)), np.where),
    *((dict(SINGLE, least_apart=LARGE, takes=(source,), dtype=dtype), astype)
      for (source, dtype, _), astype in CASTS.items()),
    *((dict(form=form), function) for form, function in (
        (formulas.erf, elementary.erf), (formulas.erfc, elementary.erfc), (formulas.mish, activations.Mish.function),
        (formulas.mish_backward, activations.Mish.gradient))),
):
    FORMULAS |= {function: Formula(function, **options) for function in functions}

# The formulas of forward and backward, for ops that kernels alone can compute.
BY_FORMULAS: dict[type[Op], list[Formula]] = {op: list(map(formula_of, functions)) for op, *functions in (
    (arithmetic.Sub, operator.sub, operator.neg), (arithmetic.Mul, operator.mul), (arithmetic.Neg, operator.neg),
    (arithmetic.Div, operator.truediv, arithmetic.div_backward_b),
    *[(row, row.function, row.gradient) for row in elementary.Elementary.__subclasses__()],
) if None not in map(formula_of, functions)}


def elementwise(function: Callable, *operands):
    formula = FORMULAS[function] if function in FORMULAS else formula_of(function)
    if formula is not None:
        for x in operands:
            if type(x) is ndarray and x.size >= formula.smallest and (x.size >= formula.least or is_apart(x)):
                result = formula.of(*operands)
                if result is not None:
                    return result
                break
    return function(*operands)


def astype(x: np.ndarray, dtype: np.dtype, order: str) -> np.ndarray:
    function = CASTS.get((x.dtype, dtype, order))
    return x.astype(dtype, order) if function is None else elementwise(function, x)


backend.replaced_by(elementwise=elementwise, astype=astype)

POWERS = {  # that are faster without np.power: value and gradient
    0.5: (np.sqrt, lambda dout, a: dout * (0.5 / np.sqrt(a))),
    2: (np.square, lambda dout, a: dout * (2 * a)),
    3: (lambda a: a * a * a, lambda dout, a: dout * (3 * (a * a))),
    4: (lambda a: a * a * (a * a), lambda dout, a: dout * (4 * (a * a * a))),
}


@implements(arithmetic.Pow)
class Pow(arithmetic.Pow):
    @classmethod
    def takes(cls, arrays):
        return isinstance(arrays[1], (int, float)) and arrays[1] in POWERS

    def forward(self, a, b):
        self.save(a, b)
        return elementwise(POWERS[b][0], a)

    def backward(self, dout, a, b):
        return elementwise(POWERS[b][1], dout, a), None


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
