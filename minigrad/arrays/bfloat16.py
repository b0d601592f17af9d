"""bfloat16, which NumPy lacks: the upper half of a float32. Tensors of it store numbers in two bytes each, and no more.

Such a tensor holds a `BFloat16Array` where others hold an `np.ndarray`. It can move numbers; everything else that an op or
NumPy asks of it, or of its dtype, raises ONLY_STORES. So ops need not know about it.
"""
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, Literal

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import float_errors

ONLY_STORES = "a bfloat16 tensor only stores numbers: minigrad computes in float32, so convert it with .float()"
ATTRIBUTES_OF_BITS = "shape", "ndim", "size", "strides", "flags", "nbytes", "ctypes"
MOVING_FUNCTIONS = {np.broadcast_to, np.copy, np.reshape, np.may_share_memory}


def _refusal(numpy_type: type, name: str) -> Exception:
    """The error for a missing attribute: TypeError for one that NumPy's class has, as something would compute with it.
    Special names are those that Python probes for."""
    is_probed = name.startswith("__") and not name.startswith("__array_")
    return TypeError(ONLY_STORES) if hasattr(numpy_type, name) and not is_probed else AttributeError(name)


def refuse(name: str, arrays: Iterable[Any]) -> None:
    """TypeError, which names the op, if there are bfloat16 numbers among its arrays."""
    if any(isinstance(array, BFloat16Array) for array in arrays):
        raise TypeError(f"{name}: {ONLY_STORES}") from None


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The bits (uint16) of float32 numbers, rounded to nearest, ties to even.

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


class BFloat16:
    """The dtype; `bfloat16` is the only one."""

    name: Final = "bfloat16"
    itemsize: Final = 2

    def newbyteorder(self, order: str) -> "BFloat16": return self
    def __eq__(self, other: Any) -> bool: return other is self or isinstance(other, str) and other == "bfloat16"
    def __hash__(self) -> int: return hash("bfloat16")
    def __reduce__(self) -> str: return "bfloat16"
    def __repr__(self) -> str: return "dtype('bfloat16')"
    def __str__(self) -> str: return "bfloat16"
    def __getattr__(self, name: str) -> Any: raise _refusal(np.dtype, name)  # as `kind`, for which ops ask


bfloat16: Final[Any] = BFloat16()  # a tensor's dtype is declared as NumPy's


LIMITS: Final = SimpleNamespace(  # those of NumPy's finfo
    bits=16, dtype=bfloat16, eps=2.0**-7, resolution=0.01, max=(2 - 2.0**-7) * 2.0**127, min=-(2 - 2.0**-7) * 2.0**127,
    tiny=2.0**-126, smallest_normal=2.0**-126, smallest_subnormal=2.0**-133,
)


class BFloat16Array(NDArrayOperatorsMixin):  # operators are ufuncs too
    """Numbers in bfloat16, as their bits: an array of uint16."""

    dtype: Final = bfloat16
    base: Final = None  # the tape keeps no bfloat16 numbers, so versions.py need not find the owner of their memory

    def __init__(self, bits: np.ndarray) -> None:
        self.bits = bits

    @classmethod
    @float_errors.ignored
    def rounded(cls, numbers: Any) -> "BFloat16Array":
        """Numbers of any dtype, in float32, rounded to nearest, ties to even, as in PyTorch; a BFloat16Array itself."""
        return numbers if isinstance(numbers, cls) else cls(to_bfloat16(np.asarray(numbers, np.float32)))

    def widened(self) -> np.ndarray:
        """The numbers in float32, without rounding."""
        return from_bfloat16(self.bits)

    def reshape(self, *shape: Any) -> "BFloat16Array": return BFloat16Array(self.bits.reshape(*shape))
    def transpose(self, *axes: Any) -> "BFloat16Array": return BFloat16Array(self.bits.transpose(*axes))
    def copy(self, order: Literal["C", "K"] = "C") -> "BFloat16Array": return BFloat16Array(self.bits.copy(order))
    def tolist(self) -> Any: return self.widened().tolist()
    def item(self) -> float: return self.widened().item()
    def __len__(self) -> int: return len(self.bits)

    def __getitem__(self, index: Any) -> "BFloat16Array":
        part = self.bits[index]
        if isinstance(part, np.generic):  # of one element; an ellipsis makes it a view
            part = self.bits[(*index, ...) if isinstance(index, tuple) else (index, ...)]
        return BFloat16Array(part)

    def __setitem__(self, index: Any, numbers: Any) -> None: self.bits[index] = BFloat16Array.rounded(numbers).bits

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES_OF_BITS:
            return getattr(self.bits, name)
        raise _refusal(np.ndarray, name)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray: raise TypeError(ONLY_STORES)
    def __array_ufunc__(self, *_: Any, **__: Any) -> Any: raise TypeError(ONLY_STORES)

    def __array_function__(self, function: Callable, types: Any, arguments: tuple, options: dict[str, Any]) -> Any:
        if function not in MOVING_FUNCTIONS:
            raise TypeError(ONLY_STORES)
        moved = function(*[x.bits if isinstance(x, BFloat16Array) else x for x in arguments], **options)
        return BFloat16Array(moved) if isinstance(moved, np.ndarray) else moved
