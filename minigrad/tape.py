"""The tape: which operation made which value, and the one walk back over it.

Every value that needs a gradient has a `Node`, the place where its gradient arrives: an `Op` if an operation made it, a
leaf if the user did. An `Op` points to the nodes of its inputs; nothing points the other way, so a graph that is no
longer used is freed at once, without the garbage collector.

This file knows no Tensor and no kernel. Gradients are arrays here (or anything that adds like arrays).
"""
import functools
import heapq
import inspect
import operator
import threading
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from . import float_errors, recording, watchers, writes
from .arrays import exact_sum, is_tensor


class Node:
    """Where the gradient of one value arrives: the value's shape and dtype, and its age on the tape."""

    grad = None  # what has accumulated here, for leaves and after retain_grad()
    retains_grad = False
    hooks: tuple[Callable, ...] = ()  # called with the whole gradient before it goes on; may replace it
    name: str | None = None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape = shape
        self.dtype = dtype
        self.order = writes.now()

    def accumulate(self, gradient, fresh: bool) -> None:
        """Add to `grad` a gradient that arrived; `fresh` says that nobody else holds this array.

        A Tensor, which is on the tape itself, is added to a new one, and kept as a copy: nobody else holds that either.
        """
        if is_tensor(gradient):
            self.grad = gradient.clone() if self.grad is None else gradient + self.grad
        elif self.grad is None:
            self.grad = np.asarray(gradient) if fresh else np.array(gradient, order="C")
        elif is_tensor(self.grad):  # somebody has looked at it
            self.grad.array += gradient
            writes.note_write(self.grad.array)
        else:
            self.grad += gradient

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, order=writes.now())  # what was pickled is as young as its copy


class Op(Node):
    """One application of a differentiable function: forward makes the output, backward the gradients of the inputs.

    A subclass writes, in NumPy's notation,

    - `forward(self, *arrays, **options)`: the output array. It calls `self.save(...)` with the arrays that backward
      needs, and keeps options as attributes. Inputs may also be Python scalars.
    - `backward(self, dout, *saved)`: one gradient per input, or None. A gradient may have the broadcast shape: the
      tape sums it. It may be `dout` or a view of it, but never a saved array. Where a gradient is expensive, ask
      `self.needs(i)` first.

    A primitive's backward runs on arrays and, to be differentiated itself, on Tensors: dout is one then, and so is each
    saved array that is an input or the output. A fused op is a subclass of `Fused`.
    """

    parents: tuple[Node | None, ...] = ()
    saved: tuple | None = ()
    made_at: str | None = None  # the line of the user's code, noted under detect_anomaly()
    fresh_gradients = False  # True: backward always returns new arrays, so they can be kept without a copy
    by_kernels = False  # True: contiguous arrays are computed by kernels alone, which `recording` can call again
    adds_to: int | None = None  # the input whose gradient so far backward takes as `so_far`, and adds to its own share
    is_replayed: bool | None = None  # in a recording: is forward called again in replays, or are kernels?

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

    def count(self, arrays: Sequence, output: np.ndarray) -> int:
        """How many multiply-adds forward took, for `count_flops`; 0 if there is no matrix product."""
        return 0

    def count_backward(self, multiply_adds: int) -> int:
        """How many backward takes: a product as large as forward's for each input that needs a gradient."""
        return multiply_adds * sum(parent is not None for parent in self.parents)

    def is_by_kernels(self, arrays: Sequence) -> bool:
        """Are these inputs computed by kernels alone? If some are copied on their way, or empty, they are not."""
        return self.by_kernels and are_contiguous(arrays)

    def record(self, parents: tuple[Node | None, ...], values: Sequence, options: dict, output: np.ndarray) -> None:
        """Put this application on the tape: its output will be differentiated. `values` are forward's inputs and result."""
        self.parents = parents
        self.shape = output.shape
        self.dtype = output.dtype
        self.order = writes.now()
        self.options = options
        if self.saved:  # to know the inputs and the output again among the saved arrays
            self.identities = tuple(map(id, values))

    @classmethod
    def call(cls, *inputs, **options):
        """Apply the operation inside a formula: to arrays, or recorded to Tensors."""
        for value in inputs:
            if is_tensor(value):
                return value.apply_op(cls, *inputs, **options)
        return cls.blank().forward(*inputs, **options)

    @classmethod
    def blank(cls) -> "Op":
        """An application to be: a Node in the making, that `record` completes if a gradient is wanted."""
        return cls.__new__(cls)

    def input_gradients(self, dout, so_far: np.ndarray | None = None) -> tuple:
        """One gradient per input, from backward; on the tape itself if dout is a Tensor. `so_far`: see `adds_to`."""
        if self.saved is None:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {self.title} has let its saved arrays go. Call "
                "backward(retain_graph=True) the first time, or compute the loss anew."
            )
        if writes.latest > self.order:
            self._check_saved()
        recorder = recording.state.recorder if recording.recorders else None
        if is_tensor(dout):
            if recorder is not None:
                raise RuntimeError("compile: create_graph=True cannot be replayed; don't compile this step")
            gradients = self._recorded_backward(dout)
        else:
            options = {} if so_far is None else {"so_far": so_far}
            if recorder is None:
                gradients = self.backward(dout, *self.saved, **options)
            else:
                gradients = recorder.backward(self, dout, options)
        if type(gradients) is not tuple:
            gradients = (gradients,)
        if len(gradients) != len(self.parents):
            raise RuntimeError(
                f"{self.title}.backward returned {len(gradients)} gradients for {len(self.parents)} inputs"
            )
        return gradients

    def _recorded_backward(self, dout):
        """Backward on Tensors. A saved array that is an input or the output takes its place on the tape again."""
        places = dict(zip(self.identities, self.parents + (self,))) if self.saved else {}
        saved = [dout.placed(array, places[id(array)]) if places.get(id(array)) else array for array in self.saved]
        return self.backward(dout, *saved)

    def _check_saved(self) -> None:
        for array in self.saved:
            if isinstance(array, np.ndarray) and writes.last_write(array)[0] > self.order:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"{self.title} has saved an array of shape {array.shape} that was written to afterwards; clone() it "
                    "before, or compute anew"
                )

    @property
    def title(self) -> str:
        return type(self).__name__

    def __repr__(self):
        return f"<{self.title}>"


class Identity(Op):
    """out = x, a place of its own on the tape"""

    def forward(self, x):
        return x

    def backward(self, dout):
        return dout


class Fused(Op):
    """An op whose backward is a kernel. It also says what it computes: `definition`, the same function in primitives.

    `definition(*inputs, **options)` runs on arrays and on Tensors. It is what a reader reads, what the tests hold the
    kernel against, and what is differentiated for gradients of gradients. `forward` saves all inputs first, in order,
    so that the definition can be run again.
    """

    fresh_gradients = True

    @staticmethod
    def definition(*inputs, **options):
        raise NotImplementedError

    def _recorded_backward(self, dout):
        """The gradient of the definition, between places of its own and the output."""
        places = [None] * len(self.parents)
        inputs = list(self.saved[: len(self.parents)])
        for i, parent in enumerate(self.parents):
            if parent is not None:
                places[i] = placed_now(parent, inputs[i])
                inputs[i] = dout.placed(inputs[i], places[i])
        with enable_grad():
            output = type(self).definition(*inputs, **self.options)
        wanted = [place for place in places if place is not None]
        found = iter(gradients({output.node: dout}, wanted, retain_graph=True))
        return tuple(None if place is None else next(found) for place in places)


def placed_now(parent: Node | None, array: np.ndarray) -> Node | None:
    """A new place on the tape for a value that has just been changed in place; none for a constant."""
    if parent is None:
        return None
    place = Identity.blank()
    place.record((parent,), (array, array), {}, array)
    return place


def tell_apart(arrays: list, parents: Sequence[Node | None]) -> None:
    """Give each input an array object of its own where one array has two places on the tape, as in x * x.detach():
    saved arrays are known again by their identity."""
    for i, array in enumerate(arrays):
        if isinstance(array, np.ndarray) and any(
            array is arrays[j] and parents[i] is not parents[j] for j in range(i)
        ):
            arrays[i] = array.view()


def are_contiguous(arrays: Sequence) -> bool:
    """Do kernels take all arrays among these as they are: in C order, aligned, writeable, not empty? They copy others."""
    return all(array.flags.carray and array.size for array in arrays if isinstance(array, np.ndarray))


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
        gradient = gradient.sum(axes, keepdim=True) if is_tensor(gradient) else exact_sum(gradient, axes)
    return gradient.reshape(shape)


@float_errors.ignored
def walk(
    roots: dict[Node, Any], retain_graph: bool, found: dict[Node, Any] | None = None, within: set[Node] = frozenset()
) -> None:
    """Send gradients back from the roots, and let them accumulate in the leaves (and where retain_grad() asks for it).

    With `found`, nothing accumulates; it is filled with the gradients of all nodes visited, which are those in `within`.

    A node may pass its gradient on only when all of it has arrived. With b = a + a and c = a * b, sending the gradient
    of c to a at once, and a's share onward, would miss what b still owes to a. A node is made after all of its inputs,
    so going from the youngest to the oldest is such an order, and a heap of the nodes reached so far gives it.
    """
    arrived = {node: (gradient, False) for node, gradient in roots.items()}
    youngest_first = [(-node.order, node) for node in arrived]
    heapq.heapify(youngest_first)
    watching = watchers.state.watchers
    call, recorder = recording.call, recording.current()
    while youngest_first:
        _, node = heapq.heappop(youngest_first)
        dout, fresh = arrived.pop(node)
        is_leaf = not isinstance(node, Op)
        if recorder is not None:
            recorder.check(node, is_leaf)
        for hook in node.hooks:
            dout, fresh = hook(dout), False
        if found is not None:
            found[node] = dout
        elif is_leaf or node.retains_grad:
            if recorder is None:
                node.accumulate(dout, fresh and is_leaf)
            else:
                recorder.accumulate(node, dout)
        if is_leaf:
            continue
        so_far = None if watching else _to_add_to(node, dout, arrived)  # watchers see what each op makes by itself
        shares = node.input_gradients(dout, so_far)
        for watcher in watching:
            watcher.backward(node, dout, shares)
        for i, parent in enumerate(node.parents):
            share = shares[i]
            if parent is None or share is None or found is not None and parent not in within:
                continue
            fresh = node.fresh_gradients
            if share.shape != parent.shape:
                share, fresh = call(unbroadcast, share, parent.shape, f"{node.title}, input {i}"), True
            if share.dtype != parent.dtype:
                share, fresh = call(_cast, share, parent.dtype), True
            if parent not in arrived:
                arrived[parent] = share, fresh
                heapq.heappush(youngest_first, (-parent.order, parent))
                continue
            if so_far is not None and i == node.adds_to:
                arrived[parent] = share, fresh  # the whole sum
                continue
            total, is_ours = arrived[parent]
            in_place = is_ours and isinstance(total, np.ndarray)
            arrived[parent] = call(operator.iadd if in_place else operator.add, total, share), True
        if not retain_graph and node.saved:
            node.saved = None


def _to_add_to(op: Op, dout, arrived: dict[Node, tuple[Any, bool]]) -> np.ndarray | None:
    """What has arrived for the input that op adds to, if it has and op's backward is a kernel's: see `Op.adds_to`."""
    if op.adds_to is None or op.parents[op.adds_to] not in arrived or is_tensor(dout):
        return None
    total, _ = arrived[op.parents[op.adds_to]]
    return total if isinstance(total, np.ndarray) and total.flags.carray else None


def _cast(gradient, dtype: np.dtype):
    return gradient.astype(dtype)


def gradients(roots: dict[Node, Any], wanted: Sequence[Node], retain_graph: bool) -> list:
    """The gradients of sum(value * gradient), over the roots, at the wanted nodes; None where nothing leads there.

    No `grad` is touched, and only nodes that lead to a wanted one are visited.
    """
    within = leading_to(wanted, roots)
    found = {}
    walk({root: gradient for root, gradient in roots.items() if root in within}, retain_graph, found, within)
    return [found.get(node) for node in wanted]


def leading_to(wanted: Sequence[Node], roots: Iterable[Node]) -> set[Node]:
    """The nodes between the roots and the wanted ones, both included: parents are older, so the oldest are judged first."""
    oldest = min((node.order for node in wanted), default=0)
    reached, waiting = set(roots), list(roots)
    while waiting:
        node = waiting.pop()
        for parent in node.parents if isinstance(node, Op) else ():
            if parent is not None and parent not in reached and parent.order >= oldest:
                reached.add(parent)
                waiting.append(parent)
    leading = set(wanted)
    for node in sorted(reached, key=lambda node: node.order):
        if isinstance(node, Op) and any(parent in leading for parent in node.parents):
            leading.add(node)
    return leading


# ------------------------------------------------------------------------------------------------ modes of a thread

class _GradMode(threading.local):
    enabled = True  # each Python thread starts with gradients on


mode = _GradMode()


def is_grad_enabled() -> bool:
    """Are operations of this Python thread recorded?"""
    return mode.enabled


class _GradModeBlock:
    """A `with` block, or the decorator of a function or generator, inside which the mode is `self.mode`."""

    mode: bool

    def __init__(self):
        self._before = []  # a stack, so that one object can be entered twice

    def __enter__(self):
        self._before.append(mode.enabled)
        mode.enabled = self.mode
        return self

    def __exit__(self, *exception):
        mode.enabled = self._before.pop()

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
            resume, sent = generator.send, None
            while True:
                with self._new():
                    try:
                        value = resume(sent)
                    except StopIteration as stop:
                        return stop.value
                    finally:
                        sent = None  # an exception would keep its frames alive
                try:
                    resume, sent = generator.send, (yield value)
                except GeneratorExit:
                    with self._new():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001  it is the generator's
                    resume, sent = generator.throw, error

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

