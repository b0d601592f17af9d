"""Einsum of two factors as a matrix product, where it is one: a tenth of NumPy's time or less."""
import functools
import math

import numpy as np

from .. import backend
from ..arrays.dtypes import from_bfloat16, to_bfloat16
from ..backend import replaced_by
from ..ops import einsum
from ..ops.matmul import MatMul
from ..per_thread import this_thread
from ..tape import implements
from .rounding import RoundsOperands


@implements(einsum.Einsum)
class Einsum(RoundsOperands, einsum.Einsum):
    """Rounded under autocast if it is a matrix product; then its gradients are, too."""

    def forward(self, *factors, subscripts):
        if self.rounds is None:
            self.rounds = this_thread.rounds_products and as_product(subscripts, factors) is not None
        with self.same_rounding():
            return super().forward(*factors, subscripts=subscripts)

    def backward(self, dout, *factors):
        if self.rounds and dout.dtype.char == "f":
            *_, rows, _, columns = groups_of_labels(self.options["subscripts"])
            if not (rows and columns):  # with a vector: the matrix's gradient is an outer product, which no kernel rounds
                dout, *factors = [x if x is None else from_bfloat16(to_bfloat16(x)) for x in (dout, *factors)]
        with self.same_rounding():
            return super().backward(dout, *factors)


def sum_of_products(subscripts: str, *factors: np.ndarray) -> np.ndarray:
    """bthd,bshd->bhts is, for each of b and h, a matrix (t, d) times one (d, s)."""
    groups = as_product(subscripts, factors)
    if groups is None:
        return backend.in_numpy.sum_of_products(subscripts, *factors)
    a, b, output, batch, rows, summed, columns = groups
    sizes = dict(zip(a + b, [n for x in factors for n in x.shape]))

    def matrices(x, own, *groups):
        x = x.transpose([own.index(label) for label in "".join([batch, *groups])])
        return x.reshape((*lengths(batch), *[math.prod(lengths(group)) for group in groups]))

    def lengths(group):
        return [sizes[label] for label in group]

    made = batch + rows + columns
    product = MatMul.call(matrices(factors[0], a, rows, summed), matrices(factors[1], b, summed, columns))
    return product.reshape(lengths(made)).transpose([made.index(label) for label in output])


def as_product(subscripts: str, factors: tuple[np.ndarray, ...]) -> tuple[str, ...] | None:
    """`groups_of_labels` if these two factors are matrices with them, else None."""
    groups = groups_of_labels(subscripts) if len(factors) == 2 else None
    if groups is None:
        return None
    labels, shapes = groups[0] + groups[1], [n for x in factors for n in x.shape]
    sizes = dict(zip(labels, shapes))
    return groups if [sizes[label] for label in labels] == shapes else None  # else a 1 is broadcast


@functools.lru_cache(512)
def groups_of_labels(subscripts: str) -> tuple[str, ...] | None:
    """The labels of a, b and the output; then those in all three, in a and the output, in a and b, in b and the output.
    None if nothing is summed or each product is of two vectors, which is NumPy's work."""
    inputs, output = subscripts.split("->")
    a, b = inputs.split(",")
    batch = "".join(label for label in output if label in a and label in b)
    summed = "".join(label for label in a if label in b and label not in output)
    rows, columns = ("".join(label for label in output if label in own and label not in batch) for own in (a, b))
    is_whole = len(batch + rows + summed) == len(a) and len(batch + summed + columns) == len(b)
    return (a, b, output, batch, rows, summed, columns) if is_whole and summed and rows + columns else None


replaced_by(sum_of_products=sum_of_products)
