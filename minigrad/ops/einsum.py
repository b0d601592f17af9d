"""Einstein summation: products of tensors, summed over every label that the output lacks.

For out_ik = sum_j a_ij b_jk, written "ij,jk->ik", the gradient of a factor is the sum over the labels that it lacks:
    da_ij = sum_k dout_ik b_jk   is   "ik,jk->ij"
so the output and the factor change places, and the gradient of an einsum is an einsum.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import backend
from ..backend import in_order, is_tensor
from ..tape import View
from .numpy_protocol import answers

if TYPE_CHECKING:
    from ..arrays.annotations import Tensor, TensorLike

LABELS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Einsum(View):
    """out = einsum("labels,labels,...->labels", a, b, ...):  dx = einsum of dout and the other factors, to the labels of x

    No label occurs twice in one factor. A label that only x has was summed over in x alone, so dx is constant along it.
    """

    def forward(self, *factors, subscripts):
        inputs, self.output = subscripts.split("->")
        self.inputs = inputs.split(",")
        self.saved_for = all_others(len(factors))
        self.save(*factors)
        out = backend.sum_of_products(subscripts, *factors)
        return out if out.ndim == factors[0].ndim and len(factors) == 1 else in_order(out)  # a view may keep its strides

    def backward(self, dout, *factors):
        return tuple(self.gradient(i, dout, factors) if self.needs(i) else None for i in range(len(factors)))

    def gradient(self, i, dout, factors):
        labels = [self.output] + self.inputs[:i] + self.inputs[i + 1 :]
        kept = "".join(label for label in self.inputs[i] if any(label in other for other in labels))
        others = factors[:i] + factors[i + 1 :]
        dx = Einsum.call(dout, *others, subscripts=f"{','.join(labels)}->{kept}")
        places = tuple(slice(None) if label in kept else None for label in self.inputs[i])
        dx = dx[places] if places else dx
        shape = self.parents[i].shape
        if dx.shape == shape:
            return dx
        # This also covers a label of length 1 in another factor; where it is 1 in this one, the tape sums.
        return np.broadcast_to(dx, np.broadcast_shapes(dx.shape, shape))


@functools.cache
def all_others(n: int) -> tuple[tuple[int, ...], ...]:
    """For each of n factors, the others, whose gradients need it."""
    return tuple(tuple(j for j in range(n) if j != i) for i in range(n))


@answers(np.einsum)
def einsum(equation: str, *operands: TensorLike | Sequence[TensorLike]) -> Tensor:
    """Products of the operands, summed over each label that the output lacks.

    An ellipsis stands for all other axes, broadcast; a label twice in one operand takes its diagonal. Without "->", the
    output has the labels that occur once, in alphabetical order, after the axes of the ellipsis.

    >>> from minigrad import tensor
    >>> einsum("ij,j->i", tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, -1.0])).tolist()
    [-1.0, -1.0]
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    tensor = next((x for x in operands if is_tensor(x)), None)
    if tensor is None:
        raise TypeError("einsum: expected a Tensor among the operands; for arrays use np.einsum")
    factors = [x if is_tensor(x) else tensor.constant(np.asarray, x) for x in operands]
    if len({x.dtype for x in factors}) > 1:
        raise TypeError(f"einsum: expected one dtype, got {[str(x.dtype) for x in factors]}; convert with .to(dtype)")
    inputs, output = without_ellipsis(equation.replace(" ", ""), factors)
    for i, labels in enumerate(inputs):
        factors[i], inputs[i] = diagonals(factors[i], labels)
    try:
        return tensor.apply_op(Einsum, *factors, subscripts=f"{','.join(inputs)}->{output}")
    except ValueError as error:
        raise ValueError(f"einsum: {equation!r} does not fit shapes {[x.shape for x in factors]}: {error}") from None


def without_ellipsis(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """One label for each axis of each operand, and the output's labels."""
    left, arrow, output = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ValueError(f"einsum: {equation!r} takes {len(inputs)} operands, got {len(operands)}")
    free = "".join(label for label in LABELS if label not in equation)
    longest = ""
    for i, (labels, x) in enumerate(zip(inputs, operands)):
        rest = x.ndim - len(labels.replace("...", ""))
        if rest < 0 or rest > 0 and "..." not in labels:
            raise ValueError(f"einsum: operand {i} has shape {x.shape}, which does not fit its subscripts {labels!r}")
        inputs[i] = labels.replace("...", free[:rest][::-1])  # counted from the last axis, as in broadcasting
        longest = max(longest, free[:rest][::-1] if "..." in labels else "", key=len)
    if not arrow:
        named = left.replace(",", "").replace(".", "")
        output = "..." + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    return inputs, output.replace("...", longest)


def diagonals(x, labels: str):
    """The operand and its labels without repeated labels: x_ii becomes the vector of its diagonal."""
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"einsum: label {label!r} stands for two lengths in an operand of shape {x.shape}")
            x = x.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return x, labels
