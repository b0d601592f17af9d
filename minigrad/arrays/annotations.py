"""Types in annotations, for files that know no Tensor.

The methods below tensor.py are written for a type variable: it stands for the class that they become part of, which fills
it in, as in `class Tensor(Methods["Tensor"])`. So `self: Tensor` has all of that class's attributes.
"""
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, TypedDict

from numpy.typing import ArrayLike, DTypeLike

from .devices import device

Tensor = TypeVar("Tensor", bound=Any)
TensorLike: TypeAlias = ArrayLike  # an operand: a number, or what NumPy makes an array of, such as a Tensor
Axes: TypeAlias = int | Sequence[int]
Size: TypeAlias = int | Sequence[int]  # zeros(2, 3) and zeros((2, 3)) mean the same
DType: TypeAlias = DTypeLike | None
Device: TypeAlias = device | str | None


class Options(TypedDict, total=False):
    """Of a function that makes a tensor."""

    requires_grad: bool
    device: Device
