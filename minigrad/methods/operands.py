"""What may stand beside a Tensor in an expression, and how two operands find a common dtype."""
from typing import Any

import numpy as np

from ..arrays import as_array, bool_, float32, int64
from ..runner import compute

KINDS = "bif"  # of dtypes, the lowest first: booleans, integers, floats
NUMBERS = {bool: bool_, int: int64, float: float32}  # Python's, and what they are among themselves


def is_tensor(value: Any) -> bool:
    return hasattr(value, "apply_op")


def operand(value: Any):
    """A Tensor, a Python scalar (which never widens a dtype), or else an array."""
    if is_tensor(value) or type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    return compute(as_array, value, None, True)  # a copy: the caller may write to his array before backward


def data_of(value: Any):
    """The array of a Tensor; anything else as it is."""
    return value.array if is_tensor(value) else value


def values_of(value: Any):
    """The array of a Tensor for Python that looks at it, which is refused in a compiled step; anything else as it is."""
    return value._values() if is_tensor(value) else value


def cast(value: Any, dtype: np.dtype):
    """A Tensor or an array in another dtype; a Python number as it is."""
    if type(value) in NUMBERS:
        return value
    return value.to(dtype) if is_tensor(value) else value.astype(dtype, copy=False)


def floating(value: Any):
    """Integers and booleans as float32, for functions that give fractions."""
    return value if type(value) in NUMBERS or value.dtype.kind == "f" else cast(value, float32)


def promote(a, b):
    """Both in the dtype of their result; Python numbers stay, as they take it on. One of them is no number."""
    if type(a) in NUMBERS and b.dtype.kind == "f" or type(b) in NUMBERS and a.dtype.kind == "f":  # the usual case
        return a, b
    dtype = common_dtype(a, b)
    return cast(a, dtype), cast(b, dtype)


def common_dtype(*values) -> np.dtype:
    """The dtype of what is made of these Tensors, arrays and Python numbers: PyTorch's rules.

    Floats come before integers, those before booleans; then arrays before single elements, those before Python numbers;
    then the wider.
    """
    return max(map(_precedence, values))[-1]


def _precedence(value) -> tuple[int, int, int, np.dtype]:
    number = NUMBERS.get(type(value))
    if number is not None:
        return KINDS.index(number.kind), -1, 0, number
    dtype = value.dtype
    return KINDS.index(dtype.kind), value.ndim > 0, dtype.itemsize, dtype


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
