"""A function's arguments and results: how they are named, nested and flattened."""
import dataclasses
import functools
import inspect
import math
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..tensor import Tensor


def generator_for(seed: int) -> np.random.Generator:
    """A separate stream: default_rng(seed) may have drawn the inputs, and an upstream equal to one of them can, by
    symmetry, hide a missing transpose."""
    return np.random.default_rng((seed, 7919))


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


def parts_of(value: Any) -> dict[Any, Any] | None:
    """What a tuple, list, dict or dataclass is made of, by index, key or field; None for anything else."""
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return value if isinstance(value, dict) else None


def mapped(value: Any, function: Callable[[Any, str], Any], name: str) -> Any:
    """The same nest of tuples, lists, dicts and dataclasses, with function(item, its name) in place of each item."""
    parts = parts_of(value)
    if parts is None:
        return function(value, name)
    place = "[{!r}]" if isinstance(value, (tuple, list, dict)) else ".{}"
    made = {key: mapped(part, function, name + place.format(key)) for key, part in parts.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(*made.values()) if hasattr(value, "_fields") else type(value)(made.values())
    return made if isinstance(value, dict) else dataclasses.replace(value, **made)


def items_of(value: Any) -> list[Any]:
    """The items of a nest of tuples, lists, dicts and dataclasses."""
    parts = parts_of(value)
    return [value] if parts is None else [item for part in parts.values() for item in items_of(part)]


def named_items(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """The items of nests, each with its name."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        mapped(value, lambda item, place: found.append((place, item)), name)
    return found


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


def split(vector: np.ndarray, like: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The inverse of `flat`: views of a vector, in the shapes of these arrays.

    >>> split(np.arange(3.0), [np.zeros((1, 2)), np.array(0.0)])
    [array([[0., 1.]]), array(2.)]
    """
    shapes = [array.shape for array in like]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes)]
