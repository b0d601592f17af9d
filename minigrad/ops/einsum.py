"""Einstein summation: products of tensors, summed over every label that the output does not have.

For out_ik = sum_j a_ij b_jk, written "ij,jk->ik", the gradient of a factor is the sum over what it does not have:
    da_ij = sum_k dout_ik b_jk   is   "ik,jk->ij"
so the output and the factor change places, and the gradient of einsum is einsum.
"""
import math

import numpy as np

from ..tape import Op


class Einsum(Op):
    """out = einsum("labels,labels,...->labels", a, b, ...); no label twice in one factor

    dx = einsum of dout with the other factors, to the labels of x. A label that only x has was summed over alone: there
    dx is the same for all its places.
    """

    def forward(self, *factors, subscripts):
        inputs, self.output = subscripts.split("->")
        self.inputs = inputs.split(",")
        self.save(*factors)
        return np.einsum(subscripts, *factors, optimize=len(factors) > 1)

    def backward(self, dout, *factors):
        return tuple(self.gradient(i, dout, factors) if self.needs(i) else None for i in range(len(factors)))

    def count(self, factors, output):
        pairs = [pair for labels, factor in zip(self.inputs, factors) for pair in zip(labels, factor.shape)]
        sizes = {label: n for label, n in pairs if n != 1}
        return math.prod(sizes.values()) if len(factors) > 1 else 0

    def gradient(self, i: int, dout, factors):
        labels = [self.output] + self.inputs[:i] + self.inputs[i + 1 :]
        kept = "".join(label for label in self.inputs[i] if any(label in other for other in labels))
        others = factors[:i] + factors[i + 1 :]
        dx = Einsum.call(dout, *others, subscripts=f"{','.join(labels)}->{kept}")
        places = tuple(slice(None) if label in kept else None for label in self.inputs[i])
        dx = dx[places] if places else dx
        # Also where a label has length 1 in another factor only; lengths of 1 in this one are summed by the tape.
        return np.broadcast_to(dx, np.broadcast_shapes(dx.shape, factors[i].shape))
