"""A function of PyTorch's tensors or JAX's arrays as one of Tensors, whose gradients its own library computes.

So every check takes it. Where a gradient is differentiated again, the library does that too.
"""
import contextlib
import functools
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from ..autograd.function import Function
from ..autograd.grad_mode import is_grad_enabled
from ..tensor import Tensor, wrap
from .libraries import MINIGRAD, NUMPY, Flat, Library, library_of, library_of_value
from .pair import Pair, leaves_of
from .problem import (Point, Problem, as_inputs, by_name, described, input_names, is_by_name, items_of, mapped, problem_of,
                      title_of)
from .state import State


class Chain:
    """A flat function, and its derivative as another one."""

    def __init__(self, library: Library, function: Flat):
        self.library = library
        self.function = function
        self.repeated: Flat = library.repeated(function)
        self.derivative: Callable[[int], Chain] = functools.cache(
            lambda count: Chain(library, library.derivative(function, count)))


class Run:
    """A flat function of a library's tensors: forward and backward on float64 arrays, whatever the tensors' dtypes."""

    def __init__(self, chain: Chain, likes: Sequence[Any], is_recording: bool):
        self.library: Library = chain.library
        self.chain = chain
        self.likes = likes  # a tensor for each leaf, whose dtype and device it has
        self.is_recording = is_recording

    def applied(self, *tensors: Tensor) -> list[Tensor]:
        """The outputs. Those that the library cannot differentiate are off the tape."""
        outputs = Foreign.apply(self, *tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [out if is_known else out.detach() for out, is_known in zip(outputs, self.is_differentiable)]

    def forward(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        leaves = [self.library.tensor(array, like, self.is_recording) for array, like in zip(arrays, self.likes)]
        if self.is_recording:
            self.leaves = leaves
            self.outputs, pullback = self.library.record(self.chain.repeated, leaves)
            self.pullback: Any = pullback
        else:
            self.outputs = self.library.run(self.chain.repeated, leaves)
        self.is_differentiable: list[bool] = [self.library.is_leaf(out) for out in self.outputs]
        return [self.library.array(out) for out in self.outputs]

    def backward(self, douts: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        return self.pullback([np.array(dout, order="C") for dout in douts])

    def derivative(self) -> "Run":
        """Of leaves and upstreams, which gives the gradients of the leaves."""
        return Run(self.chain.derivative(len(self.likes)), [*self.likes, *self.outputs], True)


class Foreign(Function):
    """out = function(*inputs):  dx as the function's own library computes it"""

    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> Any:
        ctx.run = run
        ctx.save_for_backward(*tensors)
        outputs = [wide(array) for array in run.forward([x.array for x in tensors])]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *douts: Tensor) -> tuple[Tensor | None, ...]:
        if is_grad_enabled():  # create_graph
            return None, *ctx.run.derivative().applied(*ctx.saved_tensors, *douts)
        return None, *(g if g is None else wide(g) for g in ctx.run.backward([dout.array for dout in douts]))


def wide(array: np.ndarray) -> Tensor:
    return wrap(array.astype(np.float64))


class Bridge:
    """fn(*inputs), called with Tensors in place of those inputs that get a gradient, and arrays in place of other tensors.

    A module is a function of its parameters, too. Each call starts from the same buffers and random states.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Sequence[Any], library: Library):
        self.library = library
        self.fn = fn
        self.title: str = title_of(fn) or "the function"
        self.names: list[str] = input_names(self.fn, inputs)
        self.nest = inputs
        self.state: State = State(self.fn, library.generators())
        hooked = [f"{self.title} has backward hooks, and is checked with them"]
        self.notes: list[str] = hooked if library.has_hooks(fn) else []
        self.given: list[Any] = items_of(inputs)
        parameters = library.parameters(fn)
        self.inputs: list[Any] = [mapped(value, self.made, name) for value, name in zip(inputs, self.names)]
        self.parameters: dict[str, Any] = {
            name: self.made(value, name) for name, value in parameters.items() if library.is_leaf(value)}
        self.select: Callable[[Any], Any] = lambda result: result  # the outputs to differentiate
        self.values: list[Any] = items_of(self.inputs)
        self.chain: Chain = Chain(library, lambda leaves: self.outputs(self.values, leaves))
        self.likes: list[Any] = [x for x in [*parameters.values(), *self.given] if library.is_leaf(x)]

    def made(self, value: Any, name: str) -> Any:
        """The Tensor or array for an input or parameter; anything else stays as it is."""
        if not self.library.is_tensor(value):
            return value
        if reason := self.library.unsupported(value):
            raise TypeError(f"gradcheck: {name} {reason}")
        if self.library.has_hooks(value):
            self.notes.append(f"{name} has hooks, which are not run: gradients are checked as they are before")
        array = self.library.array(value)
        return wide(array).requires_grad_() if self.library.is_leaf(value) else array

    def __call__(self, *inputs: Any) -> list[Tensor]:
        """The floating-point outputs, as a list."""
        leaves = [x for x in [*self.parameters.values(), *items_of(inputs)] if isinstance(x, Tensor) and x.requires_grad]
        run = Run(self.chain, self.likes, is_grad_enabled())
        outputs = run.applied(*leaves)
        note = self.library.unchecked(self.fn, run.outputs, run.leaves) if run.is_recording else ""
        if note and note not in self.notes:
            self.notes.append(note)
        return outputs

    def outputs(self, values: Sequence[Any], leaves: Iterable[Any], seed: int | None = None) -> list[Any]:
        """The library's own outputs. Leaves are its tensors: parameters, then those inputs whose value is a Tensor.

        All calls draw the same random numbers, except those with a `seed`.
        """
        self.state.restore() if seed is None else self.state.start(seed)
        leaves = iter(leaves)
        parameters = {name: next(leaves) for name in self.parameters}
        items = iter([next(leaves) if isinstance(value, Tensor) else self.restored(value, given)
                      for value, given in zip(values, self.given)])
        arguments = mapped(list(self.nest), lambda value, _: next(items), "")
        found = floats_of(self.select(self.library.call(self.fn, arguments, parameters)), self.library)
        coarsest, given = (max(tensors, key=self.library.eps) for tensors in (found, self.likes))
        if self.library.eps(coarsest) > self.library.eps(given):
            raise TypeError(f"gradcheck: the function returns {coarsest.dtype} for {given.dtype}, too coarse for "
                            f"differences: let it return {given.dtype}")
        return found

    def restored(self, value: Any, given: Any) -> Any:
        """The tensor again, as a copy: running averages may be written to."""
        return self.library.tensor(value.copy(), given) if self.library.is_tensor(given) else value

    def own_checks(self, point: Point) -> dict[str, Callable[[], str | None]]:
        """Side checks that concern this library alone."""
        return self.library.side_checks(self, point)

    @property
    def details(self) -> dict[str, Any]:
        """What else `problem_of` takes than the function and its inputs."""
        return {"title": self.title, "names": self.names, "parameters": self.parameters}

    def problem(self) -> Problem:
        return problem_of(self, self.inputs, **self.details)


class Given(NamedTuple):
    """A function and its inputs, as a user gives them to a check."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    library: Library

    @classmethod
    def of(cls, fn: Any, inputs: Any) -> "Given":
        """ValueError or TypeError, in a line, for what cannot be checked."""
        is_pair = isinstance(fn, (tuple, list))
        library = MINIGRAD if is_pair else library_of(fn, inputs)
        fn = Pair(*callables(fn)) if is_pair else function_of(fn, library)
        if is_by_name(fn, inputs):
            fn, inputs = by_name(fn, inputs)
        inputs = as_inputs(inputs)
        if is_pair:
            return cls(fn, leaves_of(inputs), library)
        given = cls(fn, inputs, library)
        found = {known for known in (library, *map(library_of_value, items_of(inputs))) if known is not None}
        if len(found) > 1:
            came = " and ".join(sorted(known.name for known in found))
            raise TypeError(f"gradcheck: the function and its inputs come from {came}; use one library")
        if not (given.leaves or library is MINIGRAD and library.owns(fn)):
            items = items_of(inputs)
            came = ", ".join(map(described, items[:3])) or "nothing"
            has_arrays = any(isinstance(x, np.ndarray) for x in items)
            if library.owns(fn) and has_arrays and not any(map(library.is_tensor, items)):
                raise TypeError(f"gradcheck: {title_of(fn)} takes tensors of {library.name}; got {came}")
            raise ValueError(f"gradcheck: no input or parameter requires a gradient; {library.needs}; got {came}")
        return given

    @property
    def leaves(self) -> list[Any]:
        """Tensors that get a gradient."""
        return [x for x in [*items_of(self.inputs), *self.library.parameters(self.fn).values()] if self.library.is_leaf(x)]

    @property
    def is_narrow(self) -> bool:
        """Is something that gets a gradient of another dtype than float64? Functions of minigrad have their own check for
        that, `compare_float32`."""
        if self.library is MINIGRAD and not isinstance(self.fn, Pair):
            return False
        return any(self.library.eps(x) > np.finfo(np.float64).eps for x in self.leaves)

    def bridge(self) -> Bridge:
        return Bridge(*self)

    def widened(self) -> "Given":
        """In float64; call it, and what uses the result, inside `library.wide()`."""
        return Given(*self.library.widened(self.fn, self.inputs), self.library)

    @contextlib.contextmanager
    def as_float64(self) -> Iterator[tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]]:
        """The same as `as_tensors`, of copies in float64 if something is narrower."""
        with self.library.wide() if self.is_narrow else contextlib.nullcontext():
            with (self.widened() if self.is_narrow else self).as_tensors() as found:
                yield found

    @contextlib.contextmanager
    def as_tensors(self) -> Iterator[tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]]:
        """A function of Tensors, its inputs, and what else `problem_of` takes."""
        if self.library in (NUMPY, MINIGRAD):
            yield self.fn, self.inputs, {"title": title_of(self.fn), "names": input_names(self.fn, self.inputs)}
        else:
            bridge = self.bridge()
            with bridge.state.preserved():
                yield bridge, bridge.inputs, bridge.details


def function_of(fn: Any, library: Library) -> Callable[..., Any]:
    """What to call where a user gives `fn`; TypeError if it is no function."""
    if library.is_function(fn):
        return fn.apply
    if library.is_function(type(fn)):
        raise TypeError(f"gradcheck: the function is an instance of {type(fn).__name__}; give the class itself")
    if isinstance(fn, type):
        raise TypeError(f"gradcheck: {fn.__name__} is a class, and not an autograd Function; give a function, or an "
                        f"instance that can be called, as {fn.__name__}(...)")
    if not callable(fn):
        raise TypeError(f"gradcheck: expected a function, got {described(fn)}; in NumPy, give a pair (forward, backward)")
    return fn


def callables(pair: Sequence[Any]) -> Sequence[Callable[..., Any]]:
    if len(pair) != 2 or not all(map(callable, pair)):
        came = ", ".join(getattr(part, "__name__", described(part)) for part in pair)
        raise TypeError(f"gradcheck: expected a pair of functions (forward, backward), got ({came})")
    return pair


def floats_of(result: Any, library: Library) -> list[Any]:
    """The floating-point tensors among a function's results; TypeError if there are none, or unsupported ones."""
    tensors = [item for item in items_of(result) if library.is_tensor(item)]
    if reason := next(filter(None, map(library.unsupported, tensors)), ""):
        raise TypeError(f"gradcheck: what the function returns {reason}")
    floats = [item for item in tensors if library.kind(item) == "f"]
    if not floats:
        raise TypeError(f"gradcheck: the function must return a floating-point tensor of {library.name}, or several in a "
                        f"tuple, list or dict; got {described(tensors[0] if tensors else result)}")
    return floats
