"""The arrays that tensors hold: their four dtypes, and conversion to them."""
from typing import Any, Final

import numpy as np

from .. import backend
from ..backend import is_tensor
from . import float_errors

float32: Final = np.dtype("float32")
float64: Final = np.dtype("float64")
int64: Final = np.dtype("int64")
bool_: Final = np.dtype("bool")
DTYPES: set[np.dtype] = {float32, float64, int64, bool_}
# PyTorch's other dtypes exist as names only: as_dtype refuses them. NumPy has no bfloat16.
float16: Final = np.dtype("float16")
int32: Final = np.dtype("int32")
int16: Final = np.dtype("int16")
int8: Final = np.dtype("int8")
uint8: Final = np.dtype("uint8")
bfloat16: Final = "bfloat16"


def as_dtype(dtype: Any) -> np.dtype:
    """One of the four dtypes, in native byte order; TypeError for any other.

    >>> as_dtype(">f4")
    dtype('float32')
    """
    if isinstance(dtype, np.dtype) and dtype in DTYPES:
        return dtype
    try:
        native = np.dtype(dtype).newbyteorder("=")
    except TypeError:  # NumPy does not know it, such as bfloat16
        native = dtype
    if native not in (float32, float64, int64, bool_):
        raise TypeError(f"a tensor is of float32, float64, int64 or bool, not of {native}")
    return native


def as_array(data: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """The array that a tensor of `data` holds: float32, float64, int64 or bool, in native byte order.

    An array that already is one of these is shared, unless `copy` is True. Python floats become float32, integers int64.

    >>> as_array([1.0, 2.0]).dtype, as_array(np.arange(3, dtype=np.uint8)).dtype
    (dtype('float32'), dtype('int64'))
    """
    if is_tensor(data):
        data = data.array
    try:
        array = np.array(data, copy=copy)
    except ValueError as error:
        raise ValueError(f"a tensor needs rows of equal length: {error}") from None
    if dtype is None:
        kind = array.dtype.kind
        if kind == "f":
            is_python = not isinstance(data, (np.ndarray, np.generic))
            dtype = float32 if is_python or array.dtype.itemsize < 8 else float64
        elif kind in "iu":
            dtype = int64
        elif kind == "b":
            dtype = bool_
        else:
            raise TypeError(
                f"a tensor holds floats, integers or booleans, got {array.dtype} from {type(data).__name__}"
            )
    else:
        dtype = as_dtype(dtype)
    return array if array.dtype == dtype else converted(array, dtype)


@float_errors.ignored
def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The values in another dtype, without warnings where they do not fit."""
    return backend.astype(array, dtype, "C" if 0 in array.strides else "K")  # an expanded array has no order of its own
