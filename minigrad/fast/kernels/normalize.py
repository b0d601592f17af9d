"""Rows divided by their norm."""
import numpy as np

from .rows import LEAST_SQUARES, row_dot, row_kernel, wide_moments
from .simd import constant_like, shift


@row_kernel
def normalize_forward(row, size, x, out, norms, eps):
    """x, out (N, C), norms (N,): 1. norm = sqrt(sum of x^2)  2. out = x / max(norm, eps)"""
    x, out = shift(x, row * size), shift(out, row * size)
    squares = np.float64(row_dot(x, x, size))
    if not LEAST_SQUARES < squares < np.inf:
        _, squares = wide_moments(x, 0.0, size)
    norms[row] = np.sqrt(squares)
    scale = constant_like(x, 1.0 / max(np.float64(norms[row]), eps))
    for j in range(size):
        out[j] = x[j] * scale


@row_kernel
def normalize_backward(row, size, dout, out, norms, dx, eps):
    """dout, out, dx (N, C), norms (N,): dx = (dout - out * (sum of dout * out)) / norm; dout / eps if eps > norm"""
    dout, out, dx = shift(dout, row * size), shift(out, row * size), shift(dx, row * size)
    norm = np.float64(norms[row])
    along = constant_like(out, 0) if norm < eps else row_dot(dout, out, size)
    scale = constant_like(out, 1.0 / max(norm, eps))
    for j in range(size):
        dx[j] = (dout[j] - out[j] * along) * scale
