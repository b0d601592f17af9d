"""RMS norm over the last axis (Zhang and Sennrich, arXiv:1910.07467)."""
import numpy as np

from ..tape import Fused
from .reduce import column_sum, row_mean


class RMSNorm(Fused):
    """out = x_hat * weight, x_hat = x * rrms, rrms = 1 / sqrt(mean(x^2) + eps):
    dweight = columnsum(dout * x_hat),  dx_hat = dout * weight,  dx = rrms * (dx_hat - x_hat * mean(dx_hat * x_hat))

    Forward, for each row of C elements: 1. rrms  2. x_hat, scaled. Backward, in reverse:
      2. dweight = columnsum(dout * x_hat),  drrms = sum(dx_hat * x),  and dx gets dx_hat * rrms
      1. With m = mean(x^2), drrms/dm = -rrms^3 / 2 and dm/dx = 2 x / C. So dx gets, through rrms,
         sum(dx_hat * x) * (-rrms^3 / 2) * 2 x / C = -rrms * x_hat * mean(dx_hat * x_hat)
    It is layer norm's gradient without the mean: only the direction that scales the row is projected out of dx_hat.
    Forward is in float64, in which the square of 1e25 fits.
    """

    saves_inputs = True

    def forward(self, x, weight=None, *, eps=1e-5):
        wide = x.astype(np.float64)
        rrms = 1 / np.sqrt(row_mean(wide * wide) + eps)  # 1
        x_hat, rrms = (wide * rrms).astype(x.dtype), rrms.astype(x.dtype)  # 2
        self.save(x, weight, x_hat, rrms)
        return x_hat if weight is None else x_hat * weight

    def backward(self, dout, x, weight, x_hat, rrms):
        dweight = column_sum(dout * x_hat)  # 2
        dx_hat = dout if weight is None else dout * weight
        return rrms * (dx_hat - x_hat * row_mean(dx_hat * x_hat)), dweight  # 2, 1
