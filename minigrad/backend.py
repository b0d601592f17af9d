"""What ops need of arrays beyond NumPy's own functions: in NumPy, each in a few lines.

Faster functions, such as those that launch kernels, can take their places (`replaced_by`). Ops need not know: they call
`backend.sum`, whichever that is. Inside `textbook` the functions of this file run.
"""
from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np

from .per_thread import this_thread

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from .arrays.annotations import Tensor


def is_tensor(value: Any) -> TypeIs[Tensor]:
    """Is it a Tensor? All that the files below tensor.py know about Tensors is that they can apply ops."""
    return hasattr(type(value), "apply_op")  # of the class, so that no object's own __getattr__ is called


in_numpy: Any = SimpleNamespace()  # this file's versions of the functions that have been replaced
replacements: dict[str, Callable[..., Any]] = {}
asks_threads: bool = False  # does each call check whether its thread is inside `textbook`?


def replaced_by(**functions: Callable[..., Any]) -> None:
    """Put these in place of the functions of the same names, which ops call as `backend.x`.

    They give the same results, up to a rounding or two, and pass what they don't handle on to `backend.in_numpy`.
    """
    unknown = functions.keys() - globals().keys()
    if unknown:
        raise TypeError(f"backend: no function is called {', '.join(sorted(unknown))}")
    for name, function in functions.items():
        plain = vars(in_numpy).setdefault(name, globals()[name])
        replacements[name] = function
        globals()[name] = _unless_textbook(plain, function) if asks_threads else function


def ask_threads() -> None:
    """From now on each call checks whether its thread is inside `textbook`; until one is, that would only take time."""
    global asks_threads
    if not asks_threads:
        asks_threads = True
        replaced_by(**replacements)


def _unless_textbook(plain: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*arguments, **options):
        return (plain if this_thread.is_textbook else replacement)(*arguments, **options)

    return call


# -------------------------------------------------------------------------------------------------- elements


def elementwise(function: Callable[..., Any], *operands: Any) -> Any:
    """function(*operands), element by element; the operands are numbers, and arrays that broadcast.

    The function must live as long as the program: a kernel may be made of it, and cached.
    """
    return function(*operands)


# -------------------------------------------------------------------------------------------------- memory


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array for a result."""
    return np.empty(shape, dtype)


def lasting(shape: tuple[int, ...], dtype: np.dtype, make: Callable[..., Any] = np.empty) -> np.ndarray:
    """make(shape, dtype), where make is np.empty or np.zeros, for long-lived arrays such as parameters."""
    return make(shape, dtype)


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
    return np.asarray(total, x.dtype if wide else None)


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
