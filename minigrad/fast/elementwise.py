"""Functions of single elements by kernels: one pass over memory, on all threads, for large float32 arrays.

Each has a formula of single numbers in kernels/formulas, which says from what size on it is faster than NumPy.
"""
import operator
from collections.abc import Callable, Sequence

import numpy as np

from .. import backend
from ..ops import arithmetic, binary_cross_entropy as bce, comparison, elementary, statistics
from ..ops.difference_losses import DifferenceLoss
from ..per_thread import this_thread
from ..tape import Op, implements
from .kernels import elementwise as kernels, formulas
from .kernels.buffers import empty_like
from .kernels.copying import are_contiguous
from .kernels.pointwise import LARGE, Formula, are_alike, ndarray, is_apart

FORMULAS: dict[Callable, Formula] = {  # of the functions that ops hand to `backend.elementwise`
    operator.add: formulas.add, operator.sub: formulas.sub, operator.mul: formulas.mul, operator.truediv: formulas.div,
    operator.neg: formulas.neg, operator.pow: formulas.power, np.where: formulas.where, np.zeros_like: formulas.nothing,
    bce.loss: formulas.binary_cross_entropy, bce.loss_backward_a: formulas.binary_cross_entropy_backward_a,
    bce.loss_backward_b: formulas.binary_cross_entropy_backward_b,
    arithmetic.Remainder.of_divisor: formulas.remainder_backward_b, arithmetic.Fmod.of_divisor: formulas.fmod_backward_b,
}
FORMULAS |= {getattr(np, name): formula for name, formula in vars(formulas).items()
             if isinstance(formula, Formula) and isinstance(getattr(np, name, None), np.ufunc)}
FORMULAS |= {function: vars(formulas)[name] for family in (arithmetic, bce, comparison, elementary, statistics)
             for name, function in vars(family).items() if isinstance(vars(formulas).get(name), Formula)}  # of one name
for power, *names in ((0.5, "sqrt", "root_backward"), (2, "square", "square_backward"), (3, "cube", "cube_backward"),
                      (4, "fourth", "fourth_backward")):
    FORMULAS |= dict(zip(arithmetic.POWERS[power], map(vars(formulas).get, names)))
for row in (*elementary.Elementary.__subclasses__(), *DifferenceLoss.__subclasses__()):
    function = row.function if hasattr(row, "function") else row.losses
    FORMULAS |= {code: vars(formulas)[name] for code, name in ((function, row.row), (row.gradient, f"{row.row}_backward"))
                 if name in vars(formulas)}

# Of ops that kernels can be all of, the formulas of forward and backward.
BY_FORMULAS: dict[type[Op], tuple[Formula, ...]] = {
    arithmetic.Sub: (formulas.sub, formulas.neg), arithmetic.Mul: (formulas.mul,), arithmetic.Neg: (formulas.neg,),
    arithmetic.Div: (formulas.div, formulas.div_backward_b),
    arithmetic.Abs: (formulas.absolute, formulas.absolute_backward),
}
BY_FORMULAS |= {row: (FORMULAS[row.function], FORMULAS[row.gradient]) for row in elementary.Elementary.__subclasses__()
                if row.function in FORMULAS and row.gradient in FORMULAS}


def is_by_kernels(op: Op, arrays: Sequence) -> bool:
    """Are these inputs computed by kernels alone, forward and backward? If some are copied on their way, or empty, no."""
    by_formulas = None if this_thread.is_textbook else BY_FORMULAS.get(type(op))
    return are_alike(arrays, *by_formulas) if by_formulas else getattr(op, "by_kernels", False) and are_contiguous(arrays)


def elementwise(function: Callable, *operands):
    formula = FORMULAS.get(function)
    if formula is not None:
        for x in operands:
            if type(x) is ndarray and (x.size >= formula.least or x.size >= formula.least_apart and is_apart(x)):
                result = formula.of(*operands)
                if result is not None:
                    return result
                break
    return erf(*operands) if function is elementary.erf else function(*operands)


def erf(x):
    out = kernels.empty_apart(x)
    kernels.erf_forward(x.reshape(-1), out.reshape(-1))
    return out


backend.replaced_by(elementwise=elementwise)


@implements(arithmetic.Add)
class Add(arithmetic.Add):
    """Of both dtypes, and compiled ahead: large arrays of one shape, as in a residual connection."""

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
