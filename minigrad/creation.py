"""Making tensors: from data, filled, and drawn at random (from the generator in `minigrad.random`)."""
from typing import Any, Callable, Sequence

import numpy as np

from . import random
from .arrays import as_array, as_dtype, float32, int64
from .ops.operands import sizes
from .tensor import Tensor, wrap


def _fresh(array: np.ndarray, requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor of an array that nobody else holds."""
    return wrap(as_array(array, dtype)).requires_grad_(requires_grad)


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return _fresh(as_array(data, dtype, copy=True), requires_grad)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory, if its dtype is one of a tensor's.

    The tape cannot see what is written to that array; write through `tensor.data`, or use `detect_anomaly()`.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy expects a NumPy array, got {type(array).__name__}")
    return wrap(as_array(array))


def full(size: Sequence[int], fill_value: float, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    value = as_array(fill_value, dtype)
    return _fresh(np.full(sizes((size,)), value, value.dtype), requires_grad)


def zeros(*size, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return _fresh(np.zeros(sizes(size), as_dtype(dtype)), requires_grad)


def ones(*size, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return _fresh(np.ones(sizes(size), as_dtype(dtype)), requires_grad)


def empty(*size, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return _fresh(np.empty(sizes(size), as_dtype(dtype)), requires_grad)


def eye(n: int, m: int | None = None, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return _fresh(np.eye(n, m, dtype=as_dtype(dtype)), requires_grad)


def arange(start: float, end: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    start, end = (0, start) if end is None else (start, end)
    if dtype is None:
        dtype = int64 if all(isinstance(n, (int, np.integer)) for n in (start, end, step)) else float32
    return _fresh(np.arange(start, end, step), dtype=dtype)


def linspace(start: float, end: float, steps: int, dtype: Any = float32) -> Tensor:
    return _fresh(np.linspace(start, end, steps), dtype=dtype)


def _drawn(draw: Callable[[np.random.Generator], np.ndarray], requires_grad: bool = False, dtype: Any = None) -> Tensor:
    """A tensor of what draw(generator) gives; a replay of a compiled step draws anew."""
    return Tensor.constant(lambda: as_array(draw(random.generator()), dtype)).requires_grad_(requires_grad)


def rand(*size, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Uniform between 0 and 1."""
    return _drawn(lambda generator: generator.random(sizes(size), as_dtype(dtype)), requires_grad)


def randn(*size, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Standard normal."""
    return _drawn(lambda generator: generator.standard_normal(sizes(size), as_dtype(dtype)), requires_grad)


def randint(low: int, high: int | None = None, size: Sequence[int] = ()) -> Tensor:
    """Integers from low to high - 1; from 0 if only one bound is given."""
    return _drawn(lambda generator: generator.integers(low, high, size=tuple(size)))


def randperm(n: int) -> Tensor:
    return _drawn(lambda generator: generator.permutation(n))


def _dtype_like(x: Tensor, dtype: Any) -> np.dtype:
    return x.dtype if dtype is None else as_dtype(dtype)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    return _fresh(np.zeros(x.shape, _dtype_like(x, dtype)))


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    return _fresh(np.ones(x.shape, _dtype_like(x, dtype)))


def full_like(x: Tensor, fill_value: float, dtype: Any = None) -> Tensor:
    return _fresh(np.full(x.shape, fill_value, _dtype_like(x, dtype)))


def empty_like(x: Tensor, dtype: Any = None) -> Tensor:
    return _fresh(np.empty(x.shape, _dtype_like(x, dtype)))


def rand_like(x: Tensor) -> Tensor:
    return rand(x.shape, dtype=x.dtype)


def randn_like(x: Tensor) -> Tensor:
    return randn(x.shape, dtype=x.dtype)


def randint_like(x: Tensor, low: int = 0, high: int | None = None, dtype: Any = None) -> Tensor:
    """Integers from low to high - 1, or from 0 to low - 1 if only one bound is given, in the shape and dtype of x."""
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f"randint_like: expected low < high, got {low} and {high}")
    return _drawn(lambda generator: generator.integers(low, high, size=x.shape), dtype=_dtype_like(x, dtype))
