"""Moving an axis to the end, where kernels work, and back."""
import numpy as np

from .kernels.buffers import are_contiguous, empty_like, in_order
from .kernels.rows import as_rows


def with_axis_last(x: np.ndarray, axis: int) -> np.ndarray:
    """np.moveaxis(x, axis, -1), a view, in a tenth of its time."""
    axes = list(range(x.ndim))
    axes.append(axes.pop(axis))
    return x.transpose(axes)


def with_last_axis_at(x: np.ndarray, axis: int) -> np.ndarray:
    """np.moveaxis(x, -1, axis), a view."""
    axes = list(range(x.ndim))
    axes.insert(axis % x.ndim, axes.pop())
    return x.transpose(axes)


def along_last_axis(kernel, dim: int, *arrays: np.ndarray) -> np.ndarray:
    """Run a kernel of (rows in, ..., rows out) with axis `dim` moved to the end; the result is a view, moved back."""
    if dim in (-1, arrays[0].ndim - 1) and are_contiguous(arrays):  # no need to move
        out = empty_like(arrays[0])
        kernel(*map(as_rows, arrays), as_rows(out))
        return out
    moved = [in_order(with_axis_last(a, dim)) for a in arrays]
    out = empty_like(moved[0])
    if out.size:
        kernel(*map(as_rows, moved), as_rows(out))
    return with_last_axis_at(out, dim)
