"""Functions made of methods and of ops: mg.exp(x) of x.exp()."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from .arrays.dtypes import as_array
from .tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def as_function(
    method: Callable[Concatenate[Tensor, Arguments], Result],
) -> Callable[Concatenate[Tensor | np.ndarray, Arguments], Result]:
    """mg.exp(x) of x.exp(): x may also be an array, and be given as `input=`, as in PyTorch."""

    @functools.wraps(method)
    def function(input, *args, **options):
        try:
            given = Tensor.constant(as_array, input, None, True) if isinstance(input, np.ndarray) else input
            return method(given, *args, **options)
        except AttributeError:
            if isinstance(input, (Tensor, np.ndarray)):
                raise
            came = type(input).__name__
            raise TypeError(f"{method.__name__} expects a Tensor, got {came}; make one with tensor()") from None

    return function


def giving_tensor(function: Callable[Arguments, Any]) -> Callable[Arguments, Tensor]:
    """A function of ops, which know no Tensor, for type checkers: it makes one."""
    return function


def is_tensor(value: Any) -> TypeIs[Tensor]:
    """Is it a Tensor?"""
    return isinstance(value, Tensor)
