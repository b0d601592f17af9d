"""New tokens through a whole causal transformer in one call, with the keys and values of the tokens before them cached.

For one sequence, in NumPy's notation, with LN for layer norm and W (out, in):

    x = token_embedding[tokens] + position_embedding[start : start + T]             (T, C)
    for each block:
        q, k, v = LN(x) @ W_packed.T + b_packed, split in three                     (T, C), as H heads of size D
        keys[start : start + T], values[start : start + T] = k, v
        x += attention(q, keys, values) @ W_out.T + b_out                           token t sees the keys 0 to start + t
        x += gelu(LN(x) @ W_expand.T + b_expand) @ W_project.T + b_project
    logits = LN(x[-1]) @ token_embedding.T                                          (V,)

With one new token these are products of a vector and a matrix, and the time is that of reading all weights from memory.
They stay where they are, in a table of addresses, and are read once, row by row. A block is five steps, and the threads
share each step: pieces of W's rows, or heads. Every sum has one order, so no result depends on the number of threads.
"""
import math

import numba
import numpy as np

from .buffers import empty
from .elementwise import gelu_values
from .gemm import ACCUMULATE, ADD_BIAS, WORKSPACE, bounds, gemm, gemm_workspaces, register
from .jit import jit, kernel
from .layer_norm import layer_norm_row
from .parallel import WORTH_A_THREAD, parallel_for
from .simd import constant_like, inlined, pointer, pointer_like, shift
from .softmax import softmax_row

# The columns of the tables of addresses.
TOKEN_EMBEDDING, POSITION_EMBEDDING, LN_F_WEIGHT, LN_F_BIAS = range(4)
(LN_1_WEIGHT, LN_1_BIAS, PACKED_WEIGHT, PACKED_BIAS, OUT_WEIGHT, OUT_BIAS,
 LN_2_WEIGHT, LN_2_BIAS, EXPAND_WEIGHT, EXPAND_BIAS, PROJECT_WEIGHT, PROJECT_BIAS) = range(12)

PACK, ATTEND, MERGE, EXPAND, PROJECT, READ_OUT = range(6)  # the five steps of a block, and the last one
PIECE = 64  # rows of W that one thread takes
QUERIES = 48  # of a long prompt that attend at a time
PARALLEL_FROM = 120_000  # see `decode`


@jit
def _layer_norms(x, row_x, weight, bias, eps, out, rows, C):
    for row in range(rows):
        layer_norm_row(shift(x, row * row_x), weight, bias, shift(out, row * C), C, eps)


@inlined
def _product(x, W, bias, out, rows, N, K, flags, first, end, work):
    """Columns first to end of out = [out +] x @ W.T [+ bias], for x (rows, K), W (N, K), bias (N,), out (rows, N)."""
    if first < end:
        gemm(x, K, 1, shift(W, first * K), 1, K, shift(out, first), N, rows, end - first, K, shift(bias, first), flags,
             work)


@inlined
def _gelus(x, out, rows, N, first, end):
    """Columns first to end of out = gelu(x), both (rows, N), in pieces: then the last bits don't depend on the cut."""
    for row in range(rows):
        for piece in range(first, end, PIECE):
            count = min(PIECE, end - piece)
            gelu_values(shift(x, row * N + piece), shift(out, row * N + piece), count, False)


@inlined
def _append(packed, keys, values, T, C, D, scale):
    """keys, values (T, D) = those in packed (T, 3C); the queries there are multiplied by the scale of the scores."""
    for t in range(T):
        q, key, value = shift(packed, 3 * t * C), shift(keys, t * D), shift(values, t * D)
        for c in range(D):
            q[c], key[c], value[c] = scale * q[c], q[C + c], q[2 * C + c]


@inlined
def _attend(packed, keys, values, out, start, T, C, D, scores, work):
    """One head of attention: out (T, D) for queries in packed (T, 3C), each to the keys up to its own position."""
    for first in range(0, T, QUERIES):
        rows = min(QUERIES, T - first)
        seen = start + first + rows  # by the last of them
        weights = shift(scores, rows * seen)
        gemm(shift(packed, 3 * first * C), 3 * C, 1, keys, 1, D, scores, seen, rows, seen, D, scores, 0, work)
        for r in range(rows):
            past, row = seen - rows + r + 1, shift(weights, r * seen)
            softmax_row(shift(scores, r * seen), row, past)
            for future in range(past, seen):
                row[future] = constant_like(row, 0)
        gemm(weights, seen, 1, values, D, 1, shift(out, first * C), C, rows, D, seen, scores, 0, work)


@jit
def _do_part(part, parts, step, start, T, V, ends, block, keys, values, space, scores, logits, works):
    """One of the parts of a step, for the block with these addresses and caches (B, H, context, D)."""
    B, H, context, D = keys.shape
    C, rows = H * D, B * T
    work = pointer(works, part * WORKSPACE)
    x = pointer(space, 0)
    normal = shift(x, rows * C)  # x after a layer norm, and then the heads side by side
    wide = shift(normal, rows * C)  # what the projections to 3C and 4C make
    activated = shift(wide, 4 * rows * C)
    if step == PACK:
        first, end = bounds(3 * C, PIECE, part, parts)
        W, bias = pointer_like(x, block[PACKED_WEIGHT]), pointer_like(x, block[PACKED_BIAS])
        _product(normal, W, bias, wide, rows, 3 * C, C, ADD_BIAS, first, end, work)
    elif step == ATTEND:
        first, end = bounds(B * H, 1, part, parts)
        for item in range(first, end):
            packed = shift(wide, item // H * T * 3 * C + item % H * D)
            out = shift(normal, item // H * T * C + item % H * D)
            own_keys, own_values = pointer(keys, item * context * D), pointer(values, item * context * D)
            _append(packed, shift(own_keys, start * D), shift(own_values, start * D), T, C, D,
                    constant_like(x, 1 / math.sqrt(D)))
            _attend(packed, own_keys, own_values, out, start, T, C, D, pointer(scores, part * scores.shape[1]), work)
    elif step == MERGE:
        first, end = bounds(C, PIECE, part, parts)
        W, bias = pointer_like(x, block[OUT_WEIGHT]), pointer_like(x, block[OUT_BIAS])
        _product(normal, W, bias, x, rows, C, C, ADD_BIAS | ACCUMULATE, first, end, work)
    elif step == EXPAND:
        first, end = bounds(4 * C, PIECE, part, parts)
        W, bias = pointer_like(x, block[EXPAND_WEIGHT]), pointer_like(x, block[EXPAND_BIAS])
        _product(normal, W, bias, wide, rows, 4 * C, C, ADD_BIAS, first, end, work)
        _gelus(wide, activated, rows, 4 * C, first, end)
    elif step == PROJECT:
        first, end = bounds(C, PIECE, part, parts)
        W, bias = pointer_like(x, block[PROJECT_WEIGHT]), pointer_like(x, block[PROJECT_BIAS])
        _product(activated, W, bias, x, rows, C, 4 * C, ADD_BIAS | ACCUMULATE, first, end, work)
    else:
        first, end = bounds(V, PIECE, part, parts)
        W = pointer_like(x, ends[TOKEN_EMBEDDING])
        _product(normal, W, W, pointer(logits, 0), B, V, C, 0, first, end, work)


@kernel(parallel=True)
def _decode(tokens, start, ends, blocks, eps, keys, values, space, scores, logits, works, threads):
    """See `decode`; space (10 B T C,) holds all that is not kept, scores (threads, 2 min(T, QUERIES) context)."""
    B, T = tokens.shape
    L, _, H, _, D = keys.shape
    C, V = H * D, logits.shape[1]
    x = pointer(space, 0)
    normal = shift(x, B * T * C)
    for b in range(B):
        for t in range(T):
            token = pointer_like(x, ends[TOKEN_EMBEDDING] + tokens[b, t] * C * space.itemsize)
            position = pointer_like(x, ends[POSITION_EMBEDDING] + (start + t) * C * space.itemsize)
            row = shift(x, (b * T + t) * C)
            for c in range(C):
                row[c] = token[c] + position[c]
    for number in range(READ_OUT * L + 1):
        layer, step = number // READ_OUT, number % READ_OUT
        if number == READ_OUT * L:
            layer, step = L - 1, READ_OUT
            weight, bias = pointer_like(x, ends[LN_F_WEIGHT]), pointer_like(x, ends[LN_F_BIAS])
            _layer_norms(shift(x, (T - 1) * C), T * C, weight, bias, eps[2 * L], normal, B, C)
        elif step == PACK:
            weight, bias = pointer_like(x, blocks[layer, LN_1_WEIGHT]), pointer_like(x, blocks[layer, LN_1_BIAS])
            _layer_norms(x, C, weight, bias, eps[2 * layer], normal, B * T, C)
        elif step == EXPAND:
            weight, bias = pointer_like(x, blocks[layer, LN_2_WEIGHT]), pointer_like(x, blocks[layer, LN_2_BIAS])
            _layer_norms(x, C, weight, bias, eps[2 * layer + 1], normal, B * T, C)
        parallel_for(_do_part, threads, WORTH_A_THREAD, (
            threads, step, start, T, V, ends, blocks[layer], keys[layer], values[layer], space, scores, logits, works
        ))


def decode(tokens: np.ndarray, start: int, vocabulary_size: int, ends: np.ndarray, blocks: np.ndarray,
           eps: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Logits (B, V) after the tokens (B, T), int64, which stand at the positions start to start + T - 1 < context.

    ends (4,) and blocks (L, 12) are the addresses of all parameters, each `ready` and in the dtype of the caches; for a
    bias that does not exist, the address of 4C zeros. eps (2L + 1,) of the layer norms, in order. keys and values
    (L, B, H, context, D) hold the tokens before `start`, and are given the new ones. Nothing is checked.
    """
    (B, T), (_, _, H, context, D), dtype = tokens.shape, keys.shape, keys.dtype
    C = H * D
    # About how long a step takes: reading a matrix from memory costs as much as multiplying it with one vector more.
    # Waking the other threads costs 1 to 3 us a step, which nano (a token at a time) would not earn, but small does.
    threads = 1 if (B * T + 1) * C * C < PARALLEL_FROM else numba.get_num_threads()
    register(dtype)
    logits = empty((B, vocabulary_size), dtype)
    _decode(tokens, start, ends, blocks, eps, keys, values, empty((10 * B * T * C,), dtype),
            empty((threads, 2 * min(T, QUERIES) * context), dtype), logits, gemm_workspaces(dtype), threads)
    return logits
