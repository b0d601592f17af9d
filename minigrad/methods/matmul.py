"""Matrix products."""
from .. import ops
from .operands import is_tensor, operand


def matmul(a, b):
    """The matrix product of (..., M, K) and (..., K, N), leading axes broadcast; a 1-d factor is a row or a column.

    >>> from minigrad import tensor
    >>> matmul(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    tensor = a if is_tensor(a) else b
    a, b = (x if is_tensor(x) else tensor.constant(operand(x)) for x in (a, b))
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
