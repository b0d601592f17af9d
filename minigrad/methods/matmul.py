"""Matrix products."""
import math
from typing import Sequence

import numpy as np

from .. import ops
from .operands import check_dim, is_tensor, operand


def as_tensors(a, b) -> tuple:
    """Both as Tensors, if one of them is."""
    tensor = a if is_tensor(a) else b
    return tuple(x if is_tensor(x) else tensor.constant(np.asarray, operand(x)) for x in (a, b))


def matmul(a, b):
    """The matrix product of (..., M, K) and (..., K, N), leading axes broadcast; a 1-d factor is a row or a column.

    >>> from minigrad import tensor
    >>> matmul(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    a, b = as_tensors(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(f"matmul: both arguments need at least one axis, got shapes {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise TypeError(
            f"matmul: expected both of the same dtype, got {a.dtype} and {b.dtype}; convert one with .to(dtype)"
        )
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(f"mat1 and mat2 shapes cannot be multiplied ({a.shape} and {b.shape}): inner sizes differ")
    row, column = a.ndim == 1, b.ndim == 1
    try:
        out = a.apply_op(ops.MatMul, a.unsqueeze(0) if row else a, b.unsqueeze(1) if column else b)
    except ValueError:
        raise ValueError(f"matmul: leading axes of {a.shape} and {b.shape} do not broadcast") from None
    out = out.squeeze(-1) if column else out
    return out.squeeze(-1 if column else -2) if row else out


def tensordot(a, b, dims: int | Sequence[Sequence[int]] = 2):
    """The products of a and b, summed over pairs of axes: dims = (axes of a, axes of b).

    A number of pairs stands for the last axes of a and the first of b. The result has the other axes of a, then of b.

    >>> from minigrad import ones
    >>> tensordot(ones(2, 3, 4), ones(4, 5, 2), ((0, 2), (2, 0))).shape
    (3, 5)
    """
    a, b = as_tensors(a, b)
    if isinstance(dims, (int, np.integer)):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {dims} axes cannot be summed over, of shapes {a.shape} and {b.shape}")
        dims = range(a.ndim - dims, a.ndim), range(dims)
    over_a, over_b = ([check_dim("tensordot", x, d) for d in np.atleast_1d(over).tolist()] for x, over in zip((a, b), dims))
    if any(len(set(over)) < len(over) for over in (over_a, over_b)):
        raise ValueError(f"tensordot: an axis is summed over twice in {over_a} or {over_b}")
    if [a.shape[d] for d in over_a] != [b.shape[d] for d in over_b]:
        raise ValueError(f"tensordot: axes {over_a} of {a.shape} and {over_b} of {b.shape} differ in length or number")
    rest_a, rest_b = ([d for d in range(x.ndim) if d not in over] for x, over in ((a, over_a), (b, over_b)))
    summed = math.prod(a.shape[d] for d in over_a)
    rows, columns = [a.shape[d] for d in rest_a], [b.shape[d] for d in rest_b]
    left = a.permute(rest_a + over_a).reshape(math.prod(rows), summed)
    right = b.permute(over_b + rest_b).reshape(summed, math.prod(columns))
    return matmul(left, right).reshape(rows + columns)


class MatmulMethods:
    def __matmul__(self, other): return matmul(self, other)
    def __rmatmul__(self, other): return matmul(other, self)

    def matmul(self, other):
        return matmul(self, other)

    def mm(self, other):
        """The product of two matrices."""
        return _product_of("mm", 2, self, other)

    def bmm(self, other):
        """The products of two stacks of matrices, (B, M, K) and (B, K, N)."""
        if self.shape[:1] != other.shape[:1]:
            raise ValueError(f"bmm: expected stacks of the same length, got {self.shape} and {other.shape}")
        return _product_of("bmm", 3, self, other)

    def dot(self, other):
        """The inner product of two vectors."""
        return _product_of("dot", 1, self, other)

    def mv(self, vector):
        """The product of a matrix and a vector."""
        if vector.ndim != 1:
            raise ValueError(f"mv: expected a vector, got shape {vector.shape}")
        return matmul(self, vector)

    def outer(self, other):
        """out_ij = self_i other_j, of two vectors."""
        if self.ndim != 1 or other.ndim != 1:
            raise ValueError(f"outer: expected 1-D tensors, got shapes {self.shape} and {other.shape}")
        return self.unsqueeze(1) * other

    def kron(self, other):
        """The Kronecker product: a copy of other, times it, for each element of self."""
        ndim = max(self.ndim, other.ndim)
        a, b = ((1,) * (ndim - x.ndim) + x.shape for x in (self, other))
        product = self.reshape([n for size in a for n in (size, 1)]) * other.reshape([n for size in b for n in (1, size)])
        return product.reshape([m * n for m, n in zip(a, b)])


def _product_of(name: str, ndim: int, a, b):
    if a.ndim != ndim or b.ndim != ndim:
        raise ValueError(f"{name}: expected {ndim}-D tensors, got shapes {a.shape} and {b.shape}")
    return matmul(a, b)
