"""Formulas of single elements, and kernels that apply them to large arrays: one loop for all of them.

A formula is a function in NumPy's notation, of which recorded.py makes one of numbers; its kernel is compiled when a large
array first needs it, in a quarter of a second. An operand is an array, or a number; operands of different shapes are
broadcast. Against NumPy a kernel makes one pass over memory, on all threads, into memory that has been used before.
"""
import functools
import hashlib
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

from .axes import in_memory_order, inverse, runs
from .buffers import empty
from .copying import in_order
from .formulas.values import Scalar
from .jit import exact, jit, kernel
from .parallel import parallel_for
from .recorded import Recorded
from .simd import INDEX, INT64, pointer, stored
from .thresholds import LARGE, MOVED

ELEMENTS = 8192  # per block
LONG = 64  # elements: shorter runs are copied
FLOAT, BOOL, BYTE = np.dtype(np.float32), np.dtype(np.bool_), np.dtype(np.uint8)


class Formula:
    """A function in NumPy's notation; `of` applies it to arrays, by a kernel.

    `takes` are the dtypes of the first operands; those that follow are float32. If memory is all that takes time, it
    `only_moves`: then threads share larger arrays only. Of single numbers it may have another `form`, with fewer roundings
    or passes than it has as a function of arrays.
    """

    def __init__(self, function: Callable, dtype: np.dtype = FLOAT, takes: tuple[np.dtype, ...] = (), least: int = LARGE,
                 least_apart: int | None = None, only_moves: bool = False, form: Scalar | Callable | None = None):
        self.function, self.dtype, self.least = function, dtype, least  # dtype of the result, elements at least
        self.smallest = least if least_apart is None else min(least, least_apart)  # the same, of elements that lie apart
        self._takes, self._share = takes, MOVED if only_moves else 1
        self.form = form and Recorded.as_it_is(form)
        self._kernels: dict[str, Callable] = {}  # by pattern

    def of(self, *operands) -> np.ndarray | None:
        """The result; None if that is NumPy's work: for small arrays, and other dtypes than the formula takes."""
        if not self._takes and are_alike(operands):
            plan = _plan_of_vectors(operands[0].shape, len(operands))
            return self._computed(self._kernel(plan.pattern).ungated, plan, [x.reshape(-1) for x in operands])
        for i, x in enumerate(operands):
            if isinstance(x, (np.ndarray, np.generic)):
                if x.dtype != (self._takes[i] if i < len(self._takes) else FLOAT):
                    return None
            elif i < len(self._takes) or type(x) not in (float, int):  # no float32, or a Tensor
                return None
        operands = [x if type(x) is ndarray else np.array(x, FLOAT) for x in operands]
        plan = _plan(*[(x.shape, x.strides, x.dtype, x.flags.behaved) for x in operands])
        return self._computed(self._kernel(plan.pattern), plan, map(_as_vector, operands, plan.copied))

    def _kernel(self, pattern: str) -> Callable:
        found = self._kernels.get(pattern)
        if found is None:
            source, form = self.form or Recorded.of(self.function, len(pattern))
            name = f"{self.function.__name__.strip('<>')}_{pattern}_{hashlib.sha256(source.encode()).hexdigest()[:8]}"
            found = self._kernels[pattern] = _kernel(name, form, pattern, self._share)
        return found

    def _computed(self, launch: Callable, plan: "_Plan", vectors: Iterable[np.ndarray]) -> np.ndarray:
        out = empty(plan.shape, self.dtype)
        vector = out.reshape(-1)
        launch(plan.rows, plan.columns, plan.strides, vector.view(BYTE) if self.dtype is BOOL else vector, *vectors)
        return out if plan.order is None else out.transpose(plan.order)


# -------------------------------------------------------------------------------------------------- what lies where


class _Seen(NamedTuple):
    """How to see an operand as a matrix.

    It is "e" if it has an element for each column, side by side, and "n" if it is one number along a row. An operand that
    lies otherwise is copied: a view of it, in C order. To read x[:, ::2] in place took 0.55 of the time with 256 rows of
    256, where one thread copies, but 1.1 to 3 times as long with a million elements and more.
    """

    kind: str
    strides: tuple[int, int]  # of a row and of a column, in elements
    copied: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # the view's shape and strides


class _Plan(NamedTuple):
    """How to see operands as matrices of (rows, columns)."""

    shape: tuple[int, ...]  # of the result, in the order of memory
    order: tuple[int, ...] | None  # of its axes, if it is to be transposed
    rows: int
    columns: int
    pattern: str  # the operands' kinds
    strides: tuple[int, ...]
    copied: tuple

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...] | None, columns: int, seen: list[_Seen]) -> "_Plan":
        kinds, strides, copied = zip(*seen)
        return cls(shape, order, math.prod(shape) // columns, columns, "".join(kinds), sum(strides, ()), copied)


def is_apart(x: np.ndarray) -> bool:
    """Do no two elements lie side by side, as in x[..., ::2], nor in one place, as in an array that is broadcast?"""
    return min(map(abs, x.strides)) > x.itemsize


def are_alike(operands, *formulas: Formula) -> bool:
    """Are these contiguous float32 arrays of one shape, large enough for these formulas? Then kernels do all the work."""
    first = operands[0]
    if type(first) is not ndarray:
        return False
    for formula in formulas:
        if first.size < formula.least:
            return False
    shape = first.shape
    for x in operands:
        if type(x) is not ndarray or x.dtype is not FLOAT or x.shape != shape or not x.flags.carray:
            return False
    return True


def _as_vector(x: np.ndarray, copied: tuple | None) -> np.ndarray:
    """A vector that begins where the operand does, or its copy: nothing else matters to a kernel that has the strides."""
    if copied is not None:
        return in_order(as_strided(x, *copied)).reshape(-1)
    return x.reshape(-1) if x.flags.c_contiguous else x[(slice(1),) * x.ndim].reshape(-1)


@functools.lru_cache(1024)
def _plan_of_vectors(shape: tuple[int, ...], count: int) -> _Plan:
    """How to see contiguous arrays of one shape."""
    return _Plan.of(shape, None, max(math.prod(shape), 1), [_Seen("e", (0, 1))] * count)


@functools.lru_cache(1024)
def _plan(*layouts: tuple[tuple[int, ...], tuple[int, ...], np.dtype, bool]) -> _Plan:
    """How to see arrays by their shape, strides, dtype, and whether a kernel can take them: they may lie in any way."""
    operands = [as_strided(np.empty(0, dtype), shape, strides, writeable=is_behaved)  # whose elements nobody reads
                for shape, strides, dtype, is_behaved in layouts]
    shape = max([x.shape for x in operands], key=len)
    if all(x.shape == shape or x.ndim == 0 for x in operands):
        seen = [_seen_as_run(x) for x in operands]
        if None not in seen:
            return _Plan.of(shape, None, max(math.prod(shape), 1), seen)
    shape = np.broadcast_shapes(*[x.shape for x in operands])
    full = next((x for x in operands if x.shape == shape and 0 not in x.strides), None)
    order = None
    if full is not None and not full.flags.c_contiguous:  # the result has its axes in the same order in memory
        sort = in_memory_order(full.strides)
        order = inverse(sort)
        operands = [x if x.size == 1 else _widened(x, shape).transpose(sort) for x in operands]
        shape = full.transpose(sort).shape
    columns = _columns(operands, shape)
    seen = [_seen_as_matrix(x, shape, columns) for x in operands]
    return _Plan.of(shape, order, columns, seen)


def _columns(operands: list[np.ndarray], shape: tuple[int, ...]) -> int:
    """How many columns there are: the last few axes, up to where a broadcast operand begins or ceases to vary."""
    for x in operands:
        if x.size > 1 and 0 in (strides := np.broadcast_to(x, shape).strides):
            varies, lengths = zip(*[(stride != 0, n) for stride, n in zip(strides, shape) if n > 1])
            last = len(varies)
            while last and varies[last - 1] == varies[-1]:
                last -= 1
            return math.prod(lengths[last:])
    runs = [_length_of_runs(x) for x in operands if x.size > 1]
    long = [length for length in runs if length >= LONG]
    return min(long, default=max(math.prod(shape), 1))  # 1 in an array without elements


def _length_of_runs(x: np.ndarray) -> int:
    """Of how many elements, one step apart, are the last axes of x?"""
    return math.prod([x.shape[i] for i in (_runs(x, slice(None)) or [()])[-1]])


def _runs(x: np.ndarray, axes: slice) -> list[tuple[int, ...]]:
    """Those of these axes that are longer than 1, together where elements are one step apart."""
    return runs(x.shape, [i for i in range(x.ndim)[axes] if x.shape[i] > 1], x.strides)


def _seen_as_run(x: np.ndarray) -> _Seen | None:
    """A number, or all elements one step apart; None if it is neither."""
    if x.ndim == 0:
        return _Seen("n", (0, 0))
    return _Seen("e", (0, 1)) if x.flags.c_contiguous else _seen_in_place(x, 0)


def _seen_in_place(x: np.ndarray, split: int) -> _Seen | None:
    """Rows of the axes before `split`, and columns of those after it; None if these aren't side by side."""
    down, along = _step(x, slice(split)), _step(x, slice(split, None))
    return None if down is None or along != 1 or not x.flags.behaved else _Seen("e", (down, along))


def _step(x: np.ndarray, axes: slice) -> int | None:
    """How far apart the elements along these axes are, in elements; None if that is not one number."""
    found = _runs(x, axes)
    if len(found) > 1:
        return None
    step, rest = divmod(x.strides[found[0][-1]], x.itemsize) if found else (0, 0)
    return None if rest else step


def _widened(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """np.broadcast_to, but an array that has the shape stays writeable: kernels take no other without a copy."""
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _seen_as_matrix(x: np.ndarray, shape: tuple[int, ...], columns: int) -> _Seen:
    if x.size == 1:
        return _Seen("n", (0, 0))
    if x.shape == shape and x.flags.c_contiguous:
        return _Seen("e", (columns, 1), _unless_in_order(x, x))
    wide, rows = np.broadcast_to(x, shape), math.prod(shape) // columns
    once = wide[tuple(slice(None) if stride else slice(1) for stride in wide.strides)]  # each element once
    split = next((i for i in range(len(shape)) if math.prod(shape[i:]) <= columns), len(shape))
    if rows > 1 and once.size == columns == math.prod(once.shape[split:]):
        return _Seen("e", (0, 1), _unless_in_order(x, once))
    if columns > 1 and once.size == rows == math.prod(once.shape[:split]):
        return _Seen("n", (1, 0), _unless_in_order(x, once))
    in_place = _seen_in_place(x, split) if x.shape == shape else None
    return in_place or _Seen("e", (columns, 1), _unless_in_order(x, wide))


def _unless_in_order(x: np.ndarray, view: np.ndarray) -> tuple | None:
    """What of x is to be copied. Of what can't be written to, kernels make a copy themselves: they need the whole view."""
    return None if x.flags.behaved and view.flags.c_contiguous else (view.shape, view.strides)


# ------------------------------------------------------------------------------------------------------ the kernel


def _loop(function: Callable, pattern: str) -> Callable:
    """The loop of a formula: it has no branches, and is vectorised. To that end the formula stands in it, of any length."""
    function = getattr(function, "py_func", function)
    code, (first, elements) = exact(function, forceinline=True), _elements_of(pattern)

    @exact
    def loop(count, out, operands):
        numbers = first(operands)
        for i in range(count):
            out[i] = code(*elements(operands, numbers, i))

    return loop


def _loop_with_exceptions(form: Scalar, pattern: str) -> Callable:
    """The same, and where there is any exception to the formula, a second loop for the exceptions."""
    usual, (first, elements) = _loop(form.usual, pattern), _elements_of(pattern)
    rare, exception = exact(form.rare), exact(form.exception)

    @exact
    def loop(count, out, operands):
        usual(count, out, operands)
        numbers = first(operands)
        found = False
        for i in range(count):
            found |= rare(*elements(operands, numbers, i))
        if found:
            for i in range(count):
                if rare(*elements(operands, numbers, i)):
                    out[i] = exception(*elements(operands, numbers, i))

    return loop


def _kernel(name: str, form: Scalar, pattern: str, share: int) -> Callable:
    """The kernel of a formula, for operands that lie as the pattern says: see `_Plan`. For threads, `share` elements are
    worth one."""
    loop = _loop_with_exceptions(form, pattern) if form.rare else _loop(form.usual, pattern)

    @jit
    def compute_block(block, rows, columns, strides, out, operands):
        first, end, start, count = _part(block, rows, columns)
        for row in range(first, end):
            loop(count, pointer(out, row * columns + start), _starts(operands, strides, row, start))

    def launch(rows, columns, strides, out, *operands):
        blocks = _number_of_blocks(rows, columns)
        parallel_for(compute_block, blocks, out.size // share, (rows, columns, strides, out, operands))

    launch.__name__ = launch.__qualname__ = name
    return kernel(launch, parallel=True)


@jit
def _number_of_blocks(rows, columns):
    if columns >= ELEMENTS:
        return rows * ((columns + ELEMENTS - 1) // ELEMENTS)
    together = ELEMENTS // max(columns, 1)
    return (rows + together - 1) // together


@jit
def _part(block, rows, columns):
    """The first row of a block, its end, its first column and how many: a part of a row, or several rows."""
    if columns >= ELEMENTS:
        parts = (columns + ELEMENTS - 1) // ELEMENTS
        start = block % parts * ELEMENTS
        return block // parts, block // parts + 1, start, min(ELEMENTS, columns - start)
    together = ELEMENTS // max(columns, 1)
    return block * together, min(rows, (block + 1) * together), 0, columns


@intrinsic
def _starts(typing_context, arrays, strides, row, column):
    """A pointer into each array, to this row and column."""

    def codegen(context, builder, signature, arguments):
        arrays, strides, row, column = arguments
        found = []
        for i, kind in enumerate(signature.args[0]):
            data = context.make_array(kind)(context, builder, builder.extract_value(arrays, i)).data
            down, right = (builder.mul(builder.extract_value(strides, 2 * i + k), n) for k, n in enumerate((row, column)))
            found.append(builder.gep(data, [builder.add(down, right)]))
        return context.make_tuple(builder, signature.return_type, found)

    kinds = [types.CPointer(stored(kind.dtype)) for kind in arrays]
    return types.Tuple(kinds)(arrays, strides, INDEX, INDEX), codegen


@functools.cache
def _elements_of(pattern: str) -> tuple[Callable, Callable]:
    """Two functions, of pointers: first(pointers) -> what they point to, and elements(pointers, first, i) -> the same, but
    for each "e" of the pattern i elements further on. Numbers are read before a loop, as `out` might be one of them."""

    def load(builder, pointers, k, i):
        return builder.load(builder.gep(builder.extract_value(pointers, k), [i]))

    @intrinsic
    def first(typing_context, pointers):
        def codegen(context, builder, signature, arguments):
            values = [load(builder, arguments[0], k, ir.Constant(INT64, 0)) for k in range(len(pattern))]
            return context.make_tuple(builder, signature.return_type, values)

        return types.Tuple([kind.dtype for kind in pointers])(pointers), codegen

    @intrinsic
    def elements(typing_context, pointers, numbers, i):
        def codegen(context, builder, signature, arguments):
            pointers, numbers, i = arguments
            values = [load(builder, pointers, k, i) if kind == "e" else builder.extract_value(numbers, k)
                      for k, kind in enumerate(pattern)]
            return context.make_tuple(builder, signature.return_type, values)

        return numbers(pointers, numbers, i), codegen

    return first, elements
