"""Vectors of length 1, along one axis."""
import math

import numpy as np

from ..tape import Fused
from .comparison import Clamp
from .reduce import Norm, Sum


class Normalize(Fused):
    """out = x / n,  n = sqrt(sum(x^2)), sums along dim:  dx = (dout - out * sum(dout * out)) / n

    d(out_j)/d(x_i) is ([i = j] n - x_j dn/dx_i) / n^2, and dn/dx_i = x_i / n: that is ([i = j] - out_i out_j) / n.
    So the component along out is projected out of dout, as the length of out is fixed. Where n is less than eps, it is
    replaced by eps, a constant: dx = dout / eps. Saves x, out and n.
    """

    saves_inputs = True

    def forward(self, x, *, dim=-1, eps=1e-12):
        self.dim, self.eps = dim, eps
        norms = Norm.call(x, axis=dim, keepdims=True)
        lengths = Clamp.call(norms, low=eps, high=math.inf)
        out = x / lengths
        self.save(x, out, lengths)
        return out

    def backward(self, dout, x, out, lengths):
        along_out = np.where(lengths > self.eps, Sum.call(dout * out, axis=self.dim, keepdims=True), 0.0)
        return (dout - out * along_out) / lengths
