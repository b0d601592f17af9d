"""Muon's step on many matrices at once: momentum, and the Newton-Schulz iteration, which makes singular values equal.

The iteration is x = P x with P = a + b A + c A² and A = x x^T, a few times. A is symmetric, and everything computed from it
commutes with it, so its effect on x can be computed without x:

    Q = 1;    each time:  P = a + b A + c A²,  Q = Q P,  A = P A P;    at the end x = Q x

These products have the size of the smaller side, and are symmetric: their lower left is copied from the upper right. If x
is nearly square this saves nothing, and x is multiplied in each step. For a tall x, A = x^T x, multiplied from the right.

Under autocast the factors of all products are rounded to bfloat16. Each P multiplies small singular values by about a, and
keeps those near 1. So the largest numbers in Q are about the product of all a, and rounding them disturbs the large
singular values by 2^-9 of that product or more. One that is pushed above 1.26 (with the usual coefficients) grows from step
to step. So x is multiplied by Q and A computed anew before the product exceeds MOST_GAIN. Then the error is one to a few
times that of PyTorch, whose x is in bfloat16.

Each matrix is computed by one thread, in its caches, with the product of gemm.py, so no result depends on their number.
"""
import numpy as np

from .gemm import ACCUMULATE, WORKSPACE, Matrix, at, gemm
from .jit import jit, kernel
from .microkernel import shape, transpose_square
from .parallel import parallel_for
from .simd import constant_like, pointer, pointer_like, shift

PANEL = 32  # columns of a symmetric product computed together: half a tile, to compute less of the lower left
ROUNDED_PANEL = 64  # a whole tile: each panel rounds and packs the left factor again
MOST_GAIN = 12.0  # of rounded steps without x: two with the usual coefficients, 3.4445²; from 15 on some spectra diverge


@jit
def padded(columns):
    """The row stride in the workspace: whole vectors, and neighbouring rows in different cache sets."""
    return -(-columns // 16) * 16 + 16


def workspace_size(shapes: list[tuple[int, int]]) -> int:
    """The size of the workspace in which `muon_step` computes matrices of these shapes one after the other."""
    stride = padded.py_func
    sizes = [2 * -(-rows // 16) * 16 * stride(columns) + 4 * stride(min(rows, columns)) ** 2 for rows, columns in shapes]
    return max(sizes, default=0)


def work(rows: int, columns: int) -> float:
    """Roughly how long the step of a matrix takes, in multiply-adds."""
    return 1.7 * rows * columns * min(rows, columns) + 12.0 * min(rows, columns) ** 3


@jit
def _take_gradient(g, m, row, x, row_x, rows, columns, clip, momentum, nesterov, tiny):
    """m = momentum m + clip g, and x from m and g; returns the norm of x. g and m have the row stride `row`."""
    zero = tiny - tiny
    fresh, of_mean = (constant_like(x, 1.0), momentum) if nesterov else (zero, constant_like(x, 1.0))
    total = 0.0
    for i in range(rows):
        row_of_g, row_of_m, row_of_x = shift(g, i * row), shift(m, i * row), shift(x, i * row_x)
        for j in range(columns):
            part = clip * row_of_g[j]
            mean = momentum * row_of_m[j] + part
            mean = zero if abs(mean) < tiny else mean  # keeps NaN
            row_of_m[j] = mean
            value = fresh * part + of_mean * mean
            row_of_x[j] = value
            total += np.float64(value) * np.float64(value)
    return np.sqrt(total)


@jit
def _scale(x, row_x, rows, columns, factor):
    for i in range(rows):
        row = shift(x, i * row_x)
        for j in range(columns):
            row[j] *= factor


@jit
def _symmetric_product(A, B, C, size, depth, product, packed):
    """C = A @ B for matrices whose product (size, size) is symmetric. `product` as in `gemm.matmul`."""
    lanes, _, _ = shape(C.start)
    panel = ROUNDED_PANEL if product else PANEL
    for j in range(0, size, panel):
        end = min(j + panel, size)
        gemm(A, at(B, 0, j), at(C, 0, j), end, end - j, depth, C.start, product, packed)
    for i in range(panel, size, lanes):
        for j in range(0, i // panel * panel, lanes):
            transpose_square(at(C, j, i).start, C.row, lanes, lanes, at(C, i, j).start, C.row)


@jit
def _polynomial(A, square, size, a, b, c):
    """square = a + b A + c square"""
    for i in range(size):
        of_a, of_square = at(A, i, 0).start, at(square, i, 0).start
        for j in range(size):
            of_square[j] = b * of_a[j] + c * of_square[j]
        of_square[i] += a


@jit
def _iterate(A, P, Q, other, size, polynomials, first, end, factor, product, packed):
    """Q = factor times what steps `first` to `end` of the iteration multiply x by, with A = x x^T; returns Q's memory."""
    if first == end:
        for i in range(size):
            for j in range(size):
                at(Q, i, j).start[0] = factor if i == j else factor - factor
    for step in range(first, end):
        a, b, c = polynomials[step]
        scale = factor if step == end - 1 else constant_like(A.start, 1.0)
        _symmetric_product(A, A, P, size, size, product, packed)
        _polynomial(A, P, size, scale * constant_like(A.start, a), scale * constant_like(A.start, b),
                    scale * constant_like(A.start, c))
        if step < end - 1:
            _symmetric_product(A, P, other, size, size, product, packed)
            _symmetric_product(other, P, A, size, size, product, packed)
        if step == first:
            Q, P = P, Q
        else:
            _symmetric_product(Q, P, other, size, size, product, packed)
            Q, other = other, Q
    return Q


@jit
def _end_without_x(polynomials, first, steps, size, depth, rounds):
    """Up to which step, from `first`, the iteration is computed without x."""
    if 4 * depth <= 5 * size:  # nearly square: x itself takes less work than Q and A
        return min(first + 1, steps)
    end, gain = first, 1.0
    while end < steps:
        gain *= max(1.0, abs(polynomials[end, 0]))
        if rounds and end > first and gain > MOST_GAIN:
            break
        end += 1
    return end


@jit
def _add_orthogonalised(p, x, y, rows, columns, squares, polynomials, steps, factor, product, packed):
    """p += factor times the result of the iteration for x. y is a matrix for intermediate results, `squares` memory for
    four squares of the smaller side."""
    size, depth = (rows, columns) if rows < columns else (columns, rows)
    row = padded(size)
    A = Matrix(squares, row, 1)
    P, Q, other = at(A, row, 0), at(A, 2 * row, 0), at(A, 3 * row, 0)
    step = 0
    while True:
        end = _end_without_x(polynomials, step, steps, size, depth, product != 0)
        is_last = end == steps
        transposed = Matrix(x.start, 1, x.row)
        if rows <= columns:
            _symmetric_product(x, transposed, A, size, depth, product, packed)
        else:
            _symmetric_product(transposed, x, A, size, depth, product, packed)
        scale = factor if is_last else constant_like(x.start, 1.0)
        found = _iterate(A, P, Q, other, size, polynomials, step, end, scale, product, packed)
        target, flags = (p, ACCUMULATE) if is_last else (y, 0)
        left, right = (x, found) if rows > columns else (found, x)
        gemm(left, right, target, rows, columns, size, target.start, product | flags, packed)
        if is_last:
            return
        x, y, step = y, x, end


@jit
def _step_matrix(i, given, memory, packed):
    matrices, table, settings, polynomials, scales, moments, product = given
    which, first, rows, columns, stride, group = matrices[i]
    _, offset, _, parameter, gradient = table[:, which]
    if gradient == 0:
        return
    lr, decay, momentum, nesterov, eps, steps, clip, tiny = settings[group]
    real = moments.dtype.type
    m = pointer(moments, offset + first)
    p = pointer_like(m, parameter + first * moments.itemsize)
    g = pointer_like(m, gradient + first * moments.itemsize)
    row_x = padded(columns)
    x, elements = memory, -(-rows // 16) * 16 * row_x
    length = _take_gradient(g, m, stride, x, row_x, rows, columns, real((1.0 - momentum) * clip), real(momentum),
                            nesterov != 0.0, real(tiny))
    _scale(x, row_x, rows, columns, real(1.0 / (eps if length < eps else length)))
    _scale(p, stride, rows, columns, real(1.0 - lr * decay))
    _add_orthogonalised(Matrix(p, stride, 1), Matrix(x, row_x, 1), Matrix(shift(x, elements), row_x, 1), rows, columns,
                        shift(x, 2 * elements), polynomials[group], np.int64(steps), real(-lr * scales[i]), product, packed)


@jit
def _step_share(share, starts, given, memory, packed):
    for i in range(starts[share], starts[share + 1]):
        _step_matrix(i, given, pointer(memory, share * memory.shape[1]), pointer(packed, share * WORKSPACE))


@kernel(parallel=True)
def muon_step(starts, matrices, table, settings, polynomials, scales, moments, product, memory, packed):
    """One step of Muon on all matrices.

    matrices (J, 6): parameter, first element, rows, columns, row stride, group. `starts` (S + 1,) divides them into shares;
    those of a share are computed one after the other. table: as in `adamw_step`. settings (G, 8): lr, decay, momentum,
    nesterov, eps, steps, clip, tiny; polynomials (G, steps, 3); scales (J,). moments (1, total) have the dtype of all
    arrays. `clip` multiplies gradients; moments below `tiny` become 0. `product` as in `gemm.matmul`. With g = clip g:

        m = momentum m + (1 - momentum) g
        x = (1 - momentum) g + momentum m, or m;    x = x / max(|x|, eps)
        p = (1 - lr decay) p - lr scale Q x        with Q from the iteration

    memory (S, at least `workspace_size`); packed: `gemm_workspaces`.

    - |x| is summed in float64, and x is divided by it before anything is squared in float32.
    - The last product is added directly to p, with -lr scale in Q.
    """
    given = matrices, table, settings, polynomials, scales, moments, product
    parallel_for(_step_share, len(starts) - 1, 2 ** 40, (starts, given, memory, packed))
