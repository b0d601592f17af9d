"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, the place where its gradient arrives: an `Op` if an operation made it, a
leaf if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no
longer used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays here (or anything that adds like arrays).
"""
import functools
import heapq
import inspect
import itertools
import threading
from typing import Any, Callable, Iterator

import numpy as np

_creation_order = itertools.count()


class Node:
    """Where the gradient of one value arrives: the value's shape and dtype, and its age on the tape."""

    grad = None  # what has accumulated here, for leaves and after retain_grad()
    retains_grad = False

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape = shape
        self.dtype = dtype
        self.order = next(_creation_order)

    def accumulate(self, gradient, fresh: bool) -> None:
        """Add to `grad` a gradient that arrived; `fresh` says that nobody else holds this array."""
        if self.grad is not None:
            self.grad += gradient
        else:
            self.grad = np.asarray(gradient) if fresh else gradient.copy()


class Op(Node):
    """One application of a differentiable function: forward makes the output, backward the gradients of the inputs.

    A subclass writes, in NumPy's notation,

    - `forward(self, *arrays, **options)`: the output array. It calls `self.save(...)` with the arrays that backward
      needs, and keeps options as attributes. Inputs may also be Python scalars.
    - `backward(self, dout, *saved)`: one gradient per input, or None. A gradient may have the broadcast shape: the
      tape sums it. It may be `dout` or a view of it, but never a saved array. Where a gradient is expensive, ask
      `self.needs(i)` first.

    A primitive's backward runs on arrays and on Tensors alike. A fused op is a subclass of `Fused`.
    """

    parents: tuple[Node | None, ...] = ()
    saved: tuple | None = ()
    fresh_gradients = False  # True: backward always returns new arrays, so they can be kept without a copy

    def __init__(self):  # a Node in the making: `record` completes it if a gradient is wanted
        pass

    def forward(self, *arrays, **options) -> np.ndarray:
        raise NotImplementedError

    def backward(self, dout, *saved) -> tuple:
        raise NotImplementedError

    def save(self, *arrays) -> None:
        """Keep arrays for backward; they are let go when backward has run."""
        self.saved = arrays

    def needs(self, i: int) -> bool:
        """Does input i need a gradient?"""
        return self.parents[i] is not None

    def record(self, parents: tuple[Node | None, ...], output: np.ndarray) -> None:
        """Put this application on the tape: its output will be differentiated."""
        self.parents = parents
        self.shape = output.shape
        self.dtype = output.dtype
        self.order = next(_creation_order)

    @classmethod
    def call(cls, *inputs, **options):
        """Apply the operation inside a formula: to arrays, or recorded to Tensors (whatever has `apply_op`)."""
        for value in inputs:
            if hasattr(value, "apply_op"):
                return value.apply_op(cls, *inputs, **options)
        return cls().forward(*inputs, **options)

    def input_gradients(self, dout) -> Iterator[tuple[Node, Any, bool]]:
        """(parent, its gradient, is it fresh), checked and un-broadcast, for each input that needs one."""
        if self.saved is None:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {type(self).__name__} has let its saved arrays "
                "go. Call backward(retain_graph=True) the first time, or compute the loss anew."
            )
        gradients = self.backward(dout, *self.saved)
        if type(gradients) is not tuple:
            gradients = (gradients,)
        if len(gradients) != len(self.parents):
            raise RuntimeError(
                f"{type(self).__name__}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs"
            )
        for i, (parent, gradient) in enumerate(zip(self.parents, gradients)):
            if parent is None or gradient is None:
                continue
            fresh = self.fresh_gradients
            if gradient.shape != parent.shape:
                gradient, fresh = unbroadcast(gradient, parent.shape, f"{type(self).__name__}, input {i}"), True
            if gradient.dtype != parent.dtype:
                gradient, fresh = gradient.astype(parent.dtype), True
            yield parent, gradient, fresh

    def __repr__(self):
        return f"<{type(self).__name__}>"


class Fused(Op):
    """An op whose backward is a kernel. It also says what it computes: `definition`, the same function in primitives.

    `definition(*inputs, **options)` runs on arrays and on Tensors. It is what a reader reads and what the tests hold
    the kernel against. `forward` saves all inputs first, in order, so that the definition can be run again.
    """

    fresh_gradients = True

    @staticmethod
    def definition(*inputs, **options):
        raise NotImplementedError


def unbroadcast(gradient, shape: tuple[int, ...], where: str = "unbroadcast"):
    """Sum a gradient over the axes along which its value was broadcast, back to the value's shape.

    If out[i, j] = x[j] then dx[j] = sum_i dout[i, j]: each copy sends its gradient back.

    >>> unbroadcast(np.ones((2, 3)), (1, 3))
    array([[2., 2., 2.]])
    """
    extra = gradient.ndim - len(shape)
    stretched = tuple(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1)
    if extra < 0 or any(n not in (1, gradient.shape[i + extra]) for i, n in enumerate(shape)):
        raise RuntimeError(f"{where}: a gradient of shape {gradient.shape} does not fit an input of shape {shape}")
    if extra or stretched:
        gradient = gradient.sum(axis=tuple(range(extra)) + stretched, keepdims=True)
    return gradient.reshape(shape)


def backward(root: Node, gradient, retain_graph: bool = False) -> None:
    """Send `gradient`, of the root's value, back to all leaves below it.

    A node may pass its gradient on only when all of it has arrived. With b = a + a and c = a * b, sending the gradient
    of c to a at once, and a's share onward, would miss what b still owes to a. A node is made after all of its inputs,
    so going from the youngest to the oldest is such an order, and a heap of the nodes reached so far gives it.
    """
    arrived = {root: (gradient, False)}
    youngest_first = [(-root.order, root)]
    while youngest_first:
        _, node = heapq.heappop(youngest_first)
        dout, fresh = arrived.pop(node)
        if not isinstance(node, Op):
            node.accumulate(dout, fresh)
            continue
        if node.retains_grad:
            node.accumulate(dout, fresh=False)
        for parent, share, fresh in node.input_gradients(dout):
            if parent not in arrived:
                arrived[parent] = share, fresh
                heapq.heappush(youngest_first, (-parent.order, parent))
            else:
                total, is_ours = arrived[parent]
                if is_ours and isinstance(total, np.ndarray):
                    total += share
                else:
                    total = total + share
                arrived[parent] = total, True
        if not retain_graph and node.saved:
            node.saved = None


class _GradMode(threading.local):
    enabled = True  # each Python thread starts with gradients on


_mode = _GradMode()


def is_grad_enabled() -> bool:
    """Are operations of this Python thread recorded?"""
    return _mode.enabled


class _GradModeBlock:
    """A `with` block, or the decorator of a function or generator, inside which the mode is `self.mode`."""

    mode: bool

    def __init__(self):
        self._before = []  # a stack, so that one object can be entered twice

    def __enter__(self):
        self._before.append(_mode.enabled)
        _mode.enabled = self.mode
        return self

    def __exit__(self, *exception):
        _mode.enabled = self._before.pop()

    def _new(self) -> "_GradModeBlock":
        return type(self)()

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self._new():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def wrapped_generator(*args, **kwargs):  # the mode holds while the generator runs, not while it waits
            generator = function(*args, **kwargs)
            while True:
                with self._new():
                    try:
                        value = next(generator)
                    except StopIteration as stop:
                        return stop.value
                yield value

        return wrapped_generator if inspect.isgeneratorfunction(function) else wrapped


class no_grad(_GradModeBlock):
    """Operations inside are not recorded: faster, and nothing is kept for backward.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    mode = False


class enable_grad(_GradModeBlock):
    """Operations inside are recorded, also within `no_grad`."""

    mode = True


class set_grad_enabled(_GradModeBlock):
    """Switch recording on or off, for this thread: from now on, or for a `with` block or a decorated function."""

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        super().__enter__()

    def __enter__(self):
        return self

    def _new(self):
        return set_grad_enabled(self.mode)

    def __call__(self, function: Callable) -> Callable:
        self.__exit__()
        return super().__call__(function)
