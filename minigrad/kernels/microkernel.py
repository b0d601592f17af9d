"""The innermost loops of the matrix product, written in LLVM's instructions: a tile of C in registers, and packing.

With 512-bit vectors a tile of C is 6 rows x 4 vectors, 24 registers. Each step of the loop over k loads 4 vectors of a
row of B and broadcasts 6 elements of a column of A: 24 fused multiply-adds for 10 loads. There is one function per
number of rows and of vectors, so that ragged edges are as quick; the last vector is masked. They are separate functions
in a table of pointers, as one function with all the loops would take LLVM much longer to compile.
"""
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .simd import BIT, INDEX, INT32, INT64, VectorBuilder, constant, use_widest_vectors, vector_shape

BYTES = ir.IntType(8).as_pointer()


def _internal_function(builder, name, argument_types, emit):
    """A function of this module with the given body, made at the first request and never inlined."""
    if name not in builder.module.globals:
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), argument_types), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        body = ir.IRBuilder(function.append_basic_block())
        use_widest_vectors(body)
        emit(body, function.args)
        body.ret_void()
    return builder.module.globals[name]


class _Tile:
    """One tile function: C[0:rows, 0:n] = A[0:rows, 0:K] @ B[0:K, 0:n] [+ source], n in the last of `count` vectors.

    A has element strides row_a, column_a; B and C the row strides row_b, row_c. If `adding`, the source is added, which
    has the row stride row_source: C itself, or a bias with stride 0. If `packing`, the rows of B are stored in `packed`
    on their way: the loop has time for stores.
    """

    def __init__(self, context, builder, dtype, rows, count, packing, arguments):
        self.vectors = VectorBuilder(context, builder, dtype)
        self.builder, self.rows, self.count, self.packing = builder, rows, count, packing
        (self.K, self.A, self.row_a, self.column_a, self.B, self.row_b, self.C, self.row_c,
         self.n, self.adding, self.source, self.row_source, self.packed) = arguments
        last = self.vectors.first(builder.sub(self.n, constant((count - 1) * self.vectors.lanes)))
        self.masks = [None] * (count - 1) + [last]

    def emit(self):
        self._prefetch(self.C, self.row_c)
        total = self._add_source(self._loop())
        for i, row in enumerate(self._row_pointers(self.C, self.row_c)):
            for j in range(self.count):
                self.vectors.store(total[i][j], self._vector(row, j), self.masks[j])

    def _row_pointers(self, base, stride):
        return [self.builder.gep(base, [self.builder.mul(constant(i), stride)]) for i in range(self.rows)]

    def _vector(self, pointer, j):
        return self.builder.gep(pointer, [constant(j * self.vectors.lanes)])

    def _prefetch(self, base, stride):
        """Ask for the tile of C, which is wanted at the end of the loop."""
        for row in self._row_pointers(base, stride):
            for j in range(self.count):
                target = self.builder.bitcast(self._vector(row, j), BYTES)
                write, keep, data = (ir.Constant(INT32, value) for value in (1, 3, 1))
                self.vectors.call("llvm.prefetch.p0", ir.VoidType(), target, write, keep, data)

    def _loop(self):
        """The products summed over k, in order of k."""
        builder, vectors = self.builder, self.vectors
        rows_of_a = self._row_pointers(self.A, self.row_a)
        entry, loop, done = builder.block, builder.append_basic_block("k"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(INT64)
        sums = [[builder.phi(vectors.type) for _ in range(self.count)] for _ in range(self.rows)]
        row_of_b = builder.gep(self.B, [builder.mul(k, self.row_b)])
        b = [vectors.load(self._vector(row_of_b, j), self.masks[j]) for j in range(self.count)]
        if self.packing:
            packed = builder.gep(self.packed, [builder.mul(k, constant(self.count * vectors.lanes))])
            for j in range(self.count):
                vectors.store(b[j], self._vector(packed, j))
        offset = builder.mul(k, self.column_a)
        totals = []
        for i in range(self.rows):
            a = vectors.splat(builder.load(builder.gep(rows_of_a[i], [offset])))
            totals.append([vectors.multiply_add(a, b[j], sums[i][j]) for j in range(self.count)])
            for j in range(self.count):
                sums[i][j].add_incoming(vectors.full(0.0), entry)
                sums[i][j].add_incoming(totals[i][j], loop)
        following = builder.add(k, constant(1))
        k.add_incoming(constant(0), entry)
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, self.K), loop, done)
        builder.position_at_end(done)
        return totals

    def _add_source(self, totals):
        builder, vectors = self.builder, self.vectors
        before, adding, join = builder.block, builder.append_basic_block("add"), builder.append_basic_block("join")
        builder.cbranch(builder.icmp_signed("!=", self.adding, constant(0)), adding, join)
        builder.position_at_end(adding)
        sources = self._row_pointers(self.source, self.row_source)
        added = [
            [builder.fadd(total[j], vectors.load(self._vector(source, j), self.masks[j])) for j in range(self.count)]
            for source, total in zip(sources, totals)
        ]
        builder.branch(join)
        builder.position_at_end(join)
        results = [[builder.phi(vectors.type) for _ in row] for row in totals]
        for i in range(self.rows):
            for j in range(self.count):
                results[i][j].add_incoming(totals[i][j], before)
                results[i][j].add_incoming(added[i][j], adding)
        return results


def _tile_table(context, builder, dtype):
    """A constant array of pointers to tile functions: [vectors - 1][rows - 1], then the full tile that packs B."""
    vectors = VectorBuilder(context, builder, dtype)
    name = f"tiles.{vectors.suffix}"
    if name not in builder.module.globals:
        pointer = vectors.element.as_pointer()
        arguments = [INT64, pointer, INT64, INT64, pointer, INT64, pointer, INT64, INT64, INT64, pointer, INT64,
                     pointer]
        rows, count = vectors.tile_rows, vectors.tile_vectors
        kinds = [(r, c, False) for c in range(1, count + 1) for r in range(1, rows + 1)] + [(rows, count, True)]
        functions = [
            _internal_function(builder, f"tile.{vectors.suffix}.{r}x{c}{'.packing' * packing}", arguments,
                               lambda body, args, kind=(r, c, packing): _Tile(context, body, dtype, *kind, args).emit())
            for r, c, packing in kinds
        ]
        table_type = ir.ArrayType(functions[0].type, len(functions))
        table = ir.GlobalVariable(builder.module, table_type, name)
        table.initializer = ir.Constant(table_type, functions)
        table.linkage, table.global_constant = "internal", True
    return builder.module.globals[name]


@intrinsic
def multiply_tile(typing_context, rows, vectors, packing, K, A, row_a, column_a, B, row_b, C, row_c, n, adding, source,
                  row_source, packed):
    """One tile of C, see `_Tile`; packing (0 or 1) only for a full tile."""

    def codegen(context, builder, signature, arguments):
        rows, vectors, packing, *arguments = arguments
        dtype = signature.args[4].dtype
        _, tile_rows, _ = vector_shape(context)
        number = builder.add(builder.mul(builder.sub(vectors, constant(1)), constant(tile_rows)), rows)
        number = builder.sub(builder.add(number, packing), constant(1))  # the packing tile stands behind the full one
        slot = builder.gep(_tile_table(context, builder, dtype), [constant(0), number])
        builder.call(builder.load(slot), arguments)
        return context.get_dummy_value()

    return types.void(INDEX, INDEX, INDEX, INDEX, A, INDEX, INDEX, B, INDEX, C, INDEX, INDEX, INDEX, source, INDEX,
                      packed), codegen


@intrinsic
def shape(typing_context, pointer):
    """(lanes of a vector, rows of a tile, vectors of a tile) for this processor and the pointer's dtype."""

    def codegen(context, builder, signature, arguments):
        bits, rows, vectors = vector_shape(context)
        values = [constant(v) for v in (bits // signature.args[0].dtype.bitwidth, rows, vectors)]
        return context.make_tuple(builder, signature.return_type, values)

    return types.UniTuple(INDEX, 3)(pointer), codegen


@intrinsic
def copy_vector(typing_context, source, target, count, zeroing):
    """target[0:count] = source[0:count], count at most one vector; the other lanes become zero, or stay."""

    def codegen(context, builder, signature, arguments):
        source, target, count, zeroing = arguments
        vectors = VectorBuilder(context, builder, signature.args[0].dtype)
        mask = vectors.first(count)
        written = builder.or_(mask, vectors.splat(builder.trunc(zeroing, BIT)))
        vectors.store(vectors.load(source, mask), target, written)
        return context.get_dummy_value()

    return types.void(source, target, INDEX, INDEX), codegen


def _emit_swap(vectors, x, y, step):
    """(x with y's lanes moved `step` up into its upper halves, y with x's moved down into its lower halves)."""
    lanes = range(vectors.lanes)
    upper = [lane if not lane & step else vectors.lanes + lane - step for lane in lanes]
    lower = [lane + step if not lane & step else vectors.lanes + lane for lane in lanes]
    return vectors.shuffle(x, y, upper), vectors.shuffle(x, y, lower)


def _emit_transpose(vectors, source, row_source, rows, columns, target, row_target):
    """log2(lanes) rounds that swap the off-diagonal halves, quarters, ... of a square of registers."""
    builder, lanes = vectors.builder, vectors.lanes
    mask = vectors.first(columns)
    square = []
    for row in range(lanes):
        existing = builder.select(builder.icmp_signed("<", constant(row), rows), constant(row), constant(0))
        square.append(vectors.load(builder.gep(source, [builder.mul(existing, row_source)]), mask))
    step = lanes // 2
    while step:
        for i in range(lanes):
            if not i & step:
                square[i], square[i + step] = _emit_swap(vectors, square[i], square[i + step], step)
        step //= 2
    for row in range(lanes):
        vectors.store(square[row], builder.gep(target, [builder.mul(constant(row), row_target)]))


def emit_transpose_square(vectors, *arguments):
    """The instructions of `transpose_square`: a call."""
    function = _internal_function(
        vectors.builder, f"transpose.{vectors.suffix}", [argument.type for argument in arguments],
        lambda body, args: _emit_transpose(vectors.written_by(body), *args),
    )
    vectors.builder.call(function, arguments)


@intrinsic
def transpose_square(typing_context, source, row_source, rows, columns, target, row_target):
    """target[c, r] = source[r, c] for a square as wide as a vector.

    Rows from `rows` on are not read and come out as repetitions of the first; columns from `columns` on become zeros.
    """

    def codegen(context, builder, signature, arguments):
        emit_transpose_square(VectorBuilder(context, builder, signature.args[0].dtype), *arguments)
        return context.get_dummy_value()

    return types.void(source, INDEX, INDEX, INDEX, target, INDEX), codegen


def _emit_sums(vectors, square):
    """The sum of each of as many vectors as one has lanes, side by side: a transposition that adds on the way."""
    step = vectors.lanes // 2
    while step:
        pairs = [_emit_swap(vectors, x, y, step) for x, y in zip(square[:step], square[step:])]
        square = [vectors.builder.fadd(upper, lower) for upper, lower in pairs]
        step //= 2
    return square[0]


def _emit_dot_products(vectors, K, x, W, row_w, rows, out, bias, has_bias, accumulate):
    builder, lanes = vectors.builder, vectors.lanes
    row_pointers = []
    for row in range(lanes):
        existing = builder.select(builder.icmp_signed("<", constant(row), rows), constant(row), constant(0))
        row_pointers.append(builder.gep(W, [builder.mul(existing, row_w)]))
    entry, check, loop, rest = (builder.block, *(builder.append_basic_block() for _ in range(3)))
    builder.branch(check)
    builder.position_at_end(check)
    k = builder.phi(INT64)
    sums = [builder.phi(vectors.type) for _ in range(lanes)]
    following = builder.add(k, constant(lanes))
    builder.cbranch(builder.icmp_signed("<=", following, K), loop, rest)

    def add_products(mask):
        part_of_x = vectors.load(builder.gep(x, [k]), mask)
        return [
            vectors.multiply_add(vectors.load(builder.gep(row, [k]), mask), part_of_x, total)
            for row, total in zip(row_pointers, sums)
        ]

    builder.position_at_end(loop)
    for total, update in zip(sums, add_products(None)):
        total.add_incoming(vectors.full(0.0), entry)
        total.add_incoming(update, loop)
    k.add_incoming(constant(0), entry)
    k.add_incoming(following, loop)
    builder.branch(check)
    builder.position_at_end(rest)
    result = _emit_sums(vectors, add_products(vectors.first(builder.sub(K, k))))
    existing = vectors.first(rows)
    for source, wanted in ((bias, has_bias), (out, accumulate)):
        mask = builder.and_(existing, vectors.splat(builder.trunc(wanted, BIT)))
        result = builder.fadd(result, vectors.load(source, mask))
    vectors.store(result, out, existing)


@intrinsic
def dot_products(typing_context, K, x, W, row_w, rows, out, bias, has_bias, accumulate):
    """out[r] = [out[r] +] sum over k of x[k] W[r, k] [+ bias[r]], for at most as many rows as a vector has lanes."""

    def codegen(context, builder, signature, arguments):
        dtype = signature.args[1].dtype
        name = f"dot_products.{VectorBuilder(context, builder, dtype).suffix}"
        function = _internal_function(
            builder, name, [argument.type for argument in arguments],
            lambda body, args: _emit_dot_products(VectorBuilder(context, body, dtype), *args),
        )
        builder.call(function, arguments)
        return context.get_dummy_value()

    return types.void(INDEX, x, W, INDEX, INDEX, out, bias, INDEX, INDEX), codegen
