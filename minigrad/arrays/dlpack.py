"""Memory shared with other libraries, without a copy: `x.__dlpack__()`, which their from_dlpack() calls, and ours.

Writes through `x.data` or in place are noted on the tape (versions.py), whoever owns the memory. Those of another library
are not: then a backward that needs the old values computes a wrong gradient, which only `detect_anomaly()` detects. So
NumPy gets a read-only array (write through `x.data`). PyTorch knows no read-only memory. Two tensors made from one PyTorch
tensor count as two memories on the tape.

>>> import minigrad as mg
>>> x = mg.ones(3)
>>> array = np.from_dlpack(x)
>>> x.add_(1.0)
tensor([2., 2., 2.])
>>> array, array.flags.writeable
(array([2., 2., 2.], dtype=float32), False)
>>> mg.from_dlpack(np.zeros(2, np.int32))
Traceback (most recent call last):
...
TypeError: from_dlpack: tensors hold float32, float64, int64 or bool, not int32; convert it first, which makes a copy
"""
from typing import Any

import numpy as np

from ..backend import is_tensor
from .dtypes import bool_, float32, float64, int64

CPU_TYPE = 1  # kDLCPU
KNOWS_READ_ONLY = (1, 0)  # the first version that can mark memory as read-only


def exported(tensor: Any, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
    """The capsule that gives another library the tensor's memory; BufferError if it must not have it."""
    _check_constant(tensor)
    array = tensor._values().view()
    if any(stride < 0 for stride in array.strides):  # PyTorch would abort the process
        raise BufferError(f"dlpack: this tensor of shape {tensor.shape} has negative strides; clone() it first")
    if max_version is not None and max_version >= KNOWS_READ_ONLY:
        array.flags.writeable = False
    return array.__dlpack__(max_version=max_version, **options)


def imported(source: Any) -> Any:
    """An array that shares the memory of an array or a tensor of any library, of a dtype that a tensor can have."""
    if is_tensor(source):
        _check_constant(source)
        return source._values()
    array = np.asarray(source) if isinstance(source, np.ndarray) else _taken(source)  # the tape knows an array's memory
    if array.dtype not in (float32, float64, int64, bool_):
        raise TypeError(f"from_dlpack: tensors hold float32, float64, int64 or bool, not {array.dtype}; convert it first, "
                        "which makes a copy")
    return array


def _check_constant(tensor) -> None:
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


def _taken(source: Any) -> Any:
    """The memory that another library exports, as an array."""
    name = type(source).__name__
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: expected an array or a tensor with __dlpack__, got {name}")
    if source.__dlpack_device__()[0] != CPU_TYPE:
        raise BufferError(f'from_dlpack: this {name} is on another device than "cpu", the only one; move it there first')
    try:
        return np.from_dlpack(source)
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"from_dlpack: NumPy cannot read this {name}; tensors hold float32, float64, int64 or bool "
                        f"({error})") from None
