"""Matrix products."""
import numpy as np

from .. import ops
from .operands import is_tensor, operand


def matmul(a, b):
    """The matrix product of (..., M, K) and (..., K, N), leading axes broadcast; a 1-d factor is a row or a column.

    >>> from minigrad import tensor
    >>> matmul(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    tensor = a if is_tensor(a) else b
    a, b = (x if is_tensor(x) else tensor.constant(np.asarray, operand(x)) for x in (a, b))
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


def _product_of(name: str, ndim: int, a, b):
    if a.ndim != ndim or b.ndim != ndim:
        raise ValueError(f"{name}: expected {ndim}-D tensors, got shapes {a.shape} and {b.shape}")
    return matmul(a, b)
