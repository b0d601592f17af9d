"""A step captured once and replayed (capture.py): the same kernels on the same memory, without the tape and without layers.

Before each replay, Tensors, modules and variables are compared with what they were (reached.py). Ever more rarely, Python
runs the step again, and is compared with what it did before, call by call (transcript.py).
"""
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

from ...per_thread import this_thread
from ...runner import EAGER
from ...tensor import Tensor, wrap
from ..kernels import ahead
from ..kernels.jit import get_num_threads
from ..pool import Pool
from .capture import Capture, CapturedTensor, Refused
from ..nests import each
from .reached import MISSING, Reached

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
      So is an input that shares memory with what the step writes to: a gradient, a parameter that is trained.
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
        self._captured: dict[tuple[Any, ...], Capture] = {}
        functools.update_wrapper(self, function)

    def __get__(self, owner: Any, kind: type | None = None) -> "Compiled[..., Result]":
        """The step as a method: each object keeps its own compiled step."""
        if owner is None:
            return self
        if this_thread.runner is not EAGER:  # inside a step that is being captured, which may not change the object
            return self.function.__get__(owner, kind)
        steps, key = getattr(owner, "__dict__", None), f"compiled {id(self)}"
        if type(steps) is not dict:
            raise TypeError(f"compile: {type(owner).__name__} has no __dict__ of its own, in which an object keeps its "
                            "compiled method; add \"__dict__\" to its __slots__, or compile a function")
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
        ids = list(map(id, inputs))
        key = (*map(_form, inputs), *map(ids.index, ids), this_thread.identity, *_modes())
        known = self._captured.get(key)
        is_current = known is not None and known.is_current()
        if is_current:
            known.check(inputs)
            known.count += 1
            if not self.check and known.count != 3 and known.count & known.count - 1:
                return copied(known.replay(inputs))
        return self._run(inputs, key, known, is_current)

    def _run(self, inputs: Sequence[Tensor], key: tuple[Any, ...], known: Capture | None, is_current: bool) -> Any:
        """Python makes this call. RuntimeError if what is known is current, and Python does something else."""
        ahead.start()
        if known is not None:
            known.leave()
            self._captured.pop(key, None)  # another thread may have removed it
        new = self._captured[key] = self._capture(inputs, None if known is None else known.pool)
        for oldest in list(self._captured)[:-MOST_CAPTURED]:
            self._captured.pop(oldest, None)
        difference = known and new.transcript.difference(known.transcript)
        if known and not difference:  # nothing relevant has changed
            new.count = known.count + (not is_current)
        elif known and is_current:
            self.forget()  # other shapes and threads took the same as constant
            changed = known.reached.changes()
            because = f" ({', '.join(changed[:3])} changed)" if changed else ""
            wrong = f"; replays since call {known.call + 1} may have been wrong" if self.calls - known.call > 1 else ""
            raise RuntimeError(f"compile: at call {self.calls} this step did something else than was captured: {difference}"
                               f"{because}{wrong}. Python made this call; pass what changes as an input, or don't compile "
                               "this step")
        return copied(new.results)

    def _capture(self, inputs: Sequence[Tensor], pool: Pool | None) -> Capture:
        """`Refused`, with nothing changed, if a replay would not do the same as the step."""
        modes, step = _modes(), Capture(Reached(self.function), pool, [x.array for x in inputs])
        try:
            with step:
                tensors = {id(x): CapturedTensor(array, None, step) for x, array in zip(inputs, step.arrays)}
                results = self.function(*[tensors[id(x)] for x in inputs])
                step.transcript.note("return", results, where="at its end")
                results = each(results, step.result)
            if step.refusal is not None:  # the step has caught it
                raise step.refusal
            changed = step.changed + step.reached.changes()
            if _modes() != modes:
                changed.append("the grad mode, the precision or the number of threads")
            if changed:
                step.refuse(f"changes {', '.join(dict.fromkeys(changed))}",
                            "change it outside, pass it as an input, or don't compile this step")
            step.ends(inputs, results, self.calls)
        except Refused:
            step.undo.restore()
            step.reached.restore()
            raise
        return step

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
        variables = {place.name_of(key): value for place in last.reached.variables for key, value in place.first.items()}
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


def copied(results: Any) -> Any:
    """Copies of arrays, as Tensors."""
    return each(results, lambda array: None if array is None else wrap(array.copy(order="K")))
