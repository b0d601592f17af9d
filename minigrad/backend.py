"""What ops need of arrays beyond NumPy's own functions: in NumPy, each in a few lines.

Faster ones, such as those that launch kernels, can take the places of some (`replaced_by`), and ops need not know.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np

from .per_thread import this_thread

Function = TypeVar("Function", bound=Callable)


class AnyTensor:
    """The base class of Tensor, and all that the files below tensor.py know of it, besides that it can apply ops."""

    apply_op: Callable[..., Any]
    _array: np.ndarray


def is_tensor(value: Any) -> TypeGuard[Any]:
    """Is it a Tensor?"""
    return isinstance(value, AnyTensor)


replacements: dict[str, Callable[..., Any]] = {}  # what the engine room has put in place of functions of this file


def replaceable(function: Function) -> Function:
    """Decorate a function that can be replaced (`replaced_by`); inside `textbook`, it runs all the same."""
    name = function.__name__

    @functools.wraps(function)
    def call(*arguments):
        return (function if this_thread.is_textbook else replacements.get(name, function))(*arguments)

    return call  # type: ignore[return-value]


def replaced_by(**functions: Callable[..., Any]) -> None:
    """Put these in place of the replaceable functions of the same names.

    They give the same results, up to a rounding or two. What they don't handle they pass on to the function of this file,
    which is its `__wrapped__`.
    """
    unknown = [name for name in functions if not hasattr(globals().get(name), "__wrapped__")]
    if unknown:
        raise TypeError(f"backend: no function that can be replaced is called {', '.join(sorted(unknown))}")
    replacements.update(functions)


# -------------------------------------------------------------------------------------------------- elements


@replaceable
def elementwise(function: Callable[..., Any], *operands: Any) -> Any:
    """function(*operands), element by element; the operands are numbers, and arrays that broadcast.

    The function must live as long as the program: a kernel may be made of it, and cached.
    """
    return function(*operands)


# -------------------------------------------------------------------------------------------------- memory


@replaceable
def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array for a result."""
    return np.empty(shape, dtype)


@replaceable
def lasting(shape: tuple[int, ...], dtype: np.dtype, make: Callable[..., Any] = np.empty) -> np.ndarray:
    """make(shape, dtype), where make is np.empty or np.zeros, for long-lived arrays such as parameters."""
    return make(shape, dtype)


def zeros(shape: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    """An array of zeros, of the kind of x."""
    return np.zeros(shape, x.dtype, like=None if isinstance(x, np.generic) or is_tensor(x) else x)


@replaceable
def copied(x: np.ndarray) -> np.ndarray:
    """A copy in C order.

    >>> copied(np.arange(6).reshape(2, 3).T).strides
    (16, 8)
    """
    return np.copy(x, "C")


def in_order(x: np.ndarray) -> np.ndarray:
    """The array itself if it is in C order, else a copy that is."""
    return x if x.flags.c_contiguous else copied(x)


# -------------------------------------------------------------------------------------------------- axes


def normalized(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The axes, counted from the front and in order."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted([i % ndim for i in axis])) if isinstance(axis, tuple) else (axis % ndim,)


def concatenate(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """np.concatenate of arrays of one dtype, in C order."""
    return in_order(np.concatenate(arrays, axis))


# -------------------------------------------------------------------------------------------------- sums, products


def sum(x: np.ndarray, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    """The sum in the dtype of x; floats are added in float64 and rounded once.

    >>> x = np.full((1_000_000, 2), 0.1, np.float32)
    >>> sum(x, 0), np.sum(x, axis=0)
    (array([100000., 100000.], dtype=float32), array([100958.34, 100958.34], dtype=float32))
    """
    wide = np.float64 if x.dtype.kind == "f" else None
    total: Any = np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=wide)  # type: ignore[call-overload]
    total = np.asarray(total) if isinstance(total, np.generic) else total
    return total.astype(x.dtype, copy=False) if wide else total


@replaceable
def sum_of_products(subscripts: str, *factors: np.ndarray) -> np.ndarray:
    """np.einsum, but what only one factor has is summed first, by `sum`."""
    inputs, output = subscripts.split("->")
    summed, kept = [], []
    for labels, x in zip(inputs.split(","), factors):
        alone = tuple([axis for axis, label in enumerate(labels) if subscripts.count(label) == 1])
        summed.append(sum(x, alone) if alone else x)
        kept.append("".join([label for label in labels if subscripts.count(label) > 1]))
    return np.einsum(f"{','.join(kept)}->{output}", *summed, optimize=len(factors) > 1)


# -------------------------------------------------------------------------------------------------- indices


def takes_twice(shape: tuple[int, ...], index: Any) -> bool:
    """Does the index take an element of an array of this shape twice?"""
    marks = np.zeros(shape, bool)
    marks[index] = True
    return np.count_nonzero(marks) < marks[index].size


def along(dim: int, indices: np.ndarray) -> tuple[Any, ...]:
    """The index for which x[index][i, j] = x[i, indices[i, j]] if dim = 1, and so on."""
    return tuple([indices if i == dim else np.arange(n).reshape((n,) + (1,) * (indices.ndim - 1 - i))
                  for i, n in enumerate(indices.shape)])


def copied_with_range(positions: np.ndarray) -> tuple[np.ndarray, int, int]:
    """(a copy, the lowest, the highest) of integers; 0 and -1 if there are none."""
    out = copied(positions)
    return (out, out.min(), out.max()) if out.size else (out, 0, -1)


def positions_of_nonzero(x: np.ndarray) -> np.ndarray:
    """np.argwhere, (count, ndim), in a third of the time that NumPy takes over several axes."""
    places, found = np.flatnonzero(x), []
    for n in x.shape[:0:-1]:
        above = places // n
        found.append(places - above * n)
        places = above
    return np.stack([places, *found[::-1]], axis=1) if x.ndim else np.argwhere(x)
