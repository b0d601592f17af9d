"""The arrays that tensors hold: their dtypes, conversion to them, and their memory."""
from collections.abc import Sequence
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
# PyTorch's other dtypes exist as names only: as_dtype refuses them.
float16: Final = np.dtype("float16")
int32: Final = np.dtype("int32")
uint8: Final = np.dtype("uint8")
bfloat16: Final = "bfloat16"  # which NumPy lacks; names autocast's precision
LEAST: Final = -(2**63)  # of int64


def as_dtype(dtype: Any) -> np.dtype:
    """One of a tensor's dtypes, in native byte order; TypeError for any other.

    >>> as_dtype(">f4")
    dtype('float32')
    """
    if isinstance(dtype, np.dtype) and dtype in DTYPES:
        return dtype
    try:
        native = np.dtype(dtype).newbyteorder("=")
    except TypeError:  # NumPy does not know it
        native = dtype
    if native not in (float32, float64, int64, bool_):
        instead = "; mg.autocast rounds the operands of products to it" if str(native) == bfloat16 else ""
        raise TypeError(f"tensors hold float32, float64, int64 or bool, not {native}{instead}")
    return native


def finfo(dtype: Any = float32) -> Any:
    """NumPy's limits of a floating-point dtype: eps, max, tiny, ..."""
    return np.finfo(dtype)


def as_array(data: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """The array that a tensor of `data` holds: float32, float64, int64 or bool, in native byte order.

    An array that already is one of these is shared, unless `copy` is True. Python floats become float32, integers int64.
    A Tensor in a list is a number. OverflowError for an integer that does not fit.

    >>> as_array([1.0, 2.0]).dtype, as_array(np.arange(3, dtype=np.uint8)).dtype
    (dtype('float32'), dtype('int64'))
    """
    if is_tensor(data):
        data = data.array
    if isinstance(data, (list, tuple)) and _holds_tensors(data):
        data = _with_numbers(data)
    try:
        array = np.array(data, copy=copy)
    except ValueError as error:
        raise ValueError(f"a tensor needs rows of equal length: {error}") from None
    fitting = _dtype_for(array, data)
    dtype = fitting if dtype is None else as_dtype(dtype)
    if array.dtype == dtype:
        return array
    if dtype is int64 is fitting:
        check_fits("a tensor", *_too_large(array, data)[:1])
    return converted(array, dtype)


def _holds_tensors(data: Sequence[Any]) -> bool:
    kinds = set(map(type, data))
    is_nested = any(issubclass(kind, (list, tuple)) for kind in kinds)
    return any(hasattr(kind, "apply_op") for kind in kinds) or is_nested and any(
        _holds_tensors(item) for item in data if isinstance(item, (list, tuple)))


def _with_numbers(data: Any) -> Any:
    """Nested lists with numbers in place of Tensors, which have one element."""
    if isinstance(data, (list, tuple)):
        return list(map(_with_numbers, data))
    if is_tensor(data) and data.numel() != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars, got one of shape {data.shape} in a "
                         "list; use stack() or cat()")
    return np.asarray(data).reshape(()) if is_tensor(data) else data


def not_a_shape(name: str, given: tuple[Any, ...]) -> Any:
    """The only argument of a function that in PyTorch takes data or a shape; TypeError unless it must be data."""
    if len(given) == 1:
        sizes = given[0] if isinstance(given[0], tuple) else given
        if not all(isinstance(size, (int, np.integer)) for size in sizes):
            return given[0]
    raise TypeError(f"{name}: expected one list or array, got {given!r:.100}; for a shape use mg.empty or mg.zeros, for a "
                    "number or a tuple of numbers mg.tensor")


def _dtype_for(array: np.ndarray, data: Any) -> np.dtype:
    """The dtype of a tensor that holds this array, made from `data`."""
    kind, is_python = array.dtype.kind, not isinstance(data, (np.ndarray, np.generic))
    if kind in "fO" and is_python and _too_large(array, data).size:  # NumPy has chosen floats or objects
        return int64
    if kind == "f":
        return float32 if is_python or array.dtype.itemsize < 8 else float64
    if kind in "iu":
        return int64
    if kind == "b":
        return bool_
    raise TypeError(f"a tensor holds floats, integers or booleans, got {array.dtype} from {type(data).__name__}")


def _too_large(array: np.ndarray, data: Any) -> np.ndarray:
    """The integers in data that do not fit into int64, if all of it is integers; `array` is what NumPy made of it."""
    if array.dtype.kind == "f" and not (np.abs(array) >= -LEAST).any():
        return np.empty(0)
    numbers = np.asarray(data, object) if array.dtype.kind == "f" else array
    if array.dtype != np.uint64 and not all(isinstance(number, int) for number in numbers.flat):
        return np.empty(0)
    return numbers[(numbers < LEAST) | (numbers >= -LEAST)]


def check_fits(name: str, *values: Any) -> None:
    """OverflowError if a number among the values is an integer that int64 cannot hold, unless an array has floats."""
    if any(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in values):
        return
    for value in values:
        if isinstance(value, (int, np.unsignedinteger)) and not LEAST <= (number := int(value)) < -LEAST:
            shown = number if abs(number) < 2**64 else f"an integer of {number.bit_length()} bits"
            raise OverflowError(f"{name}: {shown} does not fit into int64, from -2^63 to 2^63 - 1; use floats")


@float_errors.ignored
def converted(array: Any, dtype: np.dtype) -> Any:
    """The values in another dtype, without warnings where they do not fit."""
    return array.astype(dtype, "C" if 0 in array.strides else "K")  # an expanded array has no order of its own


@float_errors.ignored
def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to bfloat16, the upper half of a float32: to nearest, ties to even; as its bits (uint16).

    >>> to_bfloat16(np.float32([1.0, -2.0, 3.1415])).tolist()
    [16256, 49152, 16457]
    """
    bits = array.view(np.uint32)
    rounded = np.asarray(bits >> 16 & 1)
    rounded += 0x7FFF
    rounded += bits
    rounded >>= 16
    nan = np.isnan(array)
    if nan.any():  # rounding could make them infinite
        rounded[nan] = bits[nan] >> 16 | 0x40
    return rounded.astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 numbers of these bits, without rounding.

    >>> from_bfloat16(np.uint16([16256, 49152, 16457])).tolist()
    [1.0, -2.0, 3.140625]
    """
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def filled(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    """A long-lived array of this shape in which all elements are `value`."""
    array = backend.lasting(shape, dtype)
    array[...] = as_array(value, dtype)
    return array
