"""Creating tensors: from data, filled, or drawn at random (by `mg.manual_seed`'s generator, or a given one).

The only `device` is "cpu", see devices.py.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from . import backend, random
from .arrays.annotations import DType, Device, Options, Size, TensorLike
from .arrays.devices import device as checked_device
from .appendix.conversions import imported
from .arrays.dtypes import as_array, as_dtype, filled, float32, int64, not_a_shape
from .ops.operands import sizes
from .random import Generator, RandomOptions
from .tensor import Tensor, wrap


def _with_options(made: Tensor, requires_grad: bool = False, device: Any = None) -> Tensor:
    if device is not None:
        checked_device(device)
    if requires_grad:
        made.become_leaf()
    return made


def _fresh(array: np.ndarray, requires_grad: bool, device: Any, dtype: Any = None) -> Tensor:
    """A tensor of an array that nothing else holds."""
    return _with_options(wrap(as_array(array, dtype)), requires_grad, device)


def _given(data: Any, dtype: Any, copy: bool | None) -> Tensor:
    """A tensor of the caller's data. Each replay of a compiled step reads an array or a Tensor again."""
    if isinstance(data, (np.ndarray, Tensor)):
        return Tensor.constant(as_array, data, dtype, copy)
    return wrap(as_array(data, dtype, copy))


def _floating(dtype: Any) -> np.dtype:
    """The dtype, by default float32."""
    return float32 if dtype is None else as_dtype(dtype)


def _shape(shape: tuple[Any, ...], size: Size | None) -> tuple[int, ...]:
    """zeros(2, 3), zeros((2, 3)) and zeros(size=(2, 3)) mean the same."""
    return sizes(shape if size is None else (*shape, size))


def tensor(data: TensorLike, dtype: DType = None, requires_grad: bool = False, device: Device = None) -> Tensor:
    """A tensor with a copy of the data.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return _with_options(_given(data, dtype, True), requires_grad, device)


def as_tensor(data: TensorLike, dtype: DType = None, device: Device = None) -> Tensor:
    """The data as a tensor: if nothing has to be converted, a tensor itself, or one that shares an array's memory."""
    if isinstance(data, Tensor):
        return data.to(dtype, device=device)
    return _with_options(_given(data, dtype, None), device=device)


def FloatTensor(*data: TensorLike) -> Tensor:
    """PyTorch's older spelling of tensor(data, dtype=float32). TypeError for a shape, which it takes as well."""
    return tensor(not_a_shape("FloatTensor", data), float32)


def LongTensor(*data: TensorLike) -> Tensor:
    """PyTorch's older spelling of tensor(data, dtype=int64). TypeError for a shape, which it takes as well.

    >>> LongTensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return tensor(not_a_shape("LongTensor", data), int64)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory, unless its dtype has to be converted.

    The tape cannot see writes to that array; write through `tensor.data`, or use `detect_anomaly()`.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy expects a NumPy array, got {type(array).__name__}")
    return _given(array, None, None)


def from_dlpack(source: Any) -> Tensor:
    """A tensor that shares the memory of an array or a tensor of another library, such as PyTorch.

    TypeError if a tensor cannot have its dtype; BufferError if it requires a gradient or is on another device.
    """
    return wrap(imported(source))


def full(
    size: Size, fill_value: float, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """A tensor of this size in which all elements are fill_value, by default in its dtype."""
    value = as_array(fill_value, dtype)
    return _fresh(filled(sizes((size,)), value, value.dtype), requires_grad, device)


def zeros(
    *shape: Size, size: Size | None = None, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """A tensor of zeros; the shape is some integers, or a sequence of them."""
    return _fresh(backend.lasting(_shape(shape, size), _floating(dtype), np.zeros), requires_grad, device)


def ones(
    *shape: Size, size: Size | None = None, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """A tensor of ones."""
    return _fresh(filled(_shape(shape, size), 1, _floating(dtype)), requires_grad, device)


def empty(
    *shape: Size, size: Size | None = None, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """A tensor of any values, to be written to."""
    return _fresh(backend.lasting(_shape(shape, size), _floating(dtype)), requires_grad, device)


def eye(
    n: int, m: int | None = None, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """A matrix of n rows and m columns, by default n, with ones on its diagonal and zeros elsewhere."""
    return _fresh(np.eye(n, m, dtype=_floating(dtype)), requires_grad, device)


def _in_kind_of(dtype: np.dtype, *numbers: float) -> Sequence[float]:
    """The numbers, as integers if the tensor's dtype is: PyTorch converts them first."""
    return [as_array(int(n), int64).item() for n in numbers] if dtype.kind == "i" else numbers


def arange(
    start: float, end: float | None = None, step: float = 1, dtype: DType = None, requires_grad: bool = False,
    device: Device = None,
) -> Tensor:
    """start, start + step, ... up to, but not including, end: integers if all three are; arange(n) starts at 0.

    ValueError if the step is 0 or leads away from end.
    """
    start, end = (0, start) if end is None else (start, end)
    if dtype is None:
        dtype = int64 if all(isinstance(n, (int, np.integer)) for n in (start, end, step)) else float32
    start, end, step = _in_kind_of(_floating(dtype), start, end, step)
    if step == 0 or (end - start) * step < 0 or not np.isfinite(end - start):
        raise ValueError(f"arange: step must be nonzero and lead from start to end, got {start}, {end} and step {step}")
    return _fresh(np.arange(start, end, step), requires_grad, device, dtype)


def linspace(
    start: float, end: float, steps: int, dtype: DType = None, requires_grad: bool = False, device: Device = None
) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included; integers are truncated towards 0.

    >>> linspace(0, 1, 5), linspace(4.3, -3, 4, dtype=int64)
    (tensor([0.  , 0.25, 0.5 , 0.75, 1.  ]), tensor([ 4,  1,  0, -3]))
    """
    if not isinstance(steps, (int, np.integer)) or steps < 0:
        raise ValueError(f"linspace: expected a whole number of steps >= 0, got {steps!r}")
    dtype = _floating(dtype)
    start, end = (value.item() if isinstance(value, Tensor) else value for value in (start, end))
    start, end = _in_kind_of(dtype, start, end)
    place, step = np.arange(steps), (end - start) / max(steps - 1, 1)
    is_first_half = place < max(steps // 2, 1)  # each number is computed from the nearer end
    numbers = np.where(is_first_half, start + step * place, end - step * (steps - 1 - place))
    return _fresh(numbers, requires_grad, device, dtype)


def _drawn(
    draw: Callable[..., np.ndarray], *values, requires_grad: bool = False, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """A tensor of draw(generator, *values); each replay of a compiled step draws again."""
    dtype = None if dtype is None else as_dtype(dtype)
    drawn = Tensor.constant(lambda *arrays: as_array(draw(random.generator(generator), *arrays), dtype), *values)
    return _with_options(drawn, requires_grad, device)


def rand(*shape: Size, size: Size | None = None, dtype: DType = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Uniform between 0 and 1. As for all random tensors, options are requires_grad, device and generator."""
    return _drawn(lambda generator: generator.random(_shape(shape, size), _floating(dtype)), **options)


def randn(*shape: Size, size: Size | None = None, dtype: DType = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Standard normal."""
    return _drawn(lambda generator: generator.standard_normal(_shape(shape, size), _floating(dtype)), **options)


def normal(
    mean: Tensor | float, std: Tensor | float, size: Size | None = None, dtype: DType = None,
    **options: Unpack[RandomOptions],
) -> Tensor:
    """Normal with these means and standard deviations, one for all elements or one each. Draws have no gradient."""
    if dtype is None:
        dtype = next((x.dtype for x in (mean, std) if isinstance(x, Tensor)), float32)
    shape = None if size is None else sizes((size,))
    return _drawn(lambda generator, mean, std: generator.normal(mean, std, shape), mean, std, dtype=dtype, **options)


def randint(
    low: int = 0, high: Any = None, size: Size = (), dtype: DType = None,
    **options: Unpack[RandomOptions],
) -> Tensor:
    """Integers from low to high - 1; from 0 if only one bound is given, as in randint(10, (2, 3))."""
    if isinstance(high, (tuple, list)):
        high, size = None, high
    first, end = (0, low) if high is None else (low, high)
    if first >= end:
        raise ValueError(f"randint: expected low < high, got {first} and {end}")
    return _drawn(lambda generator: generator.integers(first, end, size=sizes((size,))), dtype=dtype, **options)


def randperm(n: int, dtype: DType = None, **options: Unpack[RandomOptions]) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    if n < 0:
        raise ValueError(f"randperm: expected n >= 0, got {n}")
    return _drawn(lambda generator: generator.permutation(n), dtype=dtype, **options)


def zeros_like(input: Tensor, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
    """Zeros in the shape of input, and by default in its dtype."""
    return zeros(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def ones_like(input: Tensor, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
    """Ones in the shape of input, and by default in its dtype."""
    return ones(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def empty_like(input: Tensor, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
    """Any values, to be written to, in the shape of input, and by default in its dtype."""
    return empty(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def rand_like(input: Tensor, dtype: DType = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Uniform numbers between 0 and 1 in the shape of input, and by default in its dtype."""
    return rand(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def randn_like(input: Tensor, dtype: DType = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Standard normal numbers in the shape of input, and by default in its dtype."""
    return randn(input.shape, dtype=input.dtype if dtype is None else dtype, **options)


def full_like(input: Tensor, fill_value: float, dtype: DType = None, **options: Unpack[Options]) -> Tensor:
    """fill_value in the shape of input, and by default in its dtype."""
    return full(input.shape, fill_value, input.dtype if dtype is None else dtype, **options)
