"""RMS norm over the last axis (Zhang and Sennrich, arXiv:1910.07467)."""
import numpy as np

from ..kernels import rms_norm as kernels
from ..kernels.buffers import empty_like
from ..kernels.rows import as_rows
from ..tape import Fused


class RMSNorm(Fused):
    """out = x_hat * weight, x_hat = x * rrms, rrms = 1 / sqrt(mean(x^2) + eps):
    dweight = columnsum(dout * x_hat),  dx_hat = dout * weight,  dx = rrms * (dx_hat - x_hat * mean(dx_hat * x_hat))

    Forward, for each row of C elements: 1. rrms  2. x_hat, scaled. Backward, in reverse:
      2. dweight = columnsum(dout * x_hat),  drrms = sum(dx_hat * x),  and dx gets dx_hat * rrms
      1. With m = mean(x^2), drrms/dm = -rrms^3 / 2 and dm/dx = 2 x / C. So dx gets, through rrms,
         sum(dx_hat * x) * (-rrms^3 / 2) * 2 x / C = -rrms * x_hat * mean(dx_hat * x_hat)
    It is layer norm's gradient without the mean: what only scales the row is taken out of dx_hat, as x_hat stays the same.
    Saves x and rrms; recomputes x_hat. What has arrived for x on other ways is added in the same pass.
    """

    by_kernels = True
    accumulates_into = 0  # as in x + f(rms_norm(x)), where the gradient of the sum is there already

    @staticmethod
    def definition(x, weight=None, *, eps=1e-5):
        out = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
        return out if weight is None else out * weight

    def forward(self, x, weight=None, *, eps=1e-5):
        x_rows = as_rows(x)
        out = empty_like(x)
        rrms = np.empty(len(x_rows))
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        kernels.rms_norm_forward(x_rows, scale, as_rows(out), rrms, eps)
        self.save(x, weight, rrms)
        return out

    def backward(self, dout, x, weight, rrms, accumulated=None):
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        dx, dweight = empty_like(x), np.empty(x.shape[-1], x.dtype)
        accumulated = dx[:0] if accumulated is None else accumulated
        kernels.rms_norm_backward(as_rows(dout), as_rows(x), scale, rrms, accumulated.reshape(-1), as_rows(dx), dweight)
        return dx, dweight
