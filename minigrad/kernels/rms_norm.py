"""RMS norm over rows."""
import numpy as np

from .jit import jit
from .rows import row_dot
from .simd import constant_like


@jit
def rms_norm_row(x, weight, out, size, eps):
    """out = x / sqrt(mean of x^2 + eps) * weight, pointers to `size` elements"""
    scale = constant_like(x, 1.0 / np.sqrt(row_dot(x, x, size) / np.float64(size) + eps))
    for j in range(size):
        out[j] = x[j] * scale * weight[j]
