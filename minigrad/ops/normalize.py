"""Vectors of length 1, along one axis. Kernels work along the last axis; other axes are moved there."""
import math

import numpy as np

from ..kernels import normalize as kernels
from ..kernels.copying import in_order
from ..tape import Fused
from .comparison import Clamp
from .reduce import Norm
from .softmax import along_last_axis


class Normalize(Fused):
    """out = x / n,  n = sqrt(sum(x^2)), sums along dim:  dx = (dout - out * sum(dout * out)) / n

    d(out_j)/d(x_i) is ([i = j] n - x_j dn/dx_i) / n^2, and dn/dx_i = x_i / n: that is ([i = j] - out_i out_j) / n.
    So what points along out is taken out of dout: out never becomes longer. Where n is less than eps, eps takes its place,
    a constant: dx = dout / eps. Saves x (for the definition), out and n.
    """

    @staticmethod
    def definition(x, *, dim=-1, eps=1e-12):
        return x / Clamp.call(Norm.call(x, axis=dim, keepdims=True), low=eps, high=math.inf)

    def forward(self, x, *, dim=-1, eps=1e-12):
        self.dim, self.eps = dim, eps
        norms = np.empty(x.size // max(x.shape[dim], 1), x.dtype)
        out = in_order(along_last_axis(lambda x, out: kernels.normalize_forward(x, out, norms, eps), dim, x))
        self.save(x, out, norms)
        return out

    def backward(self, dout, x, out, norms):
        return along_last_axis(
            lambda dout, out, dx: kernels.normalize_backward(dout, out, norms, dx, self.eps), self.dim, dout, out)
