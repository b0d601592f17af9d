"""Steps on rows of numbers, run by one kernel call: embeddings, linear layers, layer norms, attention to a cache.

A token at a time, a small model computes less than the calls of its kernels cost. So a model's steps are data here: a
`Program` is a table with a row for each step, and the kernel goes down the table. There is a row of numbers for each of
the B x T new tokens of B sequences, kept in registers, such as x (rows, C). In NumPy's notation, with W (out, in):

    embed     out = tokens[ids] * scale + positions[start : start + T]
    norm      out = layer_norm(x)
    linear    out = [out +] activation(x @ W.T + bias)
    attend    q, k, v = packed, split in three, as H heads of size D
              keys[start : start + T], values[start : start + T] = k, v
              out = softmax(q @ keys.T / sqrt(D)) @ values           token t sees the keys 0 to start + t
    last      out = the last of the T rows of each sequence; only these are left from here on

With one new token, linear is the product of a vector and a matrix, and the time is that of reading all weights from
memory. They stay where they are, and are read once, row by row. The threads share linear by pieces of W's rows, and
attend by heads. Every sum has one order, so no result depends on the number of threads.
"""
import functools
import math

import numba
import numpy as np

from .buffers import empty
from .elementwise import ACTIVATIONS, activate
from .gemm import ACCUMULATE, ADD_BIAS, WORKSPACE, bounds, gemm, gemm_workspaces, register
from .jit import address, jit, kernel, ready
from .layer_norm import layer_norm_row
from .parallel import WORTH_A_THREAD, parallel_for
from .rows import copy_to
from .simd import constant_like, inlined, pointer, pointer_like, shift
from .softmax import softmax_row

EMBED, NORM, LINEAR, ATTEND, LAST = range(5)
# The columns of the table of steps: registers, and how many columns they have there; addresses; and of linear or attend:
KIND, SOURCE, INPUTS, TARGET, OUTPUTS, WEIGHT, BIAS = range(7)
FLAGS, ACTIVATION, ACTIVATED = 7, 8, 9
LAYER, DISTANCES = 7, 8

PIECE = 64  # rows of W that one thread takes
QUERIES = 48  # of a long prompt that attend at a time
PARALLEL_FROM = 120_000  # see `Program.run`


@jit
def _embed(step, scale, ids, start, out):
    """out (B T, C) for ids (B, T); the tables are at WEIGHT, and at BIAS that of positions"""
    (B, T), C = ids.shape, step[OUTPUTS]
    tokens, positions = pointer_like(out, step[WEIGHT]), pointer_like(out, step[BIAS])
    scale = constant_like(out, scale)
    for b in range(B):
        for t in range(T):
            token, position = shift(tokens, ids[b, t] * C), shift(positions, (start + t) * C)
            row = shift(out, (b * T + t) * C)
            for c in range(C):
                row[c] = token[c] * scale + position[c]


@jit
def _layer_norms(x, weight, bias, eps, out, rows, C):
    for row in range(rows):
        layer_norm_row(shift(x, row * C), weight, bias, shift(out, row * C), C, eps)


@jit
def _last_rows(x, out, B, T, C):
    for b in range(B):
        copy_to(shift(out, b * C), shift(x, ((b + 1) * T - 1) * C), C)


@inlined
def _linear(part, parts, step, rows, x, out, activated, work):
    """One part of the columns of out (rows, OUTPUTS), and of the same activated, from x (rows, INPUTS)."""
    N, K = step[OUTPUTS], step[INPUTS]
    first, end = bounds(N, PIECE, part, parts)
    W, bias = pointer_like(x, step[WEIGHT]), pointer_like(x, step[BIAS])
    if first < end:
        gemm(x, K, 1, shift(W, first * K), 1, K, shift(out, first), N, rows, end - first, K, shift(bias, first),
             step[FLAGS], work)
    if step[ACTIVATION] >= 0:
        for row in range(rows):
            for piece in range(first, end, PIECE):  # so that the last bits don't depend on the cut
                at = row * N + piece
                activate(step[ACTIVATION], shift(out, at), shift(activated, at), min(PIECE, end - piece))


@inlined
def _turn(x, angles, D):
    """x = x with each pair of features turned; angles are (cosine, sine) pairs."""
    for c in range(0, D, 2):
        even, odd = x[c], x[c + 1]
        x[c], x[c + 1] = even * angles[c] - odd * angles[c + 1], even * angles[c + 1] + odd * angles[c]


@inlined
def _append(packed, keys, values, T, C, D, scale, rotation, start):
    """keys, values (T, D) = those in packed (T, 3C); the queries there are multiplied by the scale of the scores."""
    for t in range(T):
        q, key, value = shift(packed, 3 * t * C), shift(keys, t * D), shift(values, t * D)
        if rotation != 0:
            angles = shift(pointer_like(packed, rotation), (start + t) * D)
            _turn(q, angles, D)
            _turn(shift(q, C), angles, D)
        for c in range(D):
            q[c], key[c], value[c] = scale * q[c], q[C + c], q[2 * C + c]


@inlined
def _attend(packed, keys, values, out, start, T, C, D, step, at_zero, scores, work):
    """One head of attention: out (T, D) for queries in packed (T, 3C), each to the keys up to its own position.

    If there is a table of what is added to the scores by distance, it is at BIAS, and the head's begins `at_zero`.
    """
    for first in range(0, T, QUERIES):
        rows = min(QUERIES, T - first)
        seen = start + first + rows  # by the last of them
        weights = shift(scores, rows * seen)
        gemm(shift(packed, 3 * first * C), 3 * C, 1, keys, 1, D, scores, seen, rows, seen, D, scores, 0, work)
        for r in range(rows):
            past, row = seen - rows + r + 1, shift(weights, r * seen)
            if step[BIAS] != 0:
                by_distance, own = shift(pointer_like(scores, step[BIAS]), at_zero), shift(scores, r * seen)
                for s in range(past):
                    own[s] += by_distance[min(past - 1 - s, step[DISTANCES])]
            softmax_row(shift(scores, r * seen), row, past)
            for future in range(past, seen):
                row[future] = constant_like(row, 0)
        gemm(weights, seen, 1, values, D, 1, shift(out, first * C), C, rows, D, seen, scores, 0, work)


@jit
def _do_part(part, parts, step, rows, start, keys, values, x, out, activated, scores, works):
    """One of the parts of a step that threads share."""
    work = pointer(works, part * WORKSPACE)
    if step[KIND] == LINEAR:
        _linear(part, parts, step, rows, x, out, activated, work)
    else:
        _, B, H, context, D = keys.shape
        T, C = rows // B, H * D
        first, end = bounds(B * H, 1, part, parts)
        for item in range(first, end):
            packed = shift(x, item // H * T * 3 * C + item % H * D)
            out_of_head = shift(out, item // H * T * C + item % H * D)
            cached = (step[LAYER] * B * H + item) * context * D
            own_keys, own_values = pointer(keys, cached), pointer(values, cached)
            at_zero = item % H * (2 * step[DISTANCES] + 1) + step[DISTANCES]  # for distance 0, in the table by distance
            _append(packed, shift(own_keys, start * D), shift(own_values, start * D), T, C, D,
                    constant_like(x, 1 / math.sqrt(D)), step[WEIGHT], start)
            _attend(packed, own_keys, own_values, out_of_head, start, T, C, D, step, at_zero,
                    pointer(scores, part * scores.shape[1]), work)


@kernel(parallel=True)
def _run(steps, numbers, tokens, start, keys, values, space, scores, works, threads):
    """See `Program.run`. A register begins at as many elements of space as the columns before it have for all rows."""
    B, T = tokens.shape
    all_rows = rows = B * T
    for i in range(len(steps)):
        step = steps[i]
        x, out = pointer(space, step[SOURCE] * all_rows), pointer(space, step[TARGET] * all_rows)
        if step[KIND] == EMBED:
            _embed(step, numbers[i], tokens, start, out)
        elif step[KIND] == NORM:
            weight, bias = pointer_like(x, step[WEIGHT]), pointer_like(x, step[BIAS])
            _layer_norms(x, weight, bias, numbers[i], out, rows, step[OUTPUTS])
        elif step[KIND] == LAST:
            rows = B
            _last_rows(x, out, B, T, step[OUTPUTS])
        else:
            activated = pointer(space, step[ACTIVATED] * all_rows)
            parallel_for(_do_part, threads, WORTH_A_THREAD, (
                threads, step, rows, start, keys, values, x, out, activated, scores, works
            ))


class Program:
    """What is computed of new tokens, step by step, with a cache of the keys and values of those before.

    A step reads one register and writes to another. Arrays are read where they are, and live as long as the program; one
    that a kernel cannot take is copied. ValueError if shapes or dtypes do not fit.

    >>> program = Program(np.float64, heads=1, width=2, context=3)
    >>> x, y = program.register(2), program.register(4)
    >>> program.embed(np.eye(2), np.zeros((3, 2)), 10.0, x)
    >>> program.linear(x, np.arange(8.0).reshape(4, 2), None, y)
    >>> program.run(np.array([[1]]), 0, *program.caches(1))
    array([[10., 30., 50., 70.]])
    """

    def __init__(self, dtype: np.dtype, heads: int, width: int, context: int):
        self.dtype, self.heads, self.width, self.context = np.dtype(dtype), heads, width, context
        self.layers = 0  # of attention, each with keys and values of its own
        self.columns = 0  # of all registers
        self._room: dict[int, int] = {}  # for how many columns there is room in each register
        self._held: dict[int, int] = {}  # and how many it holds so far
        self._steps: list[tuple[int, ...]] = []
        self._numbers: list[float] = []  # a scale or an eps, for the steps that take one
        self._arrays: list[np.ndarray] = []  # their addresses hold as long as they live

    def register(self, columns: int) -> int:
        """A new register, with room for this many columns."""
        self._room[self.columns] = columns
        self.columns += columns
        return self.columns - columns

    def embed(self, tokens: np.ndarray, positions: np.ndarray, scale: float, out: int) -> None:
        """out = tokens[ids] * scale + positions, for tables (V, C) and (at least context, C)."""
        fits = tokens.shape[1:] == positions.shape[1:] == (self.width,) and len(positions) >= self.context
        _check(fits, tokens, positions)
        self._add(EMBED, 0, 0, out, self.width, tokens, positions, number=scale)

    def norm(self, x: int, weight: np.ndarray | None, bias: np.ndarray | None, eps: float, out: int) -> None:
        """out = layer_norm(x) * weight + bias, for weight and bias (C,)."""
        weight = np.ones(self.width, self.dtype) if weight is None else weight
        bias = np.zeros(self.width, self.dtype) if bias is None else bias
        _check(weight.shape == bias.shape == (self.width,), weight, bias)
        self._add(NORM, x, self.width, out, self.width, weight, bias, number=eps)

    def linear(self, x: int, weight: np.ndarray, bias: np.ndarray | None, out: int, accumulate: bool = False,
               activation: str | None = None, activated: int = 0) -> None:
        """out = [out +] x @ weight.T [+ bias], and with one of `elementwise.ACTIVATIONS`, activated = activation(out).

        weight (outputs, inputs), bias (outputs,).
        """
        outputs, inputs = weight.shape
        fits = self._held.get(out) == outputs or not accumulate
        _check(fits and (bias is None or bias.shape == (outputs,)), weight, bias)
        flags = (0 if bias is None else ADD_BIAS) | (ACCUMULATE if accumulate else 0)
        which = -1 if activation is None else ACTIVATIONS.index(activation)
        self._add(LINEAR, x, inputs, out, outputs, weight, weight if bias is None else bias, (flags, which, activated))
        if activation is not None:
            self._hold(activated, outputs)

    def attend(self, packed: int, out: int, rotation: np.ndarray | None = None,
               by_distance: np.ndarray | None = None) -> None:
        """out (C columns) = attention of q to all k and v so far, packed = [q | k | v] (3C columns), heads side by side.

        rotation (at least context, D): cosines and sines, in turn, by which pairs of features of q and k are turned.
        by_distance (H, n + 1 + n) is added to scores: column n + t - s, or the last, for a query at t and a key at s.
        """
        size, distances = self.width // self.heads, 0
        _check(rotation is None or len(rotation) >= self.context and rotation.shape[1:] == (size,), rotation)
        if by_distance is not None:
            distances = by_distance.shape[1] // 2
            _check(by_distance.shape == (self.heads, 2 * distances + 1), by_distance)
        self._add(ATTEND, packed, 3 * self.width, out, self.width, rotation, by_distance, (self.layers, distances, 0))
        self.layers += 1

    def last(self, x: int, out: int) -> None:
        """out (C columns) = the last row of each sequence in x; what follows works on these alone."""
        self._add(LAST, x, self.width, out, self.width)

    def caches(self, batch_size: int) -> np.ndarray:
        """Room for the keys and values (2, L, B, H, context, D) of B sequences."""
        shape = 2, self.layers, batch_size, self.heads, self.context, self.width // self.heads
        return np.empty(shape, self.dtype)

    def run(self, tokens: np.ndarray, start: int, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the last step makes (B, outputs) of the tokens (B, T), int64, which stand at the positions start to
        start + T - 1. The caches hold the keys and values of those before, and are given the new ones.

        Nothing is checked: tokens must be in their table, and positions less than the context.
        """
        (B, T), (target, outputs) = tokens.shape, self._steps[-1][TARGET : OUTPUTS + 1]
        # About how long a step takes: reading a matrix from memory costs as much as multiplying it with one vector more.
        # Waking the other threads costs 1 to 3 us a step, which nano (a token at a time) would not earn, but small does.
        threads = 1 if (B * T + 1) * self.width**2 < PARALLEL_FROM else numba.get_num_threads()
        register(self.dtype)
        space = empty((self.columns * B * T,), self.dtype)
        scores = empty((threads, 2 * min(T, QUERIES) * self.context), self.dtype)
        _run(*self._table, tokens, start, keys, values, space, scores, gemm_workspaces(self.dtype), threads)
        return space[target * B * T : target * B * T + outputs * B].reshape(B, outputs)

    @functools.cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._steps), np.array(self._numbers)

    def _add(self, kind: int, x: int, inputs: int, out: int, outputs: int, weight: np.ndarray | None = None,
             bias: np.ndarray | None = None, own: tuple[int, int, int] = (0, 0, 0), number: float = 0.0) -> None:
        if inputs and self._held.get(x) != inputs:
            raise ValueError(f"a step takes {inputs} columns of a register that holds {self._held.get(x)}")
        self._hold(out, outputs)
        self._steps.append((kind, x, inputs, out, outputs, self._address(weight), self._address(bias), *own))
        self._numbers.append(number)

    def _hold(self, register: int, columns: int) -> None:
        if columns > self._room[register]:
            raise ValueError(f"a step makes {columns} columns, but its register has room for {self._room[register]}")
        self._held[register] = columns

    def _address(self, array: np.ndarray | None) -> int:
        """Where the array is; 0 if there is none."""
        if array is None:
            return 0
        if array.dtype != self.dtype:
            raise ValueError(f"a program of {self.dtype} is given an array of {array.dtype}")
        self._arrays.append(ready(array))
        return address(self._arrays[-1])


def _check(fits: bool, *arrays: np.ndarray | None) -> None:
    if not fits:
        raise ValueError(f"a step cannot take arrays of the shapes {[x.shape for x in arrays if x is not None]}")
