"""Layer norm and RMS norm with kernels."""
import numpy as np

from ..ops import layer_norm
from ..implementations import implements
from .kernels import layer_norm as kernels
from .pool import empty_like
from .kernels.rows import as_rows


@implements(layer_norm.LayerNorm)
class LayerNorm(layer_norm.LayerNorm):
    """Saves mean and rstd, and recomputes x_hat."""

    by_kernels = True

    def forward(self, x, weight=None, bias=None, *, eps=1e-5):
        x_rows = as_rows(x)
        out = empty_like(x)
        mean, rstd = np.empty(2 * len(x_rows)), np.empty(len(x_rows))
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        shift = np.zeros(x.shape[-1], x.dtype) if bias is None else bias
        kernels.layer_norm_forward(x_rows, scale, shift, as_rows(out), mean, rstd, eps)
        self.save(x, weight, bias, mean, rstd)
        return out

    def backward(self, dout, x, weight, bias, mean, rstd):
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        dx = empty_like(x)
        dweight, dbias = np.empty((2,) + scale.shape, x.dtype)
        kernels.layer_norm_backward(as_rows(dout), as_rows(x), scale, mean, rstd, as_rows(dx), dweight, dbias)
        return dx, dweight, dbias


@implements(layer_norm.RMSNorm)
class RMSNorm(layer_norm.RMSNorm):
    """Saves rrms, and recomputes x_hat."""

    by_kernels = True

    def forward(self, x, weight=None, *, eps=1e-5):
        x_rows = as_rows(x)
        out = empty_like(x)
        rrms = np.empty(len(x_rows))
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        kernels.rms_norm_forward(x_rows, scale, as_rows(out), rrms, eps)
        self.save(x, weight, rrms)
        return out

    def backward(self, dout, x, weight, rrms):
        scale = np.ones(x.shape[-1], x.dtype) if weight is None else weight
        dx, dweight = empty_like(x), np.empty(x.shape[-1], x.dtype)
        kernels.rms_norm_backward(as_rows(dout), as_rows(x), scale, rrms, as_rows(dx), dweight)
        return dx, dweight
