"""The innermost loops of the matrix product, written in LLVM's instructions: a tile of C in registers, and packing.

With 512-bit vectors a tile of C is 6 rows x 4 vectors, 24 registers. Each step of the loop over k loads 4 vectors of a
row of B and broadcasts 6 elements of a column of A: 24 fused multiply-adds for 10 loads. There is one function for each
number of rows and of vectors, so that ragged edges are as fast, and a table of pointers to them: a single function with all
the loops would take LLVM much longer to compile.
"""
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .simd import BIT, INDEX, INT64, VectorBuilder, constant, fields, instructions, vector_pass, vector_shape

BYTES = ir.IntType(8).as_pointer()
UNROLLED = 4  # values of k in a round of a full tile's loop
AHEAD = 16  # by how many values of k a transposed A is prefetched; it may be in another core's cache
PACKS_A, PACKS_B = 1, 2  # what a tile packs as it goes
L1, L2 = 3, 2  # where LLVM's prefetch brings a line
LINE = 64  # bytes
AT_ONCE = 8  # dot products: rows a power of two apart share 8 places of L1, so 16 at once took twice as long


def _internal_function(builder, name, argument_types, emit):
    """A function of this module with the given body, made at the first request, never inlined."""
    if name not in builder.module.globals:
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), argument_types), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        body = ir.IRBuilder(function.append_basic_block())
        emit(body, function.args)
        body.ret_void()
    return builder.module.globals[name]


class _Tile:
    """One tile function: C[0:rows, 0:n] = A[0:rows, 0:K] @ B[0:K, 0:n] [+ source], n in the last of `count` vectors.

    A has element strides row_a, column_a; B and C have row strides row_b, row_c. If `adding`, the source is added, which
    has the row stride row_source: C itself, or a bias with stride 0. B is read in whole vectors, even past n: the loop has
    no masks, as a masked load occupies a port that the multiply-adds need.

    The loop has time for stores: if `packs_b`, it also stores the rows of B in `packed_b`, and if `packs_a`, the columns of
    a transposed A (row_a = 1) in `packed_a`. These are columns for as many tiles as make whole vectors, so that each cache
    line is fetched once.

    It also has time to prefetch what a later tile packs, perhaps from memory: a full tile that packs nothing fetches two
    vectors at `ahead` into the L2 cache each round, and moves on by the stride row_ahead.

    If `of_pairs`, an element of A is a pair of bfloat16 numbers, at k and k + 1 of the product, and so is one of B.
    """

    def __init__(self, context, builder, dtype, rows, count, packs_a, packs_b, of_pairs, arguments):
        self.vectors = VectorBuilder(context, builder, dtype)
        self.builder, self.rows, self.count, self.packs_a, self.packs_b = builder, rows, count, packs_a, packs_b
        self.add_products = self.vectors.add_pair_products if of_pairs else self.vectors.multiply_add
        (self.K, self.A, self.row_a, self.column_a, self.B, self.row_b, self.C, self.row_c,
         self.n, self.adding, self.source, self.row_source, self.packed_a, self.packed_b, self.ahead,
         self.row_ahead) = arguments
        is_full = rows == self.vectors.tile_rows and count == self.vectors.tile_vectors
        self.fetches = is_full and not packs_a and not packs_b and not of_pairs
        last = self.vectors.first(builder.sub(self.n, constant((count - 1) * self.vectors.lanes)))
        self.masks = [None] * (count - 1) + [last]  # of C and the source

    def emit(self):
        builder, vectors = self.builder, self.vectors
        rows_of_c = self._row_pointers(self.C, self.row_c)
        for row in rows_of_c:  # needed at the end of the loop
            self._prefetch(row, self.count, writing=1)
        totals = [cgutils.alloca_once_value(builder, total) for total in self._loop()]
        places = [(i, j) for i in range(self.rows) for j in range(self.count)]
        with builder.if_then(builder.icmp_signed("!=", self.adding, constant(0))):
            sources = self._row_pointers(self.source, self.row_source)
            for total, (i, j) in zip(totals, places):
                source = vectors.load(self._vector(sources[i], j), self.masks[j])
                builder.store(builder.fadd(builder.load(total), source), total)
        for total, (i, j) in zip(totals, places):
            vectors.store(builder.load(total), self._vector(rows_of_c[i], j), self.masks[j])

    def _row_pointers(self, base, stride):
        return [self.builder.gep(base, [self.builder.mul(constant(i), stride)]) for i in range(self.rows)]

    def _vector(self, pointer, j):
        return self.builder.gep(pointer, [constant(j * self.vectors.lanes)])

    def _prefetch(self, row, count, writing=0, cache=L1):
        """Prefetch the first vectors of a row."""
        for j in range(count):
            self.vectors.prefetch(self.builder.bitcast(self._vector(row, j), BYTES), cache, writing)

    def _loop(self):
        """The sums over k, in order of k, for each vector of each row."""
        builder = self.builder
        self.rows_of_a = [constant(0)] + [self._opaque(builder.mul(constant(i), self.row_a)) for i in range(1, self.rows)]
        self.ahead_in_a = self._opaque(builder.mul(constant(AHEAD), self.column_a))
        pointers = [self.A, self.B, self.packed_a, self.packed_b, self.ahead]
        state = pointers + [self.vectors.full(0.0)] * (self.rows * self.count)
        if self.rows == self.vectors.tile_rows:
            state = self._repeat(builder.ashr(self.K, constant(UNROLLED.bit_length() - 1)), UNROLLED, state)
            state = self._repeat(builder.and_(self.K, constant(UNROLLED - 1)), 1, state)
        else:
            state = self._repeat(self.K, 1, state)
        return state[len(pointers):]

    def _opaque(self, value):
        """The value, hidden from LLVM, which would turn the addresses in A into a chain of additions."""
        return self.builder.asm(ir.FunctionType(value.type, [value.type]), "", "=r,0", [value], False)

    def _repeat(self, times, steps, state):
        """Emit `times` rounds of `steps` values of k; from the initial state, pointers and sums, to the final one."""
        builder = self.builder
        entry, check, loop, done = builder.block, *(builder.append_basic_block() for _ in range(3))
        builder.branch(check)
        builder.position_at_end(check)
        left = builder.phi(INT64)
        current = [builder.phi(value.type) for value in state]
        builder.cbranch(builder.icmp_signed(">", left, constant(0)), loop, done)
        builder.position_at_end(loop)
        following = current
        for _ in range(steps):
            following = self._step(*following[:5], following[5:])
        if self.fetches and steps > 1:
            self._prefetch(following[4], 2, cache=L2)
            following[4] = builder.gep(following[4], [self.row_ahead])
        for phi, first, later in zip([left, *current], [times, *state], [builder.sub(left, constant(1)), *following]):
            phi.add_incoming(first, entry)
            phi.add_incoming(later, loop)
        builder.branch(check)
        builder.position_at_end(done)
        return current

    def _step(self, column_of_a, row_of_b, packed_a, packed_b, ahead, sums):
        """One k: add a column of A times a row of B to the sums."""
        builder, vectors = self.builder, self.vectors
        b = [vectors.load(self._vector(row_of_b, j)) for j in range(self.count)]
        if self.packs_b:
            for j in range(self.count):
                vectors.store(b[j], self._vector(packed_b, j))
            packed_b = self._vector(packed_b, self.count)
        if self.packs_a:
            self._prefetch(builder.gep(column_of_a, [self.ahead_in_a]), self.rows // 2)
            for j in range(self.rows // 2):
                vectors.store(vectors.load(self._vector(column_of_a, j)), self._vector(packed_a, j))
            packed_a = self._vector(packed_a, self.rows // 2)
        totals = []
        for i in range(self.rows):
            a = vectors.splat(builder.load(builder.gep(column_of_a, [self.rows_of_a[i]])))
            totals += [self.add_products(a, b[j], sums[i * self.count + j]) for j in range(self.count)]
        column_of_a = self._opaque(builder.gep(column_of_a, [self.column_a]))
        return [column_of_a, builder.gep(row_of_b, [self.row_b]), packed_a, packed_b, ahead, *totals]


def _tile_table(context, builder, dtype, of_pairs):
    """A constant array of pointers to tile functions: [vectors - 1][rows - 1], then the full tiles that pack."""
    vectors = VectorBuilder(context, builder, dtype)
    suffix = f"{vectors.suffix}{'.of_pairs' * of_pairs}"
    name = f"tiles.{suffix}"
    if name not in builder.module.globals:
        pointer = vectors.element.as_pointer()
        arguments = [INT64, pointer, INT64, INT64, pointer, INT64, pointer, INT64, INT64, INT64, pointer, INT64,
                     pointer, pointer, pointer, INT64]
        rows, count = vectors.tile_rows, vectors.tile_vectors
        kinds = [(r, c, False, False) for c in range(1, count + 1) for r in range(1, rows + 1)]
        if not of_pairs:
            kinds += [(rows, count, packs_a, packs_b) for packs_a, packs_b in ((True, False), (False, True), (True, True))]
        functions = [
            _internal_function(
                builder, f"tile.{suffix}.{r}x{c}{'.packs_a' * packs_a}{'.packs_b' * packs_b}", arguments,
                lambda body, args, kind=(r, c, packs_a, packs_b, of_pairs): _Tile(context, body, dtype, *kind, args).emit(),
            )
            for r, c, packs_a, packs_b in kinds
        ]
        table_type = ir.ArrayType(functions[0].type, len(functions))
        table = ir.GlobalVariable(builder.module, table_type, name)
        table.initializer = ir.Constant(table_type, functions)
        table.linkage, table.global_constant = "internal", True
    return builder.module.globals[name]


def _emit_tile(of_pairs, site, rows, vectors, K, n, A, B, C, ahead):
    builder = site.builder
    A, B, C = (fields(builder, values, 3) for values in (A, B, C))
    number = builder.add(builder.mul(builder.sub(vectors, constant(1)), constant(vector_shape(site.context)[1])), rows)
    number = builder.add(builder.add(number, A[1]), B[1])  # tiles that pack come after the full one
    table = _tile_table(site.context, builder, site.kinds[-1][0].dtype, of_pairs)
    slot = builder.gep(table, [constant(0), builder.sub(number, constant(1))])
    a, b, c, source, ahead = (
        fields(builder, *matrix) for matrix in ((A[0], 3), (B[0], 2), (C[0], 2), (C[1], 2), (ahead, 2)))
    builder.call(builder.load(slot), [K, *a, *b, *c, n, C[2], *source, A[2], B[2], *ahead])


@instructions()
def multiply_tile(site, rows, vectors, K, n, A, B, C, ahead):
    """One tile of C, see `_Tile`, for operands A and B, a sum C, and a matrix `ahead`, see matrix.py. The state of A is
    PACKS_A or 0, that of B is PACKS_B or 0; only full tiles pack."""
    _emit_tile(False, site, rows, vectors, K, n, A, B, C, ahead)


@instructions()
def multiply_tile_of_pairs(site, rows, vectors, K, n, A, B, C, ahead):
    """The same for operands of K pairs, which do not pack."""
    _emit_tile(True, site, rows, vectors, K, n, A, B, C, ahead)


@instructions(lambda pointer: types.UniTuple(INDEX, 3))
def shape(site, pointer):
    """(lanes of a vector, rows of a tile, vectors of a tile) for this processor and the pointer's dtype."""
    bits, rows, vectors, _ = vector_shape(site.context)
    return site.tuple([constant(value) for value in (bits // site.element.bitwidth, rows, vectors)])


@instructions(INDEX)
def panel_depth(site):
    """The largest number of rows of a panel of B, on this processor."""
    return constant(vector_shape(site.context)[3])


@vector_pass
def copy_vector(vectors, source, target, count, zeroing):
    """target[0:count] = source[0:count], at most one vector; the other lanes become zero if `zeroing`."""
    mask = vectors.first(count)
    written = vectors.builder.or_(mask, vectors.splat(vectors.builder.trunc(zeroing, BIT)))
    vectors.store(vectors.load(source, mask), target, written)


def _emit_swap(vectors, x, y, step):
    """(x with y's lanes moved `step` up into its upper halves, y with x's moved down into its lower halves)."""
    lanes = range(vectors.lanes)
    upper = [lane if not lane & step else vectors.lanes + lane - step for lane in lanes]
    lower = [lane + step if not lane & step else vectors.lanes + lane for lane in lanes]
    return vectors.shuffle(x, y, upper), vectors.shuffle(x, y, lower)


def _row_pointers(vectors, start, row, rows):
    """Where the rows of a square begin; from `rows` on, the first one again."""
    builder = vectors.builder
    for i in range(vectors.lanes):
        existing = builder.select(builder.icmp_signed("<", constant(i), rows), constant(i), constant(0))
        yield builder.gep(start, [builder.mul(existing, row)])


def _emit_transpose(vectors, source, row_source, rows, columns, target, row_target):
    """log2(lanes) rounds that swap the off-diagonal halves, quarters, ... of a square of registers."""
    builder, lanes = vectors.builder, vectors.lanes
    mask = vectors.first(columns)
    square = [vectors.load(pointer, mask) for pointer in _row_pointers(vectors, source, row_source, rows)]
    step = lanes // 2
    while step:
        for i in range(lanes):
            if not i & step:
                square[i], square[i + step] = _emit_swap(vectors, square[i], square[i + step], step)
        step //= 2
    for row in range(lanes):
        vectors.store(square[row], builder.gep(target, [builder.mul(constant(row), row_target)]))


def emit_transpose_square(vectors, *arguments):
    """Emit `transpose_square`, as a call."""
    function = _internal_function(
        vectors.builder, f"transpose.{vectors.suffix}", [argument.type for argument in arguments],
        lambda body, args: _emit_transpose(vectors.written_by(body), *args),
    )
    vectors.builder.call(function, arguments)


@vector_pass
def transpose_square(vectors, source, row_source, rows, columns, target, row_target):
    """target[c, r] = source[r, c] for a square as wide as a vector.

    Rows from `rows` on are not read, and become copies of the first; columns from `columns` on become zeros.
    """
    emit_transpose_square(vectors, source, row_source, rows, columns, target, row_target)


def _emit_sums(vectors, square):
    """A vector with the sum of each vector of a square: a transposition that adds as it goes."""
    step = vectors.lanes // 2
    while step:
        pairs = [_emit_swap(vectors, x, y, step) for x, y in zip(square[:step], square[step:])]
        square = [vectors.builder.fadd(upper, lower) for upper, lower in pairs]
        step //= 2
    return square[0]


def _prefetch_later_rows(vectors, rows, K, k):
    """Prefetch what is read two groups of rows later, as many lines as a round of the loop reads.

    The rows of a weight are too short for the processor to foresee what follows: a product of 50,257 rows of 768 with one
    vector took up to three times as long.
    """
    builder = vectors.builder
    size = vectors.item_size * len(rows)
    place = builder.mul(builder.add(k, builder.mul(K, constant(2))), constant(size))
    for line in range(0, size * vectors.lanes, LINE):
        target = builder.gep(builder.bitcast(rows[0], BYTES), [builder.add(place, constant(line))])
        vectors.prefetch(target, cache=L2)


def _emit_sums_of_lanes(vectors, x, K, rows):
    """The products of x with each row, a vector of sums for each: lane l has the sum over k = l, l + lanes, ..."""
    builder, lanes = vectors.builder, vectors.lanes
    entry, check, loop, rest = (builder.block, *(builder.append_basic_block() for _ in range(3)))
    builder.branch(check)
    builder.position_at_end(check)
    k = builder.phi(INT64)
    sums = [builder.phi(vectors.type) for _ in rows]
    following = builder.add(k, constant(lanes))
    builder.cbranch(builder.icmp_signed("<=", following, K), loop, rest)

    def add_products(mask):
        part_of_x = vectors.load(builder.gep(x, [k]), mask)
        return [vectors.multiply_add(vectors.load(builder.gep(row, [k]), mask), part_of_x, total)
                for row, total in zip(rows, sums)]

    builder.position_at_end(loop)
    _prefetch_later_rows(vectors, rows, K, k)
    for total, update in zip(sums, add_products(None)):
        total.add_incoming(vectors.full(0.0), entry)
        total.add_incoming(update, loop)
    k.add_incoming(constant(0), entry)
    k.add_incoming(following, loop)
    builder.branch(check)
    builder.position_at_end(rest)
    return add_products(vectors.first(builder.sub(K, k)))


def _emit_dot_products(vectors, x, K, W, row_w, rows, out, bias, has_bias, accumulate):
    builder = vectors.builder
    row_pointers = list(_row_pointers(vectors, W, row_w, rows))
    sums = []
    for first in range(0, vectors.lanes, AT_ONCE):
        sums += _emit_sums_of_lanes(vectors, x, K, row_pointers[first : first + AT_ONCE])
    result = _emit_sums(vectors, sums)
    existing = vectors.first(rows)
    for source, wanted in ((bias, has_bias), (out, accumulate)):
        mask = builder.and_(existing, vectors.splat(builder.trunc(wanted, BIT)))
        result = builder.fadd(result, vectors.load(source, mask))
    vectors.store(result, out, existing)


@vector_pass
def dot_products(vectors, x, K, W, row_w, rows, out, bias, has_bias, accumulate):
    """out[r] = [out[r] +] sum over k of x[k] W[r, k] [+ bias[r]], for at most one vector of rows."""
    arguments = x, K, W, row_w, rows, out, bias, has_bias, accumulate
    function = _internal_function(
        vectors.builder, f"dot_products.{vectors.suffix}", [argument.type for argument in arguments],
        lambda body, args: _emit_dot_products(vectors.written_by(body), *args),
    )
    vectors.builder.call(function, arguments)
