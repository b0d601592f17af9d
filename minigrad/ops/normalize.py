"""Vectors of length 1, along one axis. Kernels work along the last axis; other axes are moved there."""
import math

import numpy as np

from ..kernels import normalize as kernels
from ..kernels.buffers import empty_like
from ..kernels.copying import in_order, with_axis_last, with_last_axis_at
from ..kernels.rows import as_rows
from ..tape import Fused
from .comparison import Clamp
from .reduce import Norm


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
        moved = in_order(with_axis_last(x, dim))
        out, norms = empty_like(moved), np.zeros(moved.shape[:-1], x.dtype)
        if x.size:
            kernels.normalize_forward(as_rows(moved), as_rows(out), norms.reshape(-1), eps)
        self.save(x, with_last_axis_at(out, dim), norms)
        return self.saved[1]

    def backward(self, dout, x, out, norms):
        dout, out = (in_order(with_axis_last(a, self.dim)) for a in (dout, out))
        dx = empty_like(dout)
        if dx.size:
            kernels.normalize_backward(as_rows(dout), as_rows(out), norms.reshape(-1), as_rows(dx), self.eps)
        return with_last_axis_at(dx, self.dim)
