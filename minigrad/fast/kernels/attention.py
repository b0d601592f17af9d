"""Scaled dot-product attention that holds no (Tq, Tk) array: the algorithm in NumPy first, and then the kernels.

Nothing is kept but tiles of TILE keys x BLOCK queries: memory is linear in the keys (k and v, packed), and causal time is
half. Forward goes along the keys with the softmax of what it has seen: where a tile has a larger score than those before,
the sum and out shrink. The logsumexp of each query is saved; backward computes the weights again from it.

What the kernels do in another way than `tiled_attention`, with the same numbers of passes:

- A tile is transposed, (keys, queries), so that what belongs to a query lies in one lane: see attention_passes.py.
- On the diagonal a product takes a strip of STRIP keys or queries at a time, and only what they see.
- A mask may be added to the scores; a query from which all is hidden has zeros for weights.
- Backward takes SPAN keys after SPAN keys with all queries that see them: k, v, dk, dv stay in the cache.
- k is packed times the scale, for scores and dq, and in backward q, for dk.
- With rotary positions q and k are turned where they are packed, and dq and dk are turned back when they are whole.
- Weights may be dropped, the same ones in backward: dropout.py makes the mask of a tile from its place. The sum over a
  row stays that of all weights; so does sum(out * dout), as dropped weights have no part in out.

Blocks of queries are independent in forward, and are divided among the threads; backward gives them whole heads.
"""
import functools
import math
from collections.abc import Iterator

import numba
import numpy as np
from numba import types

from .attention_passes import (
    BLOCK, STRIP, dots, drop_weights, drop_weights_backward, hide_future, online_softmax, pack, scale_rows,
    softmax_backward, transpose, turn,
)
from .buffers import empty, workspace
from .dropout import LANES, SLOTS, threshold_and_scale
from .gemm import ACCUMULATE, ADD_BIAS, B_IN_PLACE, WORKSPACE, Matrix, at, gemm, gemm_workspaces, register
from .internals import entry_point
from .jit import jit, kernel, library
from .parallel import parallel_for
from .simd import INDEX, call, consecutive, constant_like, log, pointer, shift, shift_each
from .thresholds import ATTENTION_ON_THREADS, WORTH_A_THREAD

TILE = 128  # keys: whole blocks, so that the diagonal lies in one tile; no more than a panel of the product is deep
SPAN = 1024  # keys: whole tiles
ARRAYS = 11  # that the kernels are given


def tiled_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, is_causal: bool,
                    scale: float) -> tuple[np.ndarray, np.ndarray]:
    """`attention_forward` of one head: out (Tq, D) and logsumexp (Tq,) for q (Tq, D), k and v (Tk, D).

    The gradient of the scores goes back through 3., 2., 1. in `tiled_attention_backward`.
    """
    out, logsumexp = np.zeros_like(q), np.empty(len(q), q.dtype)
    for first, queries in _blocks(q):
        largest, total = np.full(len(q[queries]), -np.inf, q.dtype), np.zeros(len(q[queries]), q.dtype)
        for keys in _tiles(k, first, is_causal):
            # 1. scores = q @ k.T * scale
            scores = _scores(q, k, queries, keys, is_causal, scale)
            # 2. weights = softmax(scores), not yet divided by the sums
            before, largest = largest, np.maximum(largest, scores.max(axis=1))
            shrinking, weights = np.exp(before - largest), np.exp(scores - largest[:, None])
            total = total * shrinking + weights.sum(axis=1)
            # 3. out = weights @ v
            out[queries] = out[queries] * shrinking[:, None] + weights @ v[keys]
        logsumexp[queries] = largest + np.log(total)
        out[queries] /= total[:, None]
    return out, logsumexp


def tiled_attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, is_causal: bool, scale: float, out: np.ndarray,
                             logsumexp: np.ndarray, dout: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dq, dk, dv of `tiled_attention`; 3., 2., 1. stand for the line that is differentiated."""
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for first, queries in _blocks(q):
        delta = (out[queries] * dout[queries]).sum(axis=1)  # = sum(weights * dweights, axis=1) over all keys
        for keys in _tiles(k, first, is_causal):
            # 1. scores = q @ k.T * scale
            scores = _scores(q, k, queries, keys, is_causal, scale)
            # 3. dweights = dout @ v.T
            dweights = dout[queries] @ v[keys].T
            # 2. weights = exp(scores - logsumexp);  dscores = weights * (dweights - sum(out * dout))
            weights = np.exp(scores - logsumexp[queries, None])
            dscores = weights * (dweights - delta[:, None])
            # 3. dv += weights.T @ dout;  1. dk += dscores.T @ q * scale
            dv[keys] += weights.T @ dout[queries]
            dk[keys] += dscores.T @ q[queries] * scale
            # 1. dq += dscores @ k * scale
            dq[queries] += dscores @ k[keys] * scale
    return dq, dk, dv


def _blocks(q: np.ndarray) -> Iterator[tuple[int, slice]]:
    return ((first, slice(first, min(first + BLOCK, len(q)))) for first in range(0, len(q), BLOCK))


def _tiles(k: np.ndarray, first: int, is_causal: bool) -> Iterator[slice]:
    """Those keys that any query of a block sees."""
    seen = min(len(k), first + BLOCK) if is_causal else len(k)
    return (slice(start, min(start + TILE, seen)) for start in range(0, seen, TILE))


def _scores(q, k, queries, keys, is_causal, scale):
    scores = q[queries] @ k[keys].T * scale
    is_future = np.arange(keys.start, keys.stop) > np.arange(queries.start, queries.stop)[:, None]
    return np.where(is_future, -np.inf, scores) if is_causal else scores


@jit
def _strip(row, square, keys):
    """(first query, count of keys) of the strip of a tile that begins with the key `row`."""
    if row < square:
        return 0, square - row
    return row - square, min(STRIP, keys - row)


@jit
def _tile(x, y, keys, square, columns, size, bias, flags, future, tile, work):
    """tile [+]= x @ y [+ bias] for x (keys, size), y (size, queries); what is hidden from a query becomes `future`."""
    row = 0
    while row < keys:
        c, rows = _strip(row, square, keys)
        strip = at(tile, row, c)
        gemm(at(x, row, 0), at(y, 0, c), strip, rows, columns - c, size, shift(bias, c), flags, work)
        if row >= square:
            hide_future(strip.start, rows, future)
        row += rows


@jit
def _sum_over_queries(tile, keys, square, x, queries, size, out, flags, work):
    """out [+]= tile @ x for x (queries, size), out (keys, size)"""
    row = 0
    while row < keys:
        c, rows = _strip(row, square, keys)
        gemm(at(tile, row, c), at(x, c, 0), at(out, row, 0), rows, size, queries - c, out.start, flags, work)
        row += rows


@jit
def _sum_over_keys(tile, keys, square, x, all_finite, queries, size, out, flags, work):
    """out [+]= tile.T @ x for x (keys, size), out (queries, size)

    A strip of queries takes the keys that its last one sees. For the others that is the future, with weights of zero,
    and zero times NaN is NaN: if x is not all finite, the queries go one by one. Others get the same bits, as the sum
    over a tile runs along the keys, and zeros at its end change nothing.
    """
    step = queries if square == keys else STRIP if all_finite else 1
    for c in range(0, queries, step):
        count, seen = min(step, queries - c), min(keys, square + c + step)
        gemm(Matrix(at(tile, 0, c).start, 1, tile.row), x, at(out, c, 0), count, size, seen, out.start, flags, work)


@jit
def _copy_mask(mask, row_mask, column_mask, queries, keys, tile):
    """tile = mask.T"""
    if column_mask == 1:
        transpose(mask, row_mask, queries, keys, tile, BLOCK)
        return
    for j in range(keys):
        for c in range(queries):
            tile[j * BLOCK + c] = mask[c * row_mask + j * column_mask]


@library
def _drop(weights, dscores, minus_delta, is_backward, keys, square, columns, counter, per_strip, key, threshold, scale):
    """Drop weights of a tile. Only a model with dropout compiles this; the portions call it by its address."""
    if is_backward:
        drop_weights_backward(weights, dscores, minus_delta, keys, square, columns, counter, per_strip, key, threshold,
                              scale)
    else:
        drop_weights(weights, keys, square, columns, counter, per_strip, key, threshold, scale)


@jit
def _drop_tile(dropping, head, first, start, weights, dscores, minus_delta, is_backward, keys, square, columns):
    """Drop weights of the tile of queries from `first` on and keys from `start` on."""
    drop, key, position, threshold, strips, per_strip, scale = dropping
    counter = position // SLOTS + (head * strips + first // STRIP) * per_strip + start // SLOTS * LANES
    call(drop, (weights, dscores, minus_delta, is_backward, keys, square, columns, counter, per_strip, key, threshold,
                scale))


@library
def _forward_portion(begin, end, given, space, work):
    """out and logsumexp for the blocks of queries from `begin` to `end`, counted through all heads."""
    pointers, batch_strides, head_strides, row_strides, sizes, scale, dropping = given
    H, Tq, Tk, D, row_size, blocks, is_masked, column_mask, is_causal, is_rotated = sizes
    row_q, row_k, row_v, row_mask, row_rotation, row_out = row_strides[:6]
    minus_infinity, zero, one = constant_like(space, -np.inf), constant_like(space, 0), constant_like(space, 1)
    block = BLOCK * row_size
    keys_packed, values, q_packed, queries, scores, largest, total, shrinking = consecutive(
        space, (Tk * row_size, Tk * row_size, block, block, BLOCK * TILE, BLOCK, BLOCK, BLOCK)
    )
    tile = Matrix(scores, BLOCK, 1)
    for head in range(begin // blocks, -(-end // blocks)):
        from_batch = shift_each(pointers, batch_strides, head // H)
        q, k, v, mask, rotation, out, logsumexp = shift_each(from_batch, head_strides, head % H)[:7]
        start_of_queries = max(0, begin - head * blocks) * BLOCK
        end_of_queries = min(Tq, (end - head * blocks) * BLOCK)
        seen = min(Tk, end_of_queries) if is_causal else Tk
        pack(k, row_k, seen, D, scale, keys_packed, row_size, total)
        if is_rotated:
            turn(keys_packed, row_size, seen, D, rotation, row_rotation, one, total)
        pack(v, row_v, seen, D, one, values, row_size, total)
        all_finite = total[0] == 0
        for first in range(start_of_queries, end_of_queries, BLOCK):
            count = min(BLOCK, Tq - first)
            columns = -(-count // STRIP) * STRIP
            seen = min(Tk, first + count) if is_causal else Tk
            block_of_out = shift(out, first * row_out)
            block_of_q = shift(q, first * row_q)
            if is_rotated:
                pack(block_of_q, row_q, count, D, one, q_packed, row_size, total)
                turn(q_packed, row_size, count, D, shift(rotation, first * row_rotation), row_rotation, one, total)
                transpose(q_packed, row_size, count, D, queries, BLOCK)
            else:
                transpose(block_of_q, row_q, count, D, queries, BLOCK)
            for c in range(BLOCK):
                largest[c], total[c] = minus_infinity, zero
            for start in range(0, seen, TILE):
                keys = min(TILE, seen - start)
                square = min(keys, first - start) if is_causal else keys
                # 1. scores = q @ k.T * scale + mask
                adding = ACCUMULATE if is_masked else 0
                if is_masked:
                    _copy_mask(shift(mask, first * row_mask + start * column_mask), row_mask, column_mask, count, keys,
                               scores)
                _tile(Matrix(shift(keys_packed, start * row_size), row_size, 1), Matrix(queries, BLOCK, 1), keys, square,
                      columns, D, scores, B_IN_PLACE | adding, minus_infinity, tile, work)
                # 2. weights = softmax(scores), not yet divided by the sums
                online_softmax(scores, keys, square, columns, largest, total, shrinking)
                if dropping[0] != 0:
                    _drop_tile(dropping, head, first, start, scores, scores, total, 0, keys, square, columns)
                # 3. out = weights @ v
                adding = ACCUMULATE if start > 0 else 0
                if start > 0:
                    scale_rows(block_of_out, row_out, count, D, shrinking)
                _sum_over_keys(tile, keys, square, Matrix(shift(values, start * row_size), row_size, 1), all_finite, count,
                               D, Matrix(block_of_out, row_out, 1), B_IN_PLACE | adding, work)
            for c in range(count):
                logsumexp[first + c] = largest[c] + log(total[c])
            for c in range(count):
                total[c] = one / total[c] if total[c] != 0 else zero
            scale_rows(block_of_out, row_out, count, D, total)


@library
def _backward_portion(begin, end, given, space, work):
    """dq, dk and dv of the heads from `begin` to `end`; 3., 2., 1. stand for the line that is differentiated."""
    pointers, batch_strides, head_strides, row_strides, sizes, scale, dropping = given
    H, Tq, Tk, D, row_size, _, is_masked, column_mask, is_causal, is_rotated = sizes
    row_q, row_k, row_v, row_mask, row_rotation, row_out, _, row_dout, row_dq, row_dk, row_dv = row_strides
    minus_infinity, zero, one = constant_like(space, -np.inf), constant_like(space, 0), constant_like(space, 1)
    block = BLOCK * row_size
    (keys_packed, values, q_packed, dout_packed, queries, douts, scores, dscores, subtracted, minus_delta,
     check) = consecutive(
        space,
        (Tk * row_size, Tk * row_size, block, block, block, block, BLOCK * TILE, BLOCK * TILE, BLOCK, BLOCK, BLOCK)
    )
    tile, dtile = Matrix(scores, BLOCK, 1), Matrix(dscores, BLOCK, 1)
    last = (Tq - 1) // BLOCK * BLOCK
    seen = min(Tk, Tq) if is_causal else Tk
    for head in range(begin, end):
        from_batch = shift_each(pointers, batch_strides, head // H)
        q, k, v, mask, rotation, out, logsumexp, dout, dq, dk, dv = shift_each(from_batch, head_strides, head % H)
        pack(v, row_v, seen, D, one, values, row_size, check)
        pack(k, row_k, seen, D, scale, keys_packed, row_size, check)
        if is_rotated:
            turn(keys_packed, row_size, seen, D, rotation, row_rotation, one, check)
        all_finite = check[0] == 0
        for j in range(seen, Tk):
            for c in range(D):
                dk[j * row_dk + c] = dv[j * row_dv + c] = zero
        # From the last block up: it sees the most keys, and writes their dk and dv; the others add to them.
        for low in range(0, seen, SPAN):
            for first in range(last, low - 1 if is_causal else -1, -BLOCK):
                count = min(BLOCK, Tq - first)
                columns = -(-count // STRIP) * STRIP
                high = min(seen, low + SPAN, first + count) if is_causal else min(seen, low + SPAN)
                block_of_q, block_of_dout = shift(q, first * row_q), shift(dout, first * row_dout)
                pack(block_of_q, row_q, count, D, one, q_packed, row_size, check)
                if is_rotated:
                    turn(q_packed, row_size, count, D, shift(rotation, first * row_rotation), row_rotation, one, check)
                transpose(q_packed, row_size, count, D, queries, BLOCK)
                transpose(block_of_dout, row_dout, count, D, douts, BLOCK)
                pack(q_packed, row_size, count, D, scale, q_packed, row_size, check)
                pack(block_of_dout, row_dout, count, D, one, dout_packed, row_size, check)
                dots(shift(out, first * row_out), row_out, dout_packed, row_size, count, D, -one, minus_delta)
                for c in range(count):  # if a query sees nothing, its weights become zeros
                    value = logsumexp[first + c]
                    subtracted[c] = value if value != minus_infinity else -minus_infinity
                for start in range(low, high, TILE):
                    keys = min(TILE, high - start)
                    square = min(keys, first - start) if is_causal else keys
                    tile_of_k = Matrix(shift(keys_packed, start * row_size), row_size, 1)
                    tile_of_v = Matrix(shift(values, start * row_size), row_size, 1)
                    # 1. scores = q @ k.T * scale + mask
                    adding = ACCUMULATE if is_masked else 0
                    if is_masked:
                        _copy_mask(shift(mask, first * row_mask + start * column_mask), row_mask, column_mask, count,
                                   keys, scores)
                    _tile(tile_of_k, Matrix(queries, BLOCK, 1), keys, square, columns, D, scores, B_IN_PLACE | adding,
                          minus_infinity, tile, work)
                    # 3. dweights = dout @ v.T - sum(out * dout); with dropout, the sum comes off later
                    adding = ADD_BIAS if dropping[0] == 0 else 0
                    _tile(tile_of_v, Matrix(douts, BLOCK, 1), keys, square, columns, D, minus_delta, B_IN_PLACE | adding,
                          zero, dtile, work)
                    # 2. weights = exp(scores - logsumexp);  dscores = weights * (what 3. made)
                    softmax_backward(scores, dscores, keys, square, columns, subtracted)
                    if dropping[0] != 0:
                        _drop_tile(dropping, head, first, start, scores, dscores, minus_delta, 1, keys, square, columns)
                    # 3. dv += weights.T @ dout;  1. dk += dscores.T @ q * scale
                    adding = ACCUMULATE if first < last else 0
                    _sum_over_queries(tile, keys, square, Matrix(dout_packed, row_size, 1), count, D,
                                      Matrix(shift(dv, start * row_dv), row_dv, 1), B_IN_PLACE | adding, work)
                    _sum_over_queries(dtile, keys, square, Matrix(q_packed, row_size, 1), count, D,
                                      Matrix(shift(dk, start * row_dk), row_dk, 1), B_IN_PLACE | adding, work)
                    # 1. dq += dscores @ k * scale
                    adding = ACCUMULATE if start > 0 else 0
                    _sum_over_keys(dtile, keys, square, tile_of_k, all_finite, count, D,
                                   Matrix(shift(dq, first * row_dq), row_dq, 1), B_IN_PLACE | adding, work)
        if is_rotated:
            turn(dq, row_dq, Tq, D, rotation, row_rotation, -one, check)
            turn(dk, row_dk, seen, D, rotation, row_rotation, -one, check)


@jit
def _part(part, portion, given, cuts, space, spaces, works):
    call(portion, (cuts[part], cuts[part + 1], given, pointer(spaces, part * space), pointer(works, part * WORKSPACE)))


@kernel(parallel=True)
def _on_threads(portion, q, k, v, mask, rotation, out, logsumexp, dout, dq, dk, dv, batch_strides, head_strides,
                row_strides, sizes, scale, drop, key, threshold, keep_scale, cuts, space, spaces, works):
    """Call the machine code of `_forward_portion` or `_backward_portion`, thread by thread, from cut to cut."""
    pointers = (pointer(q, 0), pointer(k, 0), pointer(v, 0), pointer(mask, 0), pointer(rotation, 0), pointer(out, 0),
                pointer(logsumexp, 0), pointer(dout, 0), pointer(dq, 0), pointer(dk, 0), pointer(dv, 0))
    _, Tq, Tk = sizes[:3]
    strips, per_strip = (Tq + LANES - 1) // LANES, (Tk + SLOTS - 1) // SLOTS * LANES
    dropping = drop, key[0], key[1], threshold, strips, per_strip, keep_scale
    given = pointers, batch_strides, head_strides, row_strides, sizes, scale, dropping
    parallel_for(_part, len(cuts) - 1, WORTH_A_THREAD, (portion, given, cuts, space, spaces, works))


@functools.cache
def _machine_code(portion, dtype: np.dtype) -> int:
    """The address of a portion's machine code, which is compiled once: Numba would optimise it again in each caller."""
    register(dtype)
    number = numba.from_dtype(dtype)
    array, strides = types.CPointer(number), types.UniTuple(INDEX, ARRAYS)
    given = types.Tuple([types.UniTuple(array, ARRAYS), strides, strides, strides, types.UniTuple(INDEX, 10), number,
                         types.Tuple([INDEX] * 6 + [number])])
    return entry_point(portion, (INDEX, INDEX, given, array, array))


@functools.cache
def _machine_code_of_drop(dtype: np.dtype) -> int:
    number = numba.from_dtype(dtype)
    return entry_point(_drop, (types.CPointer(number),) * 3 + (INDEX,) * 8 + (number,))


CORNER = (slice(1),) * 4
NO_KEY = np.zeros(2, np.int64)


def _is_readable(array: np.ndarray, rows_only: bool = True) -> bool:
    rows_are_contiguous = array.strides[-1] == array.itemsize or array.shape[-1] == 1 or not rows_only
    return array.flags.behaved and array.dtype.isnative and rows_are_contiguous


def _readable(array: np.ndarray, rows_only: bool = True) -> np.ndarray:
    """The array, or a copy if it is read-only, unaligned or byte-swapped, or has rows with gaps."""
    if _is_readable(array, rows_only):
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _broadcast_mask(mask, q):
    """(mask, strides): a readable mask of four axes, and its strides in bytes as if it were (B, H, Tq, Tk)."""
    if mask is None:
        return q, (0, 0, 0, 0)
    mask = _readable(mask.astype(q.dtype.newbyteorder("="), copy=False), rows_only=False)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape) if mask.ndim < 4 else mask
    return mask, tuple(0 if n == 1 else stride for n, stride in zip(mask.shape, mask.strides))


def _rows_of_rotation(rotation, q):
    """(rotation, strides): a readable rotation of four axes, and its strides in bytes as if it were (B, H, T, D)."""
    if rotation is None:
        return q, (0, 0, 0, 0)
    rotation = _readable(rotation)
    return rotation[None, None], (0, 0, *rotation.strides)


def _check(q, k, v, mask, rotation):
    if not (q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3]
            and k.shape == v.shape):
        raise ValueError(
            f"attention: expected q (B, H, Tq, D), k and v (B, H, Tk, D), got {q.shape}, {k.shape} and {v.shape}"
        )
    if not q.dtype == k.dtype == v.dtype or q.dtype.type not in (np.float32, np.float64):
        raise TypeError(f"attention: expected float32 or float64 throughout, got {q.dtype}, {k.dtype}, {v.dtype}")
    if mask is not None:
        wanted = (*q.shape[:3], k.shape[2])
        if mask.ndim > 4 or any(n not in (1, w) for n, w in zip(reversed(mask.shape), reversed(wanted))):
            raise ValueError(f"attention: mask {mask.shape} does not broadcast to (B, H, Tq, Tk) = {wanted}")
    if rotation is not None:
        T, D = max(q.shape[2], k.shape[2]), q.shape[3]
        if D % 2 or rotation.ndim != 2 or rotation.shape[1] != D or len(rotation) < T or rotation.dtype != q.dtype:
            raise ValueError(f"attention: expected a rotation (at least {T}, {D}) of {q.dtype}, for an even number of "
                             f"features, got {rotation.shape} of {rotation.dtype}")


@functools.lru_cache(maxsize=64)
def cuts(heads: int, blocks: int, threads: int, is_causal: bool) -> np.ndarray:
    """(threads + 1,): where the threads' portions of all blocks of queries begin and end, with equal work in each.

    In causal attention the blocks of a head cost ever more: half of the work is before 0.7 of the blocks.
    """
    found = np.empty(threads + 1, np.int64)
    for thread in range(threads + 1):
        head, part = divmod(thread * heads / threads, 1)
        found[thread] = head * blocks + round(blocks * (math.sqrt(part) if is_causal else part))
    return found


@functools.lru_cache(maxsize=64)
def _in_elements(itemsize: int, *strides: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The batch, the head, the row and the column strides of all arrays, those that are missing repeating the last."""
    return tuple(zip(*([n // itemsize for n in strides[min(i, len(strides) - 1)]] for i in range(ARRAYS))))


def _launch(portion, mask, rotation, is_causal, scale, dropout_p, key, q, k, v, out, logsumexp, *gradients):
    """Run a portion on all threads; the arrays are passed as corners, with strides beside them: one specialisation."""
    dtype = q.dtype
    B, H, Tq, D = q.shape
    Tk = k.shape[2]
    is_masked, is_rotated = mask is not None, rotation is not None
    mask, mask_strides = _broadcast_mask(mask, q)
    rotation, rotation_strides = _rows_of_rotation(rotation, q)
    corners = [x[CORNER] for x in (q, k, v, mask, rotation, out, logsumexp, *gradients)]
    corners += corners[-1:] * (ARRAYS - len(corners))  # forward has no gradients
    batch_strides, head_strides, row_strides, column_strides = _in_elements(
        dtype.itemsize, q.strides, k.strides, v.strides, mask_strides, rotation_strides,
        *(x.strides for x in (out, logsumexp, *gradients)),
    )
    blocks = 1 if gradients else -(-Tq // BLOCK)  # all queries of a head add to its dk and dv
    threads = 1 if B * H * Tq * Tk * D < ATTENTION_ON_THREADS else min(numba.get_num_threads(), B * H * blocks)
    row_size = -(-D // 16) * 16  # of packed features: whole vectors
    space = 2 * Tk * row_size + BLOCK * (4 * row_size + 2 * TILE + 3)  # what `_backward_portion` divides up
    drop, key = (_machine_code_of_drop(dtype), key) if dropout_p > 0 else (0, NO_KEY)
    threshold, keep_scale = threshold_and_scale(dropout_p, dtype)
    # One thread needs no turn, and no microseconds at the gate, which corners pass anyway.
    launch = _on_threads.ungated if threads == 1 else _on_threads
    launch(
        _machine_code(portion, dtype), *corners, batch_strides, head_strides, row_strides,
        (H, Tq, Tk, D, row_size, blocks, int(is_masked), column_strides[3], int(is_causal), int(is_rotated)),
        dtype.type(scale), drop, key, threshold, keep_scale, cuts(B * H, blocks, threads, is_causal), space,
        workspace("attention", threads * space, dtype), gemm_workspaces(dtype),
    )


def attention_forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float,
    rotation: np.ndarray | None = None, dropout_p: float = 0.0, key: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """out = dropout(softmax(q @ k^T * scale + mask)) @ v and the logsumexp of the scores.

    q (B, H, Tq, D), k and v (B, H, Tk, D) at any strides with contiguous rows; mask: None, or floats that broadcast to
    (B, H, Tq, Tk); rotation: None, or cosines and sines in turn (at least Tq and Tk, D), by which pairs of features of
    the queries and keys are turned first. Causal: query i sees the keys 0 to i. out (B, H, Tq, D) lies in memory as
    (B, Tq, H, D) if q does, as heads that were split from rows; logsumexp (B, H, Tq). A row in which everything is masked
    gives zeros. Weights are dropped with probability dropout_p: see dropout.py, with a key (2,).
    """
    _check(q, k, v, mask, rotation)
    B, H, Tq, D = q.shape
    is_split = _is_readable(q) and 0 < q.strides[1] < q.strides[2]
    q, k, v = _readable(q), _readable(k), _readable(v)
    out = empty((B, Tq, H, D), q.dtype).swapaxes(1, 2) if is_split else empty(q.shape, q.dtype)
    logsumexp = empty((B, H, Tq), q.dtype)
    if q.size == 0 or k.size == 0:
        out[...], logsumexp[...] = 0, -np.inf
        return out, logsumexp
    _launch(_forward_portion, mask, rotation, is_causal, scale, dropout_p, key, q, k, v, out, logsumexp[..., None])
    return out, logsumexp


def attention_backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float,
    out: np.ndarray, logsumexp: np.ndarray, dout: np.ndarray, dq: np.ndarray, dk: np.ndarray, dv: np.ndarray,
    rotation: np.ndarray | None = None, dropout_p: float = 0.0, key: np.ndarray | None = None,
) -> None:
    """The gradients of `attention_forward`, written into dq, dk, dv, of the shapes of q, k, v and any strides."""
    _check(q, k, v, mask, rotation)
    gradients = dq, dk, dv
    if q.size == 0 or k.size == 0:
        for gradient in gradients:
            gradient[...] = 0
        return
    written = [x if _is_readable(x) else np.empty(x.shape, q.dtype.newbyteorder("=")) for x in gradients]
    q, k, v, out, dout = map(_readable, (q, k, v, out, dout))
    _launch(_backward_portion, mask, rotation, is_causal, scale, dropout_p, key, q, k, v, out, logsumexp[..., None], dout,
            *written)
    for gradient, result in zip(gradients, written):
        if gradient is not result:
            gradient[...] = result
