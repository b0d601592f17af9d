"""Layer norm and RMS norm, over the last axis, and vectors of length 1, along any."""
import math

import numpy as np

from .kinds import Fused
from .comparison import Clamp
from .reduce import Norm, Sum, column_sum, row_mean
from .operands import call


class LayerNorm(Fused):
    """out = x_hat * weight + bias, x_hat = (x - mean(x)) * rstd, rstd = 1 / sqrt(variance(x) + eps):
    dbias = columnsum(dout),  dweight = columnsum(dout * x_hat),  dx_hat = dout * weight,
    dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))

    Forward, for each row of C elements: 1. mean  2. rstd = 1 / sqrt(variance + eps)  3. x_hat  4. scale and shift.
    Backward, in reverse, with c = x - mean, so that x_hat = c * rstd (sums are over the row unless stated otherwise):
      4. dbias = columnsum(dout),  dweight = columnsum(dout * x_hat)  (the sums over all rows),  dx_hat = dout * weight
      3. drstd = sum(dx_hat * c),  dc = dx_hat * rstd
      2. drstd/dvariance = -rstd^3 / 2, and variance = mean(c^2), so dvariance/dc = 2 c / C. Through rstd, dc gets
         drstd * (-rstd^3 / 2) * 2 c / C = -rstd^3 * c * mean(dx_hat * c) = -rstd * x_hat * mean(dx_hat * x_hat)
      1. dx = dc - mean(dc), as each x also goes into the mean, which is subtracted from all; the mean of x_hat is 0, so
            dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))
         This projects out of dx_hat the directions that only shift or scale the row, since those do not change x_hat.
    Steps 1 to 3 are in float64, in which the square of 1e25 fits, and a mean of 1e3 leaves all digits of c.
    Ba, Kiros and Hinton, arXiv:1607.06450.
    """

    saves_inputs = True

    def forward(self, x, weight=None, bias=None, *, eps=1e-5):
        wide = x.astype(np.float64)
        mean = row_mean(wide)  # 1
        c = wide - mean
        c = c - row_mean(c)  # what the rounding of the mean has left
        rstd = 1 / np.sqrt(row_mean(c * c) + eps)  # 2
        x_hat, rstd = (c * rstd).astype(x.dtype), rstd.astype(x.dtype)  # 3
        out = x_hat if weight is None else x_hat * weight  # 4
        out = out if bias is None else out + bias
        self.save(x, weight, bias, x_hat, rstd)
        return out

    def backward(self, dout, x, weight, bias, x_hat, rstd):
        dbias, dweight = column_sum(dout), column_sum(dout * x_hat)  # 4
        dx_hat = dout if weight is None else dout * weight
        along_x_hat = x_hat * row_mean(dx_hat * x_hat)  # 3, 2, 1
        return rstd * (dx_hat - row_mean(dx_hat) - along_x_hat), dweight, dbias


class RMSNorm(Fused):
    """out = x_hat * weight, x_hat = x * rrms, rrms = 1 / sqrt(mean(x^2) + eps):
    dweight = columnsum(dout * x_hat),  dx_hat = dout * weight,  dx = rrms * (dx_hat - x_hat * mean(dx_hat * x_hat))

    Forward, for each row of C elements: 1. rrms  2. x_hat, scaled. Backward, in reverse:
      2. dweight = columnsum(dout * x_hat),  drrms = sum(dx_hat * x),  and dx gets dx_hat * rrms
      1. With m = mean(x^2), drrms/dm = -rrms^3 / 2 and dm/dx = 2 x / C. So dx gets, through rrms,
         sum(dx_hat * x) * (-rrms^3 / 2) * 2 x / C = -rrms * x_hat * mean(dx_hat * x_hat)
    It is layer norm's gradient without the mean: only the direction that scales the row is projected out of dx_hat.
    Forward is in float64, in which the square of 1e25 fits. Zhang and Sennrich, arXiv:1910.07467.
    """

    saves_inputs = True

    def forward(self, x, weight=None, *, eps=1e-5):
        wide = x.astype(np.float64)
        mean_square = row_mean(wide * wide)
        rrms = 1 / np.sqrt(mean_square + eps)  # 1
        x_hat, rrms = (wide * rrms).astype(x.dtype), rrms.astype(x.dtype)  # 2
        self.save(x, weight, x_hat, rrms)
        return x_hat if weight is None else x_hat * weight

    def backward(self, dout, x, weight, x_hat, rrms):
        dweight = column_sum(dout * x_hat)  # 2
        dx_hat = dout if weight is None else dout * weight
        return rrms * (dx_hat - x_hat * row_mean(dx_hat * x_hat)), dweight  # 2, 1


class Normalize(Fused):
    """out = x / n,  n = sqrt(sum(x^2)), sums along dim:  dx = (dout - out * sum(dout * out)) / n

    d(out_j)/d(x_i) is ([i = j] n - x_j dn/dx_i) / n^2, and dn/dx_i = x_i / n: that is ([i = j] - out_i out_j) / n.
    So the component along out is projected out of dout, as the length of out is fixed. Where n is less than eps, it is
    replaced by eps, a constant: dx = dout / eps. Saves x, out and n.
    """

    saves_inputs = True

    def forward(self, x, *, dim=-1, eps=1e-12):
        self.dim, self.eps = dim, eps
        norms = call(Norm, x, axis=dim, keepdims=True)
        lengths = call(Clamp, norms, low=eps, high=math.inf)
        out = x / lengths
        self.save(x, out, lengths)
        return out

    def backward(self, dout, x, out, lengths):
        along_out = np.where(lengths > self.eps, call(Sum, dout * out, axis=self.dim, keepdims=True), 0.0)
        return (dout - out * along_out) / lengths
