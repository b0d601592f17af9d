"""The triangles beside a diagonal."""
from .rows import row_kernel
from .simd import constant_like, shift


@row_kernel
def triangle_forward(row, size, x, out, rows, diagonal, upper):
    """x, out (B * rows, C), matrices one below the other: out = x up to the diagonal and on it, or from it on, else 0"""
    first = row % rows + diagonal + (0 if upper else 1)  # that is not below the diagonal, or of the lower triangle
    middle = min(max(first, 0), size)
    start, end = (middle, size) if upper else (0, middle)
    x, out = shift(x, row * size), shift(out, row * size)
    for j in range(0, start):
        out[j] = constant_like(out, 0)
    for j in range(start, end):
        out[j] = x[j]
    for j in range(end, size):
        out[j] = constant_like(out, 0)
