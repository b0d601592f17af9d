"""Operands: what can be combined with a Tensor, and the common dtype of several; checks of axes and shapes."""
from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Callable, TypeVar

import numpy as np

from ..arrays.annotations import Axes, DType, Tensor
from ..arrays.dtypes import as_array, bool_, float32, int64
from ..backend import AnyTensor, is_tensor
from ..implementations import chosen
from ..runner import compute
from ..tape import Op


KINDS = "bif"  # of dtypes, the lowest first: booleans, integers, floats
# Python's numbers, and their dtypes if there is no array.
NUMBERS: dict[type, np.dtype] = {bool: bool_, int: int64, float: float32}
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}  # synonyms

Function = TypeVar("Function", bound=Callable)
Family = TypeVar("Family", bound=type)


def operand(value: Any) -> Any:
    """A Tensor, a Python scalar (which never widens a dtype), or else an array."""
    if is_tensor(value) or type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    return compute(as_array, value, None, True)  # a copy, as the caller may write to the array before backward


def data_of(value: Any) -> Any:
    """The array of a Tensor; anything else as it is."""
    return value.array if is_tensor(value) else value


def values_of(value: Any) -> Any:
    """The array of a Tensor for Python code that reads it, an error in a compiled step; anything else as it is."""
    return value._values() if is_tensor(value) else value


def cast(value: Any, dtype: np.dtype) -> Any:
    """A Tensor or an array in another dtype; a Python number as it is."""
    if type(value) in NUMBERS:
        return value
    return value.to(dtype) if is_tensor(value) else value.astype(dtype, copy=False)


def as_dtype(x: Tensor, dtype: DType) -> Tensor:
    """A Tensor in the dtype that an operation is to be computed in; None leaves it as it is."""
    return x if dtype is None else x.to(dtype)


def floating(value: Any) -> Any:
    """Integers and booleans as float32, for functions whose results are fractions."""
    return value if type(value) in NUMBERS or value.dtype.kind == "f" else cast(value, float32)


def promote(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype of their result; Python numbers stay as they are. TypeError if both are Python numbers."""
    if type(a) in NUMBERS:
        if type(b) in NUMBERS:
            raise no_tensor(a, b)
        is_usual = b.dtype.kind == "f"
    elif type(b) in NUMBERS:
        is_usual = a.dtype.kind == "f"
    else:
        is_usual = a.dtype is b.dtype
    if is_usual:
        return a, b
    dtype = common_dtype(a, b)
    return cast(a, dtype), cast(b, dtype)


def common_dtype(*values: Any) -> np.dtype:
    """The dtype of a result of these Tensors, arrays and Python numbers, by PyTorch's rules.

    Floats take precedence over integers, those over booleans; then arrays over single elements, those over Python
    numbers; then the wider dtype over the narrower.
    """
    return max(map(_precedence, values))[-1]


def _precedence(value: Any) -> tuple[int, int, int, np.dtype]:
    number = NUMBERS.get(type(value))
    if number is not None:
        return KINDS.index(number.kind), -1, 0, number
    dtype = value.dtype
    return KINDS.index(dtype.kind), value.ndim > 0, dtype.itemsize, dtype


def call(op: type[Op], *inputs: Any, **options: Any) -> Any:
    """Apply an op inside a formula: to arrays, or to Tensors, on the tape."""
    for value in inputs:
        if is_tensor(value):
            return value.apply_op(op, *inputs, **options)
    return object.__new__(chosen(op, inputs)).forward(*inputs, **options)


def binary(operation: type[Op], a: Any, b: Any, **options: Any) -> Any:
    """An elementwise operation on two operands, at least one of them a Tensor."""
    if not (isinstance(a, AnyTensor) and isinstance(b, AnyTensor) and a._array.dtype is b._array.dtype):
        a, b = promote(operand(a), operand(b))
    return of_one_dtype(operation, a, b, **options)


def of_one_dtype(operation: type[Op], a: Any, *others: Any, **options: Any) -> Any:
    """An elementwise operation on operands of the same dtype, at least one of them a Tensor."""
    tensor = a if isinstance(a, AnyTensor) else next(filter(is_tensor, others), None)
    if tensor is None:
        raise no_tensor(a, *others)
    try:
        return tensor.apply_op(operation, a, *others, **options)
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        raise broadcast_error(operation.__name__.lower(), a, *others) from None


def scaled(x: Any, factor: float) -> Any:
    """x * factor; x itself if that is the integer 1, so that booleans stay booleans."""
    return x if type(factor) is int and factor == 1 else x * factor


def of_floats(operation: type[Op], a: Any, b: Any) -> Any:
    """An elementwise operation on two operands as floats."""
    a, b = promote(operand(a), operand(b))
    return of_one_dtype(operation, floating(a), floating(b))


def no_tensor(*values: Any) -> TypeError:
    given = " and ".join(str(value) if type(value) in NUMBERS else type(value).__name__ for value in values)
    return TypeError(f"expected a Tensor among the operands, got {given}; make one with tensor()")


def broadcast_error(name: str, *values: Any) -> ValueError:
    shapes = " and ".join(str(value.shape if is_tensor(value) else np.shape(value))
                          for value in values if type(value) not in NUMBERS)
    return ValueError(
        f"{name}: shapes {shapes} do not broadcast; each pair of axes, counted from the last, must be equal or "
        "contain a 1"
    )


def check_dim(name: str, x: Any, dim: int, new: int = 0) -> int:
    """A valid axis, counted from the front; with new=1, also that of a new axis."""
    ndim = x.ndim + new or 1
    try:
        if -ndim <= dim < ndim:
            return dim % ndim
    except TypeError:
        raise TypeError(f"{name}: dim must be an integer, got {dim!r}; -1 is the last axis") from None
    raise IndexError(f"{name}: dim {dim} is out of range for a tensor of shape {x.shape}")


def checked_axes(name: str, x: Any, dim: Axes | None) -> tuple[int, ...] | None:
    """dim as a tuple of axes, counted from the front; None, which means all, if it is None or empty."""
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return None
    axes = tuple([check_dim(name, x, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))])
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: dim {max(axes, key=axes.count)} appears multiple times in {dim}")
    return axes if x.ndim else None


def at(dim: int, index: Any) -> tuple[Any, ...]:
    """An index along one axis: x[at(1, i)] is x[:, i]."""
    return (slice(None),) * dim + (index,)


def rows_of(x: Any) -> Any:
    """(..., C) -> (N, C): all leading axes become rows."""
    return np.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def sizes(shape: Any) -> tuple[int, ...]:
    """f(2, 3) and f((2, 3)) mean the same."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, range)):
        shape = shape[0]
    return tuple(map(int, shape))


def with_numpy_names(function: Function) -> Function:
    """Let a function with `dim` and `keepdim` take `axis` and `keepdims` as well.

    Its signature lists these too, for readers and type checkers; the function itself never gets them.
    """

    @functools.wraps(function)
    def renamed(*args, **options):
        if "axis" in options or "keepdims" in options:
            options = {NUMPY_NAMES.get(name, name): value for name, value in options.items()}
        return function(*args, **options)

    return renamed  # type: ignore[return-value]


def methods_with_numpy_names(family: Family) -> Family:
    """Let all methods of a class take `axis` and `keepdims` as well."""
    for name, method in inspect.getmembers(family, inspect.isfunction):
        setattr(family, name, with_numpy_names(method))
    return family


def known_as_tensors(methods: Family) -> Family:
    """Decorate a class that joins families of methods, so that Python's own errors say Tensor.softmax()."""
    for family in methods.__bases__:
        for method in filter(inspect.isfunction, vars(family).values()):
            function = inspect.unwrap(method)
            function.__qualname__ = function.__qualname__.replace(f"{family.__name__}.", "Tensor.")
    return methods
