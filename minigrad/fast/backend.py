"""The backend's array functions, with kernels and memory that is reused."""
from typing import Any, NoReturn

from numba.extending import typeof_impl

from ..arrays.bfloat16 import ONLY_STORES, BFloat16Array
from ..backend import replaced_by
from .kernels import copying
from .kernels.buffers import empty
from .pool import lasting


@typeof_impl.register(BFloat16Array)
def refuse(array: BFloat16Array, context: Any) -> NoReturn:
    """Called when a kernel gets such an array."""
    raise TypeError(ONLY_STORES)


replaced_by(empty=empty, lasting=lasting, copy=copying.copy, copied=copying.copied)
