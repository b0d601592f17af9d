"""Writing to a tensor's memory: x.exp_() puts x.exp() there, on the tape."""
from __future__ import annotations

from typing import Any, Callable, Concatenate, Final, Generic, ParamSpec

import numpy as np

from ..arrays import versions
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.versions import check_current
from ..arrays.dtypes import as_array, filled
from ..backend import is_tensor
from ..per_thread import this_thread
from ..replays import WRITES, notice
from ..tape import Node, Op
from .activations import ActivationMethods
from .arithmetic import ArithmeticMethods
from .comparison import ComparisonMethods, Where
from .diagonal import DiagonalMethods
from .elementary import ElementaryMethods
from .gather import GatherMethods
from .numpy_protocol import named
from .operands import data_of

class OutOfPlace(
    ActivationMethods[Tensor], ArithmeticMethods[Tensor], ComparisonMethods[Tensor], DiagonalMethods[Tensor],
    ElementaryMethods[Tensor], GatherMethods[Tensor],
):
    """The methods that have a form in place."""


Arguments = ParamSpec("Arguments")
OF_THE_TENSOR = {"name", "grad", "retains_grad"}  # attributes of its node


class Identity(Op):
    """out = x, at a new place on the tape:  dx = dout"""

    def forward(self, x):
        return x

    def backward(self, dout):
        return dout


def next_place(node: Node | None, array: np.ndarray, before: Node | None = None) -> Node:
    """A new place on the tape, right after that of the node, for the same value. It takes over what belongs to the tensor
    whose place was `before`."""
    new = object.__new__(Identity)
    new.parents = (node,)
    new.record((), {}, array)
    if before is not None:
        moved = OF_THE_TENSOR & vars(before).keys()
        vars(new).update({attribute: vars(before).pop(attribute) for attribute in moved})
    return new


def in_place(method: Callable[Concatenate[Any, Arguments], Any]) -> Callable[Concatenate[Tensor, Arguments], Tensor]:
    """The method `name_`: the result of the method `name` is written to the tensor itself."""

    def written(self: Any, *arguments: Arguments.args, **options: Arguments.kwargs) -> Any:
        return self.write(method(self._before(), *arguments, **options))

    return named(written, f"{method.__name__}_", f"self.{method.__name__}() in this tensor's own memory, on the tape.")


class InPlaceMethods(Generic[Tensor]):
    node: Node | None  # of the Tensor

    def write(self: Tensor, result: Tensor | np.ndarray, is_there: bool = False) -> Tensor:
        """Put a result, a Tensor or an array of the same shape, into this tensor's memory, as all in-place methods do.

        On the tape, the result's place becomes this tensor's. Afterwards, the backward of an operation that saved the old
        data raises an error, and so does using a view of this memory. A leaf that requires a gradient, or a view of it, can
        only be written to under no_grad(). `is_there`: the op itself has written its result into this memory.
        """
        self._check_writable()
        node, array = result.node if is_tensor(result) else None, data_of(result)
        on_tape = this_thread.grad_enabled and (self.node is not None or node is not None)
        if this_thread.grad_enabled:
            check_current("in place", (result,))
        if array.shape != self.shape:
            raise ValueError(f"in place: a result of shape {array.shape} does not fit into a tensor of {self.shape}")
        if array.dtype != self.dtype and not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise TypeError(f"in place: result type {array.dtype} can't be cast to {self.dtype}")
        if on_tape and node is None:  # a constant, so that the old value gets gradient zero
            node = self.apply_op(Where, array.astype(self.dtype), self, condition=np.True_).node
        if not is_there:
            self._array[...] = array
        versions.note_write(self._array, is_on_tape=on_tape)
        if on_tape:
            self.node = next_place(node, self._array, self.node)
        return self

    def _check_writable(self: Tensor) -> None:
        """RuntimeError if this memory must not be written to now."""
        notice(WRITES)
        node = self.node
        if this_thread.grad_enabled and node is not None and (node.is_leaf or node.shows_leaf):
            raise RuntimeError(
                f"{'a' if node.is_leaf else 'a view of a'} leaf Variable that requires grad is being used in an in-place "
                "operation; do it under no_grad(), or make a new tensor, as clone() does"
            )
        if not self._array.flags.writeable:
            raise RuntimeError(
                "unsupported operation: this memory cannot be written to; as after expand(), one element may appear in "
                "several places. clone() the tensor first"
            )

    add_: Final = in_place(OutOfPlace.add)
    sub_: Final = in_place(OutOfPlace.sub)
    mul_: Final = in_place(OutOfPlace.mul)
    div_: Final = in_place(OutOfPlace.div)
    addcdiv_: Final = in_place(OutOfPlace.addcdiv)
    addcmul_: Final = in_place(OutOfPlace.addcmul)

    exp_: Final = in_place(OutOfPlace.exp)
    sigmoid_: Final = in_place(OutOfPlace.sigmoid)
    sqrt_: Final = in_place(OutOfPlace.sqrt)
    tanh_: Final = in_place(OutOfPlace.tanh)
    relu_: Final = in_place(OutOfPlace.relu)

    clamp_: Final = in_place(OutOfPlace.clamp)
    masked_fill_: Final = in_place(OutOfPlace.masked_fill)
    index_add_: Final = in_place(OutOfPlace.index_add)
    scatter_: Final = in_place(OutOfPlace.scatter)
    scatter_add_: Final = in_place(OutOfPlace.scatter_add)

    __iadd__ = add_
    __isub__ = sub_
    __imul__ = mul_
    __itruediv__ = div_
    __ifloordiv__: Final = in_place(OutOfPlace.floor_divide)
    __imod__: Final = in_place(OutOfPlace.remainder)
    __ipow__: Final = in_place(OutOfPlace.pow)
    __iand__: Final = in_place(OutOfPlace.__and__)
    __ior__: Final = in_place(OutOfPlace.__or__)  # type: ignore[arg-type]  # mypy sees that of the class itself
    __ixor__: Final = in_place(OutOfPlace.__xor__)

    def fill_(self: Tensor, value: float) -> Tensor:
        """Set all elements to one value."""
        return self.write(filled(self.shape, value, self.dtype))

    def zero_(self: Tensor) -> Tensor:
        """Set all elements to 0."""
        return self.fill_(0)

    def copy_(self: Tensor, source: TensorLike) -> Tensor:
        """Take the values of the source, broadcast, in this dtype."""
        source = source if is_tensor(source) else self.constant(as_array, source, self.dtype, True)
        return self.write(source.to(self.dtype).expand(self.shape))
