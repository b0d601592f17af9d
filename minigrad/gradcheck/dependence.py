"""What depends on what: which outputs of a function change with which inputs, by moving them and by their gradients.

A leaking mask causes no error and no wrong shape, only a loss that is too good. `is_causal` finds it.
"""
import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .array_function import ArrayFunction, Arrays, outputs_of
from .blame import told
from .problem import generator_for
from .report import index_of

MOVES = (1.0, -1.0, 0.03, 1000.0, -1000.0)  # how far an input is moved, at its own scale: also past saturation
OTHER_POINTS = 2  # where first all inputs are moved, then one of them by 1: other parts of a function are active there
OTHER_IDS = 6  # how many others an id is replaced by
MANY_IDS = 10**6  # if more are possible, only those in the array are used
ROUNDING = 64  # times the dtype's epsilon: a smaller effect, relative to the largest, counts as rounding
WIDE = 40  # the most rows or columns of a printed map
LARGEST = 10**8  # the most pairs in a matrix


@dataclass(frozen=True)
class Part:
    """An output or input whose positions are the elements along its first axes; any element along the others counts."""

    name: str
    shape: tuple[int, ...]  # of the first axes

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def place(self, n: int) -> tuple[int, ...]:
        """The index of the n-th position."""
        return tuple(int(i) for i in np.unravel_index(n, self.shape))

    def largest(self, array: np.ndarray) -> np.ndarray:
        """The largest of the nonnegative numbers at each position; NaN if all are."""
        rows = array.reshape(self.size, math.prod(array.shape[len(self.shape) :]))
        return np.fmax.reduce(rows, axis=1) if rows.size else np.zeros(self.size)


@dataclass(repr=False)
class Dependence:
    """Which outputs depend on which inputs; printed as a map for each pair of an output and an input.

    Each matrix is (elements of all outputs, elements of all inputs), in the order of `outputs` and `inputs`.
    """

    outputs: list[Part]
    inputs: list[Part]
    by_moving: np.ndarray  # does the output change when the input is moved?
    by_gradient: np.ndarray  # is there a gradient that is not zero?
    has_gradient: np.ndarray  # is a gradient known? Not for NumPy functions, nor for integers
    change: np.ndarray  # the largest change that was seen
    notes: list[str] = field(default_factory=list)

    @property
    def matrix(self) -> np.ndarray:
        """Does the output depend on the input in either way?"""
        return self.by_moving | self.by_gradient

    @property
    def only_by_moving(self) -> np.ndarray:
        """It changes, but no gradient arrives: the path is cut off, a step, or saturated."""
        return self.by_moving & self.has_gradient & ~self.by_gradient

    @property
    def only_by_gradient(self) -> np.ndarray:
        """It has a gradient, but does not change: straight-through, or a wrong backward."""
        return self.by_gradient & ~self.by_moving

    def between(self, output: int = 0, input: int = 0, matrix: np.ndarray | None = None) -> np.ndarray:
        """The part of a matrix, by default `matrix`, for one output and one input, as (output's axes, input's axes)."""
        row, column = (sum(part.size for part in parts[:n]) for parts, n in ((self.outputs, output), (self.inputs, input)))
        out, x = self.outputs[output], self.inputs[input]
        block = (self.matrix if matrix is None else matrix)[row : row + out.size, column : column + x.size]
        return block.reshape(out.shape + x.shape)

    def fold(self, output_axes: int | Sequence[int], input_axes: int | Sequence[int], output: int = 0, input: int = 0,
             matrix: np.ndarray | None = None) -> np.ndarray:
        """`between` along these axes only: does it hold for any element along the others?

        >>> d = depends(lambda x: np.cumsum(x, 0), np.ones((3, 2)))
        >>> d.fold(0, 0).astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]])
        """
        block = self.between(output, input, matrix)
        n = len(self.outputs[output].shape)
        kept = [axis % n for axis in np.atleast_1d(output_axes)]
        kept += [n + axis % (block.ndim - n) for axis in np.atleast_1d(input_axes)]
        return np.any(np.moveaxis(block, kept, range(len(kept))), axis=tuple(range(len(kept), block.ndim)))

    def __repr__(self) -> str:
        lines = []
        for (k, out), (i, x) in itertools.product(enumerate(self.outputs), enumerate(self.inputs)):
            block = self.between(k, i)
            lines.append(f"{out.name} {out.shape} on {x.name} {x.shape}: {np.count_nonzero(block)} of {block.size} pairs")
            lines += self._map(k, i)
        if np.any(self.only_by_moving | self.only_by_gradient):
            lines.append("  # by moving and by gradient, m by moving only, g by gradient only")
        return "\n".join([*lines, *(f"  {line}" for line in [*self.disagreements(), *self.notes])])

    def disagreements(self) -> list[str]:
        """Where moving and gradients disagree: a line for each kind, with an example."""
        found = []
        for matrix, sentence in (
            (self.only_by_moving, "{} changes with {}, but no gradient arrives: cut off (detach), a step, or saturated"),
            (self.only_by_gradient, "{} has a gradient for {}, but does not change with it: straight-through, a wrong "
                                    "backward, or too small to be seen"),
        ):
            pairs = np.argwhere(matrix)
            if len(pairs):
                out, x = (label(parts, int(n)) for parts, n in zip((self.outputs, self.inputs), pairs[0]))
                found.append(f"{sentence.format(out, x)} ({len(pairs)} such pairs)")
        return found

    def _map(self, output: int, input: int) -> list[str]:
        """A row per element of the output, a sign per element of the input; of large ones, along the first axes only."""
        shapes = self.outputs[output].shape, self.inputs[input].shape
        axes = [range(leading(shape)) for shape in shapes]
        n_rows, n_columns = (math.prod(shape[: len(kept)]) for shape, kept in zip(shapes, axes))
        moved, graded = self.only_by_moving, self.only_by_gradient
        agreed, moved, graded = (self.fold(axes[0], axes[1], output, input, matrix).reshape(n_rows, n_columns)
                                 for matrix in (self.matrix & ~moved & ~graded, moved, graded))
        signs = np.where(agreed, "#", np.where(moved, "m", np.where(graded, "g", ".")))
        labels = [index_of(row, shapes[0][: len(axes[0])]) for row in range(n_rows)]
        width = max(map(len, labels), default=0)
        return [f"  {name.ljust(width)} {''.join(row)}" for name, row in zip(labels, signs)]


@dataclass(frozen=True, repr=False)
class Causality:
    """Is every output independent of later tokens? It is true or false, and prints as a sentence."""

    dependence: Dependence  # of positions: (B, T) or (T,)
    pair: tuple[Any, ...] | None  # the first (output, token) that leaks
    mixed: tuple[Any, ...] | None  # (output, token) from different sequences of a batch, if one depends on the other
    sentence: str

    def __bool__(self) -> bool:
        return self.pair is None

    def __repr__(self) -> str:
        return self.sentence


def depends(fn: Callable[..., Any], *inputs: Any, seed: int = 0) -> Dependence:
    """Which outputs of fn(*inputs) depend on which inputs, judged by moving each element of each input, and by gradients?

    fn takes and returns Tensors of minigrad or PyTorch, or NumPy arrays, which have no gradients; outputs may be nested.
    Floats are moved by several amounts, at several points; integers are replaced by others between the smallest and the
    largest of their array; booleans are flipped. An effect below 1e-14 of the largest (1e-5 in float32) counts as
    rounding. Arrays, `.grad`, buffers and random states are left unchanged. Each evaluation starts from the same random
    state, so a dropout mask stays the same; RuntimeError if the same input still gives another output.

    >>> depends(lambda x: np.cumsum(x), np.ones(3))
    output (3,) on x (3,): 6 of 9 pairs
      [0] #..
      [1] ##.
      [2] ###
    """
    function = ArrayFunction(fn, inputs)
    with function.preserved():
        outputs = function(function.arrays, seed)
        names = ["output"] if len(outputs) == 1 else [f"outputs[{k}]" for k in range(len(outputs))]
        return measured(function, [Part(name, out.shape) for name, out in zip(names, outputs)],
                        [Part(name, array.shape) for name, array in zip(function.names, function.arrays)], seed)


def is_causal(fn: Callable[..., Any], tokens: Any, *, axis: int | None = None, seed: int = 0) -> Causality:
    """Is every output of fn(tokens) independent of later tokens? True or false, naming a pair that leaks.

    tokens are ids, (T,) or (B, T), or vectors of floats, (T, C) or (B, T, C); the (first) output has an element or a
    vector for each of them. `axis` is the time axis, by default the last except C. Like `depends`, it moves tokens and
    looks at gradients, and finds what shows in only one of the two.

    >>> mean_so_far = lambda x: np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None]
    >>> is_causal(mean_so_far, np.ones((4, 2)))
    causal: none of 4 outputs changes with a later token
    >>> is_causal(lambda x: x - x.mean(0), np.random.default_rng(0).normal(size=(4, 2)))
    not causal: output 0 changes with token 1, as do 5 more pairs
    """
    function = ArrayFunction(fn, (tokens,))
    array = function.arrays[0]
    shape = array.shape[:-1] if array.dtype.kind == "f" and array.ndim > 1 else array.shape
    if not shape:
        raise ValueError("is_causal: expected tokens (T,) or (B, T), or vectors (T, C) or (B, T, C), got a single number")
    with function.preserved():
        try:
            out = function(function.arrays, seed)[0]
        except Exception as error:
            if len(shape) > 1:
                raise
            function = ArrayFunction(lambda token: outputs_of(fn(token[None]))[0][0], (tokens,), function.library)
            try:
                out = function(function.arrays, seed)[0]
            except Exception:  # noqa: BLE001  so it is not that fn takes batches only
                raise error from None
        if out.shape[: len(shape)] != shape:
            raise ValueError(f"is_causal: expected an output for each token, {str(shape)[:-1].rstrip(',')}, ...), got "
                             f"{out.shape} for tokens of shape {array.shape}")
        found = measured(function, [Part("output", shape)], [Part("token", shape)], seed)
    return causality(found, len(shape) - 1 if axis is None else range(len(shape))[axis])


def causality(found: Dependence, axis: int) -> Causality:
    """What a dependence of positions says about causality, if this axis is time."""
    part = found.outputs[0]
    index = np.stack(np.unravel_index(np.arange(part.size), part.shape), -1)
    time, sequence = index[:, axis], np.delete(index, axis, 1)
    is_later = time[None, :] > time[:, None]
    is_other = np.any(sequence[None, :] != sequence[:, None], axis=-1)

    def shown(pairs: np.ndarray) -> tuple[tuple[Any, ...] | None, str]:
        if not len(pairs):
            return None, ""
        way = "changes with" if found.by_moving[tuple(pairs[0])] else "has a gradient for"
        more = f", as do {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
        out, token = (part.place(n) if len(part.shape) > 1 else int(n) for n in pairs[0])
        return (out, token), f"output {out} {way} token {token}{more}"

    pair, leak = shown(np.argwhere(found.matrix & is_later))
    mixed, mixture = shown(np.argwhere(found.matrix & is_other))
    sentence = f"not causal: {leak}" if leak else f"causal: none of {part.size} outputs changes with a later token"
    sentence += f"; sequences of the batch are mixed: {mixture}" if mixture else ""
    return Causality(found, pair, mixed, "\n  ".join([sentence, *found.notes]))


def measured(function: ArrayFunction, outputs: list[Part], inputs: list[Part], seed: int) -> Dependence:
    """How these outputs, the function's first or all of them, depend on its inputs."""
    shape = sum(part.size for part in outputs), sum(part.size for part in inputs)
    if math.prod(shape) > LARGEST:
        raise ValueError(f"{shape[0]} outputs and {shape[1]} inputs make too many pairs; use a smaller input")
    by_moving, by_gradient, has_gradient = np.zeros((3, *shape), bool)
    found = Dependence(outputs, inputs, by_moving, by_gradient, has_gradient, np.zeros(shape))
    generator, is_tried = generator_for(seed), np.zeros(shape[1], bool)
    failures: list[Exception] = []
    eps = max(map(eps_of, function.arrays))

    def values(arrays: Arrays) -> Arrays | None:
        """None if the function is not defined there."""
        try:
            return function(arrays, point)[: len(outputs)]
        except Exception as error:  # noqa: BLE001  log may refuse a negative number, an embedding an id
            failures.append(error)
            return None

    for point in range(seed, seed + 1 + OTHER_POINTS):
        is_given = point == seed
        arrays = function.arrays if is_given else [moved_everywhere(array, generator) for array in function.arrays]
        centre = values(arrays)
        if centre is None:
            continue
        for column, size, moved in moves(arrays, inputs, MOVES if is_given else MOVES[:1], generator):
            there = values(moved)
            if there is not None:
                seen = [part.largest(c) for part, c in zip(outputs, changes(centre, there, size, eps))]
                found.change[:, column] = np.maximum(found.change[:, column], np.concatenate(seen))
                is_tried[column] = True
        check_same(centre, values(arrays), eps)
        look_at_gradients(found, function, arrays, point, generator)
    if not np.all(is_tried):
        stuck = label(inputs, int(np.argmin(is_tried)))
        raise ValueError(f"{stuck} could not be moved: {told(failures[0])}") from failures[0]
    found.by_moving[...] = found.change > 0
    if failures:
        found.notes.append(f"{len(failures)} moves were not possible: {told(failures[0])}")
    for part, out in zip(outputs, function(function.arrays, seed)):
        if np.any(np.isnan(out)):
            found.notes.append(f"{part.name} is NaN in places: what these depend on cannot be seen")
    return found


def moves(arrays: Arrays, inputs: list[Part], sizes: Sequence[float], generator: np.random.Generator
          ) -> Iterator[tuple[int, float, Arrays]]:
    """(column, size of the move, arrays with one position moved)"""
    column = 0
    for i, (array, part) in enumerate(zip(arrays, inputs)):
        for n in range(part.size):
            for size, value in replacements(array, part.place(n), sizes, generator):
                moved = array.copy()
                moved[part.place(n)] = value
                yield column, size, [*arrays[:i], moved, *arrays[i + 1 :]]
            column += 1


def replacements(array: np.ndarray, place: tuple[int, ...], sizes: Sequence[float], generator: np.random.Generator
                 ) -> Iterator[tuple[float, Any]]:
    """(size of the move, the value to put there)"""
    value = array[place]
    if array.dtype.kind in "fc":
        for size in sizes:
            direction = generator.uniform(0.5, 1.5, value.shape)
            direction = direction if value.size == 1 else direction * generator.choice([-1, 1], value.shape)
            yield abs(size), np.where(np.isfinite(value), value, 0.0) + size * scale_of(array) * direction
        if len(sizes) > 1:  # an all-zero vector may be taken for padding
            yield 1.0, np.zeros_like(value)
    elif array.dtype.kind == "b":
        yield 1.0, ~value
    else:
        others = np.setdiff1d(known_ids(array), value)
        count = min(len(others), OTHER_IDS if len(sizes) > 1 else 1)
        chosen = sorted(generator.permutation(others), key=bool)[:count]  # 0 first
        for other in chosen or [value - 1 if value > 0 else value + 1]:
            yield 1.0, other


def known_ids(array: np.ndarray) -> np.ndarray:
    """Integers that the array may hold: 0, which often is padding, to its largest; only its own if some are negative."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low < 0:
        return np.unique(array)
    return np.unique([0, *array.reshape(-1)]) if high - low > MANY_IDS else np.union1d([0], np.arange(low, high + 1))


def moved_everywhere(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Another array of the same kind. Booleans stay as they are: they may be a mask."""
    if array.dtype.kind in "fc":
        return np.asarray(array + scale_of(array) * generator.standard_normal(array.shape), array.dtype)
    return np.asarray(generator.choice(known_ids(array), array.shape), array.dtype) if array.dtype.kind in "iu" else array


def scale_of(array: np.ndarray) -> float:
    """The largest |x|, or 1."""
    return float(np.max(np.abs(array[np.isfinite(array)]), initial=0.0)) or 1.0


def changes(before: Arrays, after: Arrays, size: float, eps: float) -> Arrays:
    """By how much each element has changed: 0 if rounding explains it, inf for a NaN that came or went.

    `eps` is that of the inputs. A move as large as 1000 may overflow, and 0 * inf is NaN wherever it is masked: such a NaN
    proves nothing.
    """
    if [a.shape for a in before] != [b.shape for b in after]:
        raise ValueError(f"the shape of the output depends on the input: {before[0].shape} and {after[0].shape}")
    pairs = [tuple(x.astype(complex if x.dtype.kind == "c" else float) for x in pair) for pair in zip(before, after)]
    steps = [np.where(np.isfinite(a) & np.isfinite(b), np.abs(b - a), 0.0) for a, b in pairs]
    largest = max((np.max(step, initial=0.0) for step in steps), default=0.0)
    found = []
    for x, (a, b), step in zip(before, pairs, steps):
        rounding = ROUNDING * max(eps, eps_of(x)) * (max(largest_finite(np.abs(a)), largest_finite(np.abs(b))) + largest)
        is_other = ~(np.isfinite(a) & np.isfinite(b)) & ~((a == b) | np.isnan(a) & np.isnan(b)) & (size <= 1)
        found.append(np.where(is_other, np.inf, np.where(step > rounding, step, 0.0)))
    return found


def eps_of(array: np.ndarray) -> float:
    return float(np.finfo(array.dtype).eps) if array.dtype.kind in "fc" else 0.0


def check_same(before: Arrays, after: Arrays | None, eps: float) -> None:
    """RuntimeError if the same input gave another output."""
    change = max((np.max(c, initial=0.0) for c in changes(before, after, 0.0, eps)), default=0.0) if after else np.inf
    if change:
        raise RuntimeError(f"the same input gives another output, by up to {change:.3g}: the function draws random numbers "
                           "of its own, or remembers earlier calls, so what else changes it cannot be seen")


def look_at_gradients(found: Dependence, function: ArrayFunction, arrays: Arrays, seed: int, generator: np.random.Generator
                      ) -> None:
    """Record which gradients are not zero, weighting one position of an output with random numbers, the others with 0."""

    def upstreams(k: int, out: np.ndarray) -> Iterator[np.ndarray]:
        for n in range(found.outputs[k].size if k < len(found.outputs) else 0):
            place, upstream = found.outputs[k].place(n), np.zeros(out.shape)
            upstream[place] = generator.standard_normal(upstream[place].shape)
            yield upstream

    try:
        rows_of = function.gradients(arrays, seed, upstreams)
    except Exception as error:  # noqa: BLE001  a function may not be differentiable
        note = f"no gradients: {told(error)}"
        found.notes += [note] if note not in found.notes else []
        return
    row, scale = 0, max((scale_of(array) for array in arrays if array.dtype.kind == "f"), default=1.0)
    for part, rows, out in zip(found.outputs, rows_of, function(arrays, seed)):
        for n, gradients in enumerate(rows or ()):
            sizes = np.concatenate([np.full(x.size, np.nan) if g is None else x.largest(np.abs(g))
                                    for x, g in zip(found.inputs, gradients)])
            eps = max(map(eps_of, [out, *arrays]))
            least = ROUNDING * eps * max(largest_finite(sizes), largest_finite(np.abs(out)) / scale)
            found.by_gradient[row + n] |= sizes > least
            found.has_gradient[row + n] |= ~np.isnan(sizes)
        row += part.size


def largest_finite(values: np.ndarray) -> float:
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def label(parts: list[Part], n: int) -> str:
    """The name of the n-th element of all parts: "x[0, 3]"."""
    for part in parts:
        if n < part.size:
            return part.name + index_of(n, part.shape)
        n -= part.size
    raise IndexError(n)


def leading(shape: tuple[int, ...]) -> int:
    """How many of the first axes fit on a map."""
    return max(n for n in range(len(shape) + 1) if n == 0 or math.prod(shape[:n]) <= WIDE)
