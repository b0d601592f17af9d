"""What runs the operations of a Python thread.

The engine passes its work to the thread's `Runner`: an op's forward or backward, a gradient that reaches a leaf, any
other function of arrays. It also tells the runner when Python reads values or does something that happens only once.

- `EAGER`, the default, only does the work.
- An `Observer` (observer.py) watches inside a `with` block: `detect_anomaly`, `count_flops` and `trace` are observers.
- `Capture` (fast/compiling/capture.py) records the work, so that `compile` can replay it.
"""
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from . import backend
from .arrays import versions
from .backend import is_tensor
from .per_thread import initially, this_thread
from .tape import Node, Op

class Runner:
    """Does the work."""

    def forward(self, op: Op, inputs: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        """The output of an op; `inputs` are Tensors and other values, `arrays` the arrays of the Tensors among them."""
        return op.forward(*arrays, **options)

    def made(self, tensor: Any) -> Any:
        """Called with each new Tensor that holds a result; returns the one to use."""
        return tensor

    def backward(self, op: Op, dout: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        """The gradients of an op's inputs, which are on the tape if dout is a Tensor."""
        if type(dout) is not np.ndarray and is_tensor(dout):
            gradients = dout.through(op)
        elif onto is None:
            gradients = op.backward(dout, *op.saved)
        else:
            gradients = op.backward(dout, *op.saved, onto=onto)
        return gradients if type(gradients) is tuple else (gradients,)

    def run_hooks(self, node: Node, gradient: Any) -> Any:
        """The gradient after all of the node's hooks."""
        for hook in node.hooks:
            gradient = hook(gradient)
        return gradient

    def fit(self, gradient: Any, parent: Node, op: Op, i: int) -> Any:
        """The gradient of op's input i in the shape and dtype of that input's node, parent."""
        if gradient.shape != parent.shape:
            gradient = self.call(unbroadcast, gradient, parent.shape, f"{op.title}, input {i}")
        return gradient if gradient.dtype == parent.dtype else self.call(_cast, gradient, parent.dtype)

    def add(self, total: Any, gradient: Any, in_place: bool) -> Any:
        """The sum of two gradients; if they are arrays, in a new one, or `in_place` of the first."""
        if is_tensor(total):
            return total + gradient
        return self.call(np.add, total, gradient, total if in_place else backend.empty(total.shape, total.dtype))

    def accumulate(self, node: Node, gradient: Any) -> None:
        """Add a gradient to `node.grad`, an array that others may hold; Tensor.grad makes one that the user may write to.

        A gradient on the tape makes a new Tensor.
        """
        known = node.grad
        if type(gradient) is not np.ndarray and is_tensor(gradient):
            node.grad = gradient.clone() if known is None else gradient + known
        elif known is None:
            array = np.asarray(gradient)
            node.grad = array if array.flags.carray else backend.copied(array)
        elif type(known) is np.ndarray:
            node.grad = known + gradient
        else:
            known.array[...] += gradient
            versions.note_write(known.array)
        for hook in node.accumulation_hooks:
            hook()

    def walk_begins(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Called before a walk back from these outputs to these inputs, or to the leaves."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(*arguments), an array computed from arrays."""
        return function(*arguments)

    def compute(self, function: Callable[..., Any], *values: Any) -> Any:
        """The same, but a Tensor among the values stands for its array."""
        return function(*[value.array if is_tensor(value) else value for value in values])

    def opaque(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """function(*arguments, **options), which reads and writes Tensors by itself."""
        return function(*arguments, **options)

    def notice(self, deed: str, tensor: Any = None, instead: str | None = None) -> None:
        """Called when Python does something outside of ops: READS a tensor, WRITES to one, ... A runner that cannot allow
        it raises an error, which says what to do `instead`."""


EAGER: Final = Runner()
initially(runner=EAGER)

def current() -> Runner:
    """The runner of this Python thread."""
    return this_thread.runner


def compute(function: Callable[..., Any], *values: Any) -> Any:
    """function(*values), an array; a Tensor among the values stands for its array."""
    return this_thread.runner.compute(function, *values)


def unbroadcast(gradient: Any, shape: tuple[int, ...], where: str = "unbroadcast") -> Any:
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
        axes = tuple(range(extra)) + stretched
        gradient = gradient.sum(axes, keepdim=True) if is_tensor(gradient) else backend.sum(gradient, axes, True)
    return gradient.reshape(shape)


def _cast(gradient, dtype: np.dtype):
    return gradient.astype(dtype)
