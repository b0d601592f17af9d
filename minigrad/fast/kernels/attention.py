"""Scaled dot-product attention that never holds a (Tq, Tk) array.

It keeps only tiles of TILE keys x BLOCK queries: memory is linear in the keys (k and v, packed), and causal attention takes
half the time. Forward goes along the keys with a running softmax: if a tile has a larger score than all before, the sum and
out so far are scaled down. Each query's largest score and sum are saved; backward recomputes the weights from them.

The guide (study/guide/) has the algorithm in NumPy, `flash_forward` and `flash_backward`. The kernels differ as
follows; `square` is the number of a tile's keys before the diagonal:

- The largest score and the sum are not saved as one logsumexp: if a mask of -1e9 hides all keys, that has lost the sum.
- Tiles are transposed, (keys, queries), so that everything that belongs to a query is in one lane: see attention_passes.py.
- On the diagonal a product takes STRIP keys or queries at a time, and only what they see.
- A mask may be added to the scores; if it hides everything from a query, its weights are zeros.
- Backward goes through the keys in spans of SPAN, with all queries that see them, so k, v, dk, dv stay in the cache.
- k is packed times the scale, for scores and dq, and so is q in backward, for dk.
- In bfloat16, operands are pairs along the axis of a sum (bfloat16.py), packed once: k and v for each head, q and dout for
  each block of queries, the weights and their gradients for each tile.
- With rotary positions, q and k are turned when they are packed, and dq and dk are turned back when they are complete.
- Weights may be dropped, the same ones in backward: dropout.py makes the mask of a tile from its position. The sum over a
  row is still that of all weights; so is sum(out * dout), as dropped weights have no part in out.

In forward, blocks of queries are independent, and divided among the threads; in backward the threads share whole heads.
"""
import functools
import math

import numba
import numpy as np
from numba import types

from . import bfloat16
from .attention_passes import (
    BLOCK, STRIP, dots, drop_weights, drop_weights_backward, hide_future, online_softmax, pack, scale_rows,
    softmax_backward, transpose, turn,
)
from .bfloat16 import COLUMNS, NEITHER, ROWS
from .buffers import workspace
from ..pool import empty
from .dropout import LANES, SLOTS, threshold_and_scale
from .gemm import gemm, register
from .internals import entry_point
from .jit import jit, kernel, library, ready
from .matrix import ACCUMULATE, ADD_BIAS, PACKED, Matrix, at
from .parallel import parallel_for
from .simd import (
    INDEX, call, consecutive, constant, constant_like, fields, instructions, pointer, pointers, shift, shift_each,
)
from .thresholds import ATTENTION_ON_THREADS, WORTH_A_THREAD

TILE = 128  # keys: whole blocks, so that the diagonal lies in one tile; at most the depth of the product's panels
SPAN = 1024  # keys: whole tiles
ARRAYS = 11  # arguments of the kernels


@jit
def _as_pairs(x, rows, columns, axis, pack_pairs, target):
    """x, or if operands are rounded, its numbers at 2p and 2p + 1 along an axis as pairs, in the target, which may be x.
    Along NEITHER axis, x itself is rounded."""
    if pack_pairs == 0:
        return x
    call(pack_pairs, (x, rows, columns, target, axis))
    return target


@jit
def _strip(row, square, keys):
    """(first query, number of keys) of the strip of a tile that begins at key `row`."""
    if row < square:
        return 0, square - row
    return row - square, min(STRIP, keys - row)


@jit
def _tile(x, y, keys, square, columns, size, bias, flags, future, tile):
    """tile [+]= x @ y [+ bias] for x (keys, size), y (size, queries); keys that a query cannot see become `future`."""
    row = 0
    while row < keys:
        c, rows = _strip(row, square, keys)
        strip = at(tile, row, c)
        gemm(at(x, row, 0), at(y, 0, c), strip, rows, columns - c, size, shift(bias, c), flags, tile.start)
        if row >= square:
            hide_future(strip.start, rows, future)
        row += rows


@jit
def _sum_over_queries(tile, keys, square, x, queries, size, out, flags, numbers):
    """out [+]= tile @ x for x (queries, size), out (keys, size)"""
    row = 0
    while row < keys:
        c, rows = _strip(row, square, keys)
        first = c // numbers
        gemm(at(tile, row, first), at(x, first, 0), at(out, row, 0), rows, size, queries - c, out.start, flags, tile.start)
        row += rows


@jit
def _sum_over_keys(tile, keys, square, x, unpaired, all_finite, queries, size, out, flags, pack_pairs):
    """out [+]= tile.T @ x for x (keys, size), out (queries, size)

    A strip of queries takes the keys that its last one sees. For the others some are in the future, with weights of zero,
    and zero times NaN is NaN: if x is not all finite, the queries are computed one by one. That gives the same bits, as the
    sum over a tile runs along the keys, and zeros at its end change nothing. The last pair may hold a key in the future, so
    it is packed anew.
    """
    step = queries if square == keys else STRIP if all_finite else 1
    for c in range(0, queries, step):
        count, seen = min(step, queries - c), min(keys, square + c + step)
        if step < queries and not all_finite:
            last = (seen - 1) // 2
            _as_pairs(at(unpaired, 2 * last, 0), seen - 2 * last, size, ROWS, pack_pairs, at(x, last, 0))
        gemm(Matrix(at(tile, 0, c).start, 1, tile.row), x, at(out, c, 0), count, size, seen, out.start, flags, tile.start)


@jit
def _copy_mask(mask, queries, keys, tile):
    """tile = mask.T"""
    if mask.column == 1:
        transpose(mask, queries, keys, tile)
        return
    for j in range(keys):
        for c in range(queries):
            tile.start[j * BLOCK + c] = mask.start[c * mask.row + j * mask.column]


@library
def _drop(weights, dscores, minus_delta, is_backward, keys, square, columns, dropping):
    """Drop weights of a tile; a separate library, so that only models with dropout compile it."""
    if is_backward:
        drop_weights_backward(weights, dscores, minus_delta, keys, square, columns, dropping)
    else:
        drop_weights(weights, keys, square, columns, dropping)


@jit
def _drop_tile(dropping, head, first, start, weights, dscores, minus_delta, is_backward, keys, square, columns):
    """Drop weights of the tile that begins at query `first` and key `start`."""
    drop, key, position, threshold, strips, per_strip, scale = dropping
    counter = position // SLOTS + (head * strips + first // STRIP) * per_strip + start // SLOTS * LANES
    call(drop, (weights, dscores, minus_delta, is_backward, keys, square, columns,
                (counter, per_strip, key, threshold, scale)))


@instructions(lambda starts, rows: types.UniTuple(types.NamedTuple([starts.dtype, INDEX, INDEX], Matrix), len(rows)))
def _matrices(site, starts, rows):
    """Matrices that begin at these pointers, with these row strides."""
    pairs = zip(*(fields(site.builder, values, len(site.result)) for values in (starts, rows)))
    return site.tuple([site.context.make_tuple(site.builder, site.result.dtype, [*pair, constant(1)]) for pair in pairs])


@jit
def _of_head(given, head):
    """The matrices of a head, in the order of `_launch`."""
    starts, (batch_strides, head_strides, row_strides, _), sizes, _, _ = given
    from_batch = shift_each(starts, batch_strides, head // sizes[0])
    return _matrices(shift_each(from_batch, head_strides, head % sizes[0]), row_strides)


@library
def _forward_portion(begin, end, given, space):
    """out and normalisers for the blocks of queries from `begin` to `end`, counted across all heads."""
    _, strides, sizes, scale, dropping = given
    _, Tq, Tk, D, row_size, blocks, is_masked, is_causal, is_rotated, product, pack_pairs = sizes
    minus_infinity, zero, one = constant_like(space, -np.inf), constant_like(space, 0), constant_like(space, 1)
    numbers = 2 if pack_pairs != 0 else 1  # in an element of an operand
    packed, block = Tk * row_size, BLOCK * row_size
    memory = consecutive(space, (packed, packed, block, block, BLOCK * TILE, BLOCK, BLOCK, BLOCK))
    k_packed, v_packed, q_packed, queries, tile = _matrices(memory, (row_size, row_size, row_size, BLOCK, BLOCK))
    scores, largest, total, shrinking = memory[4:]
    for head in range(begin // blocks, -(-end // blocks)):
        q, k, v, mask, rotation, out, normalisers = _of_head(given, head)[:7]
        mask = Matrix(mask.start, mask.row, strides[3][3])
        start_of_queries = max(0, begin - head * blocks) * BLOCK
        end_of_queries = min(Tq, (end - head * blocks) * BLOCK)
        seen = min(Tk, end_of_queries) if is_causal else Tk
        pack(k, seen, D, scale, k_packed, total)
        if is_rotated:
            turn(k_packed, seen, D, rotation, one, total)
        pack(v, seen, D, one, v_packed, total)
        all_finite = total[0] == 0
        _as_pairs(k_packed, seen, D, COLUMNS, pack_pairs, k_packed)
        _as_pairs(v_packed, seen, D, ROWS, pack_pairs, v_packed)
        for first in range(start_of_queries, end_of_queries, BLOCK):
            count = min(BLOCK, Tq - first)
            columns = -(-count // STRIP) * STRIP
            seen = min(Tk, first + count) if is_causal else Tk
            block_of_q, block_of_out = at(q, first, 0), at(out, first, 0)
            if is_rotated:
                pack(block_of_q, count, D, one, q_packed, total)
                turn(q_packed, count, D, at(rotation, first, 0), one, total)
                block_of_q = q_packed
            transpose(_as_pairs(block_of_q, count, D, COLUMNS, pack_pairs, q_packed), count, -(-D // numbers), queries)
            for c in range(BLOCK):
                largest[c], total[c] = minus_infinity, zero
            for start in range(0, seen, TILE):
                keys = min(TILE, seen - start)
                square = min(keys, first - start) if is_causal else keys
                # 1. scores = q @ k.T * scale + mask
                adding = ACCUMULATE if is_masked else 0
                if is_masked:
                    _copy_mask(at(mask, first, start), count, keys, tile)
                _tile(at(k_packed, start, 0), queries, keys, square, columns, D, scores, product | adding,
                      minus_infinity, tile)
                # 2. weights = softmax(scores), not yet divided by the sums
                online_softmax(scores, keys, square, columns, largest, total, shrinking)
                if dropping[0] != 0:
                    _drop_tile(dropping, head, first, start, scores, scores, total, 0, keys, square, columns)
                # 3. out = weights @ v
                adding = ACCUMULATE if start > 0 else 0
                if start > 0:
                    scale_rows(block_of_out, count, D, shrinking)
                _as_pairs(tile, keys, columns, ROWS, pack_pairs, tile)
                _sum_over_keys(tile, keys, square, at(v_packed, start // numbers, 0), at(v, start, 0), all_finite, count, D,
                               block_of_out, product | adding, pack_pairs)
            for c in range(count):  # a query that sees nothing gets weights of zero
                total[c] = one / total[c] if total[c] != 0 else zero
                at(normalisers, first + c, 0).start[0] = largest[c] if largest[c] != minus_infinity else zero
                at(normalisers, first + c, 1).start[0] = total[c]
            scale_rows(block_of_out, count, D, total)


@library
def _backward_portion(begin, end, given, space):
    """dq, dk and dv of the heads from `begin` to `end`; 3., 2., 1. are the lines of forward that are differentiated."""
    _, strides, sizes, scale, dropping = given
    _, Tq, Tk, D, row_size, _, is_masked, is_causal, is_rotated, product, pack_pairs = sizes
    minus_infinity, zero, one = constant_like(space, -np.inf), constant_like(space, 0), constant_like(space, 1)
    numbers = 2 if pack_pairs != 0 else 1  # in an element of an operand
    packed, block, of_scores = Tk * row_size, BLOCK * row_size, BLOCK * TILE
    memory = consecutive(space, (
        packed, packed, packed, packed, block, block, block, block, of_scores, of_scores, BLOCK, BLOCK, BLOCK, BLOCK))
    k_packed, k_in_rows, k_in_columns, v_packed, q_packed, dout_packed, queries, douts, tile, dtile = _matrices(
        memory, (row_size, row_size, row_size, row_size, row_size, row_size, BLOCK, BLOCK, BLOCK, BLOCK))
    scores, dscores, largest, factors, minus_delta, check = memory[8:]
    last = (Tq - 1) // BLOCK * BLOCK
    seen = min(Tk, Tq) if is_causal else Tk
    for head in range(begin, end):
        q, k, v, mask, rotation, out, normalisers, dout, dq, dk, dv = _of_head(given, head)
        mask = Matrix(mask.start, mask.row, strides[3][3])
        pack(v, seen, D, one, v_packed, check)
        pack(k, seen, D, scale, k_packed, check)
        if is_rotated:
            turn(k_packed, seen, D, rotation, one, check)
        all_finite = check[0] == 0
        _as_pairs(v_packed, seen, D, COLUMNS, pack_pairs, v_packed)
        k_in_rows = _as_pairs(k_packed, seen, D, COLUMNS, pack_pairs, k_in_rows)
        k_in_columns = _as_pairs(k_packed, seen, D, ROWS, pack_pairs, k_in_columns)
        for j in range(seen, Tk):
            for c in range(D):
                at(dk, j, c).start[0] = at(dv, j, c).start[0] = zero
        # From the last block up: it sees the most keys, and writes their dk and dv; the other blocks add to them.
        for low in range(0, seen, SPAN):
            for first in range(last, low - 1 if is_causal else -1, -BLOCK):
                count = min(BLOCK, Tq - first)
                columns = -(-count // STRIP) * STRIP
                high = min(seen, low + SPAN, first + count) if is_causal else min(seen, low + SPAN)
                pack(at(q, first, 0), count, D, one, q_packed, check)
                if is_rotated:
                    turn(q_packed, count, D, at(rotation, first, 0), one, check)
                size = -(-D // numbers)
                transpose(_as_pairs(q_packed, count, D, COLUMNS, pack_pairs, dout_packed), count, size, queries)
                transpose(_as_pairs(at(dout, first, 0), count, D, COLUMNS, pack_pairs, dout_packed), count, size, douts)
                pack(q_packed, count, D, scale, q_packed, check)
                pack(at(dout, first, 0), count, D, one, dout_packed, check)
                _as_pairs(dout_packed, count, D, NEITHER, pack_pairs, dout_packed)  # as in dweights: dscores sum to zero
                dots(at(out, first, 0), dout_packed, count, D, -one, minus_delta)
                _as_pairs(q_packed, count, D, ROWS, pack_pairs, q_packed)
                _as_pairs(dout_packed, count, D, ROWS, pack_pairs, dout_packed)
                for c in range(count):
                    largest[c], factors[c] = at(normalisers, first + c, 0).start[0], at(normalisers, first + c, 1).start[0]
                for start in range(low, high, TILE):
                    keys = min(TILE, high - start)
                    square = min(keys, first - start) if is_causal else keys
                    # 1. scores = q @ k.T * scale + mask
                    adding = ACCUMULATE if is_masked else 0
                    if is_masked:
                        _copy_mask(at(mask, first, start), count, keys, tile)
                    _tile(at(k_in_rows, start, 0), queries, keys, square, columns, D, scores, product | adding,
                          minus_infinity, tile)
                    # 3. dweights - rowsum(out * dout), dweights = dout @ v.T; dropout subtracts the sum later
                    adding = ADD_BIAS if dropping[0] == 0 else 0
                    _tile(at(v_packed, start, 0), douts, keys, square, columns, D, minus_delta, product | adding, zero,
                          dtile)
                    # 2. weights = softmax(scores);  dscores = weights * (dweights - rowsum(out * dout))
                    softmax_backward(scores, dscores, keys, square, columns, largest, factors)
                    if dropping[0] != 0:
                        _drop_tile(dropping, head, first, start, scores, dscores, minus_delta, 1, keys, square, columns)
                    # 3. dv += weights.T @ dout;  1. dk += dscores.T @ q * scale
                    flags = product | (ACCUMULATE if first < last else 0)
                    weights = _as_pairs(tile, keys, count, COLUMNS, pack_pairs, tile)
                    _sum_over_queries(weights, keys, square, dout_packed, count, D, at(dv, start, 0), flags, numbers)
                    in_rows = _as_pairs(dtile, keys, count, COLUMNS, pack_pairs, tile)
                    _sum_over_queries(in_rows, keys, square, q_packed, count, D, at(dk, start, 0), flags, numbers)
                    # 1. dq += dscores @ k * scale
                    adding = ACCUMULATE if start > 0 else 0
                    _as_pairs(dtile, keys, columns, ROWS, pack_pairs, dtile)
                    _sum_over_keys(dtile, keys, square, at(k_in_columns, start // numbers, 0), at(k_packed, start, 0),
                                   all_finite, count, D, at(dq, first, 0), product | adding, pack_pairs)
        if is_rotated:
            turn(dq, Tq, D, rotation, -one, check)
            turn(dk, seen, D, rotation, -one, check)


@jit
def _part(part, portion, given, cuts, space, spaces):
    call(portion, (cuts[part], cuts[part + 1], given, pointer(spaces, part * space)))


@kernel(parallel=True)
def _on_threads(portion, arrays, strides, sizes, scale, dropping, cuts, space, spaces):
    """Call the machine code of `_forward_portion` or `_backward_portion`, from cut to cut, one portion per thread."""
    _, Tq, Tk = sizes[:3]
    drop, key, threshold, keep_scale = dropping
    strips, per_strip = (Tq + LANES - 1) // LANES, (Tk + SLOTS - 1) // SLOTS * LANES
    dropping_at = drop, key[0], key[1], threshold, strips, per_strip, keep_scale
    given = pointers(arrays, 0), strides, sizes, scale, dropping_at
    parallel_for(_part, len(cuts) - 1, WORTH_A_THREAD, (portion, given, cuts, space, spaces))


@functools.cache
def _machine_code(function, dtype: np.dtype) -> int:
    """The address of the machine code of a portion, or of `_drop`."""
    register(dtype)
    number = numba.from_dtype(dtype)
    array, strides = types.CPointer(number), types.UniTuple(types.UniTuple(INDEX, ARRAYS), 4)
    if function is _drop:
        return entry_point(_drop, (*[array] * 3, *[INDEX] * 4, types.Tuple([INDEX] * 4 + [number])))
    given = types.Tuple([types.UniTuple(array, ARRAYS), strides, types.UniTuple(INDEX, 11), number,
                         types.Tuple([INDEX] * 6 + [number])])
    return entry_point(function, (INDEX, INDEX, given, array))


CORNER = (slice(1),) * 4
NO_KEY = np.zeros(2, np.int64)


def _is_readable(array: np.ndarray, rows_only: bool = True) -> bool:
    rows_are_contiguous = array.strides[-1] == array.itemsize or array.shape[-1] == 1 or not rows_only
    return array.flags.behaved and array.dtype.isnative and rows_are_contiguous


def _readable(array: np.ndarray, rows_only: bool = True) -> np.ndarray:
    """The array, or a copy if it is read-only, unaligned or byte-swapped, or has rows with gaps."""
    return array if _is_readable(array, rows_only) else ready(array)


def _check(q, k, v, mask, rotation):
    """Arrays that do not fit would be read beyond their ends. The messages for users come from nn.functional."""
    scores = (*q.shape[:3], *k.shape[2:3])
    fits = len(scores) == q.ndim == 4 and k.shape == v.shape and q.shape[:2] + q.shape[3:] == k.shape[:2] + k.shape[3:]
    fits &= mask is None or mask.ndim <= 4 and all(n in (1, w) for n, w in zip(mask.shape[::-1], scores[::-1]))
    if rotation is not None:
        fits &= rotation.ndim == 2 and q.shape[3] % 2 == 0 and rotation.shape[1] == q.shape[3]
        fits &= len(rotation) >= max(scores[2:]) and rotation.dtype == q.dtype
    if not fits or not q.dtype == k.dtype == v.dtype or q.dtype.char not in "fd":
        arrays = ", ".join(f"{x.shape} of {x.dtype}" for x in (q, k, v, mask, rotation) if x is not None)
        raise ValueError(f"attention: these arrays do not fit together: {arrays}")


@functools.lru_cache(maxsize=64)
def cuts(heads: int, blocks: int, threads: int, is_causal: bool) -> np.ndarray:
    """(threads + 1,): where the threads' portions of all blocks of queries begin and end, with equal work in each.

    In causal attention later blocks of a head cost more: half of the work is in the first 0.7 of the blocks.
    """
    found = np.empty(threads + 1, np.int64)
    for thread in range(threads + 1):
        head, part = divmod(thread * heads / threads, 1)
        found[thread] = head * blocks + round(blocks * (math.sqrt(part) if is_causal else part))
    return found


@functools.lru_cache(maxsize=64)
def _in_elements(itemsize: int, *strides: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Strides of all arrays by axis (batch, head, row, column), in elements; for missing arrays, the last one's."""
    return tuple(zip(*([n // itemsize for n in strides[min(i, len(strides) - 1)]] for i in range(ARRAYS))))


def _launch(portion, inputs, is_causal, scale, dropout, product, out, normalisers, *gradients):
    """Run a portion on all threads. Arrays are passed as corners and strides, so that there is one specialisation."""
    q, k, v, mask, rotation = inputs
    (B, H, Tq, D), Tk, dtype = q.shape, k.shape[2], q.dtype
    if mask is not None:
        mask = _readable(mask.astype(dtype, copy=False), rows_only=False)
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    arrays = [q, k, v, q if mask is None else mask, q if rotation is None else _readable(rotation)[None, None], out,
              normalisers, *gradients]
    strides = [x.strides for x in arrays]
    if mask is not None:
        strides[3] = tuple(0 if n == 1 else stride for n, stride in zip(mask.shape, mask.strides))
    corners = [x[CORNER] for x in arrays]
    corners += corners[-1:] * (ARRAYS - len(corners))  # forward has no gradients
    product = product if dtype == np.float32 else 0  # float64 is not rounded
    blocks = 1 if gradients else -(-Tq // BLOCK)  # as all queries of a head add to its dk and dv
    threads = 1 if B * H * Tq * Tk * D < ATTENTION_ON_THREADS else min(numba.get_num_threads(), B * H * blocks)
    row_size = -(-D // 16) * 16  # of packed features: whole vectors
    space = 4 * Tk * row_size + BLOCK * (4 * row_size + 2 * TILE + 4)  # for all that `_backward_portion` packs
    dropout_p, key = dropout
    drop, key = (_machine_code(_drop, dtype), key) if dropout_p > 0 else (0, NO_KEY)
    threshold, keep_scale = threshold_and_scale(dropout_p, dtype)
    _on_threads.ungated(  # corners would pass the gate
        _machine_code(portion, dtype), tuple(corners), _in_elements(dtype.itemsize, *strides),
        (H, Tq, Tk, D, row_size, blocks, int(mask is not None), int(is_causal), int(rotation is not None),
         product | PACKED, bfloat16.pack_pairs() if product else 0),
        dtype.type(scale), (drop, key, threshold, keep_scale),
        cuts(B * H, blocks, threads, is_causal), space, workspace("attention", threads * space, dtype),
    )


def attention_forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float,
    rotation: np.ndarray | None = None, dropout: tuple[float, np.ndarray | None] = (0.0, None), *, product: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """out = dropout(softmax(q @ k^T * scale + mask)) @ v and the normalisers, from which backward computes the softmax.

    q (B, H, Tq, D), k and v (B, H, Tk, D) with any strides but contiguous rows; mask: None, or floats that broadcast to
    (B, H, Tq, Tk); rotation: None, or alternating cosines and sines (at least Tq and Tk, D), by which pairs of features of
    queries and keys are turned first. Causal: query i sees keys 0 to i. out (B, H, Tq, D) has the memory layout
    (B, Tq, H, D) if q has it, as heads split from rows do; normalisers (B, H, Tq, 2): the largest score of a query, and
    1 / sum of e^(score - largest). A row with everything masked gives zeros.
    dropout: (probability of dropping a weight, key (2,) for dropout.py). product: see `gemm.matmul`.
    """
    _check(q, k, v, mask, rotation)
    B, H, Tq, D = q.shape
    is_split = _is_readable(q) and 0 < q.strides[1] < q.strides[2]
    q, k, v = _readable(q), _readable(k), _readable(v)
    out = empty((B, Tq, H, D), q.dtype).swapaxes(1, 2) if is_split else empty(q.shape, q.dtype)
    normalisers = empty((B, H, Tq, 2), q.dtype)
    if q.size == 0 or k.size == 0:
        out[...] = normalisers[...] = 0
        return out, normalisers
    _launch(_forward_portion, (q, k, v, mask, rotation), is_causal, scale, dropout, product, out, normalisers)
    return out, normalisers


def attention_backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float,
    results: tuple[np.ndarray, np.ndarray], dout: np.ndarray, gradients: tuple[np.ndarray, np.ndarray, np.ndarray],
    rotation: np.ndarray | None = None, dropout: tuple[float, np.ndarray | None] = (0.0, None), *, product: int = 0,
) -> None:
    """The gradients of `attention_forward`, which returned `results`, written into dq, dk, dv, with any strides."""
    _check(q, k, v, mask, rotation)
    if q.size == 0 or k.size == 0:
        for gradient in gradients:
            gradient[...] = 0
        return
    written = [x if _is_readable(x) else np.empty(x.shape, q.dtype.newbyteorder("=")) for x in gradients]
    out, normalisers = results
    q, k, v, out, dout = map(_readable, (q, k, v, out, dout))
    inputs = q, k, v, mask, rotation
    _launch(_backward_portion, inputs, is_causal, scale, dropout, product, out, normalisers, dout, *written)
    for gradient, result in zip(gradients, written):
        if gradient is not result:
            gradient[...] = result
