"""Layer normalisation over the last axis (Ba, Kiros and Hinton, arXiv:1607.06450)."""
import numpy as np

from ..kernels import layer_norm as kernels
from ..kernels.buffers import empty_like
from ..kernels.rows import as_rows
from ..tape import Fused


class LayerNorm(Fused):
    """out = x_hat * weight + bias, x_hat = (x - mean(x)) * rstd, rstd = 1 / sqrt(variance(x) + eps):
    dbias = columnsum(dout),  dweight = columnsum(dout * x_hat),  dx_hat = dout * weight,
    dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))

    Forward, for each row of C elements: 1. mean  2. rstd = 1 / sqrt(variance + eps)  3. x_hat  4. scale and shift.
    Backward, in reverse, with c = x - mean, so that x_hat = c * rstd (sums over the row where nothing else is said):
      4. dbias = columnsum(dout),  dweight = columnsum(dout * x_hat)  (the sums over all rows),  dx_hat = dout * weight
      3. drstd = sum(dx_hat * c),  dc = dx_hat * rstd
      2. drstd/dvariance = -rstd^3 / 2, and variance = mean(c^2), so dvariance/dc = 2 c / C. Through rstd, dc gets
         drstd * (-rstd^3 / 2) * 2 c / C = -rstd^3 * c * mean(dx_hat * c) = -rstd * x_hat * mean(dx_hat * x_hat)
      1. dx = dc - mean(dc), as each x also goes into the mean, which is taken off all; the mean of x_hat is 0, so
            dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat))
         Taken out of dx_hat is what only shifts the row or scales it: those do not change x_hat.
    Saves x, mean and rstd; recomputes x_hat. What has arrived for x on other ways is added in the same pass.
    """

    by_kernels = True
    accumulates_into = 0  # as in x + f(layer_norm(x)), where the gradient of the sum is there already

    @staticmethod
    def definition(x, weight=None, bias=None, *, eps=1e-5):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(centred * centred, axis=-1, keepdims=True)
        out = centred / np.sqrt(variance + eps)
        out = out if weight is None else out * weight
        return out if bias is None else out + bias

    def forward(self, x, weight=None, bias=None, *, eps=1e-5):
        x_rows = as_rows(x)
        out = empty_like(x)
        mean, rstd = np.empty((2, len(x_rows)))
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        shift = np.zeros(x.shape[-1], x.dtype) if bias is None else bias
        kernels.layer_norm_forward(x_rows, scale, shift, as_rows(out), mean, rstd, eps)
        self.save(x, weight, bias, mean, rstd)
        return out

    def backward(self, dout, x, weight, bias, mean, rstd, accumulated=None):
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        dx = empty_like(x)
        dweight, dbias = np.empty((2,) + scale.shape, x.dtype)
        accumulated = dx[:0] if accumulated is None else accumulated
        kernels.layer_norm_backward(as_rows(dout), as_rows(x), scale, mean, rstd, accumulated.reshape(-1), as_rows(dx),
                                    dweight, dbias)
        return dx, dweight, dbias
