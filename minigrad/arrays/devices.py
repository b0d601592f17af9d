"""The only device, "cpu": what code written for several devices needs, and a one-line error for any other."""
import types
from typing import Any, Final

import numpy as np

from .dtypes import as_dtype

OTHERS = "cuda", "hip", "hpu", "meta", "mps", "mtia", "tpu", "xla", "xpu"  # devices of other libraries


class device:
    """A device, by name; "cpu" is the only one.

    >>> device("cpu"), device("cpu").type
    (device(type='cpu'), 'cpu')
    >>> device("cuda:0")
    Traceback (most recent call last):
    ...
    RuntimeError: device 'cuda:0' is not available: "cpu" is the only one
    """

    type: Final = "cpu"
    index: Final = None

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if not isinstance(type, device) and type not in ("cpu", "cpu:0") or index not in (None, 0):
            named = type if index is None else f"{type}:{index}"
            raise RuntimeError(f'device {named!r} is not available: "cpu" is the only one')

    def __enter__(self) -> "device":
        """New tensors are on this device, inside `with` as elsewhere."""
        return self

    def __exit__(self, *_: Any) -> None: pass

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, device) or other == "cpu"

    def __hash__(self) -> int:
        return hash("cpu")

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __str__(self) -> str:
        return "cpu"


CPU: Final = device()


def set_float32_matmul_precision(precision: str) -> None:
    """Change nothing: PyTorch may then round the factors of matrix products, which stay float32 here."""


def dtype_of_to(target: Any, dtype: Any = None, to_device: Any = None) -> np.dtype | None:
    """The dtype that to(target, dtype, device=to_device) asks for, or None; target may be a dtype or a device."""
    if isinstance(target, np.dtype) and to_device is None:  # the usual case
        return as_dtype(target)
    if isinstance(target, (device, int)) or isinstance(target, str) and target.partition(":")[0] in ("cpu", *OTHERS):
        target, to_device = None, target
    if to_device is not None:
        device(to_device)
    dtype = target if dtype is None else dtype
    return None if dtype is None else as_dtype(dtype)


class NoAccelerator:
    """`cuda`, `accelerator`, `backends.mps`: none is available. Seeding, synchronising and settings do nothing."""

    matmul: Final = types.SimpleNamespace()  # of backends.cuda, for allow_tf32

    def is_available(self) -> bool: return False
    def is_built(self) -> bool: return False
    def is_bf16_supported(self) -> bool: return False
    def device_count(self) -> int: return 0
    def current_accelerator(self) -> None: return None
    def manual_seed(self, seed: int) -> None: pass
    def manual_seed_all(self, seed: int) -> None: pass
    def synchronize(self) -> None: pass
    def empty_cache(self) -> None: pass

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f'{name!r} is not available: "cpu" is the only device', name=name, obj=self)


cuda: Final = NoAccelerator()
accelerator = cuda
backends: Final = types.SimpleNamespace(cuda=cuda, mps=cuda, cudnn=types.SimpleNamespace())
