"""The matrix product: C = [C +] A @ B [+ bias], in float32 and float64, at any strides with one stride of 1.

Three levels:
1. tiles of C in registers (microkernel.py);
2. `_multiply_serial`: blocks that fit the caches. Panels of B (at most 384 rows, one tile wide), a block of A and one of C
   stay in L2: with flatter panels there are more passes over C, and tiles read L2 as fast as they multiply. B is packed
   panel by panel, A only if it is transposed and wide; tiles do both as they go;
3. `_multiply_batch`: a batch of products, divided among the threads by items or by rows and columns of C.

Each element of C is summed in the same order wherever the cuts fall, so no result depends on the number of threads.

Numba inlines and optimises a callee again in every caller, so level 2 is compiled once per dtype as a separate library, and
other kernels call it as an external function by its symbol: see `gemm` and `register`.
"""
import functools
from collections.abc import Callable

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types

from ..pool import empty, own
from .buffers import workspace
from .internals import entry_point
from .jit import jit, kernel, library, ready, resolved
from .matrix import (
    ACCUMULATE, ADD_BIAS, ADDRESS, BLOCK_ROWS, PACKED, PACKED_B, STRIP_COLUMNS, WORKSPACE, Matrix, Operand, Sum, at,
    depth_of_panels, signature_of_product, source_of, sum_at,
)
from .microkernel import (
    PACKS_A, PACKS_B, UNROLLED, copy_vector, dot_products, multiply_tile, panel_depth, shape, transpose_square,
)
from .parallel import available_threads, parallel_for
from .simd import address, call_by_name, constant, instructions, pointer, shift
from .thresholds import PRODUCT_ON_THREADS, TINY_BATCH, WORTH_A_THREAD

STAYS, TO_PACK, IS_PACKED = 0, 1, 2  # a block of A or a panel of B
SHARED_LINE = 60  # cycles, if two threads write to it


@jit
def _pack(X, rows, columns, packed):
    """packed[i, j] = X[i, j], rows padded with zeros to whole vectors; one of X's strides is 1."""
    lanes, _, _ = shape(X.start)
    width = -(-columns // lanes) * lanes
    for j in range(0, columns, lanes):
        count = min(lanes, columns - j)
        if X.column == 1:
            for i in range(rows):
                copy_vector(at(X, i, j).start, shift(packed, i * width + j), count, 1)
        else:
            for i in range(0, rows, lanes):
                target = shift(packed, i * width + j)
                transpose_square(at(X, i, j).start, X.column, count, min(lanes, rows - i), target, width)


@jit
def _multiply_panel(A, B, C, rows, columns, depth, ahead, columns_ahead):
    """A block of rows of A times a panel of B, one tile wide. The first tile packs B if its state is PACKS_B.

    A transposed A is packed in strips of whole vectors and whole tiles, [strip][k][row]: 48 rows in AVX-512, fewer in the
    last one. The first tile of a strip packs it.

    What will be packed next, (depth, columns_ahead) at `ahead`, is prefetched: each tile fetches a quarter of the columns
    of two vectors, one row in each round of its loop.
    """
    lanes, tile_rows, tile_vectors = shape(C.matrix.start)
    vectors, strip = -(-columns // lanes), lanes * tile_rows // 2
    rounds, row_fetched, column_fetched = depth // UNROLLED, 0, 0
    for i in range(0, rows, tile_rows):
        own_a, packs_a = at(A.matrix, i, 0), 0
        first = i // strip * strip
        width, packed_strip = min(strip, rows - first), shift(A.packed, first * depth)
        if A.state == TO_PACK and i == first and width == strip and vectors == tile_vectors:
            packs_a = PACKS_A
        elif A.state != STAYS:
            if A.state == TO_PACK and i == first:
                _pack(Matrix(own_a.start, A.matrix.column, 1), depth, width, packed_strip)
            own_a = Matrix(shift(packed_strip, i - first), 1, -(-width // lanes) * lanes)
        multiply_tile(min(tile_rows, rows - i), vectors, depth, columns, Operand(own_a, packs_a, packed_strip), B,
                      sum_at(C, i, 0), at(ahead, row_fetched, column_fetched))
        if packs_a + B.state == 0 and ahead.row != 0:
            row_fetched += rounds
            if row_fetched + rounds > depth:
                row_fetched, column_fetched = 0, column_fetched + 2 * lanes
                if column_fetched >= columns_ahead:
                    ahead, column_fetched = Matrix(ahead.start, 0, 1), 0
        if B.state == PACKS_B:
            B = Operand(Matrix(B.packed, vectors * lanes, 1), 0, B.packed)


@jit
def _multiply_block(A, next_a, next_rows, B, ragged_state, C, rows, columns, depth):
    """A block of rows of A times a strip of B, panel by panel; the first one packs A if necessary. `next_a` is packed next;
    `ragged_state` is the state of B's last panel if it ends within a vector."""
    lanes, tile_rows, tile_vectors = shape(C.matrix.start)
    tile_columns = lanes * tile_vectors
    for j in range(0, columns, tile_columns):
        n = min(tile_columns, columns - j)
        panel, packed, packs_b = at(B.matrix, 0, j), shift(B.packed, j * depth), 0
        state = B.state if n % lanes == 0 else ragged_state
        if state == TO_PACK and B.matrix.column == 1 and n == tile_columns and rows >= tile_rows:
            packs_b = PACKS_B
        elif state != STAYS:
            if state == TO_PACK:
                _pack(panel, depth, n, packed)
            panel = Matrix(packed, -(-n // lanes) * lanes, 1)
        ahead, columns_ahead = Matrix(next_a.start, 0, 1), next_rows
        if j + tile_columns < columns:
            if B.state == TO_PACK and B.matrix.column == 1:
                ahead, columns_ahead = at(B.matrix, 0, j + tile_columns), tile_columns
        elif A.state != STAYS and next_rows > 0:
            ahead = Matrix(next_a.start, next_a.column, 1)
        own_a = Operand(A.matrix, IS_PACKED if A.state == TO_PACK and j > 0 else A.state, A.packed)
        _multiply_panel(own_a, Operand(panel, packs_b, packed), sum_at(C, 0, j), rows, n, depth, ahead, columns_ahead)


@jit
def multiply_few_rows(A, B, C, M, N, K, bias, flags):
    """Rows of A times a transposed B, as dot products."""
    lanes, _, _ = shape(C.start)
    for j in range(0, N, lanes):
        for i in range(M):
            dot_products(at(A, i, 0).start, K, at(B, 0, j).start, B.column, min(lanes, N - j), at(C, i, j).start,
                         shift(bias, j), flags & ADD_BIAS != 0, flags & ACCUMULATE != 0)


@library
def _multiply_serial(A, B, C, M, N, K, bias, flags, workspace):
    """C[0:M, 0:N] = [C +] A[0:M, 0:K] @ B[0:K, 0:N] [+ bias], for matrices as plain tuples.

    A and B each have a stride of 1, and the column stride of C is 1. M, N, K >= 1. The workspace has WORKSPACE elements,
    aligned to 64 bytes.
    """
    A, B, C = Matrix(A[0], A[1], A[2]), Matrix(B[0], B[1], B[2]), Matrix(C[0], C[1], 1)
    lanes, tile_rows, tile_vectors = shape(A.start)
    tile_columns = lanes * tile_vectors
    if B.column != 1 and A.column == 1 and M < tile_rows:  # transposing B would take longer than the product
        multiply_few_rows(A, B, C, M, N, K, bias, flags)
        return
    first_source = source_of(C, M, N, bias, flags)

    # Tiles read whole vectors. They may read past B's last column if vectors are aligned and so lie in one page of memory.
    aligned = B.row % lanes == 0 and address(B.start) % 64 == 0
    ragged_b_stays = B.column == 1 and aligned and N <= tile_columns
    b_stays = ragged_b_stays or B.column == 1 and M <= 3 * tile_rows
    a_state = TO_PACK if A.column > 64 and N > tile_columns else STAYS
    most = depth_of_panels(K, panel_depth(), UNROLLED)
    for column in range(0, N, STRIP_COLUMNS):
        columns = min(STRIP_COLUMNS, N - column)
        for k in range(0, K, most):
            depth = min(most, K - k)
            adding = 1 if k > 0 or flags & (ACCUMULATE | ADD_BIAS) != 0 else 0
            panels_of_c = Sum(C, C if k > 0 else first_source, adding)
            if flags & PACKED:
                block, nothing = Operand(at(A, 0, k), STAYS, workspace), Matrix(workspace, 0, 1)
                for j in range(column, column + columns, tile_columns):
                    panel = Operand(at(B, k, j), STAYS, workspace)
                    _multiply_panel(block, panel, sum_at(panels_of_c, 0, j), M, min(tile_columns, N - j), depth, nothing, 0)
                continue
            for row in range(0, M, BLOCK_ROWS):
                rows = min(BLOCK_ROWS, M - row)
                state = TO_PACK if row == 0 else IS_PACKED
                next_row, next_k = (row + BLOCK_ROWS, k) if row + BLOCK_ROWS < M else (0, k + depth)
                next_rows = min(BLOCK_ROWS, M - next_row)
                if next_k == K:
                    next_k = next_rows = 0
                block_of_a = Operand(at(A, row, k), a_state, workspace)
                strip_of_b = Operand(at(B, k, column), STAYS if b_stays else state, shift(workspace, PACKED_B))
                ragged_state = STAYS if ragged_b_stays else state
                _multiply_block(block_of_a, at(A, next_row, next_k), next_rows, strip_of_b, ragged_state,
                                sum_at(panels_of_c, row, column), rows, columns, depth)


def symbol(dtype: types.Type) -> str:
    """The linker's name for the product of a dtype."""
    return f"minigrad_gemm_{dtype}"


@functools.cache
def register(dtype: np.dtype) -> None:
    """Compile or load the product of a dtype and register it with the linker, before a kernel that uses `gemm` runs."""
    number = numba.from_dtype(dtype)
    binding.add_symbol(symbol(number), entry_point(_multiply_serial, signature_of_product(number)))


@instructions()
def gemm(site, A, B, C, M, N, K, bias, flags, workspace):
    """`_multiply_serial`, called as an external function by its symbol; or the product whose address is in the flags."""
    builder, dtype = site.builder, site.kinds[-1].dtype
    arguments = A, B, C, M, N, K, bias, flags, workspace
    if dtype != types.float32:
        call_by_name(builder, symbol(dtype), ir.VoidType(), *arguments)
        return
    with builder.if_else(builder.icmp_unsigned("<", flags, constant(ADDRESS)), likely=True) as (by_symbol, by_address):
        with by_symbol:
            call_by_name(builder, symbol(dtype), ir.VoidType(), *arguments)
        with by_address:
            function = ir.FunctionType(ir.VoidType(), [value.type for value in arguments])
            address = builder.and_(flags, constant(-ADDRESS))
            builder.call(builder.inttoptr(address, function.as_pointer()), arguments)


@jit
def bounds(total, unit, part, parts):
    """(first, end) of a part of `total`, in multiples of a unit; the last part has the remainder."""
    units = total // unit
    return units * part // parts * unit, total if part == parts - 1 else units * (part + 1) // parts * unit


@jit
def _bounds_of_rows(M, tile_rows, part, parts):
    """(first, end) of a part of the rows: whole tiles, as even as possible; the last part has at least one."""
    last, half = max(M // tile_rows - 1, 0), tile_rows * parts // 2
    top, bottom = (M * part + half) // (tile_rows * parts), (M * (part + 1) + half) // (tile_rows * parts)
    return min(top, last) * tile_rows, M if part == parts - 1 else min(bottom, last) * tile_rows


@jit
def _cut(M, N, K, threads, tile_rows, lanes, a_is_transposed, b_is_transposed, is_aligned):
    """(parts of the rows, parts of the columns) with the least work in the largest part, in cycles for each k.

    Work is multiplying, packing, and reading what another core wrote: most likely that core cut rows of activations in the
    same way. If columns are cut within cache lines, two threads write to the same line.
    """
    best, best_parts = np.inf, 1
    for parts in range(1, threads + 1):
        top, bottom = _bounds_of_rows(M, tile_rows, parts - 1, parts)
        left, right = bounds(N, lanes, threads // parts - 1, threads // parts)
        m, n = bottom - top, right - left
        cost = m * n / 32 + n * (0.35 if b_is_transposed else 0.2) + m * (0.4 if a_is_transposed else 0.3)
        if threads // parts > 1 and not is_aligned:
            cost += m * SHARED_LINE / K
        if cost < best:
            best, best_parts = cost, parts
    return best_parts, threads // best_parts


@jit
def _item(A, B, C, offsets, item):
    """The matrices of an item of a batch."""
    return (Matrix(shift(A.start, offsets[item, 0]), A.row, A.column),
            Matrix(shift(B.start, offsets[item, 1]), B.row, B.column),
            Matrix(shift(C.start, offsets[item, 2]), C.row, C.column))


@jit
def _multiply_portion(part, A, B, C, sizes, bias, flags, offsets, workspaces, cut):
    """One of items * rows * columns parts: some items of the batch, and of each some rows and columns of C."""
    _, tile_rows, _ = shape(C.start)
    (M, N, K), (items, rows, columns, unit) = sizes, cut
    first, last = bounds(len(offsets), 1, part // (rows * columns), items)
    top, bottom = _bounds_of_rows(M, tile_rows, part // columns % rows, rows)
    left, right = bounds(N, unit, part % columns, columns)
    if top < bottom and left < right:
        for item in range(first, last):
            own_a, own_b, own_c = _item(A, B, C, offsets, item)
            gemm(at(own_a, top, 0), at(own_b, 0, left), at(own_c, top, left), bottom - top, right - left, K,
                 shift(bias, left), flags, shift(workspaces, part * WORKSPACE))


@kernel(parallel=True)
def _multiply_batch(A, B, C, M, N, K, bias, flags, offsets, workspaces):
    """A batch of products: A, B, C are (array that begins where the matrices do, row, column); offsets (batch, 3).

    The threads share the batch; if it is too small, they share each C; if that is small too, one thread does everything.
    """
    A, B = Matrix(pointer(A[0], 0), A[1], A[2]), Matrix(pointer(B[0], 0), B[1], B[2])
    C = Matrix(pointer(C[0], 0), C[1], 1)
    bias, workspaces = pointer(bias, 0), pointer(workspaces, 0)
    lanes, tile_rows, tile_vectors = shape(C.start)
    batch = len(offsets)
    few_rows = M < tile_rows and batch * N * K >= WORTH_A_THREAD  # reading B takes longer than multiplying by it
    threads = available_threads() if few_rows or batch * M * N * K >= PRODUCT_ON_THREADS else 1
    if threads == 1:
        for item in range(batch):
            own_a, own_b, own_c = _item(A, B, C, offsets, item)
            gemm(own_a, own_b, own_c, M, N, K, bias, flags, workspaces)
        return
    items, rows, columns = threads, 1, 1
    if batch < threads or (batch < 4 * threads and batch % threads and M * N * K >= PRODUCT_ON_THREADS):
        items = 1
        is_aligned = C.row % lanes == 0 and address(C.start) % 64 == 0
        rows, columns = _cut(M, N, K, threads, tile_rows, lanes, A.column != 1, B.column != 1, is_aligned)
    unit = lanes * tile_vectors if N >= 4 * lanes * tile_vectors * columns else lanes
    parts = items * rows * columns
    parallel_for(_multiply_portion, parts, WORTH_A_THREAD, (
        A, B, C, (M, N, K), bias, flags, offsets, workspaces, (items, rows, columns, unit),
    ))


def gemm_workspaces(dtype: np.dtype) -> np.ndarray:
    """WORKSPACE elements for each thread, one after the other, for kernels that use `gemm`."""
    known = own.workspaces.get(("gemm", dtype.char))
    if known is not None:
        return known
    register(dtype)
    return workspace("gemm", numba.config.NUMBA_NUM_THREADS * WORKSPACE, dtype)


def _readable(matrix: np.ndarray) -> tuple[np.ndarray, int, int]:
    """(matrix or a copy of it, row stride, column stride), with strides in elements, one of them 1."""
    flags = matrix.flags
    if matrix.dtype.isnative:
        if flags.carray:
            return matrix, matrix.shape[-1], 1
        (rows, columns), (row_stride, column_stride), size = matrix.shape[-2:], matrix.strides[-2:], matrix.itemsize
        if flags.behaved and row_stride >= 0 and column_stride >= 0:
            if column_stride == size or columns == 1:
                return matrix, row_stride // size, 1
            if row_stride == size or rows == 1:
                return matrix, 1, column_stride // size
    return _readable(ready(matrix))


def _check(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray | None, shape_of_out: tuple[int, ...]) -> None:
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied: {a.shape} and {b.shape}; the inner sizes "
            f"{a.shape[-1]} and {b.shape[-2]} must be equal"
        )
    if a.dtype.type is not b.dtype.type or a.dtype.char not in "fd":
        raise TypeError(f"{name}: expected two float32 or two float64 arrays, got {a.dtype} and {b.dtype}")
    if out is None or out.size == 0 and out.shape == shape_of_out:
        return
    if out.shape != shape_of_out or out.dtype.type is not a.dtype.type:
        raise ValueError(f"{name}: expected out of shape {shape_of_out} and {a.dtype}, got {out.shape} and {out.dtype}")
    if out.flags.carray and out.dtype.isnative:
        return
    rows_are_contiguous = (out.shape[-1] == 1 or out.strides[-1] == out.itemsize) and out.strides[-2] >= 0
    if not (rows_are_contiguous and out.flags.behaved and out.dtype.isnative):
        raise ValueError(f"{name}: out must be writeable, aligned and native, with contiguous rows; use np.empty")


FLOAT_TYPES = np.dtype(np.float32), np.dtype(np.float64)
NO_BATCH = np.zeros((1, 3), np.int64)
CORNERS = [(0,) * (ndim - 2) + (slice(1), slice(1)) for ndim in range(65)]


def _corner(array: np.ndarray) -> tuple[np.ndarray, int, int]:
    """`_readable`, with a C-contiguous matrix that begins where the array does, so that the kernel has one specialisation.
    That matrix is the array or its transpose, if one is contiguous, as slicing takes time."""
    if array.ndim == 2 and array.dtype in FLOAT_TYPES:
        flags = array.flags
        if flags.carray:
            return array, array.shape[1], 1
        if flags.f_contiguous and flags.behaved:
            return array.T, 1, array.shape[0]
    array, row_stride, column_stride = _readable(array)
    return array[CORNERS[array.ndim]], row_stride, column_stride


_compiled: dict[np.dtype, Callable] = {}  # `_multiply_batch`, by the dtype of the matrices


def _launch(A, B, C, M, N, K, bias, flags, offsets):
    """A, B, C: (array, row stride, column stride); only the beginnings of the arrays matter."""
    dtype = C[0].dtype
    packed = own.workspaces.get(("gemm", dtype.char))
    if packed is None:
        packed = gemm_workspaces(dtype)
    arguments = A, B, C, M, N, K, packed if bias is None else ready(bias), flags, offsets, packed
    multiply = _compiled.get(dtype)
    if multiply is not None and own.observe_launch is None:
        multiply(*arguments)
    else:
        _multiply_batch.ungated(*arguments)  # everything is ready by now
        _compiled[dtype], _ = resolved(_multiply_batch.dispatcher, arguments)


def matmul(
    a: np.ndarray, b: np.ndarray, out: np.ndarray = None, bias: np.ndarray = None, accumulate: bool = False,
    product: int = 0,
) -> np.ndarray:
    """[out +] a @ b [+ bias] for a (M, K), b (K, N), bias (N,), of one dtype, float32 or float64.

    Transposed matrices and slices of columns are read in place; reversed, byte-swapped and other odd ones are copied.
    `out` (M, N), with contiguous rows, must not overlap the others. `product`: 0, or the address of another product of
    float32, see bfloat16.py.

    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> matmul(a, a.T, bias=np.ones(2, np.float32))
    array([[ 6., 15.],
           [15., 51.]], dtype=float32)
    """
    (M, K), (inner, N), dtype = a.shape, b.shape, a.dtype
    is_usual = K == inner and dtype is b.dtype and dtype in FLOAT_TYPES  # the full check would take a microsecond
    if out is None:
        if not is_usual:
            _check("matmul", a, b, None, (M, N))
        out = empty((M, N), dtype if is_usual else dtype.newbyteorder("="))
        accumulate = False
    elif not (is_usual and dtype is out.dtype and out.shape == (M, N) and out.flags.carray):
        is_usual = False
        _check("matmul", a, b, out, (M, N))
    if bias is not None and (bias.shape != (N,) or bias.dtype.type is not out.dtype.type):
        raise ValueError(f"matmul: expected bias of shape {(N,)} and {out.dtype}, got {bias.shape} and {bias.dtype}")
    if M == 0 or N == 0 or K == 0:
        np.add(out if accumulate else 0, 0 if bias is None else bias, out=out)
        return out
    flags = product | (ACCUMULATE if accumulate else 0) | (0 if bias is None else ADD_BIAS)
    A = (a, K, 1) if is_usual and a.flags.carray else _corner(a)
    B = (b, N, 1) if is_usual and b.flags.carray else _corner(b)
    C = (out, N, 1) if is_usual else _corner(out)
    if N == 1 < M and bias is None and C[1] == 1:  # a column: the row b^T @ a^T, whose elements are contiguous
        A, B, C = (B[0], K, B[1]), (A[0], A[2], A[1]), (C[0], M, 1)
        M, N = 1, M
    elif N == 1 and B[1] == 1:  # a dot product: b seen as a transposed row
        B = B[0], 1, K
    _launch(A, B, C, M, N, K, bias, flags, NO_BATCH)
    return out


@functools.lru_cache(maxsize=64)
def _offsets(batch: tuple[int, ...], *operands: tuple[tuple[int, ...], tuple[int, ...], int]) -> np.ndarray:
    """(items, operands): where each item of the batch begins, in elements, for operands (shape, strides, itemsize), which
    are broadcast."""
    columns = []
    for sizes, strides, itemsize in operands:
        steps = [np.arange(size) * (stride // itemsize) for size, stride in zip(sizes, strides)]
        columns.append(np.broadcast_to(functools.reduce(np.add.outer, steps, 0), batch).ravel())
    return np.stack(columns, axis=1)


def batched_matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray = None, product: int = 0) -> np.ndarray:
    """a @ b for a (..., M, K), b (..., K, N) -> (..., M, N), of one dtype, float32 or float64.

    The axes before the last two broadcast, without copies; the last two are treated as in `matmul`.
    """
    M, K, N = *a.shape[-2:], b.shape[-1]
    batch = a.shape[:-2]
    if b.shape[:-2] != batch:
        batch = np.broadcast_shapes(batch, b.shape[:-2])
    _check("batched_matmul", a, b, out, (*batch, M, N))
    if out is None:
        out = empty((*batch, M, N), a.dtype.newbyteorder("="))
    if out.size == 0 or K == 0:
        out[...] = 0
    elif out.size * K <= TINY_BATCH and not product:
        np.matmul(a, b, out=out)
    elif b.ndim == 2 and a.flags.c_contiguous and out.flags.c_contiguous:  # one product with many rows
        matmul(a.reshape(-1, K), b, out.reshape(-1, N), product=product)
    else:
        found = [_readable(x) for x in (a, b, out)]
        offsets = _offsets(batch, *[(x.shape[:-2], x.strides[:-2], x.itemsize) for x, _, _ in found])
        _launch(*[(x[CORNERS[x.ndim]], row, column) for x, row, column in found], M, N, K, None, product, offsets)
    return out
