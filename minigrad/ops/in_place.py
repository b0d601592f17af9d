"""Writing to a tensor's memory: x.exp_() puts x.exp() there.

On the tape, the tensor then has a new place, after the write: that of the value that is now in its memory. A write to a
view is one to the tensor that has the memory, its `base`, of which the rest stays as it was (`SetAt`). Other views show the
new value, too: when one is used next, it takes a new place after that of its base (`Index`), as if it was taken again.

What detach() gives is no view but a constant, whatever is written to its memory.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, Generic, ParamSpec

import numpy as np

from .. import backend
from ..arrays import versions
from ..arrays.annotations import Tensor, TensorLike
from ..arrays.dtypes import as_array, filled
from ..backend import is_tensor
from ..per_thread import Block, this_thread
from ..replays import WRITES, notice
from ..tape import Node
from .activations import ActivationMethods
from .arithmetic import ArithmeticMethods
from .comparison import ComparisonMethods
from .diagonal import DiagonalMethods
from .elementary import ElementaryMethods
from .gather import GatherMethods
from .indexing import Index, SetAt
from .numpy_protocol import named

class OutOfPlace(
    ActivationMethods[Tensor], ArithmeticMethods[Tensor], ComparisonMethods[Tensor], DiagonalMethods[Tensor],
    ElementaryMethods[Tensor], GatherMethods[Tensor],
):
    """The methods that have a form in place."""


Arguments = ParamSpec("Arguments")
OF_THE_TENSOR = {"name", "grad", "retains_grad"}  # attributes of its node


def index_of(view: np.ndarray, base: np.ndarray) -> tuple[np.ndarray | None, ...]:
    """The index so that base[index] has the elements that the view shows.

    >>> x = np.arange(6).reshape(2, 3)
    >>> index_of(x.T[1:], x)
    (array([[0, 1],
           [0, 1]]), array([[1, 1],
           [2, 2]]))
    """
    if not base.ndim:
        return (None,) * view.ndim
    first, _ = np.lib.array_utils.byte_bounds(base)
    rest = np.array(view.ctypes.data - first)  # of each element: how many bytes are still to go
    for n, stride in zip(view.shape, view.strides):
        rest = rest[..., None] + stride * np.arange(n)
    index = [np.zeros_like(rest)] * base.ndim
    for axis in sorted(range(base.ndim), key=lambda axis: -abs(base.strides[axis])):
        n, stride = base.shape[axis], base.strides[axis]
        if n > 1:
            steps, rest = np.divmod(rest, abs(stride))
            index[axis] = steps if stride > 0 else n - 1 - steps
    if rest.any() or any((i < 0).any() or (i >= n).any() for i, n in zip(index, base.shape)):
        raise RuntimeError("the tensor of which this is a view has other memory since; take the view again")
    return tuple(index)


def in_place(method: Callable[Concatenate[Any, Arguments], Any]) -> Callable[Concatenate[Tensor, Arguments], Tensor]:
    """The method `name_`: the result of the method `name` is written to the tensor itself."""

    def written(self: Any, *arguments: Arguments.args, **options: Arguments.kwargs) -> Any:
        x = self
        if this_thread.grad_enabled and any(is_tensor(y) and y.requires_grad for y in (x, *arguments, *options.values())):
            x = self.constant(backend.copied, self)  # on the tape, what is overwritten may be saved
            x.node = self.node
        return self.write(method(x, *arguments, **options))

    return named(written, f"{method.__name__}_", f"self.{method.__name__}() in this tensor's own memory, on the tape.")


class InPlaceMethods(Generic[Tensor]):
    node: Node | None  # of the Tensor, as are
    base: Tensor | None
    base_node: Node | None

    def write(self: Tensor, result: Tensor | np.ndarray) -> Tensor:
        """Put a result, a Tensor or an array of the same shape, into this tensor's memory, as all in-place methods do.

        Afterwards, the backward of an operation that saved the old data raises an error. A leaf that requires a gradient,
        or a view of it, can only be written to under no_grad().
        """
        self._check_writable()
        result = result if is_tensor(result) else self.constant(np.asarray, result)
        if result.shape != self.shape:
            raise ValueError(f"in place: a result of shape {result.shape} does not fit into a tensor of {self.shape}")
        if result.dtype != self.dtype and not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(f"in place: result type {result.dtype} can't be cast to {self.dtype}")
        if this_thread.grad_enabled and (self.requires_grad or result.requires_grad):
            self._place_after(result.to(self.dtype))
        self._array[...] = result._array
        versions.note_write(self._array)
        return self

    def _place_after(self: Tensor, result: Tensor) -> None:
        """Take a place on the tape after a write of the result to this memory; of a view, let its base take one."""
        base = self if self.base is None else self.base
        if base is not self:
            result = self.apply_op(SetAt, base, result, index=self._index_in_base(), is_checked=True)
        elif not result.requires_grad:  # set like an item, so that the old value gets gradient zero
            result = self.apply_op(SetAt, self, result, index=...)
        base.take_place(result.node)

    def find_base(self: Tensor, inputs: Sequence[Any]) -> None:
        """Note of which input this is a view, if of any."""
        shown = self._array.base  # in NumPy, the base of a view of a view is the array that owns the memory
        for value in inputs:
            if is_tensor(value) and shown is not None and (shown is value._array or shown is value._array.base):
                self.base = value if value.base is None else value.base
                self.base_node = self.base.node

    def follow(self: Tensor) -> None:
        """Take a place on the tape after that of this view's base, if that has a new one."""
        if self.base is not None and self.base.node is not self.base_node and self.base.node is not None:
            index = self._index_in_base()
            self.base_node = self.base.node  # first, since an observer may look at this tensor
            with Block("grad_enabled", True):
                self.take_place(self.apply_op(Index, self.base, index=index).node)

    def take_place(self: Tensor, node: Node) -> None:
        """Take this place on the tape, with what belongs to the tensor and not to its value."""
        if self.node is not None:
            moved = OF_THE_TENSOR & vars(self.node).keys()
            vars(node).update({attribute: vars(self.node).pop(attribute) for attribute in moved})
        self.node = node

    def _index_in_base(self: Tensor) -> tuple[np.ndarray | None, ...]:
        if self.node is None and self.base_node is not None:
            raise RuntimeError("in place: this view was taken under no_grad(), and it or its base is written to on the "
                               "tape; take it again, or detach() it for a constant")
        return index_of(self._array, self.base._array)

    def _check_writable(self: Tensor) -> None:
        """RuntimeError if this memory must not be written to now."""
        notice(WRITES)
        node = self.node if self.base is None else self.base.node
        if this_thread.grad_enabled and node is not None and node.is_leaf:
            raise RuntimeError(
                f"{'a' if self.base is None else 'a view of a'} leaf Variable that requires grad is being used in an "
                "in-place operation; do it under no_grad(), or make a new tensor, as clone() does"
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
