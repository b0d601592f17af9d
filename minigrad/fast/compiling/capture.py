"""Capturing a step: which functions it calls on which arrays, so that a replay can call them again without the tape.

`minigrad.compile` (compiled.py) captures and replays. While a step is captured, `Capture` is the thread's runner, so the
engine hands it every computation:

- an op that is `by_kernels` is captured as the kernels that it launches, forward and backward;
- any other op as its `forward` and `backward`, which a replay calls, copying the results into the captured memory;
- sums on the tape, and other functions of arrays, as calls of these functions;
- what is opaque, such as an optimizer's step, as a call of the whole, Python included, in its precision and grad mode.

Results lie in the capture's own pool and are freed as usual, so memory is reused within the step; captured calls refer to
it by address only. What outlives the step is copied out: results at once, gradients when somebody looks at them (see
`_Arrival`). What Python does with values cannot be replayed, so the step sees `CapturedTensor`s, which show none. All calls
are also noted in a `Transcript`, for comparison with what Python does another time.
"""
import contextlib
import functools
import types
import weakref
from typing import Any, Callable, Sequence

import numpy as np

from ... import random
from ...arrays.versions import tick
from ...backend import is_tensor
from ...per_thread import Block, this_thread
from ...replays import READS, SWITCHES, WRITES
from ...runner import EAGER, Runner
from ...tensor import Tensor
from ..autocast import precision
from ..elementwise import formulas_of
from ..kernels.buffers import with_strides_of
from ..kernels.buffers import are_contiguous
from ..kernels.jit import resolved
from ..kernels.elementwise import are_alike
from ..pool import Pool, own
from .reached import Reached, Snapshot
from .transcript import Transcript, outside

INSTEAD = {  # what to do instead of what a step may not do
    WRITES: "make a new tensor, or don't compile this step",
    "reads a gradient in Python": "read it outside (an optimizer with max_grad_norm clips inside its step)",
    "registers a hook": "register it outside",
    "enters or leaves textbook()": "enter it outside",
    "observes operations (detect_anomaly, count_flops, trace)": "observe the whole step, from outside",
    "draws from the generator in Python": "draw with minigrad's functions, or outside",
    "looks at the generator's state": "look at it outside",
}


class Refused(RuntimeError):
    """This step cannot be captured."""


class CapturedTensor(Tensor):
    """A Tensor of a step that is being captured: it has a shape, a dtype and a place on the tape, but shows no values."""

    @classmethod
    def of(cls, array: np.ndarray, node, capture: "Capture") -> "CapturedTensor":
        tensor = cls.__new__(cls)
        tensor.node, tensor._memory, tensor._capture = node, array, capture
        tensor.number = capture.transcript.number(array)
        return tensor

    @property
    def _array(self) -> np.ndarray:
        """The memory, for the step's operations. RuntimeError after the step, when it may hold something else."""
        if this_thread.runner is not self._capture:
            raise Refused("compile: this tensor was made while a step was captured and has no values; return from the step "
                          "what you need outside")
        return self._memory

    @property
    def array(self) -> np.ndarray:
        self._capture.refuse_read(self)

    shape = property(lambda self: self._memory.shape)
    ndim = property(lambda self: self._memory.ndim)
    dtype = property(lambda self: self._memory.dtype)

    def __repr__(self) -> str:
        return f"CapturedTensor(shape={self._memory.shape}, dtype={self._memory.dtype})"

    _repr_html_ = None  # it has no numbers to show


class Capture(Runner):
    """The calls of a step in order, as (function, arguments), and the pool that holds their results."""

    def __init__(self, reached: Reached | None = None, pool: Pool | None = None):
        self.reached = reached or Snapshot()
        self.pool = pool or Pool(keeps_all=True)
        self.transcript = Transcript(tick())
        self.undo = Snapshot().add(random.generator(), "the generator")
        self.opaque_arguments: list = []
        self.modes = {name: getattr(this_thread, name) for name in ("rounds_products", "grad_enabled")}  # at first
        self.inputs: list[CapturedTensor] = []
        self.changed: list[str] = []  # names of what Python changed of `reached`
        self.refusal: Refused | None = None
        self.calls: list[tuple[Callable, Sequence]] = []
        self.opening = 0  # the number of opaque calls before anything is computed
        self.arrivals: list[_Arrival] = []
        self.launches = weakref.WeakKeyDictionary()  # by op applied here: does a replay only launch its kernels?
        self.is_differentiated = False  # has a gradient arrived at a leaf?
        self.sources: dict[int, tuple] = {}  # Tensors from outside, by id, with the array and the node they had

    def __enter__(self) -> "Capture":
        self._pool_before, own.pool, this_thread.runner = own.pool, self.pool, self
        return self

    def __exit__(self, *exception) -> None:
        own.pool, this_thread.runner = self._pool_before, EAGER

    @contextlib.contextmanager
    def _suspended(self):
        """As in a replay: nothing is captured, and memory comes from the thread's own pool."""
        own.pool, this_thread.runner = self._pool_before, EAGER
        try:
            yield
        except Exception as error:
            self._refuse_to_catch(error)
            raise
        finally:
            own.pool, this_thread.runner = self.pool, self

    @contextlib.contextmanager
    def _replayed(self):
        """The user's code inside runs in replays, too: it may change what the step may not."""
        self.changed += self.reached.changes()
        with self._suspended():
            yield
        self.reached.look()

    # ------------------------------------------------------------------------------------------------ as a Runner

    def forward(self, op, inputs: Sequence, arrays: Sequence, options: dict) -> np.ndarray:
        for value in inputs:
            self.array_of(value)
        self.transcript.note(op.title, inputs, options, *getattr(op, "described", tuple)())
        self.launches[op] = _is_by_kernels(op, arrays)
        has_backward = this_thread.grad_enabled and any(is_tensor(value) and value.requires_grad for value in inputs)
        out = self._forward(op, arrays, options, has_backward)
        if not has_backward:
            op.saved = ()  # no backward will need these, but the capture keeps the op alive
        return out

    def made(self, tensor: Tensor) -> CapturedTensor:
        return CapturedTensor.of(tensor._array, tensor.node, self)

    def backward(self, op, dout: np.ndarray, onto: np.ndarray | None = None) -> tuple:
        if is_tensor(dout):
            self._refuse("compile: create_graph=True cannot be replayed; don't compile this step")
        if op not in self.launches:
            self._refuse(f"compile: backward reaches {op.title}, which made a tensor of shape {op.shape} outside this "
                         "step; compute that inside, or pass it as an input, detached")
        self.transcript.note(f"backward of {op.title}", onto is not None)
        gradients = self._backward(op, dout, {} if onto is None else {"onto": onto})
        for gradient in gradients:
            if gradient is not None:
                self.transcript.own(gradient)
        return gradients

    def _backward(self, op, dout: np.ndarray, options: dict) -> tuple:
        if self.launches[op] and dout.flags.carray and dout.size:
            return _as_tuple(self._by_launches(op.backward, (dout, *op.saved), options))
        with self._suspended():
            gradients = _as_tuple(op.backward(dout, *op.saved, **options))
        gradients = [None if g is None else np.asarray(g) for g in gradients]
        are_views = [g is not None and _is_fixed(op) and _is_view(g, [dout, *options.values()]) for g in gradients]
        gradients = [g if g is None or is_view else self.kept(g) for g, is_view in zip(gradients, are_views)]
        targets = [ABSENT if g is None else VIEW if is_view else self.lent(g) for g, is_view in zip(gradients, are_views)]
        saved = tuple(map(self.lent, op.saved)) if self.launches[op] else None
        if not options and all(target is ABSENT or target is VIEW for target in targets):
            return tuple(gradients)  # always views of the same memory
        options = {name: self.lent(array) for name, array in options.items()}
        self.calls.append((_backward_into, (targets, op, saved, self.lent(dout), options)))
        return tuple(gradients)

    def walk_begins(self, outputs: Sequence, inputs: Sequence) -> None:
        self.transcript.note("backward", outputs, inputs)

    def run_hooks(self, node, gradient) -> None:
        self._refuse(f"compile: a tensor of shape {node.shape} has a hook, which a replay would not call; return "
                     "what you want to see, or don't compile this step")

    def accumulate(self, node, gradient: np.ndarray) -> None:
        if node.retains_grad:
            self._refuse(f"compile: retain_grad() was called on a tensor of shape {node.shape}, which a replay would "
                         "ignore; return what you want to see, or don't compile this step")
        self.is_differentiated = True
        self.transcript.note("accumulate", outside(node, f"the gradient of a tensor of shape {node.shape}")
                             if node.order < self.transcript.began else node.shape)
        self.undo.add(node, "a leaf")
        arrival = self._arrival(node, gradient)
        with self._suspended() if node.grad is None and not node.accumulation_hooks else self._replayed():
            arrival()

    def _arrival(self, node, gradient: np.ndarray) -> "_Arrival":
        memory = gradient if gradient.flags.carray else np.empty(gradient.shape, gradient.dtype)
        arrival = _Arrival(node, gradient if memory is gradient else self.lent(gradient), memory)
        self.arrivals.append(arrival)
        self.calls.append((arrival, ()))
        return arrival

    def call(self, function: Callable, *arguments) -> np.ndarray:
        with self._suspended():
            result = function(*arguments)
        if any(result is value for value in arguments):  # in place
            self.note(function, arguments)
            return result
        if _is_view(result, arguments):
            return result
        result = self.kept(np.asarray(result))
        self.note(_call_into, (result, function, *arguments))
        return result

    def compute(self, function: Callable, *values) -> np.ndarray:
        self.undo.add(function, "a draw")  # it may hold a generator
        self.transcript.note(getattr(function, "__name__", "a function"), function, values)
        result = np.asarray(self.call(function, *map(self.array_of, values)))  # it may be a NumPy scalar
        if not any(result is value for value in values):
            self.transcript.own(result)
        return result

    def opaque(self, function: Callable, arguments: tuple, options: dict) -> Any:
        self.transcript.note(function.__qualname__, arguments, options, precision())
        for value in (*arguments, *options.values()):
            self.undo.add(value, "an argument")
            if not any(value is known for known in self.opaque_arguments):
                self.opaque_arguments.append(value)
        if len(self.calls) == self.opening:
            self.opening += 1
        called = functools.partial(function, **options) if options else function
        self.calls.append((self._in_present_mode(called), arguments))
        with self._replayed():
            return function(*arguments, **options)

    def notice(self, deed: str, tensor: Tensor | None = None, instead: str | None = None) -> None:
        """Refuse what a replay would not do."""
        if deed == READS:
            self.refuse_read(tensor)
        if deed == SWITCHES:
            is_input = any(tensor is given for given in self.inputs)
            if not is_input and (type(tensor) is CapturedTensor or not self.transcript.is_from_outside(tensor)):
                return
            deed, instead = f"changes whether a tensor of shape {tensor.shape} requires a gradient", "change it outside"
        instead = instead or INSTEAD.get(deed, "don't compile this step")
        self._refuse(f"compile: this step {deed}, which a replay would not do; {instead}")

    def refuse_read(self, tensor: Tensor) -> None:
        self._refuse(
            f"compile: this step reads the values of a tensor of shape {tensor.shape} in Python (as item(), bool(), "
            "numpy() or an index do), or writes to it in place; a replay would not. Return the tensor and look at it "
            "outside, or don't compile this step"
        )

    def _refuse(self, message: str) -> None:
        """Refuse for good: the step may catch the exception, so it is kept."""
        self.refusal = self.refusal or Refused(message)
        raise self.refusal

    def _refuse_to_catch(self, error: Exception) -> None:
        """Refuse a step that goes on after an error: it may depend on values."""
        self.refusal = self.refusal or Refused(
            f"compile: this step catches an error ({type(error).__name__}: {error}), and would be replayed as if it came "
            "in each call; check the inputs outside, test shapes with an if, or don't compile this step")

    # ------------------------------------------------------------------------------------------------ how it works

    def array_of(self, value: Any) -> Any:
        """A Tensor's array; anything else unchanged. The capture is valid while Tensors from outside keep their arrays and
        nodes."""
        if not is_tensor(value):
            return value
        if type(value) is not CapturedTensor:
            self.sources.setdefault(id(value), (value, value._array, value.node))
        return value._array

    def _in_present_mode(self, function: Callable) -> Callable:
        """The function in this thread's precision and grad mode. A replay is in the mode in which the step began."""
        for name, at_first in self.modes.items():
            now = getattr(this_thread, name)
            if now != at_first:
                function = Block(name, now)(function)
        return function

    def lent(self, value: Any) -> Any:
        """The array, or a tuple of arrays, for a captured call: memory of the pool is not kept alive by it."""
        if type(value) is tuple:
            return tuple(map(self.lent, value))
        if isinstance(value, np.ndarray) and self.pool.owns(value):
            return np.asarray(types.SimpleNamespace(__array_interface__=value.__array_interface__))
        return value

    def note(self, function: Callable, arguments: Sequence) -> None:
        """Capture a call on these arrays."""
        self.calls.append(resolved(function, tuple(map(self.lent, arguments))))

    def kept(self, array: np.ndarray) -> np.ndarray:
        """A copy in the pool with the same strides: the bits of a sum depend on the order in memory."""
        copy = with_strides_of(array, self.pool.empty)
        copy[...] = array
        return copy

    def _forward(self, op, arrays: Sequence, options: dict, has_backward: bool) -> np.ndarray:
        if self.launches[op]:
            return self._by_launches(op.forward, arrays, options)
        with self._suspended():
            out = op.forward(*arrays, **options)
        is_view = _is_fixed(op) and _is_view(out, arrays)
        if is_view and not (has_backward and op.saved):
            return out
        out = out if is_view else self.kept(np.asarray(out))
        forward, lent = functools.partial(op.forward, **options), list(map(self.lent, arrays))
        self.calls.append((forward, lent) if is_view else (_call_into, (self.lent(out), forward, *lent)))
        return out

    def _by_launches(self, function: Callable, arguments: Sequence, options: dict) -> Any:
        """function(*arguments, **options), captured as the kernels that it launches."""
        own.observe_launch = self.note
        try:
            return function(*arguments, **options)
        except Exception as error:
            self._refuse_to_catch(error)
            raise
        finally:
            own.observe_launch = None


class _Arrival:
    """A gradient arrives at a leaf. Each replay computes it in the same memory, or copies it to one place if the step
    reuses that memory, so an optimizer need not look up where gradients are.

    The memory is only lent to the leaf: `Tensor.grad` gives users a copy, and what the leaf still holds when the next
    replay begins is copied then (`leave`).
    """

    __slots__ = ("gradient", "memory", "node")  # one per parameter, called in each replay

    def __init__(self, node, gradient: np.ndarray, memory: np.ndarray):
        self.node, self.gradient, self.memory = node, gradient, memory

    def __call__(self) -> None:
        node = self.node
        if node.grad is not None:
            EAGER.accumulate(node, self.gradient)
            return
        node.grad = self.memory
        if self.memory is not self.gradient:
            np.copyto(self.memory, self.gradient)
        for hook in node.accumulation_hooks:
            hook()

    def leave(self) -> None:
        """The memory is about to be overwritten: copy what the leaf still holds there."""
        if self.node.grad is self.memory:
            self.node.grad = self.memory.copy()


ABSENT, VIEW = object(), object()  # a gradient that is None, or is a view of memory that is written anyway


def _is_by_kernels(op, arrays: Sequence) -> bool:
    """Do kernels alone compute these inputs, forward and backward? Not if some must be copied first, or are empty."""
    by_formulas = () if this_thread.is_textbook else formulas_of(type(op))
    return are_alike(arrays, *by_formulas) if by_formulas else getattr(op, "by_kernels", False) and are_contiguous(arrays)


def _as_tuple(gradients: Any) -> tuple:
    return gradients if type(gradients) is tuple else (gradients,)


def _is_fixed(op) -> bool:
    """Does the op make the same calls each time? A user's Function may not."""
    return getattr(op, "is_fixed", True)


def _is_view(result: Any, arguments: Sequence) -> bool:
    return isinstance(result, np.ndarray) and any(
        isinstance(value, np.ndarray) and np.may_share_memory(result, value) for value in arguments
    )


def _call_into(target: np.ndarray, function: Callable, *arguments) -> None:
    result = function(*arguments)
    if np.shape(result) != target.shape:
        raise RuntimeError(f"compile: a result has shape {np.shape(result)} in this call, but had {target.shape} when the "
                           "step was captured; don't compile this step")
    target[...] = result


def _backward_into(targets: Sequence, op, saved: tuple | None, dout: np.ndarray, options: dict) -> None:
    gradients = op.backward(dout, *(op.saved if saved is None else saved), **options)
    for target, gradient in zip(targets, _as_tuple(gradients)):
        if (target is ABSENT) != (gradient is None):
            came = "no gradient" if gradient is None else "a gradient"
            raise RuntimeError(f"compile: {op.title}.backward returns {came} where it did not when the step was captured; "
                               "return zeros, or don't compile this step")
        if target is not ABSENT and target is not VIEW:
            target[...] = gradient
