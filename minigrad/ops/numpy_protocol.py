"""NumPy's functions on Tensors: np.exp(tensor), array * tensor, np.where(mask, tensor, 0).

So formulas in NumPy's notation, as in forwards and backwards, also run on Tensors, on the tape.
"""
from typing import Any, Callable, TypeVar

import numpy as np

from ..backend import is_tensor
from .operands import NUMPY_NAMES, data_of

Function = TypeVar("Function", bound=Callable)

ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {}  # {NumPy's function: what it calls if an argument is a Tensor}
NAMES: dict[Callable[..., Any], dict[str, str]] = {}  # {NumPy's function: {name of an argument: its name here}}


def answers(numpy_function: Callable[..., Any], **names: str) -> Callable[[Function], Function]:
    """Decorate what `numpy_function` calls for Tensors; `names` of arguments as in answers(np.tril, k="diagonal")."""

    def register(function: Function) -> Function:
        ANSWERS[numpy_function], NAMES[numpy_function] = function, NUMPY_NAMES | names
        return function

    return register


def named(method: Function, name: str, doc: str | None = None) -> Function:
    """A generated method, with the name that tracebacks show, and help(), with a docstring."""
    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc or method.__doc__
    return method


class NumpyProtocol:
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:  # array += tensor
            if any(is_tensor(value) and value.requires_grad for value in inputs):
                raise TypeError("cannot write a tensor that requires a gradient into an array; use its .detach()")
            return getattr(ufunc, method)(*map(data_of, inputs), **options)
        if method != "__call__" or options or ufunc not in ANSWERS:
            raise _not_supported(ufunc)
        return ANSWERS[ufunc](*inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if function not in ANSWERS:
            raise _not_supported(function)
        return ANSWERS[function](*args, **{NAMES[function].get(name, name): value for name, value in kwargs.items()})


def _not_supported(function: Callable) -> TypeError:
    return TypeError(f"np.{function.__name__} is not supported on Tensors: use a method, or .detach().numpy()")


answers(np.zeros_like)(lambda x: x.constant(np.zeros, x.shape, x.dtype))
answers(np.ones_like)(lambda x: x.constant(np.ones, x.shape, x.dtype))
