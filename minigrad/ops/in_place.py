"""Writing to a tensor's memory: x.exp_() puts x.exp() there, on the tape."""
from typing import Self

import numpy as np

from ..arrays import versions
from ..arrays.versions import check_current
from ..arrays.dtypes import as_array
from ..backend import is_tensor
from ..per_thread import this_thread
from ..runner import WRITES, notice
from ..tape import Op
from .comparison import Where
from .numpy_protocol import named
from .operands import data_of, scaled


class Identity(Op):
    """out = x, at a new place on the tape:  dx = dout"""

    passes_gradient = True

    def forward(self, x):
        return x

    def backward(self, dout):
        return dout


def in_place(name: str):
    """The method `name_`: the result of the method `name` is written to the tensor itself."""

    def method(self, *arguments, **options):
        return self.write(getattr(self._before(), name)(*arguments, **options))

    return named(method, f"{name}_")


class InPlaceMethods:
    def write(self, result, is_there: bool = False) -> Self:
        """Put a result, a Tensor or an array of the same shape, into this tensor's memory, as all in-place methods do.

        On the tape, the result's place becomes this tensor's. Afterwards, the backward of an operation that saved the old
        data raises an error, and so does using a view of this memory. A leaf that requires a gradient can only be written
        to under no_grad(). `is_there`: the op itself has written its result into this memory.
        """
        self._check_writable()
        node, array = result.node if is_tensor(result) else None, data_of(result)
        on_tape = this_thread.grad_enabled and (self.node is not None or node is not None)
        if this_thread.grad_enabled:
            check_current("in place", (result,))
        if array.shape != self.shape:
            raise ValueError(f"in place: a result of shape {array.shape} does not fit into a tensor of {self.shape}")
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise TypeError(f"in place: result type {array.dtype} can't be cast to {self.dtype}")
        if on_tape and node is None:  # a constant, so that the old value gets gradient zero
            node = self.apply_op(Where, array.astype(self.dtype), self, condition=np.True_).node
        if not is_there:
            self._array[...] = array
        versions.note_write(self._array, is_on_tape=on_tape)
        if on_tape:
            self.node = Identity.blank()
            self.node.parents = (node,)
            self.node.record((), {}, self._array)
        return self

    def _check_writable(self) -> None:
        """RuntimeError if this memory must not be written to now."""
        notice(WRITES)
        if this_thread.grad_enabled and self.is_leaf and self.node is not None:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation; do it under no_grad(), or "
                "make a new tensor"
            )
        if not self._array.flags.writeable:
            raise RuntimeError(
                "unsupported operation: this memory cannot be written to; as after expand(), one element may appear in "
                "several places. clone() the tensor first"
            )

    abs_, ceil_, floor_, frac_, neg_, pow_, reciprocal_, remainder_, round_, sign_, square_, trunc_ = map(in_place, (
        "abs", "ceil", "floor", "frac", "neg", "pow", "reciprocal", "remainder", "round", "sign", "square", "trunc"))
    cos_, exp_, log_, log1p_, rsqrt_, sigmoid_, sin_, sqrt_, tanh_ = map(in_place, (
        "cos", "exp", "log", "log1p", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"))
    addcdiv_, addcmul_, clamp_, clip_, lerp_, masked_fill_, nan_to_num_, relu_, tril_, triu_ = map(in_place, (
        "addcdiv", "addcmul", "clamp", "clip", "lerp", "masked_fill", "nan_to_num", "relu", "tril", "triu"))
    div_, index_add_, mul_, scatter_, scatter_add_ = map(in_place, ("div", "index_add", "mul", "scatter", "scatter_add"))

    def add_(self, other, *, alpha: float = 1) -> Self: return self.write(self._before() + scaled(other, alpha))
    def sub_(self, other, *, alpha: float = 1) -> Self: return self.write(self._before() - scaled(other, alpha))
    __iadd__, __isub__, __imul__, __itruediv__ = add_, sub_, mul_, div_

    def fill_(self, value: float) -> Self: return self.write(np.full(self.shape, value, self.dtype))
    def zero_(self) -> Self: return self.fill_(0)

    def copy_(self, source) -> Self:
        """Take the values of the source, broadcast, in this dtype."""
        source = source if is_tensor(source) else self.constant(as_array, source, None, True)
        return self.write(source.to(self.dtype).expand(self.shape))
