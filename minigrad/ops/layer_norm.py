"""Layer normalisation over the last axis (Ba, Kiros and Hinton, arXiv:1607.06450)."""
import numpy as np

from ..tape import Fused
from .reduce import column_sum, row_mean
from .statistics import centred


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
    """

    saves_inputs = True

    def forward(self, x, weight=None, bias=None, *, eps=1e-5):
        c = centred(x.astype(np.float64), axis=-1)  # 1
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
