"""Tensor: an array that remembers how it was made.

A Tensor has `array`, a NumPy array, and `node`, its place on the tape: None if no gradient is wanted. Methods name an
operation; `apply_op` unwraps the arrays, runs it, wraps the result, and puts it on the tape. What an operation computes,
and its gradient, is in `ops`; what runs it, in runner.py.
Code that writes to `array` calls `versions.note_write`, which tells the tape; users write to the tensor, or to `x.data`.
"""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, Unpack

import numpy as np

from . import backend, ops, tape
from .arrays import float_errors, versions
from .arrays.annotations import DType, Device, Options, Size, TensorLike
from .arrays.devices import dtype_of_to
from .arrays.dtypes import as_array, check_fits, filled, float32, float64, not_a_shape
from .ops.operands import sizes
from .per_thread import this_thread
from .implementations import chosen, implementations, textbooks
from .replays import READS, SWITCHES, WRITES, notice, opaque
from .runner import EAGER, current
from .ops.kinds import Fused, View
from .tape import Node, Op

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
blank: Final = object.__new__  # makes an object without calling __init__
ONE = {dtype: np.ones((), dtype) for dtype in (float32, float64)}  # where backward starts


class Tensor(ops.Methods["Tensor"], backend.AnyTensor):
    """An n-dimensional array with gradients. Data is copied, except that of a Tensor, which is shared.

    As in PyTorch, lists and arrays become float32; `tensor(data)` keeps an array's dtype, integers and booleans. A Tensor
    keeps its own. TypeError for what may be a shape, which PyTorch also takes.

    >>> x = Tensor([1, 2], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    frozen: Node | None = None  # the node of a leaf while it does not require a gradient
    base: Tensor | None = None  # of a view: the tensor that has the memory, see ops/in_place.py
    base_node: Node | None = None  # the place of that when the view took its own
    made: int = 0  # the age of a tensor without a node, as `node.order` is with one

    def __init__(self, *data: TensorLike, requires_grad: bool = False, dtype: DType = None) -> None:
        given = not_a_shape("Tensor", data)
        is_shared = isinstance(given, Tensor)
        if dtype is None:
            dtype = given.dtype if is_shared else float32
        compute = this_thread.runner.compute if isinstance(given, (Tensor, np.ndarray)) else EAGER.compute
        self._array = compute(as_array, given, dtype, not is_shared or None)  # a replay reads a Tensor or array again
        self.node: Node | None = None
        self.made = versions.tick()
        if requires_grad:
            self.requires_grad_()

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype:
        """float32, float64, int64 or bool."""
        return self._array.dtype

    @property
    def array(self) -> np.ndarray:
        """The plain array, for the library."""
        return self._array

    @array.setter
    def array(self, array: np.ndarray) -> None:
        self._array, self.base = array, None
        versions.note_write()  # of no memory, but a cache of keys and values made with the parameters is outdated

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
        if requires_grad == (self.node is not None):
            return self
        notice(SWITCHES, self)
        if not requires_grad:
            if not self.is_leaf:
                raise RuntimeError("only leaf tensors can stop requiring a gradient; use detach() on a computed one")
            self.frozen, self.node = self.node, None
        else:
            if self._array.dtype.kind != "f":
                raise TypeError(f"only floating point tensors can require gradients, got {self.dtype}")
            is_thawed = self.frozen and (self.frozen.shape, self.frozen.dtype) == (self._array.shape, self._array.dtype)
            self.node = self.frozen if is_thawed else Node(self._array.shape, self._array.dtype)
            self.base = None  # a leaf is no view
        return self

    @property
    def is_leaf(self) -> bool:
        """Was it made by the user, not by an operation on something that requires a gradient?"""
        return not isinstance(self.node, Op)

    @property
    def grad_fn(self) -> Op | None:
        """The operation that made this, if it is on the tape."""
        return self.node if isinstance(self.node, Op) else None

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a computed tensor after retain_grad()."""
        notice("reads a gradient in Python")
        node = self.node or self.frozen
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
        node = self.node or self.frozen
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
        node = self.node or self.frozen
        gradient = None if node is None else node.grad
        return gradient.array if isinstance(gradient, Tensor) else gradient

    @opaque
    def _forget_gradient(self) -> None:
        node = self.node or self.frozen
        if node is not None:
            node.grad = None

    def retain_grad(self) -> None:
        """Keep the gradient of this computed tensor in `grad` too; leaves always do."""
        if self.node is None:
            raise RuntimeError("retain_grad: this tensor does not require a gradient")
        if not self.is_leaf:
            self.node.retains_grad = True

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
            runner.differentiate((self,), ())
            tape.walk({self.node: upstream}, runner, create_graph if retain_graph is None else retain_graph)
        finally:
            float_errors.restore(token)
            this_thread.grad_enabled = before

    def upstream(self, gradient: Tensor | None, on_tape: bool = False) -> np.ndarray | Tensor:
        """The checked gradient that backward starts with, by default 1; a Tensor if the walk is on the tape."""
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

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call hook(gradient) once the whole gradient of this tensor has arrived; what it returns replaces the gradient.

        >>> x = Tensor([3.0], requires_grad=True)
        >>> handle = x.register_hook(lambda gradient: gradient * 10.0)
        >>> (x * x).backward()
        >>> x.grad.item()
        60.0
        """
        if self.node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")

        def on_arrival(gradient):
            seen = gradient if isinstance(gradient, Tensor) else wrap(np.array(gradient))  # which the hook may write to
            result = hook(seen)
            if result is None:
                result = seen
            if not isinstance(result, Tensor) or result.shape != seen.shape:
                came = result.shape if isinstance(result, Tensor) else type(result).__name__
                raise RuntimeError(f"a hook must return None or a Tensor of shape {seen.shape}, got {came}")
            return result if isinstance(gradient, Tensor) else result.array.astype(gradient.dtype)

        return HookHandle(self.node, on_arrival)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> HookHandle:
        """Call hook(self) when backward has added the whole gradient of this leaf to `grad`.

        A compiled step calls it too, as soon as the gradient is complete, before those of earlier layers are computed.

        >>> x = Tensor([3.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
        >>> (x * x).backward()
        tensor([6.])
        """
        if self.node is None or not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors, or those that don't "
                               "require gradient")
        return HookHandle(self.node, functools.partial(hook, self), "accumulation_hooks")

    @property
    def name(self) -> str | None:
        """What error messages and `graph` call this tensor; set it on one that requires a gradient."""
        return self.node.name if self.node is not None else None

    @name.setter
    def name(self, name: str) -> None:
        if self.node is None:
            raise RuntimeError("only a tensor that requires a gradient has a place on the tape to name")
        self.node.name = name

    def _before(self) -> Tensor:
        """This tensor as input of an operation whose result overwrites it: on the tape a copy, which may be saved."""
        return wrap(self._array.copy(), self.node) if self.requires_grad and this_thread.grad_enabled else self

    def detach(self) -> Tensor:
        """The same data, off the tape: a constant that shares memory."""
        return self.constant(np.asarray, self)

    @staticmethod
    def apply_op(operation: type[Op], *inputs: Any, **options: Any) -> Tensor:
        """Run an operation on Tensors, arrays, scalars or None; on the tape if one of them requires a gradient."""
        runner = this_thread.runner
        arrays, wants_gradient = [], False
        for value in inputs:
            if isinstance(value, Tensor):
                arrays.append(value._array)
                if value.base is not None and value.base.node is not value.base_node and this_thread.grad_enabled:
                    value.follow()  # it is a view of what has been written to on the tape
                wants_gradient = wants_gradient or value.node is not None
            else:
                arrays.append(value)
        op = blank(chosen(operation, arrays) if operation in implementations else operation)
        if wants_gradient := wants_gradient and this_thread.grad_enabled:
            op.parents = places_of(inputs, arrays)
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
            tensor._find_base(inputs)
        return runner.made(tensor)

    def _find_base(self, inputs: Sequence[Any]) -> None:
        """Note of which input this is a view, if of any."""
        shown = self._array.base  # in NumPy, the base of a view of a view is the array that owns the memory
        for value in inputs:
            if isinstance(value, Tensor) and shown is not None and (shown is value._array or shown is value._array.base):
                self.base = value if value.base is None else value.base
                self.base_node = self.base.node

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

    # ------------------------------------------------------------------------------------------------ new tensors

    def new_tensor(
        self, data: TensorLike, dtype: DType = None, requires_grad: bool = False, device: Device = None
    ) -> Tensor:
        """A tensor with a copy of the data; this and the methods below use this tensor's dtype by default."""
        dtype = dtype_of_to(dtype or self.dtype, to_device=device)
        return Tensor(as_array(data, copy=True), requires_grad=requires_grad, dtype=dtype)

    def new_full(
        self, size: Size, fill_value: float, dtype: DType = None, requires_grad: bool = False, device: Device = None
    ) -> Tensor:
        """A tensor of this size in which all elements are fill_value."""
        dtype = dtype_of_to(dtype or self.dtype, to_device=device) or self.dtype
        return wrap(filled(sizes((size,)), fill_value, dtype)).requires_grad_(requires_grad)

    def new_zeros(self, *size: Size, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
        """A tensor of zeros."""
        return self.new_full(sizes(size), 0, dtype, **options)

    def new_ones(self, *size: Size, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
        """A tensor of ones."""
        return self.new_full(sizes(size), 1, dtype, **options)

    new_empty = new_zeros


def wrap(array: np.ndarray, node: Node | None = None) -> Tensor:
    """A Tensor of an array that is known to be valid: no checks, no copy."""
    tensor = blank(Tensor)
    tensor._array = array
    tensor.node = node
    if node is None:
        tensor.made = versions.tick()
    return tensor


apply: Final = Tensor.apply_op


def as_function(
    method: Callable[Concatenate[Tensor, Arguments], Result],
) -> Callable[Concatenate[Tensor | np.ndarray, Arguments], Result]:
    """mg.exp(x) of x.exp(): x may also be an array, and be given as `input=`, as in PyTorch."""

    @functools.wraps(method)
    def function(input, *args, **options):
        try:
            given = Tensor.constant(as_array, input, None, True) if isinstance(input, np.ndarray) else input
            return method(given, *args, **options)
        except AttributeError:
            if isinstance(input, (Tensor, np.ndarray)):
                raise
            came = type(input).__name__
            raise TypeError(f"{method.__name__} expects a Tensor, got {came}; make one with tensor()") from None

    return function


def giving_tensor(function: Callable[Arguments, Any]) -> Callable[Arguments, Tensor]:
    """A function of ops, which know no Tensor, for type checkers: it makes one."""
    return function


def is_tensor(value: Any) -> TypeIs[Tensor]:
    """Is it a Tensor?"""
    return isinstance(value, Tensor)


def places_of(inputs: Sequence[Any], arrays: list[Any]) -> tuple[Any, ...]:
    """The nodes of an operation's inputs, with None for those without a gradient.

    Saved arrays are recognised by identity. So in `arrays`, views replace one that occurs twice, as in x * x.detach().
    """
    if len(inputs) == 1:
        return (inputs[0].node,)
    parents = tuple([value.node if isinstance(value, Tensor) else None for value in inputs])
    if arrays[0] is arrays[1] or len(arrays) > 2 and len(set(map(id, arrays))) < len(arrays):
        places: dict[int, Node | None] = {}
        for i, array in enumerate(arrays):
            if isinstance(array, np.ndarray) and places.setdefault(id(array), parents[i]) is not parents[i]:
                arrays[i] = array.view()
    return parents


def _placed(place: Node | None, array: Any) -> Any:
    """A Tensor of this array at a place on the tape; without a place, the array itself."""
    return array if place is None else wrap(np.asarray(array), place)


class HookHandle:
    """A registered hook, which was appended to the tuple owner.attribute; `remove()` takes it out again."""

    def __init__(self, owner: Any, hook: Any, attribute: str = "hooks") -> None:
        notice("registers a hook")
        self._owner, self._hook, self._attribute = owner, hook, attribute
        setattr(owner, attribute, getattr(owner, attribute) + (hook,))

    def remove(self) -> None:
        """Take the hook out again."""
        hooks = getattr(self._owner, self._attribute)
        setattr(self._owner, self._attribute, tuple(hook for hook in hooks if hook is not self._hook))
