"""Einsum of two factors as a product of matrices, where it is one."""
import functools
import math
from typing import NamedTuple

import numpy as np

from .. import backend
from ..backend import replaced_by
from ..ops.matmul import MatMul
from .shape import reshaped


def sum_of_products(subscripts: str, *factors: np.ndarray) -> np.ndarray:
    matrices = as_matrices(subscripts) if len(factors) == 2 else None
    if matrices is None or not agree(subscripts, factors):
        return backend.sum_of_products.__wrapped__(subscripts, *factors)
    return matrices.product(*factors)


class Matrices(NamedTuple):
    """Two factors as matrices, whose product is the sum over the labels that only they have: bthd,bshd->bhts is, for each
    of b and h, a matrix (t, d) times one (d, s)."""

    order_a: tuple[int, ...]  # of a's axes: those that the output and b have, those that only the output has, the others
    order_b: tuple[int, ...]  # of b's axes: those that the output and a have, those that a has, the others
    order: tuple[int, ...]  # of the product's axes
    batch: int  # how many axes all three have
    rows: int  # how many only a and the output have
    summed: int

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a.transpose(self.order_a), b.transpose(self.order_b)
        batch, rows = a.shape[: self.batch], a.shape[self.batch : self.batch + self.rows]
        columns, K = b.shape[self.batch + self.summed :], math.prod(a.shape[-self.summed :])
        a, b = reshaped(a, (*batch, math.prod(rows), K)), reshaped(b, (*batch, K, math.prod(columns)))
        return MatMul.call(a, b).reshape(batch + rows + columns).transpose(self.order)


@functools.lru_cache(512)
def as_matrices(subscripts: str) -> Matrices | None:
    """How two factors are matrices; None if nothing is summed, or each product is of two vectors: that is for NumPy."""
    inputs, output = subscripts.split("->")
    a, b = inputs.split(",")
    batch = [label for label in output if label in a and label in b]
    summed = [label for label in a if label in b and label not in output]
    rows, columns = ([label for label in output if label in own and label not in other] for own, other in ((a, b), (b, a)))
    is_whole = len(batch) + len(rows) + len(summed) == len(a) and len(batch) + len(summed) + len(columns) == len(b)
    if not (is_whole and summed and (rows or columns)):
        return None
    made = batch + rows + columns
    return Matrices(
        tuple(map(a.index, batch + rows + summed)), tuple(map(b.index, batch + summed + columns)),
        tuple(map(made.index, output)), len(batch), len(rows), len(summed),
    )


def agree(subscripts: str, factors) -> bool:
    """Has each label one length? 1 may also stand for any other."""
    (a, b), (of_a, of_b) = factors, subscripts.partition("->")[0].split(",")
    sizes = dict(zip(of_a, a.shape))
    return all(sizes.get(label, n) == n for label, n in zip(of_b, b.shape))


replaced_by(sum_of_products=sum_of_products)
