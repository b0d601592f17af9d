"""NumPy's functions on Tensors: np.exp(tensor), array * tensor, np.where(mask, tensor, 0).

Formulas in NumPy's notation, as backwards and definitions write them, therefore run on Tensors too, on the tape.
"""
from typing import Callable

import numpy as np

from ..backend import is_tensor
from .operands import NUMPY_NAMES, data_of

ANSWERS: dict[Callable, Callable] = {}  # NumPy's function, and what it calls if a Tensor is among its arguments
NAMES: dict[Callable, dict[str, str]] = {}  # NumPy's function, and what its arguments are called here


def answers(numpy_function: Callable, **names: str) -> Callable:
    """Decorate what `numpy_function` is to call for Tensors; with `names`, as in answers(np.tril, k="diagonal")."""

    def register(function: Callable) -> Callable:
        ANSWERS[numpy_function], NAMES[numpy_function] = function, NUMPY_NAMES | names
        return function

    return register


def named(method: Callable, name: str) -> Callable:
    """A method that was made, with the name that tracebacks and help() give."""
    method.__name__ = method.__qualname__ = name
    return method


class NumpyProtocol:
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if "out" in options:  # array += tensor
            if any(is_tensor(value) and value.requires_grad for value in inputs):
                raise TypeError("an array cannot take in a tensor that requires a gradient; use its .detach()")
            return getattr(ufunc, method)(*map(data_of, inputs), **options)
        if method != "__call__" or options or ufunc not in ANSWERS:
            raise _not_supported(ufunc)
        return ANSWERS[ufunc](*inputs)

    def __array_function__(self, function, types, args, kwargs):
        if function not in ANSWERS:
            raise _not_supported(function)
        return ANSWERS[function](*args, **{NAMES[function].get(name, name): value for name, value in kwargs.items()})


def _not_supported(function: Callable) -> TypeError:
    return TypeError(f"np.{function.__name__} is not supported on Tensors: use a method, or .detach().numpy()")


answers(np.zeros_like)(lambda x: x.constant(np.zeros, x.shape, x.dtype))
answers(np.ones_like)(lambda x: x.constant(np.ones, x.shape, x.dtype))
