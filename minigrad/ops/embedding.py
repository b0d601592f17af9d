"""Embedding: look up rows of a table."""
import math

import numpy as np

from .kinds import Fused
from .indexing import AddAt
from .reduce import Sum
from .operands import call


class Embedding(Fused):
    """out = weight[ids] + positions:  dweight[v] = sum of dout where ids = v,  dpositions[t] = sum of dout at time t

    weight (V, C), ids (...) -> (..., C). With positions (P, C), ids are (..., T), T <= P, and row t is added at time t.
    out_i = sum_v [ids_i = v] weight_v is a product with a matrix of zeros and ones, so
        dweight_v = sum_i [ids_i = v] dout_i:  an id that occurs twice gets two gradients, an unused one gets zero.
    """

    def forward(self, weight, positions=None, *, ids):
        self.ids, self.sizes = ids, (weight.shape, None if positions is None else positions.shape)
        rows = weight[ids]
        return rows if positions is None else rows + positions[: ids.shape[-1]]

    def backward(self, dout):
        of_weight, of_positions = self.sizes
        dweight = call(AddAt, dout, index=self.ids, shape=of_weight) if self.needs(0) else None
        if of_positions is None or not self.needs(1):
            return dweight, None
        times = slice(dout.shape[-2])
        at_times = call(Sum, np.reshape(dout, (math.prod(dout.shape[:-2]), *dout.shape[-2:])), axis=0)
        return dweight, call(AddAt, at_times, index=times, shape=of_positions)
