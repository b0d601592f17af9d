"""A step captured once and replayed: the same kernels on the same memory, without the tape and without layers.

What a replay cannot follow is refused when the step is captured, or constant. Before each replay, Tensors, modules and
variables are compared with what they were (reached.py). Ever more rarely, Python runs the step again, and is compared with
what it did before, call by call (transcript.py).
"""
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from ...arrays import float_errors
from ...arrays.versions import owner
from ...per_thread import this_thread
from ...replays import changes
from ...runner import EAGER
from ...tensor import Tensor, wrap
from ..kernels import ahead
from ..kernels.buffers import with_strides_of
from ..kernels.jit import get_num_threads
from ..pool import Pool
from .capture import Capture, CapturedTensor, Refused
from .reached import MISSING, Reached, each

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

    A replay launches the same kernels on the same memory: results have the same bits. The step takes Tensors and returns
    None, or Tensors in tuples, lists or dicts (copies, off the tape). The contract:

    - Python runs once for each set of shapes and modes. Looked at in each call are inputs, the Tensors and arrays that ops
      read, attributes of modules, optimizers, minigrad's generators; and, by identity, the variables that the step's code
      names: globals, closure cells, attributes of a method's object. If one is replaced, the step is captured again.
    - All else is constant: lists, dicts, configs, files, clocks. Python makes calls 2, 3, 4, 8, 16, ..., and if it does
      something else than was captured, a RuntimeError names it, and since when. With `check` it makes every call.
    - What no replay would do is refused when Python runs, with nothing changed: setting a variable or what it holds,
      reading a value (item(), an if), writing in place, hooks, create_graph, reading what an optimizer or scheduler keeps.
    - Prints and other effects outside happen only when Python runs.

    `constants()` of the result lists what was taken as constant; `forget()` drops all captures. PyTorch's other keywords
    are ignored.

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
        self._of_classes: dict[type, Compiled] = {}  # as a class method
        functools.update_wrapper(self, function)
        self._kept_as: str = f"{getattr(self, '__qualname__', '')}, compiled"  # in the objects of which it is a method

    def __set_name__(self, owner: type, name: str) -> None:
        """Called in a class body. A base class may have the same name, but it has fewer bases."""
        self._kept_as = f"{owner.__qualname__}.{name}, compiled, {len(owner.__mro__)}"

    def __get__(self, owner: Any, kind: type | None = None) -> "Compiled[..., Result]":
        """The step as a method: each object keeps its own compiled step."""
        if owner is None:
            return self
        if this_thread.runner is not EAGER:  # inside a step that is being captured, which may not change the object
            return self.function.__get__(owner, kind)
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
        if this_thread.runner is not EAGER:  # inside a step that is being captured, or observed
            return self.function(*inputs, **named)
        if named:
            raise TypeError(f"compile: a compiled step takes its Tensors by position, got {', '.join(named)} by name")
        self.calls += 1
        key = (*map(_form, inputs), *first_places(inputs), this_thread.identity, *_modes())
        known = self._captured.get(key)
        is_current = known is not None and known.is_current()
        if is_current:
            if known.may_write_to(inputs):
                return each(self.function(*inputs), _off_the_tape)
            known.count += 1
            if not self.check and known.count != 3 and known.count & known.count - 1:
                return known.replay(inputs)
        return self._run(inputs, key, known, is_current)

    def _run(self, inputs: Sequence[Tensor], key: tuple[Any, ...], known: "_Captured | None", is_current: bool) -> Any:
        """Python makes this call. RuntimeError if what is known is current, and Python does something else."""
        ahead.start()
        changed = [] if known is None else known.reached.changes()
        if known is not None:
            known.leave()
            self._captured.pop(key, None)  # another thread may have removed it
        result, new = captured(self, inputs, Pool(keeps_all=True) if known is None else known.pool)
        if new is not None:
            self._captured[key] = new
            for oldest in list(self._captured)[:-MOST_CAPTURED]:
                self._captured.pop(oldest, None)
        if new is None or known is None:
            return result
        difference = new.transcript.difference(known.transcript)
        if difference is None:  # nothing relevant has changed
            new.count = known.count + (not is_current)
        elif is_current:
            self.forget()  # other shapes and threads took the same as constant
            because = f" ({', '.join(changed[:3])} changed)" if changed else ""
            wrong = f"; replays since call {known.call + 1} may have been wrong" if self.calls - known.call > 1 else ""
            raise RuntimeError(f"compile: at call {self.calls} this step did something else than was captured: {difference}"
                               f"{because}{wrong}. Python made this call; pass what changes as an input, or don't compile "
                               "this step")
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
        variables = {place.name_of(key): value for place in last.reached.variables() for key, value in place.first.items()}
        variables = [Constant(name, "", value) for name, value in variables.items()
                     if value is not MISSING and not callable(value) and not isinstance(value, types.ModuleType)]
        return variables + [Constant(*constant) for constant in last.transcript.constants()]

    def __reduce__(self) -> Any:
        """For copies, too: a method is that of the copied object."""
        owner = getattr(self.function, "__self__", None)
        return self.__qualname__ if owner is None else (getattr, (owner, self.__name__))


def _form(x: Tensor) -> tuple:
    """What inputs must share to use the same capture: everything but their values."""
    if type(x) is not Tensor:
        raise TypeError(f"compile: a compiled step takes Tensors, got {type(x).__name__}; wrap arrays and numbers with "
                        "minigrad.tensor, detach() a parameter, or let the step read them from outside")
    if x.requires_grad:
        raise RuntimeError("compile: an input of a compiled step requires a gradient; let the step read it from outside, "
                           "as parameters are read")
    array = x.array
    return array.shape, array.dtype, array.strides


def _modes() -> tuple[int, bool, bool, bool]:
    """What a computation depends on apart from its inputs, in this Python thread."""
    return get_num_threads(), this_thread.grad_enabled, this_thread.is_textbook, this_thread.rounds_products


class _Captured:
    """A captured step with the arrays of its inputs and results."""

    def __init__(self, step: Capture, inputs: Sequence[np.ndarray], results: Any, call: int):
        self.pool, self.arrivals, self.sources = step.pool, step.arrivals, list(step.sources.values())
        self.opening, self.calls = step.calls[: step.opening], step.calls[step.opening :]
        self.inputs, self.results = inputs, results
        self.reached, self.transcript = step.reached, step.transcript
        self.peeks = [place.peek for place in self.reached.variables()]
        self.values = list(self._variables())
        self.generation = changes()  # counting modules that the step itself makes
        self.count, self.call = 1, call  # of calls since the capture; of all calls when Python last ran
        written = [array for _, array, _ in self.sources]  # by optimizers, which also write to what they keep, or hooks
        self.has_opaque_calls = bool(step.opaque_arguments)
        for value in step.opaque_arguments:
            each(getattr(value, "state", None), written.append)
        owners = [owner(array) for array in written if isinstance(array, np.ndarray)]
        self.written = {id(array): weakref.ref(array) for array in owners}

    def _variables(self) -> Iterable[Any]:
        return itertools.chain.from_iterable(map(operator.call, self.peeks))

    def is_current(self) -> bool:
        """Is everything as it was when the step was captured?"""
        if self.generation != changes() or not all(map(operator.is_, self._variables(), self.values)):
            return False
        for tensor, array, node in self.sources:
            if tensor._array is not array or tensor.node is not node or node is not None and node.hooks:
                return False
        return True

    def may_write_to(self, inputs: Sequence[Tensor]) -> bool:
        """Might the step write to an input's memory, through a tensor from outside, before it reads the input?"""
        for array in (tensor._array for tensor in inputs):
            is_known = self.written.get(id(owner(array)), lambda: None)() is owner(array)
            if is_known and (self.has_opaque_calls or self.has_hooks()):
                return True
            for arrival in self.arrivals if array.dtype.kind == "f" else ():  # integers are no gradients
                gradient = arrival.node.grad
                if isinstance(gradient, Tensor) and np.may_share_memory(array, gradient._array):
                    return True
        return False

    def has_hooks(self) -> bool:
        return any(arrival.node.accumulation_hooks for arrival in self.arrivals)

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
        for arrival in self.arrivals:
            arrival.leave()


def captured(compiled: Compiled, inputs: Sequence[Tensor], pool: Pool) -> tuple[Any, _Captured | None]:
    """A step's results and its capture; no capture if the step may have written to the inputs.

    If a replay would not do the same: `Refused`, with nothing changed."""
    arrays = [with_strides_of(x.array) for x in inputs]
    for array, x in zip(arrays, inputs):
        array[...] = x.array
    function, modes, reached = compiled.function, _modes(), Reached(compiled.function)
    step = Capture(reached, pool)
    try:
        with step:
            tensors = [CapturedTensor.of(array, None, step) for array in arrays]
            tensors = step.inputs = [tensors[i] for i in first_places(inputs) or range(len(tensors))]
            own = vars(tensors[0]).keys() | {"leaf"} if tensors else set()
            results = function(*tensors)
            step.transcript.ends(results)
            results = each(results, lambda value: _array_of(value, step))
        if step.refusal is not None:  # the step has caught it
            raise step.refusal
        changed = step.changed + reached.changes()
        changed += [f"the attribute {name} of an input" for tensor in tensors for name in vars(tensor).keys() - own]
        if _modes() != modes:
            changed.append("the grad mode, the precision or the number of threads")
        if changed:
            raise Refused(f"compile: this step changes {', '.join(dict.fromkeys(changed))}, which a replay would not; "
                          "change it outside, pass it as an input, or don't compile this step")
        for value in (value for place in reached.variables() for value in place.first.values()):
            step.array_of(value)  # of a Tensor the step may look at the shape, which no op reads
        known = _Captured(step, arrays, results, compiled.calls)
        if not known.may_write_to(inputs):
            return copied(results), known
        if known.has_hooks():  # which would be called twice
            raise Refused("compile: an input shares memory with a tensor or gradient of this step, whose hooks may write "
                          "there; pass a copy, as clone() makes")
    except Refused:
        step.undo.restore()
        reached.restore()
        raise
    finally:
        step.inputs = []  # they refer to the step
    step.undo.restore()  # it has read copies: run it again on the inputs themselves
    return each(function(*inputs), _off_the_tape), None


def first_places(inputs: Sequence[Tensor]) -> list[int]:
    """For each input the index of its first occurrence; empty if all differ."""
    ids = list(map(id, inputs))
    return list(map(ids.index, ids)) if len(set(ids)) < len(ids) else []


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
