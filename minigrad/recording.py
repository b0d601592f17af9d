"""Recording a computation: each call that computes, on which arrays, so that it can be made again without the tape.

`minigrad.compile` (compiled.py) records and replays. Here is what the tape and the ops tell it while it records:

- an op that is `by_kernels` as the kernels that it launches, forward and backward;
- any other op as its own `forward` and `backward`, to be run again, with the result copied to where it was;
- what the tape adds up, and other functions of arrays, through `call`;
- what is to be run again as it stands, Python and all, such as an optimizer's step, through `as_it_is`.

Results lie in a pool of the recorder's own and are let go as ever, so memory is used again within the step. The recorded
calls refer to it by address only; what outlives the step, results and gradients, is copied out of it. What Python does
with values is not seen and cannot be replayed, so the values of Tensors are closed to it while a recording is made: see
`Closed`. What would make a replay another computation than the step itself is refused, or outdates the recording:

- a Tensor from outside that has another array or another place on the tape, or a hook: see `Recorder.sources`;
- an attribute of any module that has been set, or a hook registered: `outdate`.
"""
import contextlib
import functools
import sys
import threading
from typing import Any, Callable, Sequence

import numpy as np

from .arrays import is_tensor
from .kernels import jit
from .kernels.buffers import Pool, of_thread, with_strides_of


class _State(threading.local):
    def __init__(self):
        self.recorder: "Recorder | None" = None  # who records what this Python thread does
        self.thread = object()  # this thread, while it lives; the system gives its number to another one afterwards


state = _State()
recorders = 0  # of all threads: asking this first is cheaper
_counting = threading.Lock()
generation = 0  # counts what makes recordings out of date that they cannot see, as when a module's attribute is set


def outdate() -> None:
    """Whatever has been recorded has to be recorded anew."""
    global generation
    generation += 1


def current() -> "Recorder | None":
    """Who records what this Python thread does."""
    return state.recorder if recorders else None


def call(function: Callable, *arguments) -> Any:
    """function(*arguments), an array computed from arrays; again in each replay."""
    recorder = current()
    return function(*arguments) if recorder is None else recorder.call(function, *arguments)


def array_of(value: Any) -> Any:
    """The array of a Tensor, for `call`; anything else as it is. A recording holds as long as the Tensor has this array."""
    if type(value) is Closed or not is_tensor(value):
        return value
    recorder = current()
    if recorder is not None:
        recorder.note_source(value)
    return value.array


def as_it_is(function: Callable) -> Callable:
    """Decorate a function that reads and writes Tensors in its own way: a replay calls it again."""

    @functools.wraps(function)
    def wrapper(*arguments, **options):
        recorder = state.recorder
        return function(*arguments, **options) if recorder is None else recorder.as_it_is(function, arguments, options)

    return wrapper


def refuse(what: str, instead: str = "don't compile this step") -> None:
    """RuntimeError while a recording is made: it would happen only once, and not in a replay."""
    if state.recorder is not None:
        raise RuntimeError(f"compile: this step {what}, which a replay would not do; {instead}")


def refuse_write() -> None:
    """RuntimeError while a recording is made: a write in place is not an op."""
    refuse("writes to a tensor in place", "make a new tensor, or don't compile this step")


def refuse_look(array: Any) -> None:
    """RuntimeError while a recording is made: Python would see these values only once."""
    if recorders and state.recorder is not None:
        raise RuntimeError(
            f"compile: this step looks at the values of a tensor of shape {array.shape} in Python (as item(), bool(), "
            "numpy() or an index do), or writes to it in place; a replay would not. Return the tensor and look at it "
            "outside, or don't compile this step"
        )


class Closed:
    """The array of a Tensor while a recording is made: its form is known, but nobody may look at its values."""

    def __init__(self, array: np.ndarray):
        self._array, self._recorder = array, state.recorder
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size
        self.flags, self.strides, self.itemsize = array.flags, array.strides, array.itemsize

    def __len__(self) -> int:
        return len(self._array)

    def __getattr__(self, name: str):
        self._refuse()

    def _refuse(self, *arguments, **options):
        if self._recorder is state.recorder:
            refuse_look(self)
        raise RuntimeError("compile: this tensor was made while a step was recorded, and has no values; return what is "
                           "wanted outside")

    __array__ = __array_ufunc__ = __array_function__ = __getitem__ = __setitem__ = __iter__ = __bool__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __hash__ = None


def opened(value: Any) -> Any:
    """The array that is closed, or the value itself. RuntimeError if an earlier recording closed it: its memory is gone."""
    if type(value) is not Closed:
        return value
    if value._recorder is not state.recorder:
        value._refuse()
    return value._array


class _Address:
    """An array's place in memory, and nothing that keeps it alive."""

    def __init__(self, array: np.ndarray):
        self.__array_interface__ = array.__array_interface__


class Recorder:
    """The calls of a step in order, as (function, arguments), and the pool in which their results lie."""

    def __init__(self):
        self.pool = Pool(keeps_all=True)
        self.calls: list[tuple[Callable, Sequence]] = []
        self.is_differentiated = False  # has a gradient arrived at a leaf?
        self.sources: dict[int, tuple] = {}  # Tensors from outside, by id, with the array and the node that they had

    def __enter__(self) -> "Recorder":
        global recorders
        with _counting:
            recorders += 1
        self._pool_before, of_thread.pool, state.recorder = of_thread.pool, self.pool, self
        return self

    def __exit__(self, *exception) -> None:
        global recorders
        with _counting:
            recorders -= 1
        of_thread.pool, state.recorder = self._pool_before, None

    @contextlib.contextmanager
    def _suspended(self):
        """Inside, all is as in a replay: nothing is recorded, and memory comes from the thread's own pool."""
        of_thread.pool, state.recorder = self._pool_before, None
        try:
            yield
        finally:
            of_thread.pool, state.recorder = self.pool, self

    def note_source(self, tensor) -> None:
        """The step reads this Tensor: if it was not made here, the recording holds while its array and node are these."""
        if type(tensor.array) is not Closed:
            self.sources.setdefault(id(tensor), (tensor, tensor.array, tensor.node))

    def lent(self, value: Any) -> Any:
        """The same array for a recorded call: if its memory is the pool's, without holding on to it."""
        if isinstance(value, np.ndarray) and self.pool.owns(value):
            return np.asarray(_Address(value))
        return value

    def note(self, function: Callable, arguments: Sequence) -> None:
        """To be called again, on the same arrays."""
        self.calls.append((function, tuple(map(self.lent, arguments))))

    def kept(self, array: np.ndarray) -> np.ndarray:
        """A copy in the pool, with the same strides: sums go through memory in its order, and their bits depend on it."""
        copy = with_strides_of(array, self.pool.empty)
        copy[...] = array
        return copy

    def call(self, function: Callable, *arguments) -> np.ndarray:
        arguments = [opened(value) for value in arguments]
        with self._suspended():
            result = function(*arguments)
        if any(result is value for value in arguments):  # computed in place
            self.note(function, arguments)
            return result
        if _is_view(result, arguments):
            return result
        result = self.kept(np.asarray(result))
        self.note(_call_into, (result, function, *arguments))
        return result

    def as_it_is(self, function: Callable, arguments: tuple, options: dict) -> Any:
        self.calls.append((functools.partial(function, **options), arguments))
        with self._suspended():
            return function(*arguments, **options)

    def check(self, node, is_leaf: bool) -> None:
        """RuntimeError if a replay would miss something of this node's backward."""
        if node.hooks or node.retains_grad:
            raise RuntimeError(f"compile: a tensor of shape {node.shape} has a hook or retain_grad(), which a replay would "
                               "not serve; return what you want to see, or don't compile this step")
        if not is_leaf and node.is_replayed is None:
            raise RuntimeError(f"compile: backward reaches {node.title}, which was applied outside of this step, to make a "
                               f"tensor of shape {node.shape}; compute that inside, or pass it as an input, detached")

    def forward(self, op, arrays: list, options: dict) -> np.ndarray:
        """op.forward, recorded."""
        op.is_replayed = not op.is_by_kernels(arrays)
        if not op.is_replayed:
            return self._watched(op.forward, arrays, options)
        with self._suspended():
            out = op.forward(*arrays, **options)
        is_view = _is_view(out, arrays)
        out = out if is_view else self.kept(np.asarray(out))
        forward = functools.partial(op.forward, **options)
        self.calls.append((_run if is_view else _call_into,
                           (None if is_view else self.lent(out), forward, *map(self.lent, arrays))))
        return out

    def backward(self, op, dout: np.ndarray, options: dict) -> tuple:
        """op.backward, recorded."""
        if not op.is_replayed and dout.flags.carray and dout.size:
            return self._watched(op.backward, (dout, *op.saved), options)
        with self._suspended():
            shares = op.backward(dout, *op.saved, **options)
        if type(shares) is not tuple:
            shares = (shares,)
        shares = [None if share is None else np.asarray(share) for share in shares]
        shares = [share if share is None or _is_view(share, [dout]) else self.kept(share) for share in shares]
        targets = [None if share is None or _is_view(share, [dout]) else self.lent(share) for share in shares]
        saved = None if op.is_replayed else tuple(map(self.lent, op.saved))
        options = {name: self.lent(array) for name, array in options.items()}
        self.calls.append((_backward_into, (targets, op, saved, self.lent(dout), options)))
        return tuple(shares)

    def accumulate(self, node, gradient: np.ndarray) -> None:
        """node.accumulate, recorded."""
        self.is_differentiated = True
        arrival = _Arrival(node, self.lent(gradient))
        self.calls.append((arrival, ()))
        with self._suspended():
            arrival()

    def _watched(self, function: Callable, arguments: Sequence, options: dict) -> Any:
        before, jit.observer.observe = jit.observer.observe, self.note
        try:
            return function(*arguments, **options)
        finally:
            jit.observer.observe = before


class _Arrival:
    """A gradient arrives at a leaf. What `grad` refers to is a copy, as the pool lends the gradient's memory again.

    The copy is made in the same place each time, so that an optimizer need not look up where gradients are; unless
    somebody still holds the last one, which is left to him.
    """

    def __init__(self, node, gradient: np.ndarray):
        self.node, self.gradient = node, gradient
        self.copy = np.empty(gradient.shape, gradient.dtype)  # views refer to it, as it owns its memory

    def __call__(self) -> None:
        node, gradient = self.node, self.gradient
        if node.grad is not None:
            node.accumulate(gradient, fresh=False)
            return
        if sys.getrefcount(self.copy) > UNUSED_COPY:
            self.copy = np.empty(gradient.shape, gradient.dtype)
        np.copyto(self.copy, gradient)
        node.grad = self.copy


def _references_of_an_unused_copy() -> int:
    """What sys.getrefcount gives in `_Arrival` for a copy that nobody else holds."""
    arrival = _Arrival(None, np.empty(0))
    return sys.getrefcount(arrival.copy)


UNUSED_COPY = _references_of_an_unused_copy()


def _is_view(result: Any, arguments: Sequence) -> bool:
    return isinstance(result, np.ndarray) and any(
        isinstance(value, np.ndarray) and np.may_share_memory(result, value) for value in arguments
    )


def _run(_, function: Callable, *arguments) -> None:
    function(*arguments)


def _call_into(target: np.ndarray, function: Callable, *arguments) -> None:
    target[...] = function(*arguments)


def _backward_into(targets: Sequence, op, saved: tuple | None, dout: np.ndarray, options: dict) -> None:
    shares = op.backward(dout, *(op.saved if saved is None else saved), **options)
    for target, share in zip(targets, shares if type(shares) is tuple else (shares,)):
        if target is not None:
            target[...] = share
