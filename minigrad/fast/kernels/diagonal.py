"""The triangles on either side of a diagonal."""
from .rows import row_kernel
from .simd import constant_like, shift


@row_kernel
def triangle_forward(row, size, x, out, rows, diagonal, upper):
    """x, out (B * rows, C), stacked matrices: out = x on the diagonal and below it, or above it if `upper`, else 0"""
    middle, x, out = row % rows + diagonal, shift(x, row * size), shift(out, row * size)
    for j in range(size):
        out[j] = x[j] if (j >= middle if upper else j <= middle) else constant_like(out, 0)
