"""Elementwise formulas, and kernels that apply them to large arrays, all with the same loop.

A formula is a function in NumPy's notation, which recorded.py turns into a function of numbers. Its kernel is compiled when
a large array first needs it, in a quarter of a second. Operands are arrays or numbers, and are broadcast. Unlike NumPy, a
kernel makes one pass over memory, on all threads, and writes into reused memory.
"""
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

from .buffers import in_order
from ..pool import empty
from .jit import exact, jit, kernel
from .parallel import parallel_for
from .recorded import Recorded
from .rows import ELEMENTS, number_of_blocks
from .simd import INT64, pointer, pointers, shift_each
from .thresholds import LARGE, MOVED

FLOAT = np.dtype(np.float32)


class Formula:
    """A function in NumPy's notation, of `count` operands; `of` applies it to arrays, by a kernel.

    `takes` are the dtypes of the first operands; the others are float32. It is for arrays of `least` elements. A formula
    that is bound by memory `only_moves`: threads share only larger arrays then.
    """

    def __init__(self, function: Callable, count: int, takes: tuple[np.dtype, ...] = (), least: int = LARGE,
                 only_moves: bool = False):
        self.name, self.recorded, self.least = function.__name__.strip("<>"), Recorded.of(function, count), least
        self._takes, self._share = takes, MOVED if only_moves else 1
        self._kernels: dict[str, Callable] = {}  # by pattern

    def of(self, *operands) -> np.ndarray | None:
        """The result; None if it is NumPy's work, as for dtypes that the formula does not take."""
        if not self._takes and are_alike(operands):
            plan = _plan_of_vectors(operands[0].shape, len(operands))
            return self._computed(self._kernel(plan.pattern).ungated, plan, [x.reshape(-1) for x in operands])
        for i, x in enumerate(operands):
            if isinstance(x, (np.ndarray, np.generic)):
                if x.dtype != (self._takes[i] if i < len(self._takes) else FLOAT):
                    return None
            elif i < len(self._takes) or type(x) not in (float, int):  # not float32, or a Tensor
                return None
        operands = [x if type(x) is ndarray else np.array(x, FLOAT) for x in operands]
        plan = _plan(*[(x.shape, x.strides, x.itemsize, x.flags.behaved) for x in operands])
        return self._computed(self._kernel(plan.pattern), plan, map(_as_vector, operands, plan.copied))

    def _kernel(self, pattern: str) -> Callable:
        found = self._kernels.get(pattern)
        if found is None:
            source, scalar = self.recorded
            name = f"{self.name}_{pattern}_{hashlib.sha256(source.encode()).hexdigest()[:8]}"
            found = self._kernels[pattern] = _kernel(name, scalar, pattern, self._share)
        return found

    def _computed(self, launch: Callable, plan: "_Plan", vectors: Iterable[np.ndarray]) -> np.ndarray:
        out = empty(plan.shape, FLOAT)
        launch(plan.loops, plan.strides, out.reshape(-1), *vectors)
        return out if plan.order is None else out.transpose(plan.order)


# ------------------------------------------------------------------------------------------------- memory layouts


class _Plan(NamedTuple):
    """Four nested loops through broadcast operands.

    Along the inner loop an operand is "e" if its elements are contiguous, and "n" if it is one number; any other operand is
    copied first. Reading x[:, ::2] in place took 0.55 of the time with 256 rows of 256, where one thread copies, but 1.1 to
    3 times as long from a million elements on.
    """

    shape: tuple[int, ...]  # of the result, in memory order
    order: tuple[int, ...] | None  # of its axes, if it must be transposed
    loops: tuple[int, ...]  # their lengths
    pattern: str  # "e" or "n" for each operand
    strides: tuple[tuple[int, ...], ...]  # of the operands, for each loop, in elements
    copied: tuple  # for each operand the view to copy, or None

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...] | None, loops: tuple[int, ...],
           strides: Sequence[tuple[int, ...]], copied: Sequence) -> "_Plan":
        pattern = "".join(["e" if own[-1] else "n" for own in strides])
        return cls(shape, order, loops, pattern, tuple(zip(*strides)), tuple(copied))


def are_alike(operands, *formulas: Formula) -> bool:
    """Are these contiguous float32 arrays of one shape, large enough for these formulas? Then kernels alone do the work."""
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
    """A vector that begins where the operand, or its copy, does: the kernel has the strides."""
    if copied is not None:
        return in_order(as_strided(x, *copied)).reshape(-1)
    return x.reshape(-1) if x.flags.c_contiguous else x[(slice(1),) * x.ndim].reshape(-1)


@functools.lru_cache(1024)
def _plan_of_vectors(shape: tuple[int, ...], count: int) -> _Plan:
    """For contiguous arrays of one shape."""
    return _Plan.of(shape, None, (1, 1, 1, math.prod(shape)), [(0, 0, 0, 1)] * count, [None] * count)


@functools.lru_cache(1024)
def _plan(*layouts: tuple[tuple[int, ...], tuple[int, ...], int, bool]) -> _Plan:
    """For arrays in any layout: (shape, strides, itemsize, can a kernel take it?) of each."""
    shape = np.broadcast_shapes(*[own for own, *_ in layouts])
    wide = [(0,) * (len(shape) - len(own)) + tuple([stride if n > 1 else 0 for n, stride in zip(own, strides)])
            for own, strides, *_ in layouts]
    full = (strides for strides in wide if all(stride or n == 1 for n, stride in zip(shape, strides)))
    order = in_memory_order(next(full, (0,) * len(shape)))  # also of the result's axes
    axes = [i for i in order if shape[i] != 1]
    lengths, seen, copied = [shape[i] for i in axes], [], []
    for (*_, itemsize, is_behaved), strides in zip(layouts, wide):
        strides = tuple([strides[i] for i in axes])
        once = tuple([n if stride else 1 for n, stride in zip(lengths, strides)])  # without broadcasting
        is_in_place = is_behaved and strides[-1:] in ((), (0,), (itemsize,))
        seen.append(tuple([n // itemsize for n in strides]) if is_in_place else _in_order(once))
        copied.append(None if is_in_place else (once, strides))
    found = runs(lengths, range(len(axes)), *seen)
    if len(found) > 4:
        seen, found = [_in_order(lengths)] * len(layouts), [tuple(range(len(axes)))]
        copied = [(tuple(lengths), tuple([strides[i] for i in axes])) for strides in wide]
    found = [()] * (4 - len(found)) + found
    loops = tuple([math.prod([lengths[i] for i in run]) for run in found])
    strides = [tuple([own[run[-1]] if run else 0 for run in found]) for own in seen]
    is_in_order = axes == sorted(axes)
    return _Plan.of(shape if is_in_order else tuple([shape[i] for i in order]), None if is_in_order else inverse(order),
                    loops, strides, copied)


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous array, in elements; 0 along axes of 1."""
    return tuple([math.prod(shape[i + 1 :]) if n > 1 else 0 for i, n in enumerate(shape)])


def in_memory_order(strides: Sequence[int]) -> list[int]:
    """The axes, slowest first: by descending distance between neighbouring elements."""
    return sorted(range(len(strides)), key=lambda i: -abs(strides[i]))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order of axes that undoes another one, which may have only some axes.

    >>> inverse((2, 0, 1)), inverse((7, 3))
    ((1, 2, 0), (1, 0))
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def runs(shape: Sequence[int], order: Iterable[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """The axes in this order, grouped so that one loop can run through each group: in all arrays, a step of the outer axis
    is the whole inner one.

    >>> runs((2, 3, 4), (0, 1, 2), (12, 4, 1), (24, 4, 1))
    [(0,), (1, 2)]
    """
    found = []
    for i in order:
        if found and all(own[found[-1][-1]] == shape[i] * own[i] for own in strides):
            found[-1] += (i,)
        else:
            found.append((i,))
    return found


# ------------------------------------------------------------------------------------------------------ the kernel


def _loop(function: Callable, pattern: str) -> Callable:
    """The loop of a formula without branches. The formula is inlined, however long, so that the loop is vectorised."""
    function = getattr(function, "py_func", function)
    code, (first, elements) = exact(function, forceinline=True), _elements_of(pattern)

    @exact
    def loop(count, out, operands):
        numbers = first(operands)
        for i in range(count):
            out[i] = code(*elements(operands, numbers, i))

    return loop


def _kernel(name: str, function: Callable, pattern: str, share: int) -> Callable:
    """The kernel of a formula, for operands with the layouts of a pattern: see `_Plan`. For threads, `share` elements
    count as one."""
    loop = _loop(function, pattern)

    @jit
    def compute_block(block, loops, strides, out, operands):
        rows, columns = loops[0] * loops[1] * loops[2], loops[3]
        first, end, start, count = _part(block, rows, columns)
        starts = shift_each(pointers(operands, 0), strides[3], start)
        for row in range(first, end):
            i, j, k = _place(row, loops)
            of_row = shift_each(shift_each(shift_each(starts, strides[0], i), strides[1], j), strides[2], k)
            loop(count, pointer(out, row * columns + start), of_row)

    def launch(loops, strides, out, *operands):
        blocks = _number_of_blocks(loops[0] * loops[1] * loops[2], loops[3])
        parallel_for(compute_block, blocks, out.size // share, (loops, strides, out, operands))

    launch.__name__ = launch.__qualname__ = name
    return kernel(launch, parallel=True)


@jit
def _place(row, loops):
    """Indices of the outer loops at a row. A division takes as long as a short row, so there is none for a single loop."""
    if loops[0] * loops[1] == 1:
        return 0, 0, row
    return row // (loops[1] * loops[2]), row // loops[2] % loops[1], row % loops[2]


@jit
def _number_of_blocks(rows, columns):
    if columns >= ELEMENTS:
        return rows * number_of_blocks(columns, ELEMENTS)
    return number_of_blocks(rows, ELEMENTS // max(columns, 1))


@jit
def _part(block, rows, columns):
    """(first row, end, first column, columns) of a block, which is a part of a row, or several rows."""
    if columns >= ELEMENTS:
        parts = number_of_blocks(columns, ELEMENTS)
        start = block % parts * ELEMENTS
        return block // parts, block // parts + 1, start, min(ELEMENTS, columns - start)
    together = ELEMENTS // max(columns, 1)
    return block * together, min(rows, (block + 1) * together), 0, columns


@functools.cache
def _elements_of(pattern: str) -> tuple[Callable, Callable]:
    """Two functions of pointers: first(pointers) -> what they point to, and elements(pointers, first, i) -> the same, but i
    elements further for each "e" of the pattern. Numbers are read before the loop, as `out` might overlap them."""

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
