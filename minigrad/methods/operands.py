"""What may stand beside a Tensor in an expression, and how two operands find a common dtype."""
from typing import Any

import numpy as np

from .. import recording
from ..arrays import as_array, float32


def is_tensor(value: Any) -> bool:
    return hasattr(value, "apply_op")


def operand(value: Any):
    """A Tensor, a Python scalar (which never widens a dtype), or else an array."""
    if is_tensor(value) or type(value) in (int, float, bool):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return recording.call(as_array, value, None, True)  # a copy: the caller may write to his array before backward


def data_of(value: Any):
    """The array of a Tensor; anything else as it is."""
    return value.array if is_tensor(value) else value


def values_of(value: Any):
    """The array of a Tensor for Python that looks at it, which is refused in a compiled step; anything else as it is."""
    return value._values() if is_tensor(value) else value


def cast(value: Any, dtype: np.dtype):
    """A Tensor or an array in another dtype."""
    return value.to(dtype) if is_tensor(value) else value.astype(dtype, copy=False)


def floating(value: Any):
    """Integers and booleans as float32, for functions that give fractions."""
    if isinstance(value, (int, float)) or value.dtype.kind == "f":
        return value
    return cast(value, float32)


def promote(a, b):
    """Both in the dtype of their result: floats before integers, then arrays before single numbers, then the wider."""
    a_is_scalar, b_is_scalar = isinstance(a, (int, float)), isinstance(b, (int, float))
    if a_is_scalar or b_is_scalar:
        return (floating(a), floating(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)
    if a.dtype == b.dtype:
        return a, b
    dtype = common_dtype(a, b)
    return cast(a, dtype), cast(b, dtype)


def common_dtype(*values) -> np.dtype:
    """The dtype of what is made of these Tensors or arrays."""
    return max(values, key=lambda x: (x.dtype.kind == "f", x.ndim > 0, x.dtype.itemsize)).dtype


def broadcast_error(name: str, *values) -> ValueError:
    shapes = " and ".join(str(np.shape(data_of(value))) for value in values)
    return ValueError(
        f"{name}: shapes {shapes} do not broadcast; each pair of axes, counted from the last, must be equal or "
        "contain a 1"
    )


def check_dim(name: str, x, dim: int) -> int:
    """A valid axis, counted from the front."""
    if not -max(x.ndim, 1) <= dim < max(x.ndim, 1):
        raise IndexError(f"{name}: dim {dim} is out of range for a tensor of shape {x.shape}")
    return dim % max(x.ndim, 1)


def sizes(shape: tuple) -> tuple[int, ...]:
    """f(2, 3) and f((2, 3)) mean the same."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, range)):
        shape = shape[0]
    return tuple(int(n) for n in shape)
