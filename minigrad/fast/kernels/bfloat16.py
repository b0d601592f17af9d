"""The matrix product with operands in bfloat16 and sums in float32: C = [C +] bfloat16(A) @ bfloat16(B) [+ bias].

A, B, C are float32 in memory. Packing rounds blocks of A and panels of B to nearest, ties to even, and puts two numbers
into each element: k into the lower half, k + 1 into the upper. Tiles are those of gemm.py with pairs in place of numbers,
so they take half as many steps: half the time, on processors with AVX512-BF16.

For pairs p from 0 up, with all products exact in float32, an element of C is

    c = fma(a[2p], b[2p], fma(a[2p + 1], b[2p + 1], c))

over a panel of at most 2 DEPTH numbers, then over the sums of panels. Numbers below 2^-126 count as zeros. So the bits are
the same on all processors, and for any number of threads.
"""
import functools

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .internals import context, entry_point
from .jit import jit, library
from .matrix import (
    ACCUMULATE, ADD_BIAS, BLOCK_ROWS, MAX_DEPTH, PACKED, PACKED_B, STRIP_COLUMNS, Matrix, Operand, Sum, at, depth_of_panels,
    signature_of_product, source_of, sum_at,
)
from .microkernel import UNROLLED, multiply_tile_of_pairs, shape, transpose_square
from .simd import BIT, INT32, constant, fields, has_feature, shift, vector_pass, vector_shape

DEPTH = 256  # pairs in a panel
ROWS, COLUMNS, NEITHER = 0, 1, 2  # axes of a matrix, along which numbers are paired
SQUARE = PACKED_B + MAX_DEPTH * STRIP_COLUMNS  # where rounded rows that will be transposed begin in the workspace


def _for_each_piece(vectors, rows, row_step, columns, column_step, emit):
    """Emit emit(row, column, end) for each piece of a matrix, which begins at (row, column). `end` is None, or in a ragged
    piece at the end of a row the number of its columns."""
    builder = vectors.builder
    whole = builder.and_(columns, constant(-column_step))
    with cgutils.for_range_slice(builder, constant(0), rows, constant(row_step)) as (row, _):
        with cgutils.for_range_slice(builder, constant(0), whole, constant(column_step)) as (column, _):
            emit(row, column, None)
        with builder.if_then(builder.icmp_signed("<", whole, columns)):
            emit(row, whole, builder.sub(columns, whole))


def _rounded_bits(vectors, x):
    """The bits of float32 numbers, rounded so that the upper halves are the bfloat16 numbers."""
    builder, bits = vectors.builder, vectors.integers(vectors.without_denormals(x))
    half, one, places, quiet = (ir.Constant(bits.type, [n] * vectors.lanes) for n in (0x7FFF, 1, 16, 0x400000))
    last = builder.and_(builder.lshr(bits, places), one)
    nearest = builder.add(bits, builder.add(half, last))
    return builder.select(builder.fcmp_unordered("uno", x, x), builder.or_(bits, quiet), nearest)


def _to_bfloat16(vectors, low, high):
    """Two vectors of float32 rounded to one of 16-bit integers, `low` first. AVX512-BF16 does that in one instruction."""
    builder, lanes = vectors.builder, vectors.lanes
    if vectors.has_pairs:
        function = ir.FunctionType(vectors.type, [vectors.type] * 2)
        found = builder.asm(function, "vcvtne2ps2bf16 $2, $1, $0", "=v,v,v", [high, low], False)
        return builder.bitcast(found, ir.VectorType(ir.IntType(16), 2 * lanes))
    places = ir.Constant(ir.VectorType(INT32, lanes), [16] * lanes)
    parts = [builder.trunc(builder.lshr(_rounded_bits(vectors, x), places), ir.VectorType(ir.IntType(16), lanes))
             for x in (low, high)]
    return vectors.shuffle(*parts, list(range(2 * lanes)))


@vector_pass
def _round_rows(vectors, x, rows, columns):
    """x = bfloat16(x), in float32; rows have room for whole vectors."""
    builder = vectors.builder
    x, row_of_x = fields(builder, x, 2)
    upper = ir.Constant(ir.VectorType(INT32, vectors.lanes), [-1 << 16] * vectors.lanes)

    def emit(row, column, _):
        place = builder.gep(x, [builder.add(builder.mul(row, row_of_x), column)])
        nearest = builder.and_(_rounded_bits(vectors, vectors.load(place)), upper)
        vectors.store(builder.bitcast(nearest, vectors.type), place)

    _for_each_piece(vectors, rows, 1, columns, vectors.lanes, emit)


@vector_pass
def _pack_pairs_in_rows(vectors, source, rows, columns, target):
    """target[i, p] = the pair (source[i, 2p], source[i, 2p + 1]); 0 follows the last column. In place, too."""
    builder, lanes = vectors.builder, vectors.lanes
    (source, row_source), (target, row_target) = fields(builder, source, 2), fields(builder, target, 2)

    def emit(row, column, end):
        start = builder.gep(source, [builder.add(builder.mul(row, row_source), column)])
        first, second = (end and vectors.first(builder.sub(end, constant(part))) for part in (0, lanes))
        low, high = vectors.load(start, first), vectors.load(builder.gep(start, [constant(lanes)]), second)
        pairs = _to_bfloat16(vectors, low, high)
        place = builder.add(builder.mul(row, row_target), builder.ashr(column, constant(1)))
        vectors.store(builder.bitcast(pairs, vectors.type), builder.gep(target, [place]))

    _for_each_piece(vectors, rows, 1, columns, 2 * lanes, emit)


@vector_pass
def _pack_pairs_in_columns(vectors, source, rows, columns, target):
    """target[p, j] = the pair (source[2p, j], source[2p + 1, j]); 0 follows the last row and column. In place, too."""
    builder, lanes = vectors.builder, vectors.lanes
    (source, row_source), (target, row_target) = fields(builder, source, 2), fields(builder, target, 2)
    interleaved = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]

    def emit(row, column, end):
        start = builder.gep(source, [builder.add(builder.mul(row, row_source), column)])
        first = vectors.splat(ir.Constant(BIT, 1)) if end is None else vectors.first(end)
        exists = builder.icmp_signed("<", builder.add(row, constant(1)), rows)
        second = vectors.load(builder.gep(start, [row_source]), builder.and_(first, vectors.splat(exists)))
        pairs = _to_bfloat16(vectors, vectors.load(start, end and first), second)
        place = builder.add(builder.mul(builder.ashr(row, constant(1)), row_target), column)
        pairs = builder.bitcast(vectors.shuffle(pairs, pairs, interleaved), vectors.type)
        vectors.store(pairs, builder.gep(target, [place]))

    _for_each_piece(vectors, rows, 2, columns, lanes, emit)


@library
def _pack_pairs(source, rows, columns, target, axis):
    """Pack pairs for kernels whose operands are PACKED: a separate library, so that only rounding ones compile it. Along
    NEITHER axis, the source is rounded in place."""
    source, target = Matrix(source[0], source[1], 1), Matrix(target[0], target[1], 1)
    if axis == ROWS:
        _pack_pairs_in_columns(source, rows, columns, target)
    elif axis == NEITHER:
        _round_rows(source, rows, columns)
    else:
        _pack_pairs_in_rows(source, rows, columns, target)


@jit
def _pack_block(A, rows, depth, packed):
    """A block of A in pairs, as a matrix of pairs; if A is transposed, so is that."""
    lanes, _, _ = shape(packed)
    if A.column == 1:
        width = -(-depth // (2 * lanes)) * lanes
        block = Matrix(packed, width, 1)
        _pack_pairs_in_rows(A, rows, depth, block)
        return block
    width = -(-rows // lanes) * lanes
    _pack_pairs_in_columns(Matrix(A.start, A.column, 1), depth, rows, Matrix(packed, width, 1))
    return Matrix(packed, 1, width)


@jit
def _pack_panel(B, depth, columns, packed, square):
    """packed[p, j] = the pair (B[2p, j], B[2p + 1, j]), rows padded with zeros to whole vectors; transposing whole squares
    writes some rows more."""
    lanes, _, _ = shape(packed)
    width = -(-columns // lanes) * lanes
    if B.column == 1:
        _pack_pairs_in_columns(B, depth, columns, Matrix(packed, width, 1))
        return
    pairs = -(-depth // (2 * lanes)) * lanes
    for j in range(0, columns, lanes):
        count = min(lanes, columns - j)
        _pack_pairs_in_rows(Matrix(at(B, 0, j).start, B.column, 1), count, depth, Matrix(square, pairs, 1))
        for p in range(0, pairs, lanes):
            transpose_square(shift(square, p), pairs, count, lanes, shift(packed, p * width + j), width)


@jit
def _multiply_panel(A, B, C, rows, columns, pairs):
    """A block of rows of A times a panel of B, one tile wide, in pairs."""
    lanes, tile_rows, _ = shape(A.start)
    panel = Operand(B, 0, B.start)
    for i in range(0, rows, tile_rows):
        multiply_tile_of_pairs(min(tile_rows, rows - i), -(-columns // lanes), pairs, columns,
                               Operand(at(A, i, 0), 0, A.start), panel, sum_at(C, i, 0), Matrix(A.start, 0, 1))


@library
def _multiply(A, B, C, M, N, K, bias, flags, workspace):
    """`gemm._multiply_serial` with rounded operands. PACKED ones are in pairs already, along k."""
    A, B, C = Matrix(A[0], A[1], A[2]), Matrix(B[0], B[1], B[2]), Matrix(C[0], C[1], 1)
    lanes, _, tile_vectors = shape(A.start)
    tile_columns = lanes * tile_vectors
    first_source = source_of(C, M, N, bias, flags)
    packed_b = shift(workspace, PACKED_B)
    most = depth_of_panels(K, 2 * DEPTH, 2 * UNROLLED)
    for column in range(0, N, STRIP_COLUMNS):
        columns = min(STRIP_COLUMNS, N - column)
        for k in range(0, K, most):
            depth = min(most, K - k)
            pairs = -(-depth // 2)
            adding = 1 if k > 0 or flags & (ACCUMULATE | ADD_BIAS) != 0 else 0
            panels_of_c = Sum(C, C if k > 0 else first_source, adding)
            if flags & PACKED:
                for j in range(column, column + columns, tile_columns):
                    _multiply_panel(at(A, 0, k // 2), at(B, k // 2, j), sum_at(panels_of_c, 0, j), M,
                                    min(tile_columns, N - j), pairs)
                continue
            for row in range(0, M, BLOCK_ROWS):
                rows = min(BLOCK_ROWS, M - row)
                block = _pack_block(at(A, row, k), rows, depth, workspace)
                for j in range(0, columns, tile_columns):
                    n = min(tile_columns, columns - j)
                    panel = Matrix(shift(packed_b, j * pairs), -(-n // lanes) * lanes, 1)
                    if row == 0:
                        _pack_panel(at(B, k, column + j), depth, n, panel.start, shift(workspace, SQUARE))
                    _multiply_panel(block, panel, sum_at(panels_of_c, row, column + j), rows, n, pairs)


def is_native() -> bool:
    """Does this processor multiply pairs in one instruction?"""
    return vector_shape(context())[0] == 512 and has_feature(context(), "avx512bf16")


@functools.cache
def product(rounds: bool) -> int:
    """The `product` of `gemm.matmul`: 0, or to round operands the address of `_multiply`, compiled or loaded first."""
    return entry_point(_multiply, signature_of_product(types.float32)) if rounds else 0


@functools.cache
def pack_pairs() -> int:
    """The address of `_pack_pairs`, compiled or loaded first."""
    matrix, _, _, size, *_ = signature_of_product(types.float32)
    return entry_point(_pack_pairs, (matrix, size, size, matrix, size))
