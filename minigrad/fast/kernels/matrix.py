"""What the products of gemm.py and bfloat16.py share: matrices as kernels see them, flags, and sizes of blocks."""
from typing import NamedTuple

from numba import types

from .jit import jit
from .simd import INDEX, shift

# Bits of `flags`. PACKED operands go to the tiles as they are; rows of B may be read to the end of their last vector. From
# ADDRESS on, the bits are the address of the function that multiplies; machine code begins at multiples of 16.
ACCUMULATE, ADD_BIAS, PACKED, ADDRESS = 1, 2, 4, 16

MAX_DEPTH = 384  # of a panel on any processor, see simd.py
STRIP_COLUMNS = 512  # columns in a packed strip of B
BLOCK_ROWS = 96  # rows in a block of A: whole tiles, and whole strips of a transposed A
PACKED_B = BLOCK_ROWS * MAX_DEPTH  # where B begins in the workspace
WORKSPACE = PACKED_B + (MAX_DEPTH + 16) * STRIP_COLUMNS  # elements; transposing writes whole squares


class Matrix(NamedTuple):
    """A matrix: a pointer to its first element, and the distances of rows and columns in elements."""

    start: types.CPointer
    row: int
    column: int


class Operand(NamedTuple):
    """A block of A or a panel of B, whether it must be packed, and where to."""

    matrix: Matrix
    state: int
    packed: types.CPointer


class Sum(NamedTuple):
    """A part of C, and if `adding`, what the products are added to: C itself, or a bias, with a row stride of 0."""

    matrix: Matrix
    source: Matrix
    adding: int


@jit
def at(matrix, i, j):
    """The matrix that begins at row i, column j of another one."""
    return Matrix(shift(matrix.start, i * matrix.row + j * matrix.column), matrix.row, matrix.column)


@jit
def sum_at(C, i, j):
    return Sum(at(C.matrix, i, j), at(C.source, i, j), C.adding)


@jit
def depth_of_panels(K, most, unit):
    """The number of rows in a panel of B, a multiple of the unit: at most `most`, and as even as possible."""
    return -(-K // (-(-K // most) * unit)) * unit


@jit
def source_of(C, M, N, bias, flags):
    """What the first panels' products are added to, if anything; with both a bias and C, the bias is added to C first."""
    if flags & ADD_BIAS and flags & ACCUMULATE:
        for i in range(M):
            row = at(C, i, 0).start
            for j in range(N):
                row[j] += bias[j]
    elif flags & ADD_BIAS:
        return Matrix(bias, 0, 1)
    return C


def signature_of_product(number: types.Type) -> tuple[types.Type, ...]:
    """The types of a product's arguments: A, B, C, M, N, K, bias, flags, workspace."""
    start = types.CPointer(number)
    matrix = types.Tuple([start, INDEX, INDEX])
    return matrix, matrix, matrix, INDEX, INDEX, INDEX, start, INDEX, start
