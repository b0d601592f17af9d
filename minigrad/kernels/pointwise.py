"""Formulas of single elements, and kernels that apply them to large arrays: one loop for all of them.

formulas/ has the formulas. Each is a function of numbers, of float32 if it doesn't say otherwise; its kernel is compiled
when a large array first needs it, in a quarter of a second. An operand is an array, or a number; operands of different
shapes are broadcast. Against NumPy a kernel makes one pass over memory, on all threads, into memory that has been used
before.
"""
import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import ndarray

from .buffers import empty
from .copying import in_order
from .jit import jit, kernel
from .parallel import parallel_for
from .simd import INDEX, INT64, pointer, stored, use_widest_vectors

# The elements from which a kernel is faster than NumPy:
LARGE = 1 << 12  # where NumPy needs several passes, or branches
VECTORISED = 1 << 17  # where it has vector code for the function: at 65,536 elements, to wake a thread takes what it saves
SINGLE_PASS = 1 << 17  # where memory is all that takes time
BYTES = 1 << 19  # the same, for booleans
ELEMENTS = 8192  # per block
FLOAT, BOOL, BYTE = np.dtype(np.float32), np.dtype(np.bool_), np.dtype(np.uint8)

# Without FAST_MATH: sums, products and quotients have the bits that NumPy gives them, and -0 stays -0.
exact = functools.partial(jit, fastmath=False)


class Formula:
    """A function of single numbers; `of` applies it to arrays.

    `takes` are the dtypes of the first operands; those that follow are float32. A formula may hold for usual operands only,
    so that it has no branches and is vectorised. Then `rare` tells for which it doesn't, and `exception` computes those.
    """

    def __init__(self, function: Callable, dtype: np.dtype = FLOAT, takes: tuple[np.dtype, ...] = (), least: int = LARGE,
                 rare: Callable | None = None, exception: Callable | None = None):
        self.name, self.dtype, self.least = function.__name__, dtype, least  # dtype of the result, elements at least
        self._takes = takes
        self._function, self._rare, self._exception = function, rare, exception
        self._kernels: dict[str, Callable] = {}  # by pattern

    def of(self, *operands) -> np.ndarray | None:
        """The result; None if that is NumPy's work: for small arrays, and other dtypes than the formula takes."""
        if not self._takes and are_alike(operands, self):
            return self._computed(_Plan.of_vectors(operands))
        for i, x in enumerate(operands):
            if isinstance(x, (np.ndarray, np.generic)):
                if x.dtype != (self._takes[i] if i < len(self._takes) else FLOAT):
                    return None
            elif i < len(self._takes) or type(x) not in (float, int):  # no float32, or a Tensor
                return None
        return self._computed(_plan(operands))

    def _computed(self, plan: "_Plan") -> np.ndarray:
        launch = self._kernels.get(plan.pattern)
        if launch is None:
            launch = self._kernels[plan.pattern] = _kernel(self._function, plan.pattern, self._rare, self._exception)
        out = empty(plan.shape, self.dtype)
        vector = out.reshape(-1)
        launch(plan.rows, plan.columns, plan.strides, vector.view(BYTE) if self.dtype == BOOL else vector, *plan.arrays)
        return out if plan.order is None else out.transpose(plan.order)


# What decorates a function of single numbers:
formula = Formula
vectorised = functools.partial(Formula, least=VECTORISED)
single_pass = functools.partial(Formula, least=SINGLE_PASS)
predicate = functools.partial(Formula, dtype=BOOL, least=SINGLE_PASS)  # it is true or false
of_booleans = functools.partial(Formula, dtype=BOOL, takes=(BOOL, BOOL), least=BYTES)
choice = functools.partial(Formula, takes=(BOOL,))  # its first argument is true or false


def unless(rare: Callable, exception: Callable) -> Callable:
    """What decorates a formula that doesn't hold where rare(*operands); exception(*operands) does there."""
    return functools.partial(Formula, rare=rare, exception=exception)


def computed(formula: Formula | None, function: Callable, *operands):
    """function(*operands), in NumPy's notation; if they are large arrays, by the formula's kernel."""
    if formula is not None:
        for x in operands:
            if type(x) is ndarray and x.size >= formula.least:
                result = formula.of(*operands)
                return function(*operands) if result is None else result
    return function(*operands)


# -------------------------------------------------------------------------------------------------- what lies where


class _Plan(NamedTuple):
    """How to see operands as matrices of (rows, columns).

    The pattern has an "e" for each operand that has an element for each column, and an "n" for one that is a number
    along a row. Its strides are those of a row and of a column. Operands that lie otherwise are copied.
    """

    shape: tuple[int, ...]  # of the result, in the order of memory
    order: tuple[int, ...] | None  # of its axes, if it is to be transposed
    rows: int
    columns: int
    pattern: str
    strides: tuple[int, ...]
    arrays: list[np.ndarray]  # contiguous vectors

    @classmethod
    def of_vectors(cls, arrays) -> "_Plan":
        """Contiguous arrays of one shape"""
        first, count = arrays[0], len(arrays)
        return cls(first.shape, None, 1, first.size, "e" * count, (0, 1) * count, [x.reshape(-1) for x in arrays])


def are_alike(operands, *formulas: Formula) -> bool:
    """Are these contiguous float32 arrays of one shape, large enough for the formulas? Then kernels do all the work."""
    first = operands[0]
    if type(first) is not np.ndarray or first.size < max(formula.least for formula in formulas):
        return False
    shape = first.shape
    for x in operands:
        if type(x) is not np.ndarray or x.dtype is not FLOAT or x.shape != shape or not x.flags.carray:
            return False
    return True


def _plan(operands: tuple) -> _Plan:
    """How to see arrays that lie in any way, and numbers."""
    operands = [x if type(x) is np.ndarray else np.array(x, FLOAT) for x in operands]
    shape = max([x.shape for x in operands], key=len)
    if all(x.shape == shape and x.flags.c_contiguous or x.size == 1 and x.ndim == 0 for x in operands):
        kinds = ["e" if x.shape == shape else "n" for x in operands]
        strides = [number for kind in kinds for number in (0, int(kind == "e"))]
        vectors = [x.reshape(-1) for x in operands]
        return _Plan(shape, None, 1, math.prod(shape), "".join(kinds), tuple(strides), vectors)
    shape = np.broadcast_shapes(*[x.shape for x in operands])
    full = next((x for x in operands if x.shape == shape), None)
    order = None
    if full is not None and not full.flags.c_contiguous:  # the result has its axes in the same order in memory
        sort = sorted(range(len(shape)), key=lambda axis: -abs(full.strides[axis]))
        order = tuple(sorted(range(len(shape)), key=sort.__getitem__))
        operands = [x if x.size == 1 else _widened(x, shape).transpose(sort) for x in operands]
        shape = full.transpose(sort).shape
    columns = _columns(operands, shape)
    seen = [_seen_as_matrix(x, shape, columns) for x in operands]
    strides = tuple(itertools.chain(*(strides for _, strides, _ in seen)))
    rows = math.prod(shape) // columns
    return _Plan(shape, order, rows, columns, "".join(kind for kind, _, _ in seen), strides, [x for _, _, x in seen])


def _columns(operands: list[np.ndarray], shape: tuple[int, ...]) -> int:
    """How many columns there are: the last few axes, up to where a broadcast operand begins or ceases to vary."""
    for x in operands:
        if x.size > 1 and 0 in (strides := np.broadcast_to(x, shape).strides):
            varies, lengths = zip(*[(stride != 0, n) for stride, n in zip(strides, shape) if n > 1])
            last = len(varies)
            while last and varies[last - 1] == varies[-1]:
                last -= 1
            return math.prod(lengths[last:])
    return max(math.prod(shape), 1)  # 1 in an array without elements


def _widened(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """np.broadcast_to, but an array that has the shape stays writeable: kernels take no other without a copy."""
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _seen_as_matrix(x: np.ndarray, shape: tuple[int, ...], columns: int) -> tuple[str, tuple[int, int], np.ndarray]:
    """(e or n, strides of a row and of a column, a contiguous vector)"""
    if x.size == 1:
        return "n", (0, 0), x.reshape(-1)
    if x.shape == shape and x.flags.c_contiguous:
        return "e", (columns, 1), x.reshape(-1)
    wide, rows = np.broadcast_to(x, shape), math.prod(shape) // columns
    once = wide[tuple(slice(None) if stride else slice(1) for stride in wide.strides)]  # each element once
    split = next((i for i in range(len(shape)) if math.prod(shape[i:]) <= columns), len(shape))
    if rows > 1 and once.size == columns == math.prod(once.shape[split:]):
        return "e", (0, 1), in_order(once).reshape(-1)
    if columns > 1 and once.size == rows == math.prod(once.shape[:split]):
        return "n", (1, 0), in_order(once).reshape(-1)
    return "e", (columns, 1), in_order(wide).reshape(-1)


# ------------------------------------------------------------------------------------------------------ the kernel


def _loop(function: Callable, pattern: str) -> Callable:
    """The loop of a formula: it has no branches, and is vectorised. To that end the formula stands in it, of any length."""
    code, (first, elements) = exact(function, forceinline=True), _elements_of(pattern)

    @exact
    def loop(count, out, operands):
        numbers = first(operands)
        for i in range(count):
            out[i] = code(*elements(operands, numbers, i))

    return loop


def _loop_with_exceptions(function: Callable, pattern: str, rare: Callable, exception: Callable) -> Callable:
    """The same, and where there is any exception to the formula, a second loop for the exceptions."""
    usual, (first, elements) = _loop(function, pattern), _elements_of(pattern)
    rare, exception = (code if hasattr(code, "py_func") else exact(code) for code in (rare, exception))

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


def _kernel(function: Callable, pattern: str, rare: Callable | None, exception: Callable | None) -> Callable:
    """The kernel of a formula, for operands that lie as the pattern says: see `_Plan`."""
    loop = _loop(function, pattern) if rare is None else _loop_with_exceptions(function, pattern, rare, exception)

    @jit
    def compute_block(block, rows, columns, strides, out, operands):
        first, end, start, count = _part(block, rows, columns)
        for row in range(first, end):
            loop(count, pointer(out, row * columns + start), _starts(operands, strides, row, start))

    def launch(rows, columns, strides, out, *operands):
        blocks = _number_of_blocks(rows, columns)
        parallel_for(compute_block, blocks, out.size, (rows, columns, strides, out, operands))

    launch.__module__ = function.__module__
    launch.__name__ = launch.__qualname__ = f"{function.__name__}_{pattern}"
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
            use_widest_vectors(builder)
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
