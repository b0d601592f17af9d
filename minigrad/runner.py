"""Who does what a Python thread computes.

The engine hands its work to the thread's `Runner`: an op forward or backward, a gradient that arrives at a leaf, any
other function of arrays. It also tells the runner when Python reads values, or does what happens only once.

- `EAGER`, which runs where nothing else was asked for, does the work and no more.
- An `Observer` looks on inside a `with` block: `detect_anomaly`, `count_flops` and `trace` are such.
- `Capture` (fast/compiling/capture.py) writes the work down, so that `compile` can do it again.
"""
import contextlib
import functools
import operator
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import backend
from .arrays import versions
from .backend import is_tensor
from .per_thread import this_thread
from .tape import taken


class Runner:
    """Does the work."""

    def forward(self, op, inputs: Sequence, arrays: Sequence, options: dict) -> np.ndarray:
        """The output of an op for these inputs: Tensors and others; `arrays` are theirs."""
        return op.forward(*arrays, **options)

    def made(self, tensor):
        """A Tensor has been made of a result."""
        return tensor

    def early(self, roots: dict) -> dict:
        """Which leaves come earlier in a walk from these roots than they are old: as if they had these orders."""
        return {}

    def backward(self, op, dout, sums: dict) -> tuple:
        """The gradients of an op's inputs; on the tape themselves if dout is a Tensor."""
        if type(dout) is not np.ndarray and is_tensor(dout):
            gradients = dout.through(op)
        elif op.accumulates_into is None or (accumulated := taken(op, sums)) is None:
            gradients = op.backward(dout, *op.saved)
        else:
            gradients = op.backward(dout, *op.saved, accumulated=accumulated)
        return gradients if type(gradients) is tuple else (gradients,)

    def run_hooks(self, node, gradient) -> Any:
        """What a node's hooks make of its gradient."""
        for hook in node.hooks:
            gradient = hook(gradient)
        return gradient

    def fit(self, gradient, parent, op, i: int) -> Any:
        """The gradient of op's input i in the shape and dtype of the value that it belongs to, which parent has."""
        if gradient.shape != parent.shape:
            gradient = self.call(unbroadcast, gradient, parent.shape, f"{op.title}, input {i}")
        return gradient if gradient.dtype == parent.dtype else self.call(_cast, gradient, parent.dtype)

    def add(self, total, gradient, is_fresh: bool) -> Any:
        """The sum of two gradients; in place if nobody else holds the first."""
        return self.call(operator.iadd if is_fresh and isinstance(total, np.ndarray) else operator.add, total, gradient)

    def accumulate(self, node, gradient, is_fresh: bool) -> None:
        """Add a gradient that arrived to `node.grad`, which is an array until somebody looks at it, then a Tensor.

        `is_fresh` says that nobody else holds the array. A gradient on the tape makes a new Tensor.
        """
        if type(gradient) is not np.ndarray and is_tensor(gradient):
            node.grad = gradient.clone() if node.grad is None else gradient + node.grad
        elif node.grad is None:
            node.grad = np.asarray(gradient) if is_fresh else backend.copied(gradient)
        elif is_tensor(node.grad):
            array = node.grad.array
            array += gradient
            versions.note_write(array)
        else:
            node.grad += gradient
        for hook in node.accumulation_hooks:
            hook()

    def differentiate(self, outputs: Sequence, inputs: Sequence) -> None:
        """Told before a walk back from these outputs, for these inputs or for the leaves."""

    def call(self, function: Callable, *arguments) -> Any:
        """function(*arguments), an array computed from arrays."""
        return function(*arguments)

    def compute(self, function: Callable, *values) -> Any:
        """The same of the arrays of Tensors, where Tensors are given."""
        return function(*[value.array if is_tensor(value) else value for value in values])

    def opaque(self, function: Callable, arguments: tuple, options: dict) -> Any:
        """function(*arguments, **options), which reads and writes Tensors in its own way."""
        return function(*arguments, **options)

    def notice(self, deed: str, tensor=None, instead: str | None = None) -> None:
        """Told what Python does itself, beside ops: READS a tensor, WRITES to one, ... One that cannot have it raises, and
        says what to do `instead`."""


EAGER = Runner()
READS, WRITES, SWITCHES = "reads a tensor", "writes to a tensor in place", "changes whether a tensor requires a gradient"


@contextlib.contextmanager
def textbook() -> Iterator[None]:
    """Ops that are applied inside, in this Python thread, run as `minigrad.ops` has them: in NumPy, and not as kernels.

    An op keeps the backward that it was applied with, so both are in NumPy if the whole of a step stands inside.

    >>> import minigrad as mg
    >>> with mg.textbook():
    ...     print(mg.tensor([0.0, 0.0]).softmax(0))
    tensor([0.5, 0.5])
    """
    notice("enters or leaves textbook()")
    backend.ask_threads()
    before, this_thread.is_textbook = this_thread.is_textbook, True
    try:
        yield
    finally:
        this_thread.is_textbook = before


class Observer(Runner):
    """Looks on, inside a `with` block, while the runner before does the work. Subclasses add to forward or backward."""

    _inner: Runner | None = None  # the runner before, inside the block

    def __enter__(self):
        if self._inner is not None:
            raise RuntimeError(f"{type(self).__name__}: this one is entered already; make another for the block inside")
        before = current()
        before.notice("observes operations (detect_anomaly, count_flops, trace)")
        self._inner = before
        this_thread.runner = self
        return self

    def __exit__(self, *exception):
        this_thread.runner = None if self._inner is EAGER else self._inner
        self._inner = None

    def forward(self, op, inputs, arrays, options):
        return self._inner.forward(op, inputs, arrays, options)

    def made(self, tensor):
        return self._inner.made(tensor)

    def backward(self, op, dout, sums):
        return self._inner.backward(op, dout, {})  # to see what each op makes by itself


def current() -> Runner:
    """The runner of this Python thread."""
    return this_thread.runner or EAGER


def compute(function: Callable, *values) -> Any:
    """function(*values), an array computed from arrays and from those of Tensors. A compiled step does it each time."""
    return current().compute(function, *values)


def opaque(function: Callable) -> Callable:
    """Decorate a function that reads and writes Tensors in its own way: a compiled step calls it each time."""

    @functools.wraps(function)
    def wrapper(*arguments, **options):
        runner = this_thread.runner
        return function(*arguments, **options) if runner is None else runner.opaque(function, arguments, options)

    return wrapper


def notice(deed: str, tensor=None, instead: str | None = None) -> None:
    """Tell the runner of this Python thread what Python does itself."""
    current().notice(deed, tensor, instead)


generation = 0  # incremented by changes that captured steps cannot detect, as when a module's attribute is set


def outdate() -> None:
    """Whatever has been captured has to be captured anew."""
    global generation
    generation += 1


def changes() -> int:
    """How often `outdate` was called: as when a module was given another attribute or hook."""
    return generation


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
        axes = tuple(range(extra)) + stretched
        gradient = gradient.sum(axes, keepdim=True) if is_tensor(gradient) else backend.sum(gradient, axes, True)
    return gradient.reshape(shape)


def _cast(gradient, dtype: np.dtype):
    return gradient.astype(dtype)
