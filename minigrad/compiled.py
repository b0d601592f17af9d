"""A computation captured once and replayed: the same kernels on the same memory, without the tape and without layers."""
import dis
import functools
import operator
import types
from typing import Any, Callable, Sequence

import numpy as np

from . import capture, float_errors
from .capture import Capture, Tracer
from .kernels import ahead
from .kernels.buffers import with_strides_of
from .kernels.jit import get_num_threads
from .per_thread import this_thread
from .tensor import Tensor, wrap

MOST_CAPTURED = 8  # of one step: for as many shapes of inputs; then the oldest goes


def compile(function: Callable) -> "Compiled":
    """A faster form of `function(*tensors)`, such as a training step: captured at the first call, and then replayed.

    A replay copies the inputs to where those of the first call lie and makes the same calls again: the results have the
    same bits. What costs time in between, and more than the kernels if the model is tiny, is left out: layers, checks,
    the tape, fresh memory. The function takes Tensors and returns one, or a tuple of them, or None; results come back
    as copies, off the tape. It may call backward(), an optimizer's step() and zero_grad().

    A captured step holds for inputs of the same shapes, strides and dtypes, in the same thread, mode and number of threads,
    while the variables that the function reads refer to the same objects and the Tensors to the same memory, and until
    an attribute of a module is set (by train() and eval() too) or a hook is registered; then it is captured anew. What
    Python decides is decided while the step is captured, so Python must not read values then: a RuntimeError says where
    the step does (item(), an if, a write in place, a hook, create_graph). What functions of other modules read, or what is
    inside a list or an object that is no module, stays as it was: call `forget()` when it changes. Under detect_anomaly()
    and count_flops() nothing is replayed.

    >>> import minigrad as mg
    >>> w = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> @mg.compile
    ... def step(x):
    ...     loss = (w * x).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> step(mg.tensor([1.0, 1.0])), step(mg.tensor([3.0, 1.0])).item()  # captured, replayed
    (tensor(5.), 13.0)
    >>> w.grad  # accumulated: [2, 4] + [18, 4]
    tensor([20.,  8.])
    """
    if hasattr(function, "named_parameters"):
        raise TypeError(f"compile: expected a function, such as a training step, got a model ({type(function).__name__}); "
                        "write the step that calls it, with backward() and the optimizer's step(), and compile that")
    return Compiled(function)


class Compiled:
    """What `compile` returns."""

    def __init__(self, function: Callable):
        self.function = function
        self._captured: dict[tuple, _Captured] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *inputs: Tensor) -> Any:
        if this_thread.runner is not None:  # within another step that is captured, or observed
            return self.function(*inputs)
        key = (*map(_form, inputs), this_thread.identity, *_modes())
        known = self._captured.get(key)
        if known is not None and known.is_current():
            return known.replay(inputs)
        self._captured.pop(key, None)
        ahead.start()
        result, known = captured(self.function, inputs)
        self._captured[key] = known
        for oldest in list(self._captured)[:-MOST_CAPTURED]:
            self._captured.pop(oldest, None)  # another thread may have been faster
        return result

    def forget(self) -> None:
        """Capture anew at the next call: something has changed that Python reads while a step is captured."""
        self._captured.clear()


def _form(x: Tensor) -> tuple:
    """What two inputs have in common for which the same captured step serves: all but their values."""
    if not isinstance(x, Tensor):
        raise TypeError(f"compile: a compiled step takes Tensors, got {type(x).__name__}; wrap arrays and numbers with "
                        "minigrad.tensor, or let the step read them from outside if they never change")
    if x.requires_grad:
        raise RuntimeError("compile: an input of a compiled step requires a gradient; let the step read it from outside, "
                           "as parameters are read")
    array = x.array
    return array.shape, array.dtype, array.strides


def _modes() -> tuple[int, bool]:
    """What a computation depends on beside its inputs, in this Python thread."""
    return get_num_threads(), this_thread.grad_enabled


class Surroundings:
    """The variables that a function's code reads: those of functions around it, globals, and attributes of its `self`.

    So do the functions of its module and the methods of its `self` that it calls, and they are read too.

    >>> scale = 2.0
    >>> around = Surroundings(lambda x: x * scale)
    >>> around.now()
    [2.0]
    """

    def __init__(self, function: Callable):
        self._scopes: dict[tuple, dict] = {}  # by (id of the scope, name)
        self._cells: list = []
        self._seen: set = set()
        self._read(function, getattr(function, "__self__", None))

    def now(self) -> list:
        """What they refer to."""
        return [*map(_contents, self._cells), *[scope.get(name) for (_, name), scope in self._scopes.items()]]

    def _read(self, function: Any, owner: Any) -> None:
        function = getattr(function, "__func__", function)  # of a method
        if isinstance(function, types.FunctionType) and function not in self._seen:
            self._seen.add(function)
            self._cells += function.__closure__ or ()
            for cell in function.__closure__ or ():
                self._read_below(_contents(cell), function, owner)
            self._read_code(function.__code__, function, owner)

    def _read_code(self, code: types.CodeType, function: types.FunctionType, owner: Any) -> None:
        loads = list(dis.get_instructions(code))
        for before, load in zip([None, *loads], loads):
            if load.opname in ("LOAD_GLOBAL", "LOAD_NAME") and load.argval in function.__globals__:
                self._note(function.__globals__, load.argval)
                self._read_below(function.__globals__[load.argval], function, owner)
            elif load.opname in ("LOAD_ATTR", "LOAD_METHOD") and owner is not None and _loads_self(before, code):
                self._note(getattr(owner, "__dict__", {}), load.argval)
                self._read_below(getattr(type(owner), load.argval, None), function, owner)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):  # of a function, or a comprehension, inside
                self._read_code(inner, function, owner)

    def _note(self, scope: dict, name: str) -> None:
        self._scopes[id(scope), name] = scope

    def _read_below(self, called: Any, caller: types.FunctionType, owner: Any) -> None:
        if getattr(called, "__globals__", None) is caller.__globals__:
            self._read(called, owner)


def _loads_self(instruction: dis.Instruction | None, code: types.CodeType) -> bool:
    if instruction is None or not instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) or not code.co_varnames:
        return False
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return names[-1] in (code.co_varnames[0], "self")


def _contents(cell) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet, as of a function that refers to itself
        return None


class _Captured:
    """A captured step, with the arrays of its inputs and results."""

    def __init__(self, function: Callable, step: Capture, inputs: Sequence[np.ndarray], results: Any):
        self.pool, self.arrivals, self.sources = step.pool, step.arrivals, list(step.sources.values())
        self.opening, self.calls = step.calls[: step.opening], step.calls[step.opening :]
        self.inputs, self.results = inputs, results
        self.generation = capture.generation
        self.around = Surroundings(function)
        self.variables = self.around.now()

    def is_current(self) -> bool:
        """Does what it was captured with still hold?"""
        if self.generation != capture.generation or not all(map(operator.is_, self.around.now(), self.variables)):
            return False
        for tensor, array, node in self.sources:
            if tensor._array is not array or tensor.node is not node or node is not None and node.hooks:
                return False
        return True

    @float_errors.ignored
    def replay(self, inputs: Sequence[Tensor]) -> Any:
        for array, tensor in zip(self.inputs, inputs):
            array[...] = tensor.array
        for function, arguments in self.opening:  # which may clear gradients
            function(*arguments)
        for arrival in self.arrivals:
            arrival.leave()
        for function, arguments in self.calls:
            function(*arguments)
        return copied(self.results)


def captured(function: Callable, inputs: Sequence[Tensor]) -> tuple[Any, _Captured]:
    """function(*inputs), and what it did."""
    arrays = [with_strides_of(x.array) for x in inputs]
    for array, x in zip(arrays, inputs):
        array[...] = x.array
    modes = _modes()
    with Capture() as step:
        results = function(*[Tracer.of(array, None, step) for array in arrays])
        results = arrays_of(results, step)
    if _modes() != modes:
        raise RuntimeError("compile: this step leaves another grad mode or number of threads than it found, which a replay "
                           "would not; set them outside, or in a with block")
    known = _Captured(function, step, arrays, results)
    return copied(results), known


def arrays_of(results: Any, step: Capture) -> Any:
    """The arrays of Tensors that a step returned."""
    if results is None:
        return None
    if isinstance(results, (tuple, list)):
        return tuple(arrays_of(result, step) for result in results)
    if not isinstance(results, Tensor):
        raise TypeError(f"compile: a compiled step returns Tensors, got {type(results).__name__}")
    if results.requires_grad and not step.is_differentiated:
        raise RuntimeError("compile: a replay's results are off the tape, and this step calls no backward(); call it "
                           "inside, or compute under no_grad()")
    return step.array_of(results)


def copied(results: Any) -> Any:
    """Tensors with copies of the results."""
    if isinstance(results, tuple):
        return tuple(map(copied, results))
    return None if results is None else wrap(results.copy(order="K"))
