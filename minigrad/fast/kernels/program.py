"""Steps on rows of numbers, run by one kernel call: embeddings, linear layers, norms, attention to a cache.

With one token at a time, calling a small model's kernels takes longer than running them. So a model's steps are data here:
a `Program` is a table with a row for each step, and the kernel goes down the table. Registers, such as x (rows, C), hold a
row of numbers for each of the B x T new tokens of B sequences. In NumPy's notation, with W (out, in):

    embed     out = tokens[ids] * scale + positions[slot : slot + T]
    norm      out = layer_norm(x)
    rms_norm  out = rms_norm(x)
    linear    out = [out +] x @ W.T + bias,  and  activated = activation(out)  or  activated = activated * out
    attend    q, k, v = packed, H heads of size D for queries, G for keys and values, each shared by H / G queries
              keys[slot : slot + T], values[slot : slot + T] = k, v
              out = softmax(scale * q @ keys.T) @ values             a token sees the last `context` keys up to its own
    last      out = the last of the T rows of each sequence; only these are left from here on

With one new token, linear is a product of a vector and a matrix, and takes as long as reading all weights from memory. They
are read in place, once, row by row. Threads share large steps: linear by pieces of W's rows, attend by heads of keys. Every
sum has a fixed order, so no result depends on the number of threads.
"""
import functools

import numba
import numpy as np

from .buffers import empty
from .activations import ACTIVATIONS, activate
from .gemm import ACCUMULATE, ADD_BIAS, WORKSPACE, Matrix, at, bounds, gemm, gemm_workspaces
from .jit import address, jit, kernel, ready
from .layer_norm import layer_norm_row
from .parallel import available_threads, parallel_for
from .rms_norm import rms_norm_row
from .rows import add_to, copy_to
from .simd import constant_like, inlined, pointer, pointer_like, shift
from .softmax import softmax_row
from .thresholds import WORTH_A_THREAD

EMBED, NORM, RMS_NORM, LINEAR, ATTEND, LAST = range(6)
# The columns of the table of steps: registers and their widths; addresses; the bytes of a row at WEIGHT; then three columns
# of linear or attend.
KIND, SOURCE, INPUTS, TARGET, OUTPUTS, WEIGHT, BIAS, ROW = range(8)
FLAGS, ACTIVATION, ACTIVATED = 8, 9, 10
LAYER, DISTANCES, WINDOW = 8, 9, 10
PRODUCT = len(ACTIVATIONS)  # in place of an activation: activated = activated * out

PIECE = 64  # rows of W that one thread takes
QUERIES = 48  # of a long prompt that attend at once


@jit
def _embed(step, scale, ids, slot, out):
    """out (B T, C) for ids (B, T); the table is at WEIGHT, that of positions, if there is one, at BIAS"""
    (B, T), C = ids.shape, step[OUTPUTS]
    positions, scale = pointer_like(out, step[BIAS]), constant_like(out, scale)
    for b in range(B):
        for t in range(T):
            token, row = pointer_like(out, step[WEIGHT] + ids[b, t] * step[ROW]), shift(out, (b * T + t) * C)
            for c in range(C):
                row[c] = token[c] * scale
            if step[BIAS] != 0:
                add_to(row, shift(positions, (slot + t) * C), C)


@jit
def _norms(step, x, eps, out, rows):
    """out (rows, C) = the norm of each row of x; the gain is at WEIGHT"""
    C, weight, bias = step[OUTPUTS], pointer_like(x, step[WEIGHT]), pointer_like(x, step[BIAS])
    for row in range(rows):
        if step[KIND] == NORM:
            layer_norm_row(shift(x, row * C), weight, bias, shift(out, row * C), C, eps)
        else:
            rms_norm_row(shift(x, row * C), weight, shift(out, row * C), C, eps)


@jit
def _last_rows(x, out, B, T, C):
    for b in range(B):
        copy_to(shift(out, b * C), shift(x, ((b + 1) * T - 1) * C), C)


@inlined
def _linear(part, parts, step, rows, x, out, activated, work):
    """Some columns of out (rows, OUTPUTS), and of `activated`, from x (rows, INPUTS)."""
    N, K = step[OUTPUTS], step[INPUTS]
    first, end = bounds(N, PIECE, part, parts)
    W, bias = pointer_like(x, step[WEIGHT] + first * step[ROW]), pointer_like(x, step[BIAS])
    if first < end:
        gemm(Matrix(x, K, 1), Matrix(W, 1, K), Matrix(shift(out, first), N, 1), rows, end - first, K,
             shift(bias, first), step[FLAGS], work)
    if step[ACTIVATION] >= 0:
        for row in range(rows):
            for piece in range(first, end, PIECE):  # so that the last bits don't depend on the cuts
                own, target = shift(out, row * N + piece), shift(activated, row * N + piece)
                count = min(PIECE, end - piece)
                if step[ACTIVATION] == PRODUCT:
                    for j in range(count):
                        target[j] *= own[j]
                else:
                    activate(step[ACTIVATION], own, target, count)


@inlined
def _turn(x, angles, D):
    """Turn each pair of features in x; angles are (cosine, sine) pairs."""
    for c in range(0, D, 2):
        even, odd = x[c], x[c + 1]
        x[c], x[c + 1] = even * angles[c] - odd * angles[c + 1], even * angles[c + 1] + odd * angles[c]


@inlined
def _append(q, k, v, width, cache, T, slot, heads, D, scale, rotation):
    """Put the T rows of k and v, which lie `width` columns apart, into the cache, keys and values (slots, D), from `slot`
    on. The queries of `heads` heads at q are multiplied by the scale of the scores; a rotation (slots, D) turns queries and
    keys."""
    keys, values = cache
    for t in range(T):
        queries, own = shift(q, t * width), shift(k, t * width)
        key, value = shift(keys, (slot + t) * D), shift(values, (slot + t) * D)
        if rotation != 0:
            angles = shift(pointer_like(q, rotation), (slot + t) * D)
            for head in range(heads + 1):
                _turn(shift(queries, head * D) if head < heads else own, angles, D)
        for c in range(heads * D):
            queries[c] = scale * queries[c]
        for c in range(D):
            key[c], value[c] = own[c], v[t * width + c]


@inlined
def _attend(q, rows, cache, out, slot, advance, D, step, at_zero, scores, work):
    """Attention of `rows` queries, the rows of q, to the cached keys of one head, into those of out.

    With advance 1 they are those of one head for the tokens in the slots `slot`, `slot` + 1, ...; with 0 those of a group
    of heads for the one token in `slot`. A table of what is added to the scores by distance may be at BIAS; the first
    head's entry for distance 0 is `at_zero`.
    """
    keys, values = cache
    window, distances = step[WINDOW], step[DISTANCES]
    for first in range(0, rows, QUERIES):
        count = min(QUERIES, rows - first)
        oldest = max(0, slot + advance * first + 1 - window)  # seen by any of them
        seen = slot + advance * (first + count - 1) + 1 - oldest
        weights = shift(scores, count * seen)
        transposed_keys = Matrix(shift(keys, oldest * D), 1, D)
        gemm(at(q, first, 0), transposed_keys, Matrix(scores, seen, 1), count, seen, D, scores, 0, work)
        for r in range(count):
            end = slot + advance * (first + r) + 1 - oldest  # the last key that it sees is its own
            begin = max(0, end - window)
            own, row = shift(scores, r * seen), shift(weights, r * seen)
            if step[BIAS] != 0:
                head = (1 - advance) * (first + r)
                by_distance = shift(pointer_like(scores, step[BIAS]), at_zero + head * (2 * distances + 1))
                for s in range(begin, end):
                    own[s] += by_distance[min(end - 1 - s, distances)]
            for past in range(begin):
                row[past] = constant_like(row, 0)
            softmax_row(shift(own, begin), shift(row, begin), end - begin)
            for future in range(end, seen):
                row[future] = constant_like(row, 0)
        gemm(Matrix(weights, seen, 1), Matrix(shift(values, oldest * D), D, 1), at(out, first, 0), count, D, seen, scores,
             0, work)


@inlined
def _attend_in_group(item, step, scale, rows, slot, caches, x, out, scores, work):
    """Attention of all queries that share a head of keys and values: item b * G + g is group g of sequence b."""
    _, B, G, slots, D = caches[0].shape
    T, width, width_of_out = rows // B, step[INPUTS], step[OUTPUTS]
    heads, b, group = width_of_out // D // G, item // G, item % G  # heads in the group
    queries = group * heads * D
    q, out = shift(x, b * T * width + queries), shift(out, b * T * width_of_out + queries)
    k = shift(x, b * T * width + width_of_out + group * D)
    v = shift(k, G * D)
    cached = (step[LAYER] * B * G + item) * slots * D
    cache = pointer(caches[0], cached), pointer(caches[1], cached)
    _append(q, k, v, width, cache, T, slot, heads, D, scale, step[WEIGHT])
    passes, row_of_q, row_of_out, queries, advance = heads, width, width_of_out, T, 1
    if T == 1:  # then the heads of a group are the rows of one product
        passes, row_of_q, row_of_out, queries, advance = 1, D, D, heads, 0
    distances = step[DISTANCES]
    for head in range(passes):
        at_zero = (group * heads + head) * (2 * distances + 1) + distances  # for distance 0, in the table by distance
        _attend(Matrix(shift(q, head * D), row_of_q, 1), queries, cache, Matrix(shift(out, head * D), row_of_out, 1), slot,
                advance, D, step, at_zero, scores, work)


@jit
def _do_part(part, parts, step, number, rows, slot, caches, registers, scores, room, works):
    """One part of a step that threads share."""
    work, (x, out, activated) = pointer(works, part * WORKSPACE), registers
    if step[KIND] == LINEAR:
        _linear(part, parts, step, rows, x, out, activated, work)
    else:
        first, end = bounds(caches[0].shape[1] * caches[0].shape[2], 1, part, parts)
        for item in range(first, end):
            _attend_in_group(item, step, constant_like(x, number), rows, slot, caches, x, out, shift(scores, part * room),
                             work)


@inlined
def _work(step, rows, T, slot):
    """Roughly how long a step takes, in the unit of WORTH_A_THREAD; sharing a step adds 1.2 us.

    Reading a weight takes as long as multiplying by it. Preset nano's wide layers are shared even for one token: the caches
    of two cores hold all its weights, and those of one core do not, which makes reading 5 times as slow.
    """
    if step[KIND] == LINEAR:
        return (rows + 1) * step[INPUTS] * step[OUTPUTS] // 2
    return 2 * rows * min(slot + T, step[WINDOW]) * step[OUTPUTS]  # keys and values


@kernel(parallel=True)
def _run(steps, numbers, tokens, slot, caches, space, of_registers, room, works):
    """See `Program.run`. In `space` the registers come first, one after the other, each with its columns for all rows; then
    each thread has room for scores."""
    B, T = tokens.shape
    all_rows = rows = B * T
    scores = pointer(space, of_registers)
    for i in range(len(steps)):
        step = steps[i]
        x, out = pointer(space, step[SOURCE] * all_rows), pointer(space, step[TARGET] * all_rows)
        if step[KIND] == EMBED:
            _embed(step, numbers[i], tokens, slot, out)
        elif step[KIND] == NORM or step[KIND] == RMS_NORM:
            _norms(step, x, numbers[i], out, rows)
        elif step[KIND] == LAST:
            rows = B
            _last_rows(x, out, B, T, step[OUTPUTS])
        else:
            activated = pointer(space, step[ACTIVATED] * all_rows)
            threads = available_threads() if _work(step, rows, T, slot) >= WORTH_A_THREAD else 1
            parallel_for(_do_part, threads, WORTH_A_THREAD, (
                threads, step, numbers[i], rows, slot, caches, (x, out, activated), scores, room, works
            ))


class Program:
    """The steps that compute new tokens, with a cache of the keys and values of earlier ones.

    A step reads one register and writes to another. Arrays are read in place, and live as long as the program; those that a
    kernel cannot take are copied. They have the program's dtype. The cache has room for `slots` tokens; a token sees the
    last `context` of them. There are `heads` heads of queries, of size `head_size`, and `groups` of keys and values.
    ValueError if shapes or dtypes do not fit.

    >>> program = Program(np.float64, heads=1, width=2, context=3)
    >>> x, y = program.register(2), program.register(4)
    >>> program.embed(np.eye(2), np.zeros((3, 2)), 10.0, x)
    >>> program.linear(x, np.arange(8.0).reshape(4, 2), None, y)
    >>> program.run(np.array([[1]]), 0, *program.caches(1))
    array([[10., 30., 50., 70.]])
    """

    def __init__(self, dtype: np.dtype, heads: int, width: int, context: int, groups: int | None = None,
                 head_size: int | None = None, slots: int | None = None):
        self.dtype, self.heads, self.width, self.context = np.dtype(dtype), heads, width, context
        self.groups = heads if groups is None else groups
        self.head_size = width // heads if head_size is None else head_size
        self.slots = context if slots is None else slots
        self.layers = 0  # of attention, each with its own keys and values
        self.columns = 0  # of all registers
        self._room: dict[int, int] = {}  # the number of columns that fit into each register
        self._held: dict[int, int] = {}  # and that it holds so far
        self._steps: list[tuple[int, ...]] = []
        self._numbers: list[float] = []  # a scale or an eps, for the steps that take one
        self._arrays: list[np.ndarray] = []  # kept alive, as their addresses are in use

    def register(self, columns: int) -> int:
        """A new register for this many columns."""
        self._room[self.columns] = columns
        self.columns += columns
        return self.columns - columns

    def embed(self, tokens: np.ndarray, positions: np.ndarray | None, scale: float, out: int) -> None:
        """out = tokens[ids] * scale [+ positions], for tables (V, C) and (at least slots, C)."""
        has_room = positions is None or positions.shape[1:] == (self.width,) and len(positions) >= self.slots
        _check(has_room and tokens.shape[1:] == (self.width,), tokens, positions)
        self._add(EMBED, 0, 0, out, self.width, tokens, positions, number=scale)

    def norm(self, x: int, weight: np.ndarray | None, bias: np.ndarray | None, eps: float, out: int) -> None:
        """out = layer_norm(x) * weight + bias, for weight and bias (C,)."""
        weight = np.ones(self.width, self.dtype) if weight is None else weight
        bias = np.zeros(self.width, self.dtype) if bias is None else bias
        _check(weight.shape == bias.shape == (self.width,), weight, bias)
        self._add(NORM, x, self.width, out, self.width, weight, bias, number=eps)

    def rms_norm(self, x: int, weight: np.ndarray | None, eps: float, out: int) -> None:
        """out = rms_norm(x) * weight, for a weight (C,)."""
        weight = np.ones(self.width, self.dtype) if weight is None else weight
        _check(weight.shape == (self.width,), weight)
        self._add(RMS_NORM, x, self.width, out, self.width, weight, number=eps)

    def linear(self, x: int, weight: np.ndarray, bias: np.ndarray | None, out: int, accumulate: bool = False,
               activation: str | None = None, activated: int = 0) -> None:
        """out = [out +] x @ weight.T [+ bias], for weight (outputs, inputs), bias (outputs,).

        With one of `activations.ACTIVATIONS`, also activated = activation(out); with "product", activated *= out.
        """
        outputs, inputs = weight.shape
        fits = weight.size > 0 and (self._held.get(out) == outputs or not accumulate)
        fits = fits and (activation != "product" or self._held.get(activated) == outputs)
        _check(fits and (bias is None or bias.shape == (outputs,)), weight, bias)
        flags = (0 if bias is None else ADD_BIAS) | (ACCUMULATE if accumulate else 0)
        which = -1 if activation is None else (*ACTIVATIONS, "product").index(activation)
        self._add(LINEAR, x, inputs, out, outputs, weight, bias, (flags, which, activated))
        if activation is not None:
            self._hold(activated, outputs)

    def attend(self, packed: int, out: int, scale: float, rotation: np.ndarray | None = None,
               by_distance: np.ndarray | None = None) -> None:
        """out = attention of q to k and v, packed = [q | k | v], heads side by side; scores are multiplied by the scale.

        rotation (at least slots, D): cosines and sines, in turn, by which pairs of features of q and k are turned.
        by_distance (H, n + 1 + n) is added to scores: column n + t - s, or the last, for a query at t and a key at s.
        """
        size, distances = self.head_size, 0
        _check(rotation is None or len(rotation) >= self.slots and rotation.shape[1:] == (size,), rotation)
        if by_distance is not None:
            distances = by_distance.shape[1] // 2
            _check(by_distance.shape == (self.heads, 2 * distances + 1), by_distance)
        self._add(ATTEND, packed, (self.heads + 2 * self.groups) * size, out, self.heads * size, rotation, by_distance,
                  (self.layers, distances, self.context), scale)
        self.layers += 1

    def last(self, x: int, out: int) -> None:
        """out (C columns) = the last row of each sequence in x; later steps see only these."""
        self._add(LAST, x, self.width, out, self.width)

    def caches(self, batch_size: int) -> np.ndarray:
        """Room for the keys and values (2, L, B, G, slots, D) of B sequences."""
        return empty((2, self.layers, batch_size, self.groups, self.slots, self.head_size), self.dtype)

    def run(self, tokens: np.ndarray, slot: int, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The last step's result (B, outputs) for tokens (B, T), int64, in the slots `slot` to slot + T - 1. The caches
        hold the keys and values of earlier tokens; the new ones are added.

        Nothing is checked: tokens must be in their table, and the slots must exist.
        """
        (B, T), (target, outputs) = tokens.shape, self._steps[-1][TARGET : OUTPUTS + 1]
        rows = min(QUERIES, max(T, self.heads // self.groups))  # that attend at once
        room = 2 * rows * min(self.slots, self.context + rows)  # of each thread, for their scores
        of_registers, works = self.columns * B * T, gemm_workspaces(self.dtype)
        space = empty((of_registers + numba.config.NUMBA_NUM_THREADS * room,), self.dtype)
        _run.ungated(*self._table, ready(tokens), slot, (keys, values), space, of_registers, room, works)
        return space[target * B * T : target * B * T + outputs * B].reshape(B, outputs)

    @functools.cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._steps), np.array(self._numbers)

    def _add(self, kind: int, x: int, inputs: int, out: int, outputs: int, weight: np.ndarray | None = None,
             bias: np.ndarray | None = None, own: tuple[int, int, int] = (0, 0, 0), number: float = 0.0) -> None:
        if inputs and self._held.get(x) != inputs:
            raise ValueError(f"a step takes {inputs} columns of a register that holds {self._held.get(x)}")
        self._hold(out, outputs)
        row = 0 if weight is None else weight[:1].nbytes
        self._steps.append((kind, x, inputs, out, outputs, self._address(weight), self._address(bias), row, *own))
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
            raise ValueError(f"a program of {self.dtype} expects arrays of that dtype, got {array.dtype}")
        self._arrays.append(ready(array))
        return address(self._arrays[-1])


def _check(fits: bool, *arrays: np.ndarray | None) -> None:
    if not fits:
        raise ValueError(f"a step cannot take arrays of shapes {[x.shape for x in arrays if x is not None]}")
