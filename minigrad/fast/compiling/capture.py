"""Capturing a step: which functions it calls on which arrays, so that a replay can call them again without the tape.

`minigrad.compile` (compiled.py) decides when to capture and when to replay. While a step is captured, `Capture` is the
thread's runner, so the engine hands it every computation:

- an op that is `by_kernels` is captured as the kernels that it launches, forward and backward;
- any other op as its `forward` and `backward`, and other functions as themselves: a replay calls them, and copies results;
- what is opaque, such as an optimizer's step, as a call of the whole, Python included, in its precision and grad mode.

Results lie in the capture's own pool, and captured calls refer to it by address only, so memory is reused within the step.
What outlives the step is copied: results at once, gradients when somebody looks at them (see `_Arrival`). What Python does
with values cannot be replayed, so the step sees `CapturedTensor`s, which show none. All calls are noted in a `Transcript`.
"""
import contextlib
import functools
import itertools
import operator
import types
import weakref
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ... import random
from ...arrays import float_errors
from ...arrays.versions import owner, tick
from ...backend import is_tensor
from ...per_thread import Block, this_thread
from ...replays import READS, SWITCHES, WRITES, changes
from ...runner import EAGER, Runner
from ...tensor import Tensor
from ..autocast import precision
from ..elementwise import formulas_of
from ..kernels.buffers import are_contiguous, with_strides_of
from ..kernels.jit import resolved
from ..kernels.elementwise import are_alike
from ..pool import Pool, own
from .reached import Reached, Snapshot, same
from .transcript import Transcript

INSTEAD = {  # what to do instead of what a step may not do
    READS: "return the tensor and look at it outside, or don't compile this step",
    WRITES: "make a new tensor, or don't compile this step",
}
OUTSIDE = "do that outside, or don't compile this step"


class Refused(RuntimeError):
    """This step cannot be captured."""


class CapturedTensor(Tensor):
    """A Tensor of a step that is being captured: it has a shape, a dtype and a place on the tape, but shows no values."""

    def __init__(self, array: np.ndarray, node: Any, capture: "Capture"):
        self.node, self._memory, self._capture = node, array, capture
        self.number = capture.transcript.number(array)

    @property
    def _array(self) -> np.ndarray:
        """The memory, for the step's operations. RuntimeError after the step, when it may hold something else."""
        if this_thread.runner is not self._capture:
            raise Refused("compile: this tensor was made while a step was captured and has no values; return from the step "
                          "what you need outside")
        return self._memory

    @property
    def array(self) -> np.ndarray:
        self._capture.notice(READS, self)

    shape = property(lambda self: self._memory.shape)
    ndim = property(lambda self: self._memory.ndim)
    dtype = property(lambda self: self._memory.dtype)
    _repr_html_ = None  # it has no numbers to show

    def __repr__(self) -> str:
        return f"CapturedTensor(shape={self._memory.shape}, dtype={self._memory.dtype})"


class Capture(Runner):
    """The calls of a step in order, as (function, arguments), and the pool that holds their results."""

    def __init__(self, reached: Reached | None = None, pool: Pool | None = None, arrays: Sequence[np.ndarray] = ()):
        self.reached, self.pool = reached or Snapshot(), pool or Pool(keeps_all=True)
        self.arrays = list(map(self.kept, arrays))  # of the inputs
        self.transcript = Transcript(tick())
        self.undo = Snapshot().add(random.generator(), "the generator")
        self.modes = {name: getattr(this_thread, name) for name in ("rounds_products", "grad_enabled")}  # at first
        self.changed: list[str] = []  # names of what Python changed of `reached`
        self.refusal: Refused | None = None
        self.calls: list[tuple[Callable, Sequence]] = []
        self.opening = 0  # the number of opaque calls before anything is computed
        self.arrivals: list[_Arrival] = []
        self.launches = weakref.WeakKeyDictionary()  # by op applied here: does a replay only launch its kernels?
        self.sources: dict[int, tuple] = {}  # Tensors from outside, by id, with the array and the node they had

    def __enter__(self) -> "Capture":
        self._pool_before, own.pool, this_thread.runner = own.pool, self.pool, self
        return self

    def __exit__(self, *exception) -> None:
        own.pool, this_thread.runner = self._pool_before, EAGER

    @contextlib.contextmanager
    def _switched(self, *state: Any):
        """Inside, this pool and runner work, and this function sees launches of kernels. A step that goes on after an error
        from there may depend on values."""
        own.pool, this_thread.runner, own.observe_launch = state
        try:
            yield
        except Exception as error:
            self.refusal = self.refusal or Refused(
                f"compile: this step catches an error ({type(error).__name__}: {error}), and would be replayed as if it "
                "came in each call; check the inputs outside, test shapes with an if, or don't compile this step")
            raise
        finally:
            own.pool, this_thread.runner, own.observe_launch = self.pool, self, None

    def _suspended(self):
        """As in a replay: nothing is captured, and memory comes from the thread's own pool."""
        return self._switched(self._pool_before, EAGER, None)

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
        by_kernels = self.launches[op] = _is_by_kernels(op, arrays)
        has_backward = this_thread.grad_enabled and any(is_tensor(value) and value.requires_grad for value in inputs)
        forward = functools.partial(op.forward, **options)
        with self._switched(self.pool, self, self.note) if by_kernels else self._suspended():
            out = forward(*arrays)
        if not by_kernels:
            out = self._computed(out, forward, arrays, getattr(op, "is_fixed", True) and not (has_backward and op.saved))
        if not has_backward:
            op.saved = ()  # no backward will need these, but the capture keeps the op alive
        return out

    def made(self, tensor: Tensor) -> CapturedTensor:
        return CapturedTensor(tensor._array, tensor.node, self)

    def backward(self, op, dout: np.ndarray, onto: np.ndarray | None = None) -> tuple:
        if is_tensor(dout):
            self.refuse("calls backward with create_graph=True")
        if op not in self.launches:
            self.refuse(f"goes back to {op.title}, which made a tensor of shape {op.shape} outside this step",
                        "compute that inside, or pass it as an input, detached")
        self.transcript.note(f"backward of {op.title}", onto is not None)
        options = {} if onto is None else {"onto": onto}
        by_kernels = self.launches[op] and dout.flags.carray and dout.size
        with self._switched(self.pool, self, self.note) if by_kernels else self._suspended():
            found = op.backward(dout, *op.saved, **options)
        gradients = found if type(found) is tuple else (found,)
        if not by_kernels:
            gradients = self._computed_back(gradients, op, dout, options)
        for gradient in gradients:
            if gradient is not None:
                self.transcript.own(gradient)
        return gradients

    def _computed_back(self, gradients: tuple, op, dout: np.ndarray, options: dict) -> tuple:
        """Gradients for which each replay calls op.backward, copied into the pool; but views stay what they are."""
        viewed = [dout, *options.values()] if getattr(op, "is_fixed", True) else []
        gradients = tuple(g if g is None or _is_view(g, viewed) else self.kept(np.asarray(g)) for g in gradients)
        targets = [g if g is None else VIEW if _is_view(g, viewed) else self.lent(g) for g in gradients]
        if options or any(isinstance(target, np.ndarray) for target in targets):
            saved = tuple(map(self.lent, op.saved)) if self.launches[op] else None
            options = {name: self.lent(array) for name, array in options.items()}
            self.calls.append((_backward_into, (targets, op, saved, self.lent(dout), options)))
        return gradients

    def walk_begins(self, outputs: Sequence, inputs: Sequence) -> None:
        self.transcript.note("backward", outputs, inputs)

    def run_hooks(self, node, gradient) -> None:
        self.refuse(f"calls a hook of a tensor of shape {node.shape}", "return what you want to see")

    def accumulate(self, node, gradient: np.ndarray) -> None:
        if node.retains_grad:
            self.refuse(f"calls retain_grad() on a tensor of shape {node.shape}", "return what you want to see")
        self.transcript.note("accumulate", node, node.shape)
        self.undo.add(node, "a leaf")
        memory = gradient if gradient.flags.carray else np.empty(gradient.shape, gradient.dtype)
        arrival = _Arrival(node, gradient if memory is gradient else self.lent(gradient), memory)
        self.arrivals.append(arrival)
        self.calls.append((arrival, ()))
        with self._replayed() if node.accumulation_hooks or is_tensor(node.grad) else self._suspended():
            arrival()

    def call(self, function: Callable, *arguments) -> np.ndarray:
        with self._suspended():
            result = function(*arguments)
        if any(result is value for value in arguments):  # in place
            self.note(function, arguments)
            return result
        return self._computed(result, function, arguments)

    def _computed(self, result: Any, function: Callable, arguments: Sequence, may_be_view: bool = True) -> np.ndarray:
        """The result of a function that each replay calls, copied into the pool; but a view stays what it is."""
        if may_be_view and _is_view(result, arguments):
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
        if len(self.calls) == self.opening:
            self.opening += 1
        called = functools.partial(function, **options) if options else function
        for name, at_first in self.modes.items():  # in which replays are
            if (now := getattr(this_thread, name)) != at_first:
                called = Block(name, now)(called)
        self.calls.append((called, arguments))
        with self._replayed():
            return function(*arguments, **options)

    def notice(self, deed: str, tensor: Tensor | None = None, instead: str | None = None) -> None:
        instead = instead or INSTEAD.get(deed, OUTSIDE)
        if deed == READS:
            deed = (f"reads the values of a tensor of shape {tensor.shape} in Python (as item(), bool(), numpy() or an "
                    "index do), or writes to it in place")
        if deed == SWITCHES:
            number = getattr(tensor, "number", None)
            if number > len(self.arrays) if number else not self.transcript.is_from_outside(tensor.node):
                return  # the step has made it
            deed = f"changes whether a tensor of shape {tensor.shape} requires a gradient"
        self.refuse(deed, instead)

    def refuse(self, deed: str, instead: str = OUTSIDE) -> None:
        """Refuse for good: the step may catch the exception, so it is kept."""
        self.refusal = self.refusal or Refused(f"compile: this step {deed}, which a replay would not do; {instead}")
        raise self.refusal

    # ------------------------------------------------------------------------------------------------ how it works

    def array_of(self, value: Any) -> Any:
        """A Tensor's array; anything else unchanged. The capture is valid while Tensors from outside keep their arrays and
        nodes."""
        if not is_tensor(value):
            return value
        if type(value) is not CapturedTensor:
            self.sources.setdefault(id(value), (value, value._array, value.node))
        return value._array

    def lent(self, value: Any) -> Any:
        """The array, or a tuple of arrays, for a captured call: memory of the pool is not kept alive by it."""
        if type(value) is tuple:
            return tuple(map(self.lent, value))
        if isinstance(value, np.ndarray) and self.pool.owns(value):
            return np.asarray(types.SimpleNamespace(__array_interface__=value.__array_interface__))
        return value

    def note(self, function: Callable, arguments: Sequence) -> None:
        self.calls.append(resolved(function, tuple(map(self.lent, arguments))))

    def kept(self, array: np.ndarray) -> np.ndarray:
        """A copy in the pool with the same strides: the bits of a sum depend on the order in memory."""
        copy = with_strides_of(array, self.pool.empty)
        copy[...] = array
        return copy

    # ------------------------------------------------------------------------------------------------ as a replay

    def result(self, value: Any) -> Any:
        """The array of what the step returns."""
        if value is not None and not is_tensor(value):
            self.refuse(f"returns {type(value).__name__}", "return Tensors, in tuples, lists or dicts, or None")
        if value is not None and value.requires_grad and not self.arrivals:
            self.refuse("returns a tensor on the tape, but calls no backward", "call it, or compute under no_grad()")
        return self.array_of(value)

    def ends(self, inputs: Sequence[Tensor], results: Any, call: int) -> None:
        """The step has returned these arrays for these inputs: from now on it can be replayed."""
        self.results, self.count, self.call = results, 1, call  # of calls since the capture; of all, when Python last ran
        self.generation = changes()  # counting modules that the step itself makes
        firsts = [value for place in self.reached.variables for value in place.first.values()]
        self._values = [now if same(first, now) else first for first, now in zip(firsts, self._variables())]  # by threads
        for value in self._values:
            self.array_of(value)  # of a Tensor the step may look at the shape, which no op reads
        memories = [owner(value) for value in self.undo.values.values() if isinstance(value, np.ndarray)]
        self._written = {id(memory): weakref.ref(memory) for memory in memories}  # by opaque calls and hooks
        self.check(inputs)
        self.undo = Snapshot()  # it held copies of all that the step changes

    def _variables(self) -> Iterator[Any]:
        return itertools.chain.from_iterable([place.read().values() for place in self.reached.variables])

    def is_current(self) -> bool:
        """Is everything as it was when the step was captured?"""
        if self.generation != changes() or not all(map(operator.is_, self._variables(), self._values)):
            return False
        for tensor, array, node in self.sources.values():
            if tensor._array is not array or tensor.node is not node or node is not None and node.hooks:
                return False
        return True

    def check(self, inputs: Sequence[Tensor]) -> None:
        """Refuse an input if the step may write to its memory before reading it: through an optimizer, hook or gradient."""
        for array in (tensor._array for tensor in inputs):
            memory = owner(array)
            gradients = [arrival.node.grad for arrival in (self.arrivals if array.dtype.kind == "f" else ())]
            if (self._written.get(id(memory), lambda: None)() is memory
                    or any(isinstance(grad, Tensor) and owner(grad._array) is memory for grad in gradients)):
                raise Refused(f"compile: an input of shape {array.shape} shares memory with a tensor or gradient to which "
                              "this step writes; pass a copy, as clone() makes, or don't compile this step")

    @float_errors.ignored
    def replay(self, inputs: Sequence[Tensor]) -> Any:
        """The results of the step for these inputs, as arrays that the next replay overwrites."""
        for array, tensor in zip(self.arrays, inputs):
            array[...] = tensor.array
        calls = iter(self.calls)
        for function, arguments in itertools.islice(calls, self.opening):  # they may clear gradients
            function(*arguments)
        self.leave()
        for function, arguments in calls:
            function(*arguments)
        return self.results

    def leave(self) -> None:
        """Move gradients away from where the step is about to write."""
        for arrival in self.arrivals:
            arrival.leave()


class _Arrival:
    """A gradient arrives at a leaf, in each replay in the same memory, to which it is copied if the step reuses its own: an
    optimizer need not look up where gradients are. The memory is only lent: `Tensor.grad` gives users a copy, and what the
    leaf still holds when the next replay begins is copied then (`leave`)."""

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


VIEW = object()  # in place of memory for a gradient that is a view of other memory


def _is_by_kernels(op, arrays: Sequence) -> bool:
    """Do kernels alone compute these inputs, forward and backward? Not if some must be copied first, or are empty."""
    by_formulas = () if this_thread.is_textbook else formulas_of(type(op))
    return are_alike(arrays, *by_formulas) if by_formulas else getattr(op, "by_kernels", False) and are_contiguous(arrays)


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
    found = op.backward(dout, *(op.saved if saved is None else saved), **options)
    for target, gradient in zip(targets, found if type(found) is tuple else (found,)):
        if (target is None) != (gradient is None):
            came = "no gradient" if gradient is None else "a gradient"
            raise RuntimeError(f"compile: {op.title}.backward returns {came} where it did not when the step was captured; "
                               "return zeros, or don't compile this step")
        if isinstance(target, np.ndarray):
            target[...] = gradient
