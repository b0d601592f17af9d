"""Products in bfloat16: `autocast`, also called `amp.autocast`, and which operations it changes.

    operation                                               operands    sums, results    gradients
    matmul, @, Linear, MLP, and einsum,
    where it is a matrix product                            bfloat16    float32          products, also rounded
    attention: q @ k^T and weights @ v                      bfloat16    float32          products, also rounded
    a step of Muon: the products of its iteration           bfloat16    float32
    dot, also as @ of two vectors, and everything else      float32     float32          float32
    anything in float64                                     float64     float64          float64

Operands are rounded to nearest, ties to even, while a product packs them, so parameters, activations, gradients and the
optimizer's state stay float32. Each op remembers whether its products are rounded, so backward may run outside the block.
With `create_graph=True`, backward consists of ops too, which are rounded if backward is called inside the block. Ops
applied inside `textbook()` are computed in float32, and so is their backward.
"""
from typing import Any

from ..arrays.dtypes import bfloat16
from ..ops.matmul import MatMul
from ..per_thread import Block, this_thread
from ..implementations import implementations


class autocast(Block):
    """Inside, in this Python thread, products of float32 matrices take operands rounded to bfloat16 and sum in float32.

    A context manager or a decorator, with PyTorch's arguments. In PyTorch results are bfloat16, here they are float32.
    `enabled=False` inside another block computes in float32 again. Bits do not depend on threads or on the processor, but
    speed does: products take about half the time where the processor has AVX512-BF16 (`minigrad info` says whether), and
    longer than in float32 where it has not.

    >>> import minigrad as mg
    >>> x = mg.tensor([[1.0, 2.0**-10]])
    >>> with mg.autocast("cpu", dtype=mg.bfloat16):
    ...     print((x @ mg.tensor([[1.0], [1 + 2.0**-10]])).item())  # 2^-10 is a bfloat16, 1 + 2^-10 is rounded to 1
    1.0009765625
    """

    def __init__(self, device_type: str, dtype: Any = bfloat16, enabled: bool = True, cache_enabled: bool | None = None):
        if str(device_type) != "cpu":
            raise ValueError(f"autocast: minigrad computes on the CPU, got device_type={device_type!r}; use 'cpu'")
        if enabled and dtype is not None and dtype != bfloat16:
            raise TypeError(f"autocast: operands can be rounded to bfloat16, not to {dtype}; use dtype=minigrad.bfloat16")
        if enabled and MatMul not in implementations:
            raise RuntimeError("autocast: products in bfloat16 need the kernels, but Numba is missing or MINIGRAD_FAST=0")
        super().__init__("rounds_products", bool(enabled))


def precision() -> str:
    """What this Python thread multiplies float32 matrices in."""
    return "bfloat16" if this_thread.rounds_products else "float32"


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Does this Python thread round the operands of products?"""
    return this_thread.rounds_products
