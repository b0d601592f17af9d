"""A computation captured once and replayed: the same kernels on the same memory, without the tape and without layers.

A replay is the step, or there is an error. What the step takes as given is found from its code (surroundings.py) and looked
at before each replay; and more and more rarely the step is run by Python again, and compared call by call (transcript.py).
"""
import bisect
import functools
import itertools
import operator
import types
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from ... import backend, random
from ...arrays import float_errors
from ...per_thread import this_thread
from ...runner import changes
from ...tensor import Tensor, wrap
from ..kernels import ahead
from ..kernels.buffers import with_strides_of
from ..kernels.jit import address, get_num_threads
from .capture import Capture, Refused, Rehearsal, Tracer
from .code import line_of
from .places import REPLAYED, TOLD, Undo, each, same
from .surroundings import Surroundings
from .transcript import same_bits

MOST_CAPTURED = 8  # of one step: for as many shapes of inputs; then the oldest goes


def compile(function: Callable | None = None, *, check: bool = False) -> "Compiled":
    """A faster form of `function(*tensors)`, such as a training step: captured at the first call, and then replayed.

    A replay makes the same calls on the same memory again, so its results have the same bits. Layers, checks, the tape and
    fresh memory are left out: they cost time, and more than the kernels if the model is tiny. The contract:

    - The step takes Tensors, and returns Tensors, in tuples, lists or dicts, or None. Results are copies, off the tape.
    - It may call backward(), optimizers and schedulers, draw by minigrad's functions, and clear gradients.
    - Tensors and NumPy arrays from outside are read anew in each call, as inputs are.
    - Variables, attributes, and what lists, dicts, arrays and objects hold are read when the step is captured. If one has
      changed, or a module, the grad mode, the number of threads, or a shape, the step is captured anew. (Lists of more than
      131,072 items and arrays of more than 16 MB are not looked at; what Python reads of them is as below.)
    - What a replay would not do is refused at the first call, by name, with nothing changed: setting a variable or an
      attribute, reading a value in Python (item(), an if), writing in place, hooks, create_graph, NumPy's generators.
    - What Python decides in a way that cannot be seen from outside is found out: at calls 2, 3, 4, 8, 16, ... Python runs
      the step, and a RuntimeError says what it did otherwise than before. Until then, such replays were wrong.
    - Prints and other effects on the world happen only when Python runs the step.

    `constants()` of what is returned lists what is taken as given. With `check`, each call is made by Python too, from the
    same state, and compared to the bit: slow, and for whoever doubts.

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
                        "write the step that calls it, with backward() and the optimizer's step(), and compile that")
    return Compiled(function, check)


class Constant(NamedTuple):
    """What a captured step takes as given: a variable, or a number or an array that one of its calls was given."""

    name: str
    where: str  # "file:line" of a call; of a variable, nothing
    value: Any


class Compiled:
    """What `compile` returns."""

    def __init__(self, function: Callable, check: bool = False):
        self.function, self.check = function, check
        self.calls = 0
        self._captured: dict[tuple, _Captured] = {}
        self._ran: dict = {}  # code of the user's that has run in it: see `Rehearsal.ran`
        self._of_objects: dict[int, Compiled] = {}  # as a method of objects that have no attributes of their own, by id
        functools.update_wrapper(self, function)

    def __get__(self, owner: Any, kind: type | None = None) -> "Compiled":
        """The step as a method: each object has a captured step of its own, and keeps it."""
        if owner is None:
            return self
        own = getattr(owner, "__dict__", None)
        steps, key = (own, f"{self.__qualname__}, compiled") if type(own) is dict else (self._of_objects, id(owner))
        if key not in steps or steps[key].function.__self__ is not owner:  # what was copied has the other's
            steps[key] = Compiled(self.function.__get__(owner, kind), self.check)
        return steps[key]

    def __call__(self, *inputs: Tensor, **named) -> Any:
        if this_thread.runner is not None:  # within another step that is captured, or observed
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
            new.count = known.count + 1  # nothing that matters has changed
        for oldest in list(self._captured)[:-MOST_CAPTURED]:
            self._captured.pop(oldest, None)  # another thread may have been faster
        return result

    def forget(self) -> None:
        """Capture anew at the next call."""
        self._captured.clear()

    def constants(self) -> list[Constant]:
        """What the step takes as given, as it was captured last: first variables, then what its calls were given.

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
                  if place.kind not in (TOLD, REPLAYED) and place.key != "__code__"]
        return places + [Constant(*constant) for constant in last.transcript.constants()]

    def __copy__(self) -> "Compiled":
        return Compiled(self.function, self.check)

    def __deepcopy__(self, memo: dict) -> "Compiled":
        owner = getattr(self.function, "__self__", None)
        if owner is None:
            return self.__copy__()
        return Compiled(types.MethodType(self.function.__func__, memo.get(id(owner), owner)), self.check)

    def __reduce__(self) -> Any:
        owner = getattr(self.function, "__self__", None)
        return self.__qualname__ if owner is None else (getattr, (owner, self.__name__))


def _form(x: Tensor) -> tuple:
    """What two inputs have in common for which the same captured step serves: all but their values."""
    if type(x) is not Tensor:
        raise TypeError(f"compile: a compiled step takes Tensors, got {type(x).__name__}; wrap arrays and numbers with "
                        "minigrad.tensor, detach() a parameter, or let the step read them from outside")
    if len(x.__dict__) > 3 and x.__dict__.keys() - {"_array", "node", "made", "frozen"}:
        raise TypeError("compile: an input of a compiled step has attributes of its own, which a replay would not see; let "
                        "the step read them from outside")
    if x.requires_grad:
        raise RuntimeError("compile: an input of a compiled step requires a gradient; let the step read it from outside, "
                           "as parameters are read")
    array = x.array
    return array.shape, array.dtype, array.strides, array.flags.writeable


def _modes() -> tuple[int, bool, bool]:
    """What a computation depends on beside its inputs, in this Python thread."""
    return get_num_threads(), this_thread.grad_enabled, this_thread.is_textbook


class _Captured:
    """A captured step, with the arrays of its inputs and results."""

    def __init__(self, step: Capture, inputs: Sequence[np.ndarray], results: Any, call: int):
        self.pool, self.arrivals, self.sources = step.pool, step.arrivals, list(step.sources.values())
        self.opening, self.calls = step.calls[: step.opening], step.calls[step.opening :]
        self.rehearsed: Sequence = ()  # the arrivals of the last call, if it was a rehearsal
        self.inputs, self.results = inputs, results
        self.around, self.transcript, self.opaque = step.around, step.transcript, step.opaque_arguments
        self.look_at(step.around)
        self.count = 1  # calls, which are compared at 2, 3, 4, 8, ...
        self.last_run = call  # of the step's calls, the last one that Python made
        # Memory that the step may write to: the places in it where something begins, and where all of before has ended.
        spans = sorted(span for span in (_span(array) for _, array, _ in self.sources if self.opaque) if span[0] < span[1])
        self.starts, self.ends = [start for start, _ in spans], list(itertools.accumulate((end for _, end in spans), max))

    def look_at(self, around: Surroundings) -> None:
        """What is now is what `is_current` looks for."""
        self.generation = changes()  # modules that the step makes have told, too
        places = around.to_check({id(tensor) for tensor, _, _ in self.sources})
        self.reads, self.values = [place.read for place in places], [place.value for place in places]

    def is_current(self) -> bool:
        """Does what it was captured with still hold?"""
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
        """Does an input share memory with a tensor from outside that the step may write to, before it reads the input?"""
        known, starts = self.around.known, self.starts
        for tensor in inputs:
            array = tensor._array
            if id(tensor) in known:  # the step may ask whether it is the same
                return True
            if array.dtype.kind == "f" and any(tensor is arrival.node.grad for arrival in self.arrivals):
                return True  # ids are no gradients
            if starts:
                start, end = _span(array)
                place = bisect.bisect_left(starts, end)
                if place and self.ends[place - 1] > start:
                    return True
        return False

    @float_errors.ignored
    def replay(self, inputs: Sequence[Tensor]) -> Any:
        for array, tensor in zip(self.inputs, inputs):
            array[...] = tensor.array
        for function, arguments in self.opening:  # which may clear gradients
            function(*arguments)
        self.leave()
        for function, arguments in self.calls:
            function(*arguments)
        return copied(self.results)

    def leave(self) -> None:
        """Gradients that lie where the step is about to write go elsewhere."""
        for arrival in self.rehearsed or self.arrivals:
            arrival.leave()
        self.rehearsed = ()

    def checked_replay(self, step: Compiled, inputs: Sequence[Tensor]) -> Any:
        """The replay, compared with the function itself from the same state: results, tensors, gradients, optimizers."""
        touched = [tensor for tensor, _, _ in self.sources] + self.opaque
        self.around.begin()
        undo = Undo(*touched, places=self.around.places.values())
        expected = step.function(*[tensor.clone() for tensor in inputs])
        expected = [(name, value.copy()) for name, value in [*_leaves(expected, "the result"), *self._state()]]
        undo.restore()
        result = self.replay(inputs)
        for (name, a), (_, b) in zip(expected, [*_leaves(result, "the result"), *self._state()]):
            if not same_bits(a, b):
                raise RuntimeError(f"compile: check: at call {step.calls} the replay has other bits than the step itself "
                                   f"in {name}")
        return result

    def _state(self) -> list[tuple[str, np.ndarray]]:
        """All that the step may have changed, by names."""
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
    """A step's results, and what it did, unless it may have written to the inputs; in the memory of what was captured
    `before`, if that is given.

    Refused, and nothing is changed, if a replay would not do the same."""
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
            tracers = [Tracer.of(as_given(array, x.array), None, step) for array, x in zip(arrays, inputs)]
            tracers = [tracers[i] for i in first_places(inputs) or range(len(tracers))]
            step.inputs = tracers
            results = step.run(function, *tracers) if before and before.count == 2 else function(*tracers)
            step.transcript.ends(results)
            results = each(results, lambda value: _array_of(value, step))
        if step.refusal is not None:  # and the step has caught it
            raise step.refusal
        if _modes() != modes:
            raise Refused("compile: this step leaves another grad mode or number of threads than it found, which a replay "
                          "would not; set them outside, or in a with block")
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
    elif known.may_write_to(inputs):  # it has read copies: once more, from where they lie
        step.undo.restore()
        return each(function(*inputs), _off_the_tape), None
    return copied(results), known


def as_given(array: np.ndarray, given: np.ndarray) -> np.ndarray:
    """An array for the values of an input, as the step sees it."""
    array = array.view()
    array.flags.writeable = given.flags.writeable
    return array


def first_places(inputs: Sequence[Tensor]) -> list[int]:
    """For each input the first place at which it stands; nothing if none stands twice."""
    ids = list(map(id, inputs))
    return list(map(ids.index, ids)) if len(set(ids)) < len(ids) else []


def verified(compiled: Compiled, inputs: Sequence[Tensor], known: _Captured) -> Any:
    """The result of a captured step as Python makes it. RuntimeError if it does something else than was captured; what it
    did then stands."""
    known.leave()
    result, now = captured(compiled, inputs, known)
    difference, known.rehearsed = now.transcript.difference(known.transcript), now.arrivals
    known.look_at(known.around)
    last, known.last_run = known.last_run, compiled.calls
    if difference:
        wrong = f"; replays since call {last + 1} may have been wrong" if compiled.calls - last > 1 else ""
        raise RuntimeError(f"compile: at call {compiled.calls} this step is another one than the one captured: {difference}"
                           f"{wrong}. This call was made by Python; pass what changes as an input, or don't compile this "
                           "step")
    return result


def _refuse_changes(around: Surroundings, changed: list) -> None:
    changed = {place.name: place for place in (*changed, *around.changed())}
    if changed:
        names = ", ".join(f"{name} ({line_of(around.codes, place.key)})" for name, place in changed.items())
        raise Refused(f"compile: this step changes {names}, which a replay would not; change it outside, pass it as an "
                      "input, or don't compile this step")


class NoTensors(Refused, TypeError):
    """A step returned something else."""


def _array_of(value: Any, step: Capture) -> np.ndarray | None:
    """The array of a Tensor that a step returned."""
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise NoTensors("compile: a compiled step returns Tensors, in tuples, lists or dicts, or None, "
                        f"got {type(value).__name__}")
    if value.requires_grad and not step.is_differentiated:
        raise Refused("compile: a replay's results are off the tape, and this step calls no backward(); call it "
                      "inside, or compute under no_grad()")
    return step.array_of(value)


def _off_the_tape(value: Tensor | None) -> Tensor | None:
    return None if value is None else copied(value.array)


def copied(results: Any) -> Any:
    """Tensors with copies of the results."""
    return each(results, lambda array: None if array is None else wrap(array.copy(order="K")))


def _leaves(results: Any, name: str) -> list[tuple[str, np.ndarray]]:
    """The arrays of all that is in tuples, lists and dicts."""
    found = []
    each(results, lambda value: found.append((name, np.asarray(value.array if isinstance(value, Tensor) else value))))
    return found
