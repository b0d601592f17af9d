"""The triangles beside a diagonal."""
from .rows import row_kernel
from .simd import constant_like, shift


@row_kernel
def triangle_forward(row, size, x, out, rows, diagonal, upper):
    """x, out (B * rows, C), matrices one below the other: out = x up to the diagonal and on it, or from it on, else 0"""
    middle, x, out = row % rows + diagonal, shift(x, row * size), shift(out, row * size)
    for j in range(size):
        out[j] = x[j] if (j >= middle if upper else j <= middle) else constant_like(out, 0)
