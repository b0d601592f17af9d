"""Types in annotations. Only type checkers import this: at run time nothing below tensor.py knows a Tensor.

Methods of Tensor that are written below it, such as those in ops/, annotate `self: Tensor`.
"""
from collections.abc import Sequence
from typing import TypeAlias, TypedDict

from numpy.typing import ArrayLike, DTypeLike

from ..random import Generator
from ..tensor import Tensor
from .devices import device

TensorLike: TypeAlias = Tensor | ArrayLike  # an operand: a Tensor, a number, or what NumPy makes an array of
Axes: TypeAlias = int | Sequence[int]
Size: TypeAlias = int | Sequence[int]  # zeros(2, 3) and zeros((2, 3)) mean the same
DType: TypeAlias = DTypeLike | None
Device: TypeAlias = device | str | None


class Options(TypedDict, total=False):
    """Of a function that makes a tensor."""

    requires_grad: bool
    device: Device


class RandomOptions(Options, total=False):
    """Of a function that draws one."""

    generator: Generator | None


__all__ = ["Axes", "DType", "Device", "Options", "RandomOptions", "Size", "Tensor", "TensorLike"]
