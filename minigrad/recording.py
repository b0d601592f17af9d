"""Recording a computation: each call that computes, on which arrays, so that it can be made again without the tape.

`minigrad.compile` (compiled.py) records and replays. Here is what the tape and the ops tell it while it records:

- an op that is `by_kernels` as the kernels that it launches, forward and backward;
- any other op as its own `forward` and `backward`, to be run again, with the result copied to where it was;
- what the tape adds up, and other functions of arrays, through `call`;
- what is to be run again as it stands, Python and all, such as an optimizer's step, through `as_it_is`.

Results lie in a pool of the recorder's own and are let go as ever, so memory is used again within the step. The recorded
calls refer to it by address only. What Python does with values is not seen and cannot be replayed, so the values of
Tensors are closed to it while a recording is made: see `Closed`.
"""
import functools
import threading
from typing import Any, Callable, Sequence

import numpy as np

from .kernels import jit
from .kernels.buffers import Pool, of_thread


class _State(threading.local):
    recorder: "Recorder | None" = None  # who records what this Python thread does


state = _State()
recorders = 0  # of all threads: asking this first is cheaper
generation = 0  # counts what makes recordings out of date that they cannot see, as when a layer goes into training mode


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


def as_it_is(function: Callable) -> Callable:
    """Decorate a function that reads and writes Tensors in its own way: a replay calls it again."""

    @functools.wraps(function)
    def wrapper(*arguments, **options):
        recorder = state.recorder
        return function(*arguments, **options) if recorder is None else recorder.as_it_is(function, arguments, options)

    return wrapper


def refuse_write() -> None:
    """RuntimeError while a recording is made: a write in place is not an op, and would happen only once."""
    if state.recorder is not None:
        raise RuntimeError("compile: this step writes to a tensor in place, which a replay would not do; make a new "
                           "tensor, or don't compile this step")


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
        self._array = array
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size
        self.flags, self.strides, self.itemsize = array.flags, array.strides, array.itemsize

    def __len__(self) -> int:
        return len(self._array)

    def __getattr__(self, name: str):
        self._refuse()

    def _refuse(self, *arguments, **options):
        refuse_look(self)
        raise RuntimeError("compile: this tensor was made while a step was recorded, and has no values; return what is "
                           "wanted outside")

    __array__ = __array_ufunc__ = __array_function__ = __getitem__ = __setitem__ = __iter__ = __bool__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __hash__ = None


def opened(value: Any) -> Any:
    """The array that is closed, or the value itself."""
    return value._array if type(value) is Closed else value


class _Address:
    """An array's place in memory, and nothing that keeps it alive."""

    def __init__(self, array: np.ndarray):
        self.__array_interface__ = array.__array_interface__


class Recorder:
    """The calls of a step in order, as (function, arguments), and the pool in which their results lie."""

    def __init__(self):
        self.pool = Pool(keeps_all=True)
        self.calls: list[tuple[Callable, Sequence]] = []
        self.arrivals: list[tuple[Any, np.ndarray]] = []  # leaves, and the gradients that were added to them
        self.gradients: list[np.ndarray] = []  # of leaves: their memory is in use until the step ends
        self.sources: list[tuple] = []  # Tensors from outside, with the array and the node that they had

    def __enter__(self) -> "Recorder":
        global recorders
        recorders += 1
        self._pool_before, of_thread.pool, state.recorder = of_thread.pool, self.pool, self
        return self

    def __exit__(self, *exception) -> None:
        global recorders
        recorders -= 1
        of_thread.pool, state.recorder = self._pool_before, None

    def lent(self, value: Any) -> Any:
        """The same array for a recorded call: if its memory is the pool's, without holding on to it."""
        if isinstance(value, np.ndarray) and self.pool.owns(value):
            return np.asarray(_Address(value))
        return value

    def note(self, function: Callable, arguments: Sequence) -> None:
        """To be called again, on the same arrays."""
        self.calls.append((function, tuple(map(self.lent, arguments))))

    def kept(self, array: np.ndarray) -> np.ndarray:
        """A copy in the pool."""
        copy = self.pool.empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def call(self, function: Callable, *arguments) -> np.ndarray:
        arguments = [opened(value) for value in arguments]
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
        state.recorder, of_thread.pool = None, self._pool_before
        try:
            return function(*arguments, **options)
        finally:
            state.recorder, of_thread.pool = self, self.pool

    def check(self, node) -> None:
        """RuntimeError if backward tells Python of this node's gradient."""
        if node.hooks or node.retains_grad:
            raise RuntimeError(f"compile: a tensor of shape {node.shape} has a hook or retain_grad(), which a replay would "
                               "not serve; return what you want to see, or don't compile this step")

    def forward(self, op, arrays: list, options: dict) -> np.ndarray:
        """op.forward, recorded."""
        if op.is_by_kernels(arrays):
            return self._watched(op.forward, arrays, options)
        out = op.forward(*arrays, **options)
        is_view = _is_view(out, arrays)
        out = out if is_view else self.kept(np.asarray(out))
        forward = functools.partial(op.forward, **options)
        op.is_replayed = True
        self.calls.append((_run if is_view else _call_into,
                           (None if is_view else self.lent(out), forward, *map(self.lent, arrays))))
        return out

    def backward(self, op, dout: np.ndarray, options: dict) -> tuple:
        """op.backward, recorded."""
        if not op.is_replayed and dout.flags.carray and dout.size:
            return self._watched(op.backward, (dout, *op.saved), options)
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

    def accumulate(self, node, gradient: np.ndarray, fresh: bool) -> None:
        """node.accumulate, recorded; in a replay the gradient is there already."""
        gradient = gradient if fresh else self.call(np.copy, gradient)
        node.accumulate(gradient, True)
        lent = self.lent(gradient)
        if node.grad is gradient:
            node.grad = lent
            self.gradients.append(gradient)
        self.arrivals.append((node, lent))
        self.calls.append((node.accumulate, (lent, True)))

    def _watched(self, function: Callable, arguments: Sequence, options: dict) -> Any:
        before, jit.observer.observe = jit.observer.observe, self.note
        try:
            return function(*arguments, **options)
        finally:
            jit.observer.observe = before


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
