"""What is checked: a function of some leaves, which can be evaluated, moved and differentiated without side effects."""
import contextlib
import dataclasses
import functools
import inspect
import math
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from .. import random, tape
from ..autograd.grad_mode import enable_grad, no_grad
from ..creation import tensor
from ..runner import current
from ..tensor import Tensor
from .report import index_of

VARIED = 0.3  # how far parameters that are one number everywhere are moved
CANCELLED = 1e-12  # what may remain where terms of a gradient cancel, relative to them


class Problem:
    """`function()` reads `leaves`, float64 tensors by name. Its outputs are flattened to one vector, and so are upstreams.

    Each evaluation starts from the same random state, so dropout in the function draws the same mask every time.
    """

    def __init__(self, title: str, function: Callable[[], Any], leaves: dict[str, Tensor],
                 constants: dict[str, np.ndarray], state: Sequence[np.ndarray] = (),
                 arguments: Sequence[tuple[str, Any]] = (), dtype: np.dtype = np.dtype(np.float64),
                 own_checks: "Callable[[Point], dict[str, Callable[[], str | None]]]" = lambda point: {},
                 notes: Sequence[str] = (), parameters: Iterable[str] = ()):
        self.title = title
        self.parameters: set[str] = set(parameters)  # the names of leaves that the function has itself
        self.notes = notes  # for the report
        self.own_checks = own_checks  # side checks that concern this function alone, by name
        self.function = function
        self.leaves = leaves
        self.arguments = arguments  # names and values in the function's order: leaves, arrays, numbers
        self.constants = constants  # what else the function reads, and must not change
        self.state = state  # what it may change, such as running averages; each evaluation starts from the same
        self.before: list[np.ndarray] = [array.copy() for array in self._arrays()]
        self.state_before: list[np.ndarray] = [array.copy() for array in state]
        self.random_state: Mapping[str, Any] = random.get_state()
        if not leaves:
            raise ValueError("gradcheck: no input or parameter requires a gradient; make one with requires_grad=True")
        for name, leaf in leaves.items():
            if leaf.dtype != dtype:
                raise TypeError(
                    f"gradcheck: {name} is {leaf.dtype}; use .double(), differences need float64. To check the float32 "
                    "kernels, compare their gradients with float64's: minigrad.gradcheck.compare_float32"
                )
            if lost := np.flatnonzero(np.isnan(leaf.array)).tolist():
                raise ValueError(f"gradcheck: {name}{index_of(lost[0], leaf.shape)} is NaN; give it a number, differences "
                                 "need one")

    def _arrays(self) -> list[np.ndarray]:
        return [*(leaf.array for leaf in self.leaves.values()), *self.constants.values(), *self.state]

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, the leaves, the constants and the random state are restored afterwards."""
        state, before = random.get_state(), self.before
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            random.set_state(state)
            self.before = before
            self.restore()

    def restore(self) -> None:
        """Restore leaves, constants and state to what they were at the beginning."""
        for array, before in zip(self._arrays(), self.before):
            if not same_bits(array, before):  # so that read-only arrays are not written to
                array[...] = before

    def vary(self, generator: np.random.Generator) -> list[str]:
        """Add random numbers to parameters that are one number everywhere, as those of a new norm are, which hides
        mistakes: its weight of 1 could be missing. `restore` comes back here. Returns what has been done."""
        found = []
        for name, leaf in self.leaves.items():
            if name in self.parameters and leaf.numel() > 1 and np.ptp(leaf.array) == 0:
                found.append(f"{name} is {leaf.array.flat[0]:g} everywhere: checked where it is random")
                leaf.array += VARIED * generator.standard_normal(leaf.shape)
        if found:
            self.before = [array.copy() for array in self._arrays()]
        return found

    def changed(self) -> str:
        """Which leaf or constant has been changed? "" if none."""
        arrays = zip([*self.leaves, *self.constants], self._arrays(), self.before)
        return next((f"{name} has been changed" for name, array, before in arrays if not same_bits(array, before)), "")

    def _start(self) -> None:
        random.set_state(self.random_state)
        for array, before in zip(self.state, self.state_before):
            array[...] = before

    def outputs(self) -> tuple[Tensor, ...]:
        """The floating-point outputs, on the tape. ValueError if products are rounded to bfloat16."""
        self._start()
        with enable_grad():
            outputs = floats(self.function())
        if any(getattr(node, "rounds", False) for node in nodes_below(outputs)):
            raise ValueError("gradcheck: the function runs under autocast, and its rounding hides the derivative; check "
                             "it outside, or inside autocast('cpu', enabled=False)")
        return outputs

    def values(self) -> np.ndarray:
        """All output values, as a vector."""
        self._start()
        with no_grad():
            return flat(out.array for out in floats(self.function()))

    def gradients(self, outputs: Sequence[Tensor], upstream: np.ndarray, on_tape: bool = False
                  ) -> list[np.ndarray | None]:
        """The gradient of sum(outputs * upstream) for each leaf, as `backward()` computes it; None where none arrives.

        `on_tape` means as with `create_graph=True`.
        """
        wanted = [leaf.node for leaf in self.leaves.values()]
        starts = roots(outputs, upstream)
        if not on_tape:
            with no_grad():
                return tape.gradients(starts, wanted, current(), True)
        with enable_grad():
            starts = {node: Tensor.constant(np.asarray, array) for node, array in starts.items()}
            return [g if g is None else np.asarray(g.array) for g in tape.gradients(starts, wanted, current(), True)]

    def move(self, generator: np.random.Generator, upward: bool) -> None:
        """Go to a point nearby, to get away from kinks. Infinities stay where they are."""
        for leaf in self.leaves.values():
            noise = generator.standard_normal(leaf.shape)
            step = 0.03 * np.maximum(np.abs(leaf.array), 0.3) * (np.abs(noise) if upward else noise)
            leaf.array += np.where(np.isfinite(leaf.array), step, 0.0)

    def roll(self) -> None:
        """Give each number of a leaf to the next one: what is chosen by its size is then at another place."""
        for leaf in self.leaves.values():
            leaf.array[...] = np.roll(leaf.array, 1)


class Point:
    """The problem at its leaves' current values: outputs, a random upstream gradient, and the gradients from backward.

    Where an output is infinite, as masked scores are, the upstream is 0. With `digits`, its numbers have that many binary
    places, so that narrow dtypes hold them exactly.
    """

    def __init__(self, problem: Problem, outputs: tuple[Tensor, ...], generator: np.random.Generator,
                 digits: int | None = None):
        self.problem = problem
        self.names: list[str] = list(problem.leaves)
        self.outputs = outputs
        self.size: int = sum(out.numel() for out in self.outputs)
        is_finite = np.isfinite(flat(out.array for out in outputs))
        drawn = generator.standard_normal(self.size)
        rounded = drawn if digits is None else np.round(drawn * 2**digits) / 2**digits
        self.upstream: np.ndarray = np.where(is_finite, rounded, 0.0)
        self.gradients: list[np.ndarray] = self.backward(self.upstream)
        self._jacobians: list[np.ndarray] | None = None

    def backward(self, upstream: np.ndarray) -> list[np.ndarray]:
        """A gradient for each leaf, zeros if none arrived."""
        return self.filled(self.problem.gradients(self.outputs, upstream))

    def filled(self, gradients: list[np.ndarray | None]) -> list[np.ndarray]:
        leaves = self.problem.leaves.values()
        return [np.zeros(leaf.shape) if g is None else np.array(g) for leaf, g in zip(leaves, gradients)]

    def rows(self, outputs: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """For each leaf, these outputs' rows of the Jacobian, (outputs, elements), by one backward each."""
        found = [self.backward(np.eye(1, self.size, k)[0]) for k in outputs]
        return [np.array([row[i].reshape(-1) for row in found]).reshape(len(found), leaf.numel())
                for i, leaf in enumerate(self.problem.leaves.values())]

    @property
    def jacobians(self) -> list[np.ndarray]:
        """For each leaf, (all outputs, elements)."""
        if self._jacobians is None:
            self._jacobians = self.rows(range(self.size))
        return self._jacobians

    @functools.cached_property
    def terms(self) -> float:
        """The largest number on the way back: where gradients cancel, about 1e-16 of it remains."""
        ops = [node for node in nodes_below(self.outputs) if isinstance(node, tape.Op)]
        with no_grad():
            arrived = tape.gradients(roots(self.outputs, self.upstream), ops, current(), True)
        sizes = [np.max(np.abs(g), initial=0.0) for g in arrived if g is not None]
        return float(max((size for size in sizes if np.isfinite(size)), default=0.0))

    def refuse_infinities(self) -> None:
        """ValueError if an input is infinite where its gradient is not a number either. Masked scores may be."""
        for (name, leaf), gradient in zip(self.problem.leaves.items(), self.gradients):
            if lost := np.flatnonzero(np.isinf(leaf.array) & ~np.isfinite(gradient)).tolist():
                place = f"{name}{index_of(lost[0], leaf.shape)}"
                raise ValueError(f"gradcheck: {place} is infinite, and has no derivative; give finite inputs")

    def is_finite(self) -> bool:
        return all(np.all(np.isfinite(g)) for g in [*(out.array for out in self.outputs), *self.gradients])

    def is_sum_of_rows(self) -> bool:
        """Do the Jacobian's rows, if they have been computed, add up to backward(upstream)?"""
        return self._jacobians is None or not self.is_finite() or all(
            np.allclose(self.upstream @ jacobian, gradient.reshape(-1), rtol=1e-9, equal_nan=True,
                        atol=1e-9 * np.max(np.abs(gradient), initial=0.0) + CANCELLED * self.terms)
            for jacobian, gradient in zip(self._jacobians, self.gradients)
        )

    def projected(self) -> np.ndarray:
        """The single number whose gradient is backward(upstream)."""
        values = self.problem.values()
        return np.array([np.sum(np.where(self.upstream == 0, 0.0, values * self.upstream))])


def generator_for(seed: int) -> np.random.Generator:
    """A separate stream: default_rng(seed) may have drawn the inputs, and an upstream equal to one of them can, by
    symmetry, hide a missing transpose."""
    return np.random.default_rng((seed, 7919))


def problem_of(fn: Callable[..., Any], inputs: Sequence[Any], title: str | None = None, names: Sequence[str] | None = None,
               parameters: dict[str, Tensor] | None = None, state: Sequence[np.ndarray] = (),
               dtype: np.dtype = np.dtype(np.float64)) -> Problem:
    """fn(*inputs) as a function of the inputs that require gradients and of fn's own `parameters`.

    Parameters are moved in place, inputs are copied. `title` and the inputs' `names` default to fn's.
    """
    arguments: list[tuple[str, Any]] = []
    leaves = {name: x for name, x in (parameters or {}).items() if x.requires_grad}
    constants = {name: x.array for name, x in (parameters or {}).items() if not x.requires_grad}

    def copy(value: Any, name: str) -> Any:
        name = unused(name, {**leaves, **constants})
        if isinstance(value, Tensor) and value.requires_grad:
            leaves[name] = tensor(value.array, requires_grad=True)
            arguments.append((name, leaves[name]))
            return leaves[name]
        if isinstance(value, (Tensor, np.ndarray)):
            constants[name] = value.array if isinstance(value, Tensor) else value
        arguments.append((name, constants.get(name, value)))
        return value

    copies = [mapped(value, copy, name) for value, name in zip(inputs, names or input_names(fn, inputs))]
    arguments += (parameters or {}).items()
    title = title_of(fn) if title is None else title
    own = {name: getattr(fn, name) for name in ("own_checks", "notes") if hasattr(fn, name)}
    return Problem(title, lambda: fn(*copies), leaves, constants, state, arguments, dtype, **own,
                   parameters=parameters or ())


def title_of(fn: Callable[..., Any]) -> str:
    """The name of a function, a module's class, or a Function; "" for a lambda."""
    owner = owner_of(fn)
    name = getattr(owner, "__name__", None) or getattr(owner, "name", type(owner).__name__)
    return "" if name == "<lambda>" else str(name)


def input_names(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[str]:
    """Each tensor's own name, or the name of fn's argument, or "input 0".

    >>> input_names(lambda x, *others: x, (1.0, 2.0))
    ['x', 'input 1']
    """
    names = [p.name for p in parameters_of(fn) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names += [f"input {i}" for i in range(len(names), len(inputs))]
    return [x.name or name if isinstance(x, Tensor) else name for x, name in zip(inputs, names)]


def parameters_of(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those that a caller passes, of a function, a module, or a Function's apply; none if they are not known."""
    owner = owner_of(fn)
    try:
        parameters = list(inspect.signature(getattr(owner, "forward", owner)).parameters.values())
    except (TypeError, ValueError):  # built-in functions may have none
        return []
    return parameters[1:] if owner is not fn and has_context(owner) else parameters


def is_by_name(fn: Callable[..., Any], inputs: Any) -> bool:
    """Is this a dict of arguments of fn, rather than one argument that is a dict?"""
    names = {p.name for p in parameters_of(fn) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    return isinstance(inputs, dict) and bool(inputs) and inputs.keys() <= names


def by_name(fn: Any, values: dict[str, Any]) -> tuple[Any, list[Any]]:
    """fn and its arguments in order, from a dict: with defaults in between, and bound to what fn takes by keyword only.

    Of a pair, those of the first. TypeError for an argument that fn lacks, or needs.

    >>> by_name(lambda x, eps=1e-5, scale=1.0, bias=0.0: x, {"scale": 2.0, "x": 3.0})[1]
    [3.0, 1e-05, 2.0]
    """
    parameters = parameters_of(fn[0] if isinstance(fn, (tuple, list)) else fn)
    by_keyword = {p.name: values[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY and p.name in values}
    values = {name: value for name, value in values.items() if name not in by_keyword}
    if by_keyword:
        if hasattr(fn, "named_parameters") or any(hasattr(value, "dtype") for value in by_keyword.values()):
            raise TypeError(f"gradcheck: the function takes {', '.join(by_keyword)} by keyword only; a check passes "
                            "tensors by position, and all arguments of a module")
        fn = functools.update_wrapper(functools.partial(fn, **by_keyword), fn)
    named = {p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)}
    if not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return fn, list(values.values())
    if unknown := [name for name in values if name not in named]:
        raise TypeError(f"gradcheck: the function has no argument {unknown[0]!r}; it has {', '.join(named)}")
    if missing := [name for name, default in named.items() if name not in values and default is inspect.Parameter.empty]:
        raise TypeError(f"gradcheck: the argument {missing[0]!r} is missing")
    last = max((list(named).index(name) for name in values), default=-1)
    return fn, [values.get(name, default) for name, default in list(named.items())[: last + 1]]


def unused(name: str, taken: Iterable[str]) -> str:
    """The name, with primes added while it is taken."""
    while name in taken:
        name += "'"
    return name


def owner_of(fn: Callable[..., Any]) -> Any:
    """The Function, minigrad's or PyTorch's, if fn is its `apply`, else fn itself."""
    owner = getattr(fn, "__self__", None)
    return owner if isinstance(owner, type) and hasattr(owner, "forward") and hasattr(owner, "backward") else fn


def has_context(function: type) -> bool:
    """Does this Function's forward take ctx? In PyTorch, not if it has a setup_context of its own."""
    return not any("setup_context" in vars(cls) and cls.__module__ != "torch.autograd.function" for cls in function.__mro__)


def as_inputs(inputs: Any) -> tuple[Any, ...]:
    """A function's arguments as a tuple; a single Tensor or array is one argument."""
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def mapped(value: Any, function: Callable[[Any, str], Any], name: str) -> Any:
    """The same nest of tuples, lists, dicts and dataclasses, with function(item, its name) in place of each item."""
    if isinstance(value, dict):
        return {key: mapped(item, function, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [mapped(item, function, f"{name}[{i}]") for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value):
        fields = {key: mapped(item, function, f"{name}.{key}") for key, item in fields_of(value).items()}
        return dataclasses.replace(value, **fields)
    return function(value, name)


def items_of(value: Any) -> list[Any]:
    """The items of a nest of tuples, lists, dicts and dataclasses."""
    nested: Any = value if isinstance(value, (tuple, list)) else None
    if isinstance(value, dict) or is_dataclass(value):
        nested = (value if isinstance(value, dict) else fields_of(value)).values()
    return [value] if nested is None else [item for part in nested for item in items_of(part)]


def is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def fields_of(value: Any) -> dict[str, Any]:
    """What a dataclass is made from."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}


def floats(result: Any) -> tuple[Tensor, ...]:
    """The floating-point tensors that a function returned, however nested."""
    floating = tuple(item for item in items_of(result) if isinstance(item, Tensor) and item.dtype.kind == "f")
    if not floating:
        raise TypeError(
            "gradcheck: the function must return a floating-point Tensor, or several in a tuple, list or dict; got "
            f"{described(result)}"
        )
    return floating


def described(value: Any) -> str:
    """What a value is, for an error.

    >>> described(np.zeros(3, np.int64)), described(None)
    ('numpy.ndarray of int64', 'NoneType')
    """
    kind, dtype = type(value), getattr(value, "dtype", None)
    package = "" if kind.__module__ == "builtins" else kind.__module__.partition(".")[0] + "."
    return f"{package}{kind.__qualname__}" + ("" if dtype is None else f" of {str(dtype).removeprefix('torch.')}")


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def flat(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """All elements of all arrays, as a vector."""
    return np.concatenate([np.asarray(array).reshape(-1) for array in arrays])


def split(vector: np.ndarray, like: Iterable[Tensor]) -> list[np.ndarray]:
    """The inverse of `flat`: views of a vector, in the shapes of these tensors.

    >>> split(np.arange(3.0), [Tensor(np.zeros((1, 2))), Tensor(0.0)])
    [array([[0., 1.]]), array(2.)]
    """
    shapes = [tensor.shape for tensor in like]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes)]


def nodes_below(outputs: Sequence[Tensor]) -> Iterator[tape.Node]:
    """All nodes of a graph, each once."""
    waiting = [out.node for out in outputs if out.node is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for parent in node.parents if isinstance(node, tape.Op) else ():
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)


def roots(outputs: Sequence[Tensor], upstream: np.ndarray) -> dict[Any, Any]:
    """Where the tape starts: each output's part of the vector `upstream`."""
    found: dict[Any, Any] = {}
    for out, part in zip(outputs, split(upstream, outputs)):
        if out.node is not None:
            part = part.astype(out.dtype, copy=False)
            found[out.node] = found[out.node] + part if out.node in found else part
    return found
