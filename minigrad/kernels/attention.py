"""Scaled dot-product attention that holds no (Tq, Tk) array. For one head, in NumPy:

    scores = q @ k.T * scale + mask, -inf where masked       (Tq, Tk)
    weights = exp(scores - logsumexp(scores, axis=1))        (Tq, Tk)
    out = weights @ v                                        (Tq, D)

    dv = weights.T @ dout
    dweights = dout @ v.T
    dscores = weights * (dweights - sum(out * dout, axis=1)) * scale
    dq = dscores @ k,  dk = dscores.T @ q

The same lines are computed for blocks of BLOCK queries against the keys that they see: nothing right of the block on
the diagonal. Forward saves the logsumexp of each row; backward computes the weights again from it. A thread takes whole
heads, with memory linear in the keys: k and v packed once a head, and a block of scores.
"""
import numba
import numpy as np

from .buffers import empty, workspace
from .gemm import ACCUMULATE, B_IN_PLACE, WORKSPACE, gemm, gemm_workspaces, register
from .jit import jit, kernel
from .microkernel import shape, transpose_square
from .parallel import WORTH_A_THREAD, parallel_for
from .simd import constant_like, exp, inlined, log, pointer, row_max, shift

BLOCK = 48  # queries: 8 tiles of 6 rows
SERIAL_BELOW = 100_000  # multiply-adds of one product


def _row_sizes(keys: int, size: int) -> tuple[int, int]:
    """Elements of a row of keys and of a row of features in the workspace: whole vectors, no power of two of keys."""
    return -(-keys // 16) * 16 + 16, -(-size // 16) * 16


@inlined
def _pack_transposed(source, row_source, rows, columns, target, row_target, factor):
    """target[c, r] = source[r, c] * factor"""
    lanes, _, _ = shape(source)
    for r in range(0, rows, lanes):
        for c in range(0, columns, lanes):
            square, transposed = shift(source, r * row_source + c), shift(target, c * row_target + r)
            transpose_square(square, row_source, min(lanes, rows - r), min(lanes, columns - c), transposed, row_target)
    for c in range(columns):
        row = shift(target, c * row_target)
        for r in range(rows):
            row[r] *= factor


@inlined
def _pack(source, row_source, first, last, columns, target, row_target):
    """target[r] = source[r] for rows from first to last"""
    for r in range(first, last):
        row, packed = shift(source, r * row_source), shift(target, r * row_target)
        for c in range(columns):
            packed[c] = row[c]


@inlined
def _fill(target, row_target, first, last, columns):
    """target[r] = 0 for rows from first to last"""
    for r in range(first, last):
        row = shift(target, r * row_target)
        for c in range(columns):
            row[c] = constant_like(target, 0)


@inlined
def _all_finite(x, row_x, first, last, columns):
    total = constant_like(x, 0)
    for r in range(first, last):
        row = shift(x, r * row_x)
        for c in range(columns):
            total += row[c] * constant_like(x, 0)  # NaN if the element is NaN or infinite
    return total == 0


@inlined
def _weighted_sum(weights, row_weights, first, rows, keys, is_causal, x, row_x, packed, row_packed, out, row_out, size,
                  work):
    """out = weights @ x, for a block of queries from `first` on; `packed` is the copy of x that is multiplied.

    The block on the diagonal has weights of zero, and zero times NaN is NaN. If x is not finite there, the rows go one
    by one, from the last up, and what has become the future is blanked in the copy. Finite rows get the same bits.
    """
    if not is_causal or _all_finite(packed, row_packed, min(first, keys), keys, size):
        gemm(weights, row_weights, 1, packed, row_packed, 1, out, row_out, rows, size, keys, out, B_IN_PLACE, work)
        return
    for r in range(rows - 1, -1, -1):
        _fill(packed, row_packed, min(first + r + 1, keys), keys, size)
        gemm(shift(weights, r * row_weights), row_weights, 1, packed, row_packed, 1, shift(out, r * row_out), row_out,
             1, size, keys, out, B_IN_PLACE, work)
    _pack(x, row_x, min(first, keys), keys, size, packed, row_packed)


@inlined
def _add_mask(scores, mask, stride, keys):
    for j in range(keys):
        scores[j] += mask[j * stride]


@inlined
def _exponentials(scores, keys, seen):
    """Turn a row of scores into exp(score - largest), zero from `seen` on; return (1 / sum, logsumexp).

    A row without anything to see has sum 0; its weights become zeros, and its logsumexp is -inf.
    """
    largest = row_max(scores, seen)
    largest = largest if largest > constant_like(scores, -np.inf) else constant_like(scores, 0)
    total = constant_like(scores, 0)
    for j in range(seen):
        e = exp(scores[j] - largest)
        scores[j] = e
        total += e
    for j in range(seen, keys):
        scores[j] = constant_like(scores, 0)
    inverse = constant_like(scores, 1) / total if total != 0 else constant_like(scores, 0)
    return inverse, largest + log(total)


@jit
def _head_forward(q, row_q, k, row_k, v, row_v, mask, row_mask, column_mask, is_masked, is_causal, scale, out, row_out,
                  logsumexp, Tq, Tk, D, row_keys, row_size, space, work):
    k_transposed, values = space, shift(space, row_size * row_keys)
    scores = shift(values, Tk * row_size)
    _pack_transposed(k, row_k, Tk, D, k_transposed, row_keys, scale)
    _pack(v, row_v, 0, Tk, D, values, row_size)
    for first in range(0, Tq, BLOCK):
        rows = min(BLOCK, Tq - first)
        keys = min(Tk, first + rows) if is_causal else Tk
        out_block = shift(out, first * row_out)
        # 1. scores = q @ k.T * scale + mask
        gemm(shift(q, first * row_q), row_q, 1, k_transposed, row_keys, 1, scores, row_keys, rows, keys, D, scores,
             B_IN_PLACE, work)
        # 2. weights = softmax(scores), not yet divided by the sums
        for r in range(rows):
            i, row = first + r, shift(scores, r * row_keys)
            seen = min(Tk, i + 1) if is_causal else Tk
            if is_masked:
                _add_mask(row, shift(mask, i * row_mask), column_mask, seen)
            row[row_keys - 1], logsumexp[i] = _exponentials(row, keys, seen)
        # 3. out = weights @ v
        _weighted_sum(scores, row_keys, first, rows, keys, is_causal, v, row_v, values, row_size, out_block, row_out,
                      D, work)
        for r in range(rows):
            row, inverse = shift(out_block, r * row_out), scores[r * row_keys + row_keys - 1]
            for c in range(D):
                row[c] *= inverse


@inlined
def _scores_backward(scores, dscores, keys, seen, logsumexp, delta, scale):
    """Turn rows of scores and of dweights into the weights and dscores; zeros for what is masked."""
    if logsumexp == constant_like(scores, -np.inf):
        seen = 0
    for j in range(seen):
        weight = exp(scores[j] - logsumexp)
        scores[j] = weight
        dscores[j] = weight * (dscores[j] - delta) * scale
    for j in range(seen, keys):
        scores[j] = dscores[j] = constant_like(scores, 0)


@inlined
def _dot(x, y, count):
    total = constant_like(x, 0)
    for c in range(count):
        total += x[c] * y[c]
    return total


@jit
def _head_backward(q, row_q, k, row_k, v, row_v, mask, row_mask, column_mask, is_masked, is_causal, scale, out, row_out,
                   logsumexp, dout, row_dout, dq, row_dq, dk, row_dk, dv, row_dv, Tq, Tk, D, row_keys, row_size, space,
                   work):
    """The passes of `_head_forward` again and then backwards; 3., 2., 1. stand for the line that is differentiated."""
    k_transposed, v_transposed = space, shift(space, row_size * row_keys)
    keys_packed = shift(v_transposed, row_size * row_keys)
    scores = shift(keys_packed, Tk * row_size)
    dscores = shift(scores, BLOCK * row_keys)
    _pack_transposed(k, row_k, Tk, D, k_transposed, row_keys, scale)
    _pack_transposed(v, row_v, Tk, D, v_transposed, row_keys, constant_like(v, 1))
    _pack(k, row_k, 0, Tk, D, keys_packed, row_size)
    # From the last block up: it sees the most keys, and writes their dk and dv; the others add to them.
    flags = 0
    for first in range((Tq - 1) // BLOCK * BLOCK, -1, -BLOCK):
        rows = min(BLOCK, Tq - first)
        keys = min(Tk, first + rows) if is_causal else Tk
        q_block, out_block = shift(q, first * row_q), shift(out, first * row_out)
        dout_block = shift(dout, first * row_dout)
        if flags == 0:
            _fill(dk, row_dk, keys, Tk, D)
            _fill(dv, row_dv, keys, Tk, D)
        gemm(q_block, row_q, 1, k_transposed, row_keys, 1, scores, row_keys, rows, keys, D, scores, B_IN_PLACE, work)
        # 3. dweights = dout @ v.T
        gemm(dout_block, row_dout, 1, v_transposed, row_keys, 1, dscores, row_keys, rows, keys, D, scores, B_IN_PLACE,
             work)
        # 2. weights = exp(scores - logsumexp);  dscores = weights * (dweights - sum(out * dout)) * scale
        for r in range(rows):
            i, row = first + r, shift(scores, r * row_keys)
            seen = min(Tk, i + 1) if is_causal else Tk
            if is_masked:
                _add_mask(row, shift(mask, i * row_mask), column_mask, seen)
            delta = _dot(shift(out_block, r * row_out), shift(dout_block, r * row_dout), D)
            _scores_backward(row, shift(dscores, r * row_keys), keys, seen, logsumexp[i], delta, scale)
        # 3. dv += weights.T @ dout
        gemm(scores, 1, row_keys, dout_block, row_dout, 1, dv, row_dv, keys, D, rows, dv, flags, work)
        # 1. dq = dscores @ k;  dk += dscores.T @ q
        _weighted_sum(dscores, row_keys, first, rows, keys, is_causal, k, row_k, keys_packed, row_size,
                      shift(dq, first * row_dq), row_dq, D, work)
        gemm(dscores, 1, row_keys, q_block, row_q, 1, dk, row_dk, keys, D, rows, dk, flags, work)
        flags = ACCUMULATE


@inlined
def _head(array, strides, item, heads):
    """Where head `item` of the batch begins, for an array of given (batch, head, row) strides."""
    return shift(pointer(array, 0), item // heads * strides[0] + item % heads * strides[1])


@jit
def _forward_part(part, q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, strides, sizes, threads, spaces, works):
    B, H, Tq, Tk, D, row_keys, row_size = sizes
    space = len(spaces) // threads // 16 * 16
    for item in range(part * B * H // threads, (part + 1) * B * H // threads):
        _head_forward(
            _head(q, strides[0], item, H), strides[0, 2], _head(k, strides[1], item, H), strides[1, 2],
            _head(v, strides[2], item, H), strides[2, 2], _head(mask, strides[3], item, H), strides[3, 2],
            column_mask, is_masked, is_causal, scale, _head(out, strides[4], item, H), strides[4, 2],
            pointer(logsumexp, item * Tq), Tq, Tk, D, row_keys, row_size,
            pointer(spaces, part * space), pointer(works, part * WORKSPACE),
        )


@kernel(parallel=True)
def _forward(q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, strides, sizes, threads, spaces, works):
    """strides (5, 3) of q, k, v, mask, out: batch, head, row; sizes (B, H, Tq, Tk, D, row_keys, row_size)"""
    parallel_for(_forward_part, threads, WORTH_A_THREAD, (q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, strides, sizes, threads, spaces, works))


@jit
def _backward_part(part, q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, dout, dq, dk, dv, strides, sizes, threads, spaces, works):
    B, H, Tq, Tk, D, row_keys, row_size = sizes
    space = len(spaces) // threads // 16 * 16
    for item in range(part * B * H // threads, (part + 1) * B * H // threads):
        _head_backward(
            _head(q, strides[0], item, H), strides[0, 2], _head(k, strides[1], item, H), strides[1, 2],
            _head(v, strides[2], item, H), strides[2, 2], _head(mask, strides[3], item, H), strides[3, 2],
            column_mask, is_masked, is_causal, scale, _head(out, strides[4], item, H), strides[4, 2],
            pointer(logsumexp, item * Tq), _head(dout, strides[5], item, H), strides[5, 2],
            _head(dq, strides[6], item, H), strides[6, 2], _head(dk, strides[7], item, H), strides[7, 2],
            _head(dv, strides[8], item, H), strides[8, 2], Tq, Tk, D, row_keys, row_size,
            pointer(spaces, part * space), pointer(works, part * WORKSPACE),
        )


@kernel(parallel=True)
def _backward(q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, dout, dq, dk, dv, strides, sizes, threads, spaces, works):
    """strides (9, 3) of q, k, v, mask, out, dout, dq, dk, dv: batch, head, row; sizes as in `_forward`"""
    parallel_for(_backward_part, threads, WORTH_A_THREAD, (q, k, v, mask, is_masked, column_mask, is_causal, scale, out, logsumexp, dout, dq, dk, dv, strides, sizes, threads, spaces, works))


CORNER = (slice(1),) * 4


def _is_readable(array: np.ndarray, rows_only: bool = True) -> bool:
    rows_are_contiguous = array.strides[-1] == array.itemsize or array.shape[-1] == 1 or not rows_only
    return array.flags.behaved and array.dtype.isnative and rows_are_contiguous


def _readable(array: np.ndarray, rows_only: bool = True) -> np.ndarray:
    """The array, or a copy if it is read-only, unaligned or byte-swapped, or has rows with gaps."""
    if _is_readable(array, rows_only):
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _strides(*arrays: np.ndarray) -> np.ndarray:
    return np.array([[stride // array.itemsize for stride in array.strides[:3]] for array in arrays], np.int64)


def _broadcast_mask(mask, q, k):
    """(mask, strides): a readable mask of four axes, and its strides in elements as if it were (B, H, Tq, Tk)."""
    if mask is None:
        return q, (0, 0, 0, 0)
    mask = _readable(mask.astype(q.dtype.newbyteorder("="), copy=False), rows_only=False)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape) if mask.ndim < 4 else mask
    return mask, tuple(0 if n == 1 else stride // mask.itemsize for n, stride in zip(mask.shape, mask.strides))


def _check(q, k, v, mask):
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


def _launch(launch, arrays, mask, is_causal, scale, logsumexp, keep_per_thread):
    """Call a kernel with q, k, v, out and the gradients; arrays are passed as corners, with strides beside them."""
    q, k, v, out, *gradients = arrays
    dtype = q.dtype
    B, H, Tq, D = q.shape
    Tk = k.shape[2]
    row_keys, row_size = _row_sizes(Tk, D)
    threads = 1 if B * H * Tq * Tk * D < SERIAL_BELOW else min(numba.get_num_threads(), B * H)
    is_masked = mask is not None
    mask, mask_strides = _broadcast_mask(mask, q, k)
    strides = _strides(q, k, v, mask, out, *gradients)
    strides[3] = mask_strides[:3]
    register(dtype)
    total = threads * keep_per_thread(Tk, row_keys, row_size)
    launch(
        q[CORNER], k[CORNER], v[CORNER], mask[CORNER], is_masked, mask_strides[3], bool(is_causal), dtype.type(scale),
        out[CORNER], logsumexp, *(x[CORNER] for x in gradients), strides, (B, H, Tq, Tk, D, row_keys, row_size),
        threads, workspace("attention", total, dtype)[:total], gemm_workspaces(dtype),
    )


def attention_forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """out = softmax(q @ k^T * scale + mask) @ v and the logsumexp of the scores.

    q (B, H, Tq, D), k and v (B, H, Tk, D) at any strides with contiguous rows; mask: None, or floats that broadcast to
    (B, H, Tq, Tk). Causal: query i sees the keys 0 to i. out (B, H, Tq, D) lies in memory as (B, Tq, H, D);
    logsumexp (B, H, Tq). A row in which everything is masked gives zeros.
    """
    _check(q, k, v, mask)
    q, k, v = _readable(q), _readable(k), _readable(v)
    B, H, Tq, D = q.shape
    out = empty((B, Tq, H, D), q.dtype).swapaxes(1, 2)
    logsumexp = empty((B, H, Tq), q.dtype)
    if q.size == 0 or k.size == 0:
        out[...], logsumexp[...] = 0, -np.inf
        return out, logsumexp
    _launch(_forward, (q, k, v, out), mask, is_causal, scale, logsumexp,
            lambda Tk, row_keys, row_size: row_size * row_keys + Tk * row_size + BLOCK * row_keys)
    return out, logsumexp


def attention_backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float,
    out: np.ndarray, logsumexp: np.ndarray, dout: np.ndarray, dq: np.ndarray, dk: np.ndarray, dv: np.ndarray,
) -> None:
    """The gradients of `attention_forward`, written into dq, dk, dv, of the shapes of q, k, v and any strides."""
    _check(q, k, v, mask)
    gradients = dq, dk, dv
    if q.size == 0 or k.size == 0:
        for gradient in gradients:
            gradient[...] = 0
        return
    written = [x if _is_readable(x) else np.empty(x.shape, q.dtype.newbyteorder("=")) for x in gradients]
    _launch(_backward, (*map(_readable, (q, k, v, out, dout)), *written), mask, is_causal, scale, logsumexp,
            lambda Tk, row_keys, row_size: 2 * row_size * row_keys + Tk * row_size + 2 * BLOCK * row_keys)
    for gradient, result in zip(gradients, written):
        if gradient is not result:
            gradient[...] = result
