"""Attention's passes over rows of numbers and over tiles of scores, in LLVM's instructions.

A tile of scores is (keys, queries): BLOCK queries in a row, of which the first `columns`, whole strips of STRIP, are in
use. So each query has a lane, in vectors of scores as in those of maxima or sums: nothing is added across lanes, and rows
have no remainder.

If a causal tile meets the diagonal, its last rows do: the key in row square + t is seen by the queries from t on. In each
strip, the passes skip rows that none of its queries sees; `hide_future` fills the triangle that remains of the square on
the diagonal. Elsewhere `square` is the number of keys.
"""
import contextlib
import functools

from llvmlite import ir
from numba.core import cgutils

from .dropout import LANES, SLOTS, Factors
from .microkernel import BYTES, L1, emit_transpose_square
from .simd import EXP, EXP_2, INT32, LN_2_HIGH, LN_2_LOW, LOG2_E, SMALLEST_EXPONENT, constant, fields, vector_pass

BLOCK = 64  # queries
STRIP = 16
ROWS_AHEAD = 8  # are prefetched
UP = 1 + 2.0**-8  # times this, all numbers that overflow in bfloat16 do


def _address(vectors, base, row, row_stride, column):
    return vectors.builder.gep(base, [vectors.builder.add(vectors.builder.mul(row, row_stride), column)])


def _at(vectors, matrix, row, column):
    """The address of an element of a matrix with a column stride of 1."""
    start, row_stride = fields(vectors.builder, matrix, 2)
    return _address(vectors, start, row, row_stride, column)


def _minimum(builder, x, y):
    return builder.select(builder.icmp_signed("<", x, y), x, y)


@contextlib.contextmanager
def _each_vector(vectors, columns):
    """A loop over the vectors of a row: (first column, mask of existing columns)."""
    builder = vectors.builder
    with cgutils.for_range_slice(builder, constant(0), columns, constant(vectors.lanes)) as (column, _):
        yield column, vectors.first(builder.sub(columns, column))


def _add_check(vectors, x, total):
    """total += 0, or NaN if not all of x is finite, in bfloat16 too."""
    larger = vectors.builder.fmul(x, vectors.full(UP))
    vectors.builder.store(vectors.multiply_add(larger, vectors.full(0.0), vectors.builder.load(total)), total)


def _load_row(vectors, matrix, row, column, mask):
    """A vector of a matrix that is read row by row. The processor does not foresee later rows of a head, which lie in other
    pages: prefetching them takes 3 to 8% less time if the inputs are not in L2."""
    later = _at(vectors, matrix, vectors.builder.add(row, constant(ROWS_AHEAD)), column)
    vectors.prefetch(vectors.builder.bitcast(later, BYTES), L1)
    return vectors.load(_at(vectors, matrix, row, column), mask)


@vector_pass
def pack(vectors, source, rows, columns, factor, target, check):
    """target = source * factor, rows padded with zeros to whole vectors; check[0] = 0, or NaN if not all is finite."""
    builder = vectors.builder
    factor, total = vectors.splat(factor), cgutils.alloca_once_value(builder, vectors.full(0.0))
    with cgutils.for_range(builder, rows) as row, _each_vector(vectors, columns) as (column, mask):
        x = builder.fmul(_load_row(vectors, source, row.index, column, mask), factor)
        vectors.store(x, _at(vectors, target, row.index, column))
        _add_check(vectors, x, total)
    builder.store(vectors.fold(builder.load(total), builder.fadd), check)


@vector_pass
def turn(vectors, x, rows, columns, rotation, direction, check):
    """Rotate pairs of neighbours in each row of x (rows, columns) by angles a, times the direction 1 or -1. Their cosines
    and sines alternate in the same row of the rotation.

        (x[2i], x[2i + 1]) = (x[2i] cos a - x[2i + 1] sin a, x[2i] sin a + x[2i + 1] cos a)

    check[0] = 0, or NaN if not all results are finite.
    """
    builder, lanes = vectors.builder, range(vectors.lanes)
    signs = builder.fmul(vectors.splat(direction), ir.Constant(vectors.type, [lane % 2 * 2.0 - 1.0 for lane in lanes]))
    total = cgutils.alloca_once_value(builder, vectors.full(0.0))
    with cgutils.for_range(builder, rows) as row, _each_vector(vectors, columns) as (column, mask):
        address = _at(vectors, x, row.index, column)
        pairs = vectors.load(address, mask)
        angles = vectors.load(_at(vectors, rotation, row.index, column), mask)
        cosines = vectors.shuffle(angles, angles, [lane & ~1 for lane in lanes])
        sines = builder.fmul(vectors.shuffle(angles, angles, [lane | 1 for lane in lanes]), signs)
        swapped = vectors.shuffle(pairs, pairs, [lane ^ 1 for lane in lanes])
        turned = vectors.multiply_add(swapped, sines, builder.fmul(pairs, cosines))
        vectors.store(turned, address, mask)
        _add_check(vectors, turned, total)
    builder.store(vectors.fold(builder.load(total), builder.fadd), check)


@vector_pass
def transpose(vectors, source, rows, columns, target):
    """target[c, r] = source[r, c]; the target has room for whole squares of vectors."""
    builder, lanes = vectors.builder, constant(vectors.lanes)
    (_, row_source), (_, row_target) = fields(builder, source, 2), fields(builder, target, 2)
    with cgutils.for_range_slice(builder, constant(0), rows, lanes) as (row, _):
        with cgutils.for_range_slice(builder, constant(0), columns, lanes) as (column, _):
            emit_transpose_square(
                vectors, _at(vectors, source, row, column), row_source, _minimum(builder, lanes, builder.sub(rows, row)),
                _minimum(builder, lanes, builder.sub(columns, column)), _at(vectors, target, column, row), row_target,
            )


@vector_pass
def scale_rows(vectors, x, rows, columns, factors):
    """x[r] *= factors[r]"""
    builder = vectors.builder
    with cgutils.for_range(builder, rows) as row:
        factor = vectors.splat(builder.load(builder.gep(factors, [row.index])))
        with _each_vector(vectors, columns) as (column, mask):
            address = _at(vectors, x, row.index, column)
            vectors.store(builder.fmul(vectors.load(address, mask), factor), address, mask)


@vector_pass
def dots(vectors, x, y, rows, columns, factor, out):
    """out[r] = x[r] @ y[r] * factor"""
    builder = vectors.builder
    with cgutils.for_range(builder, rows) as row:
        total = cgutils.alloca_once_value(builder, vectors.full(0.0))
        with _each_vector(vectors, columns) as (column, mask):
            a = _load_row(vectors, x, row.index, column, mask)
            b = vectors.load(_at(vectors, y, row.index, column), mask)
            builder.store(vectors.multiply_add(a, b, builder.load(total)), total)
        result = builder.fmul(vectors.fold(builder.load(total), builder.fadd), factor)
        builder.store(result, builder.gep(out, [row.index]))


def _exp(vectors, x):
    """e**x for x below 88, as in `simd.exp`; in float32, adding a number with a last bit of value 1 rounds n.

    AVX-512 has instructions for the parts of 2^y, y = x log2(e) = floor(y) + r, which take two thirds of the time. Rounding
    y costs about x / 2 units in the last place, as much as rounding x did.
    """
    builder = vectors.builder
    if vectors.item_size == 8:
        return vectors.call(f"llvm.exp.{vectors.suffix}", vectors.type, x)
    if vectors.has_powers_of_two:
        y = builder.fmul(x, vectors.full(float(LOG2_E)))
        r, total = vectors.fraction(y), vectors.full(EXP_2[0])
        for coefficient in (*EXP_2[1:], 1.0):
            total = vectors.multiply_add(total, r, vectors.full(coefficient))
        is_normal = builder.fcmp_unordered(">", x, vectors.full(float(SMALLEST_EXPONENT)))
        return vectors.times_power_of_two(total, y, is_normal)
    smallest, rounder = vectors.full(float(SMALLEST_EXPONENT)), vectors.full(1.5 * 2**23)
    clipped = vectors.maximum(smallest, x)  # x if that is NaN
    rounded = vectors.multiply_add(clipped, vectors.full(float(LOG2_E)), rounder)
    integers = ir.VectorType(INT32, vectors.lanes)
    # As integers: without fused multiply-adds, LLVM would simplify (x + rounder) - rounder to x.
    n = builder.sub(builder.bitcast(rounded, integers), builder.bitcast(rounder, integers))
    n = builder.sitofp(n, vectors.type)
    r = vectors.multiply_add(n, vectors.full(-float(LN_2_HIGH)), clipped)
    r = vectors.multiply_add(n, vectors.full(-float(LN_2_LOW)), r)
    total = vectors.full(EXP[0])
    for coefficient in EXP[1:]:
        total = vectors.multiply_add(total, r, vectors.full(coefficient))
    result = builder.fadd(vectors.full(1.0), vectors.multiply_add(total, builder.fmul(r, r), r))
    power = builder.shl(builder.bitcast(rounded, integers), ir.Constant(integers, [23] * vectors.lanes))
    result = builder.bitcast(builder.add(builder.bitcast(result, integers), power), vectors.type)
    return builder.select(builder.fcmp_ordered("<=", x, smallest), vectors.full(0.0), result)


@contextlib.contextmanager
def _each_column(vectors, keys, square, columns):
    """A loop over vectors of queries: (first column, number of rows that some query of its strip sees)."""
    builder = vectors.builder
    with cgutils.for_range_slice(builder, constant(0), columns, constant(vectors.lanes)) as (column, _):
        strip_end = builder.add(builder.and_(column, constant(-STRIP)), constant(STRIP))
        yield column, _minimum(builder, keys, builder.add(square, strip_end))


@vector_pass
def hide_future(vectors, scores, rows, value):
    """scores[t, c] = value for c < t, in a square of at most one strip."""
    builder = vectors.builder
    value = vectors.splat(value)
    with cgutils.for_range(builder, rows) as row:
        for column in range(0, STRIP, vectors.lanes):
            address = _address(vectors, scores, row.index, constant(BLOCK), constant(column))
            hidden = vectors.first(builder.sub(row.index, constant(column)))
            vectors.store(builder.select(hidden, value, vectors.load(address)), address)


def _column_maximum(vectors, column, rows, start):
    """The largest of a column and `start`, ignoring NaN: four maxima at once, as each waits for its previous one."""
    builder = vectors.builder
    last = builder.sub(rows, constant(1))
    largest = [cgutils.alloca_once_value(builder, start) for _ in range(4)]
    with cgutils.for_range_slice(builder, constant(0), rows, constant(len(largest))) as (row, _):
        for i, so_far in enumerate(largest):
            existing = _minimum(builder, builder.add(row, constant(i)), last)  # the last row may be read again
            x = vectors.load(_address(vectors, column, existing, constant(BLOCK), constant(0)))
            builder.store(vectors.maximum(x, builder.load(so_far)), so_far)
    return functools.reduce(vectors.maximum, map(builder.load, largest))


@vector_pass
def online_softmax(vectors, scores, keys, square, columns, largest, total, shrinking):
    """Take a tile of scores into a softmax over the tiles so far:

        largest' = max(largest, scores),  shrinking = exp(largest - largest'),  scores = exp(scores - largest')
        total = total * shrinking + sum(scores)

    `largest` starts as -inf; as long as it is, nothing is subtracted, and all exponentials are zero.
    """
    builder = vectors.builder
    with _each_column(vectors, keys, square, columns) as (c, rows):
        column, before = builder.gep(scores, [c]), vectors.load(builder.gep(largest, [c]))
        now = _column_maximum(vectors, column, rows, before)
        vectors.store(now, builder.gep(largest, [c]))
        now = builder.select(builder.fcmp_ordered("==", now, vectors.full(float("-inf"))), vectors.full(0.0), now)
        factor = _exp(vectors, builder.fsub(before, now))
        vectors.store(factor, builder.gep(shrinking, [c]))
        address_of_total = builder.gep(total, [c])
        sums = cgutils.alloca_once_value(builder, builder.fmul(vectors.load(address_of_total), factor))
        with cgutils.for_range(builder, rows) as row:
            address = _address(vectors, column, row.index, constant(BLOCK), constant(0))
            weight = _exp(vectors, builder.fsub(vectors.load(address), now))
            vectors.store(weight, address)
            builder.store(builder.fadd(builder.load(sums), weight), sums)
        vectors.store(builder.load(sums), address_of_total)


@vector_pass
def softmax_backward(vectors, scores, dscores, keys, square, columns, largest, factors):
    """scores = weights = exp(scores - largest) * factors;  dscores = weights * dscores"""
    builder = vectors.builder
    with _each_column(vectors, keys, square, columns) as (column, rows):
        subtracted, factor = (vectors.load(builder.gep(x, [column])) for x in (largest, factors))
        with cgutils.for_range(builder, rows) as row:
            address, daddress = (_address(vectors, x, row.index, constant(BLOCK), column) for x in (scores, dscores))
            weight = builder.fmul(_exp(vectors, builder.fsub(vectors.load(address), subtracted)), factor)
            vectors.store(weight, address)
            vectors.store(builder.fmul(weight, vectors.load(daddress)), daddress)


def _drop(vectors, weights, keys, square, columns, dropping, dscores=None, minus_delta=None):
    """weights *= factors; before that, if there are dscores, dscores = dscores * factors + weights * minus_delta

    dropping: the counter of the tile's corner, the number of counters per strip, and the arguments of `Factors`. There is a
    counter for each query and group of SLOTS keys. The last keys of a group may not exist, but have room in the tile.
    """
    builder = vectors.builder
    first, per_strip, *key_and_more = fields(builder, dropping, 5)
    factors = Factors(vectors, *key_and_more)
    with _each_column(vectors, keys, square, columns) as (column, rows):
        strip = builder.sdiv(column, constant(STRIP))
        start = builder.add(first, builder.add(builder.mul(strip, per_strip), builder.and_(column, constant(STRIP - 1))))
        delta = vectors.load(builder.gep(minus_delta, [column])) if minus_delta else None
        with cgutils.for_range_slice(builder, constant(0), rows, constant(SLOTS)) as (row, _):
            counter = builder.add(start, builder.mul(row, constant(LANES // SLOTS)))
            for i, factor in enumerate(factors.of(counter)):
                place = builder.add(row, constant(i)), constant(BLOCK), column
                address = _address(vectors, weights, *place)
                weight = vectors.load(address)
                if delta:
                    daddress = _address(vectors, dscores, *place)
                    subtracted = builder.fmul(weight, delta)
                    vectors.store(vectors.multiply_add(vectors.load(daddress), factor, subtracted), daddress)
                vectors.store(builder.fmul(weight, factor), address)


@vector_pass
def drop_weights(vectors, weights, keys, square, columns, dropping):
    """weights *= factors"""
    _drop(vectors, weights, keys, square, columns, dropping)


@vector_pass
def drop_weights_backward(vectors, weights, dscores, minus_delta, keys, square, columns, dropping):
    """dscores = dscores * factors + weights * minus_delta;  weights *= factors

    On entry dscores is weights * (dout @ v.T), the weights times the gradient of the dropped weights.
    """
    _drop(vectors, weights, keys, square, columns, dropping, dscores, minus_delta)
