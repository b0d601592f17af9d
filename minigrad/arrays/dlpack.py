"""Memory shared with other libraries, without a copy: `x.__dlpack__()`, which their from_dlpack() calls, and ours.

What is written through `x.data` or in place here is noted on the tape (versions.py), whoever owns the memory. What
another library writes is not: a backward that needs the old values gives a wrong gradient then, and only
`detect_anomaly()` finds that out. So NumPy gets an array that it cannot write to (`x.data` is for that). PyTorch cannot be
told: it takes all memory to be its own. Two tensors made from one tensor of PyTorch are, to the tape, two memories.

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
TypeError: from_dlpack: a tensor is of float32, float64, int64 or bool, not of int32; convert it before, which makes a copy
"""
from typing import Any

import numpy as np

from ..backend import is_tensor
from .dtypes import bool_, float32, float64, int64

CPU_TYPE = 1  # kDLCPU
UNDERSTANDS_READ_ONLY = (1, 0)  # the first version that has a mark for memory that must not be written to


def exported(tensor, max_version: tuple[int, int] | None = None, **options) -> Any:
    """The capsule that another library takes the tensor's memory from; BufferError if it should not."""
    _check_constant(tensor)
    array = tensor._values().view()
    if any(stride < 0 for stride in array.strides):  # on which PyTorch ends the process
        raise BufferError(f"dlpack: this tensor of shape {tensor.shape} goes backwards through memory; clone() it before")
    if max_version is not None and max_version >= UNDERSTANDS_READ_ONLY:
        array.flags.writeable = False
    return array.__dlpack__(max_version=max_version, **options)


def imported(source: Any) -> np.ndarray:
    """The array in the memory of an array or a tensor of any library, in one of a tensor's dtypes."""
    if is_tensor(source):
        _check_constant(source)
        return source._values()
    array = np.asarray(source) if isinstance(source, np.ndarray) else _taken(source)  # the tape knows an array's memory
    if array.dtype not in (float32, float64, int64, bool_):
        raise TypeError(f"from_dlpack: a tensor is of float32, float64, int64 or bool, not of {array.dtype}; convert it "
                        "before, which makes a copy")
    return array


def _check_constant(tensor) -> None:
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


def _taken(source: Any) -> np.ndarray:
    """What another library exports."""
    name = type(source).__name__
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: expected an array or a tensor, of any library that has __dlpack__, got {name}")
    if source.__dlpack_device__()[0] != CPU_TYPE:
        raise BufferError(f'from_dlpack: "cpu" is the only device, and this {name} is on another; move it there before')
    try:
        return np.from_dlpack(source)
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"from_dlpack: NumPy cannot take this {name}, as a tensor is of float32, float64, int64 or bool "
                        f"({error})") from None
