"""Tensor: an array that remembers how it was made.

A Tensor has `array`, a NumPy array, and `node`, its place on the tape: None if no gradient is wanted. Methods name an
operation; `apply_op` unwraps the arrays, runs it, wraps the result, and puts it on the tape. What an operation computes,
and its gradient, is in `ops`; what runs it, in runner.py.
Code that writes to `array` calls `versions.note_write`, for the tape to know that saved arrays have changed; users write
to the tensor, or to `x.data`.
"""
from __future__ import annotations

import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import numpy as np

from . import backend, ops, tape
from .appendix import Appendix
from .arrays import float_errors, versions
from .arrays.annotations import DType, TensorLike
from .arrays.dtypes import as_array, check_fits, float32, float64, not_a_shape
from .implementations import chosen, implementations, textbooks
from .ops.kinds import Fused, View
from .per_thread import this_thread
from .replays import READS, SWITCHES, WRITES, notice, opaque
from .runner import EAGER, current
from .tape import Node, Op

blank: Final = object.__new__  # makes an object without calling __init__
ONE = {dtype: np.ones((), dtype) for dtype in (float32, float64)}  # what backward starts with by default


def of_the_array(name: str, doc: str) -> Any:
    """A property that is the array's. It runs no Python code, as an op asks for several."""
    return property(attrgetter(f"_array.{name}"), doc=doc)


class Tensor(ops.Methods["Tensor"], Appendix["Tensor"], backend.AnyTensor):
    """An n-dimensional array with gradients. Data is copied, except that of a Tensor, which is shared.

    As in PyTorch, lists and arrays become float32; `tensor(data)` keeps an array's dtype, integers and booleans. A Tensor
    keeps its own. TypeError for what may be a shape, which PyTorch also takes.

    >>> x = Tensor([1, 2], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    leaf: Node | None = None  # of a leaf that has required a gradient: `node`, which is None while it does not
    base: Tensor | None = None  # of a view: the tensor that has the memory, see ops/in_place.py
    base_node: Node | None = None  # the node of `base` when this view took its own from there

    def __init__(self, *data: TensorLike, requires_grad: bool = False, dtype: DType = None) -> None:
        given = not_a_shape("Tensor", data)
        is_shared = isinstance(given, Tensor)
        if dtype is None:
            dtype = given.dtype if is_shared else float32
        compute = this_thread.runner.compute if isinstance(given, (Tensor, np.ndarray)) else EAGER.compute
        self._array = compute(as_array, given, dtype, not is_shared or None)  # a replay reads a Tensor or array again
        self.node: Node | None = None
        if requires_grad:
            self.become_leaf()

    shape: tuple[int, ...] = of_the_array("shape", "The length of each axis.")
    ndim: int = of_the_array("ndim", "The number of axes.")
    dtype: np.dtype = of_the_array("dtype", "float32, float64, int64 or bool.")

    @property
    def array(self) -> np.ndarray:
        """The plain array, for the library."""
        return self._array

    @array.setter
    def array(self, array: np.ndarray) -> None:
        self._array, self.base = array, None
        versions.note_write()  # no memory, but caches made from the old array are outdated

    def _values(self) -> np.ndarray:
        """The array, for Python code that reads its values; the runner is told."""
        notice(READS, self)
        return self._array

    # ------------------------------------------------------------------------------------------------ the tape

    @property
    def requires_grad(self) -> bool:
        """Will backward compute a gradient for it?"""
        self.follow()
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None: self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this a leaf whose gradient is wanted, or not."""
        if requires_grad == self.requires_grad:
            return self
        notice(SWITCHES, self)
        if requires_grad:
            self.become_leaf()
        elif self.is_leaf:
            self.node = None
        else:
            raise RuntimeError("only leaf tensors can stop requiring a gradient; use detach() on a computed one")
        return self

    def become_leaf(self) -> None:
        """Make this a leaf whose gradient is wanted."""
        if self._array.dtype.kind != "f":
            raise TypeError(f"only floating point tensors can require gradients, got {self.dtype}")
        if self.leaf is None or (self.leaf.shape, self.leaf.dtype) != (self.shape, self.dtype):
            self.leaf = Node(self.shape, self.dtype)
        self.node, self.base = self.leaf, None  # a leaf is no view

    @property
    def is_leaf(self) -> bool:
        """Was it made by the user, not by an operation on something that requires a gradient?"""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Op | None:
        """The operation that made this, if it is on the tape."""
        self.follow()
        return self.node if isinstance(self.node, Op) else None

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a computed tensor after retain_grad()."""
        notice("reads a gradient in Python")
        node = self.node or self.leaf
        if node is None or node.grad is None:
            if isinstance(node, Op) and not node.retains_grad:
                warnings.warn(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                    f"won't be populated during backward(): this one was made by {node.title}. Call retain_grad() on it "
                    "before backward(), or use the leaf that it was made from", stacklevel=2,
                )
            return None
        if isinstance(node.grad, np.ndarray):
            node.grad = wrap(node.grad.copy())  # others may hold the array
        return node.grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        node = self.node or self.leaf
        if gradient is None:
            self._forget_gradient()
            return
        notice(WRITES)
        if node is None:
            raise RuntimeError("this tensor does not require a gradient; call requires_grad_() first")
        if not isinstance(gradient, Tensor) or gradient.shape != self.shape:
            came = gradient.shape if isinstance(gradient, Tensor) else type(gradient).__name__
            raise ValueError(f"grad: expected a Tensor of shape {self.shape}, got {came}")
        if gradient.dtype != self.dtype:
            raise TypeError(f"grad: expected a {self.dtype} Tensor, like this one, got {gradient.dtype}; see .to(dtype)")
        node.grad = gradient

    def grad_array(self) -> np.ndarray | None:
        """The array of `grad`, for optimizers, which must not keep it: a compiled step may write to it again."""
        node = self.node or self.leaf
        gradient = None if node is None else node.grad
        return gradient.array if isinstance(gradient, Tensor) else gradient

    @opaque
    def _forget_gradient(self) -> None:
        node = self.node or self.leaf
        if node is not None:
            node.grad = None

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `grad` too; leaves always do."""
        if not self.requires_grad:
            raise RuntimeError("retain_grad: this tensor does not require a gradient")
        if self.grad_fn is not None:
            self.grad_fn.retains_grad = True

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False
    ) -> None:
        """Add d(sum of self * gradient)/d(leaf) to the `grad` of every leaf below. A scalar needs no gradient.

        `create_graph` puts the gradients themselves on the tape, to be differentiated again. `retain_graph`, by default
        the same, keeps what a second backward needs.

        >>> x = Tensor([3.0], requires_grad=True)
        >>> (x * x * x).backward()
        >>> x.grad.item()
        27.0
        """
        upstream = self.upstream(gradient, create_graph)
        before, this_thread.grad_enabled = this_thread.grad_enabled, create_graph
        token = float_errors.ignore()
        try:
            runner = this_thread.runner
            runner.walk_begins((self,), ())
            tape.walk({self.node: upstream}, runner, create_graph if retain_graph is None else retain_graph)
        finally:
            float_errors.restore(token)
            this_thread.grad_enabled = before

    def upstream(self, gradient: Tensor | None, on_tape: bool = False) -> np.ndarray | Tensor:
        """The checked gradient that backward starts with, by default 1; a Tensor if the walk is on the tape."""
        if self.base is not None:
            self.follow()
        if self.node is None:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn: nothing that this tensor was "
                "computed from has requires_grad=True, or it was computed under no_grad()"
            )
        if gradient is None:
            if self._array.size != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs; this one has shape {self.shape}: pass "
                    "a gradient of that shape, or reduce it to a scalar first"
                )
            array = ONE[self._array.dtype].copy().reshape(self._array.shape)  # a hook may write to it
        else:
            array = current().compute(as_array, gradient, self._array.dtype, True)
            if array.shape != self._array.shape:
                raise ValueError(f"backward: expected a gradient of shape {self.shape}, got {array.shape}")
        if not on_tape:
            return array
        return gradient.to(self.dtype) if isinstance(gradient, Tensor) else wrap(array)

    def detach(self) -> Tensor:
        """The same data, off the tape: a constant that shares memory."""
        return self.constant(np.asarray, self)

    @staticmethod
    def apply_op(operation: type[Op], *inputs: Any, **options: Any) -> Tensor:
        """Run an operation on Tensors, arrays, scalars or None; on the tape if one of them requires a gradient."""
        runner = this_thread.runner
        arrays, parents = [], []
        for value in inputs:
            if isinstance(value, Tensor):
                if value.base is not None and value.base.node is not value.base_node and this_thread.grad_enabled:
                    value.follow()  # it is a view of what has been written to on the tape
                arrays.append(value._array)
                parents.append(value.node)
            else:
                arrays.append(value)
                parents.append(None)
        op = blank(chosen(operation, arrays) if operation in implementations else operation)
        wants_gradient = this_thread.grad_enabled and parents.count(None) < len(parents)
        if wants_gradient:
            op.parents = tuple(parents)
            if (n := len(arrays)) == 2 and arrays[0] is arrays[1] or n > 2 and len(set(map(id, arrays))) < n:
                set_apart(arrays, parents)
        token = float_errors.ignore()
        try:
            result = runner.forward(op, inputs, arrays, options)
        except (TypeError, OverflowError):
            check_fits(op.title, *arrays)
            raise
        finally:
            float_errors.restore(token)
        out = result if type(result) is np.ndarray else np.asarray(result)  # NumPy turns 0-d results into scalars
        if out is arrays[0]:
            out = out.view()
        elif op.is_in_order and not out.flags.c_contiguous:
            out = runner.call(backend.copied, out)
        tensor = wrap(out, op if wants_gradient else None)
        if wants_gradient:
            op.record((*arrays, result), options, out)
        if isinstance(op, View):
            tensor.find_base(inputs)
        return runner.made(tensor)

    def through(self, op: Op) -> Any:
        """The gradients of op's inputs, on the tape, if this is the gradient of its output.

        Inputs and outputs among op's saved arrays get their places on the tape back. Anything else that op saved is
        recomputed, on the tape, by its forward.
        """
        kind = textbooks.get(type(op), type(op))
        if isinstance(op, Fused) and op.saves_inputs:
            again = blank(kind)
            again.parents = op.parents
            again.forward(*map(_placed, op.parents, op.saved), **op.options)
            return again.backward(self, *again.saved)
        places = dict(zip(op.identities, (*op.parents, op))) if op.saved else {}
        return kind.backward(op, self, *[_placed(places.get(id(array)), array) for array in op.saved])

    @staticmethod
    def constant(function: Callable[..., Any], *values: Any) -> Tensor:
        """function(*values) as a Tensor without a gradient; a Tensor among the values stands for its array."""
        runner = this_thread.runner
        return runner.made(wrap(np.asarray(runner.compute(function, *values))))


def wrap(array: np.ndarray, node: Node | None = None) -> Tensor:
    """A Tensor of an array that is known to be valid: no checks, no copy."""
    tensor = blank(Tensor)
    tensor._array = array
    tensor.node = node
    return tensor


apply: Final = Tensor.apply_op


def set_apart(arrays: list[Any], parents: list[Node | None]) -> None:
    """Put a view in place of an array that occurs twice, from different nodes, as in x * x.detach(): saved arrays are
    recognised by identity."""
    places: dict[int, Node | None] = {}
    for i, array in enumerate(arrays):
        if isinstance(array, np.ndarray) and places.setdefault(id(array), parents[i]) is not parents[i]:
            arrays[i] = array.view()


def _placed(place: Node | None, array: Any) -> Any:
    """A Tensor of this array at a place on the tape; without a place, the array itself."""
    return array if place is None else wrap(np.asarray(array), place)
