"""The matrix product with weights stored in bfloat16: C = [C +] A @ W.T [+ bias], for A, C, bias in float32.

A bfloat16 is the upper half of a float32, so weights are widened exactly as they are read, and the bits are those of
`gemm` with the same weights in float32. With few rows in A the product takes as long as reading W, here half the bytes;
with more, blocks of W are widened first.
"""
import functools

import numpy as np
from numba import types
from numba.core import cgutils

from .gemm import gemm, multiply_few_rows, register
from .internals import entry_point
from .jit import library
from .matrix import ACCUMULATE, ADDRESS, MAX_DEPTH, PACKED_B, Matrix, at, depth_of_panels, signature_of_product
from .microkernel import UNROLLED, panel_depth, shape
from .simd import as_bfloat16, constant, shift, vector_pass

BLOCK = 256  # rows of W that are widened at once
WIDENED = PACKED_B + (MAX_DEPTH + 16) * BLOCK  # where they are in the workspace: behind what `gemm` packs of them


@vector_pass
def _widen(vectors, target, source, count):
    """target[0:count] = source[0:count], from bfloat16 to float32."""
    builder = vectors.builder
    whole = builder.and_(count, constant(-vectors.lanes))
    with cgutils.for_range_slice(builder, constant(0), whole, constant(vectors.lanes)) as (i, _):
        vectors.store(vectors.load(builder.gep(source, [i])), builder.gep(target, [i]))
    mask = vectors.first(builder.sub(count, whole))
    vectors.store(vectors.load(builder.gep(source, [whole]), mask), builder.gep(target, [whole]), mask)


@library
def _multiply(A, B, C, M, N, K, bias, flags, workspace):
    """`gemm._multiply_serial`, see there, for contiguous rows of A, and B = W.T in bfloat16, with strides in those."""
    A, B, C = Matrix(A[0], A[1], 1), Matrix(as_bfloat16(B[0]), 1, B[2]), Matrix(C[0], C[1], 1)
    _, tile_rows, _ = shape(A.start)
    flags &= ADDRESS - 1
    if M < tile_rows:
        multiply_few_rows(A, B, C, M, N, K, bias, flags)
        return
    widened = shift(workspace, WIDENED)
    most = depth_of_panels(K, panel_depth(), UNROLLED)  # those of `gemm`, and so its sums
    for column in range(0, N, BLOCK):
        columns = min(BLOCK, N - column)
        for k in range(0, K, most):
            depth = min(most, K - k)
            for j in range(columns):
                _widen(shift(widened, j * depth), at(B, k, column + j).start, depth)
            gemm(at(A, 0, k), Matrix(widened, 1, depth), at(C, 0, column), M, columns, depth, shift(bias, column),
                 flags if k == 0 else ACCUMULATE, workspace)


@functools.cache
def product() -> int:
    """The address of `_multiply`, for the flags of `gemm`; it is compiled or loaded if necessary."""
    register(np.dtype(np.float32))  # `_multiply` calls it by name
    return entry_point(_multiply, signature_of_product(types.float32))
