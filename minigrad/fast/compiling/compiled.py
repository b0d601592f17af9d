"""A step captured once and replayed: the same kernels on the same memory, without the tape and without layers.

A replay gives what the step would give, or an error. What the step takes as constant is found from its code
(surroundings.py) and checked before each replay; and ever more rarely, Python runs the step again and compares it call by
call (transcript.py).
"""
import bisect
import functools
import itertools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from ... import backend, random
from ...arrays import float_errors
from ...per_thread import this_thread
from ...runner import changes
from ...tensor import Tensor, wrap
from ..kernels import ahead
from ..kernels.buffers import with_strides_of
from ..kernels.jit import address, get_num_threads
from .capture import Capture, Refused, Rehearsal, CapturedTensor
from .code import follow_package, line_of
from .places import OF_TENSORS, OUTDATING, REPLAYED, Undo, each, same
from .surroundings import Surroundings
from .transcript import same_bits

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MOST_CAPTURED = 8  # captures of one step, such as for different shapes; then the oldest goes


@overload
def compile(
    function: Callable[Arguments, Result], *, check: bool = False, fullgraph: bool = False, dynamic: bool | None = None,
    mode: str | None = None, backend: str | None = None,
) -> "Compiled[Arguments, Result]": ...
@overload
def compile(
    function: None = None, *, check: bool = False, fullgraph: bool = False, dynamic: bool | None = None,
    mode: str | None = None, backend: str | None = None,
) -> "Callable[[Callable[Arguments, Result]], Compiled[Arguments, Result]]": ...
def compile(
    function: Callable[..., Any] | None = None, *, check: bool = False, fullgraph: bool = False,
    dynamic: bool | None = None, mode: str | None = None, backend: str | None = None,
) -> Any:
    """A faster form of `function(*tensors)`, such as a training step: captured at the first call, then replayed.

    A replay makes the same calls on the same memory, so its results have the same bits. It skips layers, checks, the tape
    and fresh memory, which in a tiny model take longer than the kernels. The contract:

    - The step takes Tensors and returns None, or Tensors in tuples, lists or dicts. Results are copies, off the tape.
    - It may call backward(), optimizers and schedulers, draw random numbers with minigrad, and clear gradients.
    - Tensors and NumPy arrays from outside are read again in each call, like inputs.
    - Variables, attributes, and the contents of lists, dicts, arrays and objects are read when the step is captured. When
      one of them changes, or a module, the grad mode, the precision, the number of threads, or a shape, the step is
      captured again.
    - What a replay would not do is refused at the first call, by name, with nothing changed: setting a variable or an
      attribute, reading a value in Python (item(), an if), writing in place, hooks, create_graph, NumPy's generators,
      an iterator that the code names, an optimizer's grad_norm and state_dict(), a scheduler's get_last_lr().
    - What optimizers, schedulers and hooks change inside the step, such as a learning rate in `param_groups`, is not seen
      by Python after them in that call, but from the next one on.
    - Decisions of Python that nothing else reveals are noticed at calls 2, 3, 4, 8, 16, ...: Python runs the step again,
      and a RuntimeError says what it did differently. The replays before that were wrong. These depend on what other
      libraries and Python keep (a clock, the environment, a queue, an array.array), on attributes whose names are computed,
      on lists of more than 131,072 items and arrays of more than 16 MB, or on items of containers after 10,000 objects.
    - type(x) is Tensor does not hold for an input while the step is captured; isinstance does.
    - Prints and other side effects happen only when Python runs the step.

    `constants()` of the result lists what is taken as constant. With `check`, Python also makes each call, from the same
    state, and the results are compared bit by bit; that is slow. PyTorch's other keywords are ignored.

    >>> import minigrad as mg
    >>> w = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> @mg.compile
    ... def step(x):
    ...     loss = (w * x).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> step(mg.tensor([1.0, 1.0])), step(mg.tensor([3.0, 1.0])).item()
    (tensor(5.), 13.0)
    >>> w.grad  # accumulated: [2, 4] + [18, 4]
    tensor([20.,  8.])
    """
    if function is None:
        return functools.partial(compile, check=check)
    if hasattr(function, "named_parameters"):
        raise TypeError(f"compile: expected a function, such as a training step, got a model ({type(function).__name__}); "
                        "write a step that calls it, with backward() and the optimizer's step(), and compile that")
    return Compiled(function, check)


class Constant(NamedTuple):
    """What a captured step takes as constant: a variable, or a number or array passed to one of its calls."""

    name: str
    where: str  # "file:line" of a call; empty for a variable
    value: Any


class Compiled(Generic[Arguments, Result]):
    """What `compile` returns."""

    def __init__(self, function: Callable[Arguments, Result], check: bool = False) -> None:
        self.function: Callable[Arguments, Result] = function
        self.check: bool = check
        self.calls: int = 0
        self._captured: dict[tuple[Any, ...], _Captured] = {}
        self._ran: dict[Any, Any] = {}  # the user's code that has run: see `Rehearsal.ran`
        self._of_classes: dict[type, Compiled] = {}  # as a class method
        functools.update_wrapper(self, function)
        self._kept_as: str = f"{getattr(self, '__qualname__', '')}, compiled"  # in the objects of which it is a method
        follow_package(function)

    def __set_name__(self, owner: type, name: str) -> None:
        """Called in a class body. A base class may have the same name, but it has fewer bases."""
        self._kept_as = f"{owner.__qualname__}.{name}, compiled, {len(owner.__mro__)}"

    def __get__(self, owner: Any, kind: type | None = None) -> "Compiled[..., Result]":
        """The step as a method: each object keeps its own compiled step."""
        if owner is None:
            return self
        own = getattr(owner, "__dict__", None)
        is_class = isinstance(owner, type)
        if type(own) is not dict and not is_class:
            raise TypeError(f"compile: {type(owner).__name__} has __slots__ and no __dict__, in which an object keeps its "
                            "own compiled method; add \"__dict__\" to them, or compile a function")
        steps, key = (self._of_classes, owner) if is_class else (own, self._kept_as)
        method = self.function.__get__(owner, kind)
        if key not in steps or steps[key].function != method:  # a copied object has the original's
            steps[key] = Compiled(method, self.check)
        return steps[key]

    def __call__(self, *inputs: Arguments.args, **named: Arguments.kwargs) -> Result:
        if this_thread.runner is not None:  # inside a step that is being captured, or observed
            return self.function(*inputs, **named)
        if named:
            raise TypeError(f"compile: a compiled step takes its Tensors by position, got {', '.join(named)} by name")
        self.calls += 1
        key = (*map(_form, inputs), *first_places(inputs), this_thread.identity, backend.asks_threads, *_modes())
        known = self._captured.get(key)
        if known is not None and known.is_current():
            if known.may_write_to(inputs):
                return each(self.function(*inputs), _off_the_tape)
            known.count += 1
            if known.count & known.count - 1 and known.count != 3:
                return known.checked_replay(self, inputs) if self.check else known.replay(inputs)
            del self._captured[key]  # until it is verified
            result, self._captured[key] = verified(self, inputs, known), known
            return result
        self._captured.pop(key, None)
        ahead.start()
        result, new = captured(self, inputs)
        if new is None:
            return result
        self._captured[key] = new
        if known is not None and new.transcript.difference(known.transcript) is None:
            new.count = known.count + 1  # nothing relevant has changed
        for oldest in list(self._captured)[:-MOST_CAPTURED]:
            self._captured.pop(oldest, None)  # another thread may have removed it
        return result

    def forget(self) -> None:
        """Capture again at the next call."""
        self._captured.clear()

    def constants(self) -> list[Constant]:
        """What the last capture takes as constant: variables first, then arguments of calls.

        >>> __name__, scale = "a_file_of_the_user", 2.0
        >>> step = compile(lambda x: x * scale + 1)
        >>> y = step(Tensor([1.0]))
        >>> [(constant.name, constant.value) for constant in step.constants()]
        [('scale', 2.0), ('Mul', 2.0), ('Add', 1)]
        """
        if not self._captured:
            return []
        *_, last = self._captured.values()
        places = [Constant(place.name, "", place.value) for place in last.around.places.values()
                  if place.kind not in (OUTDATING, REPLAYED) and place.key != "__code__"]
        return places + [Constant(*constant) for constant in last.transcript.constants()]

    def __copy__(self) -> "Compiled[Arguments, Result]":
        return Compiled(self.function, self.check)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Compiled[..., Result]":
        owner = getattr(self.function, "__self__", None)
        if owner is None:
            return self.__copy__()
        return Compiled(types.MethodType(self.function.__func__, memo.get(id(owner), owner)), self.check)

    def __reduce__(self) -> Any:
        owner = getattr(self.function, "__self__", None)
        return self.__qualname__ if owner is None else (getattr, (owner, self.__name__))


def _form(x: Tensor) -> tuple:
    """What inputs must share to use the same capture: everything but their values."""
    if type(x) is not Tensor:
        raise TypeError(f"compile: a compiled step takes Tensors, got {type(x).__name__}; wrap arrays and numbers with "
                        "minigrad.tensor, detach() a parameter, or let the step read them from outside")
    if len(x.__dict__) > 3 and x.__dict__.keys() - OF_TENSORS:
        raise TypeError("compile: an input of a compiled step has attributes of its own, which a replay would not see; let "
                        "the step read them from outside")
    if x.requires_grad:
        raise RuntimeError("compile: an input of a compiled step requires a gradient; let the step read it from outside, "
                           "as parameters are read")
    array = x.array
    return array.shape, array.dtype, array.strides, array.flags.writeable


def _modes() -> tuple[int, bool, bool, bool]:
    """What a computation depends on apart from its inputs, in this Python thread."""
    return get_num_threads(), this_thread.grad_enabled, this_thread.is_textbook, this_thread.rounds_products


class _Captured:
    """A captured step with the arrays of its inputs and results."""

    def __init__(self, step: Capture, inputs: Sequence[np.ndarray], results: Any, call: int):
        self.pool, self.arrivals, self.sources = step.pool, step.arrivals, list(step.sources.values())
        self.opening, self.calls = step.calls[: step.opening], step.calls[step.opening :]
        self.rehearsed: Sequence = ()  # the arrivals of the last call, if that was a rehearsal
        self.inputs, self.results = inputs, results
        self.around, self.transcript, self.opaque = step.around, step.transcript, step.opaque_arguments
        self.look_at(step.around)
        self.count = 1  # calls; Python verifies number 2, 3, 4, 8, ...
        self.last_run = call  # the last call that Python made

    def look_at(self, around: Surroundings) -> None:
        """`is_current` compares with the present state from now on."""
        self.generation = changes()  # counting modules that the step itself makes
        places = around.to_check({id(tensor) for tensor, _, _ in self.sources})
        self.reads, self.values = [place.read for place in places], [place.value for place in places]
        # Memory that optimizers and hooks may write to: where spans begin, and where all spans up to there have ended.
        arrays = [array for _, array, _ in self.sources] if self.opaque or self.arrivals else []
        for value in self.opaque:
            each(getattr(value, "state", None), arrays.append)
        spans = sorted(_span(array) for array in arrays if isinstance(array, np.ndarray) and array.size)
        self.starts, self.ends = [start for start, _ in spans], list(itertools.accumulate((end for _, end in spans), max))

    def is_current(self) -> bool:
        """Is everything as it was when the step was captured?"""
        if self.generation != changes():
            return False
        for now, value in zip(map(operator.call, self.reads), self.values):
            if now is not value and not same(now, value):
                return False
        for tensor, array, node in self.sources:
            if tensor._array is not array or tensor.node is not node or node is not None and node.hooks:
                return False
        return True

    def may_write_to(self, inputs: Sequence[Tensor]) -> bool:
        """Might the step write to an input's memory, through a tensor from outside, before it reads the input?"""
        known, starts = self.around.known, self.starts
        for tensor in inputs:
            array = tensor._array
            if id(tensor) in known:  # the step may compare the two by identity
                return True
            if array.dtype.kind == "f" and any(  # integers are no gradients
                    isinstance(gradient := arrival.node.grad, Tensor) and np.may_share_memory(array, gradient._array)
                    for arrival in self.arrivals):
                return True
            if starts:
                start, end = _span(array)
                place = bisect.bisect_left(starts, end)
                if place and self.ends[place - 1] > start and (
                        self.opaque or any(arrival.node.accumulation_hooks for arrival in self.arrivals)):
                    return True
        return False

    @float_errors.ignored
    def replay(self, inputs: Sequence[Tensor]) -> Any:
        for array, tensor in zip(self.inputs, inputs):
            array[...] = tensor.array
        for function, arguments in self.opening:  # they may clear gradients
            function(*arguments)
        self.leave()
        for function, arguments in self.calls:
            function(*arguments)
        return copied(self.results)

    def leave(self) -> None:
        """Move gradients away from where the step is about to write."""
        for arrival in self.rehearsed or self.arrivals:
            arrival.leave()
        self.rehearsed = ()

    def checked_replay(self, step: Compiled, inputs: Sequence[Tensor]) -> Any:
        """A replay, compared with the function itself from the same state: results, tensors, gradients, optimizers."""
        touched = [tensor for tensor, _, _ in self.sources] + self.opaque
        self.around.begin()
        undo = Undo(*touched, places=self.around.places.values())
        expected = step.function(*[tensor.clone() for tensor in inputs])
        expected = [(name, value.copy()) for name, value in [*_leaves(expected, "the result"), *self._state()]]
        undo.restore()
        result = self.replay(inputs)
        for (name, a), (_, b) in zip(expected, [*_leaves(result, "the result"), *self._state()]):
            if not same_bits(a, b):
                raise RuntimeError(f"compile: check: at call {step.calls} the bits of {name} differ between the replay "
                                   "and the step itself")
        return result

    def _state(self) -> list[tuple[str, np.ndarray]]:
        """Everything that the step may have changed, by name."""
        found = [("the state of minigrad's generator", np.array(repr(random.get_state())))]
        for tensor, array, _ in self.sources:
            found += _leaves([tensor, tensor.grad_array()], f"a tensor of shape {array.shape} or its gradient")
        for value in self.opaque:
            if hasattr(value, "state_dict"):
                found += _leaves(value.state_dict(), f"the state of {type(value).__name__}")
        return found


def _span(array: np.ndarray) -> tuple[int, int]:
    """Where an array begins and ends in memory."""
    if array.flags.c_contiguous:
        start = address(array)
        return start, start + array.nbytes
    return np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)


def captured(compiled: Compiled, inputs: Sequence[Tensor], before: _Captured | None = None) -> tuple[Any, _Captured | None]:
    """A step's results and its capture; no capture if the step may have written to the inputs. Given what was captured
    `before`, Python runs the step again in that memory.

    If a replay would not do the same: `Refused`, with nothing changed."""
    arrays = [with_strides_of(x.array) for x in inputs]
    for array, x in zip(arrays, inputs):
        array[...] = x.array
    function = compiled.function
    around = before.around if before else Surroundings(function, compiled._ran)
    around.begin()
    modes = _modes()
    step = Rehearsal(around, before.pool) if before else Capture(around)
    try:
        with step:
            tensors = [CapturedTensor.of(as_given(array, x.array), None, step) for array, x in zip(arrays, inputs)]
            tensors = [tensors[i] for i in first_places(inputs) or range(len(tensors))]
            step.inputs = tensors
            results = step.run(function, *tensors) if before and before.count == 2 else function(*tensors)
            step.transcript.ends(results)
            results = each(results, lambda value: _array_of(value, step))
        if step.refusal is not None:  # the step has caught it
            raise step.refusal
        if own := {name for tensor in tensors for name in vars(tensor).keys() - OF_TENSORS}:
            raise Refused(f"compile: this step sets the attribute {min(own)} of an input, which a replay would not; set it "
                          "outside, on what the step reads from there")
        if _modes() != modes:
            raise Refused("compile: this step leaves another grad mode, precision or number of threads behind, which a "
                          "replay would not; set them outside, or in a with block")
        known = _Captured(step, arrays, results, compiled.calls)
        _refuse_changes(around, step.changed)
    except Refused:
        step.undo.restore()
        raise
    finally:
        step.inputs = []  # they refer to the step
    if before is not None:
        compiled._ran.update(step.ran)
        around.add(step.ran)
    elif known.may_write_to(inputs):  # it has read copies: run it again on the inputs themselves
        step.undo.restore()
        if any(arrival.node.accumulation_hooks for arrival in known.arrivals):  # which would be called twice
            raise Refused("compile: an input shares memory with a tensor or gradient of this step, whose hooks may write "
                          "there; pass a copy, as clone() makes")
        return each(function(*inputs), _off_the_tape), None
    return copied(results), known


def as_given(array: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The array that stands for an input, read-only if the input is."""
    array = array.view()
    array.flags.writeable = given.flags.writeable
    return array


def first_places(inputs: Sequence[Tensor]) -> list[int]:
    """For each input the index of its first occurrence; empty if all differ."""
    ids = list(map(id, inputs))
    return list(map(ids.index, ids)) if len(set(ids)) < len(ids) else []


def verified(compiled: Compiled, inputs: Sequence[Tensor], known: _Captured) -> Any:
    """A captured step's results, computed by Python. RuntimeError if it does something else than was captured;
    what it did is not undone."""
    known.leave()
    result, now = captured(compiled, inputs, known)
    difference, known.rehearsed = now.transcript.difference(known.transcript), now.arrivals
    known.look_at(known.around)
    last, known.last_run = known.last_run, compiled.calls
    if difference:
        wrong = f"; replays since call {last + 1} may have been wrong" if compiled.calls - last > 1 else ""
        raise RuntimeError(f"compile: at call {compiled.calls} this step did something else than was captured: {difference}"
                           f"{wrong}. Python made this call; pass what changes as an input, or don't compile this step")
    return result


def _refuse_changes(around: Surroundings, changed: list) -> None:
    changed = {place.name: place for place in (*changed, *around.changed())}
    if changed:
        names = ", ".join(f"{name} ({line_of(around.codes, place.key)})" for name, place in changed.items())
        raise Refused(f"compile: this step changes {names}, which a replay would not; change it outside, pass it as an "
                      "input, or don't compile this step")


class NoTensors(Refused, TypeError):
    """A step returned something other than Tensors."""


def _array_of(value: Any, step: Capture) -> np.ndarray | None:
    """The array of a Tensor that a step returned."""
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise NoTensors("compile: a compiled step returns Tensors, in tuples, lists or dicts, or None, "
                        f"got {type(value).__name__}")
    if value.requires_grad and not step.is_differentiated:
        raise Refused("compile: a replay's results are off the tape, and this step calls no backward(); call it inside, "
                      "or compute under no_grad()")
    return step.array_of(value)


def _off_the_tape(value: Tensor | None) -> Tensor | None:
    return None if value is None else copied(value.array)


def copied(results: Any) -> Any:
    """Copies of the results, as Tensors."""
    return each(results, lambda array: None if array is None else wrap(array.copy(order="K")))


def _leaves(results: Any, name: str) -> list[tuple[str, np.ndarray]]:
    """All arrays in nested tuples, lists and dicts."""
    found = []
    each(results, lambda value: found.append((name, np.asarray(value.array if isinstance(value, Tensor) else value))))
    return found
