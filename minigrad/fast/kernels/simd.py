"""Vector building blocks: functions of one number that LLVM vectorises, pointers, and LLVM vectors themselves.

`exp, exp_nonpositive, log, normal, or_zero` may be called in any kernel. For float64 they are `math`'s functions,
exact and called element by element (2 to 12 ns). For float32 they are polynomials without branches, 0.2 to 0.5 ns per
element in a loop, with errors of about 1e-7. NaN goes through; infinities and large arguments give the limits.

`pointer(array, offset)` gives a pointer p, used as p[i]; `shift(p, count)` moves it. `VectorBuilder` is for kernels written
in LLVM's own instructions.

The polynomials are minimax fits made for this project (Lawson's algorithm on Chebyshev nodes).
"""
import copy
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .internals import processor
from .jit import PART, jit

binding.initialize_native_asmparser()  # for instructions that LLVM's assembler must know, see `add_pair_products`

INT32, INT64, BIT, FLOAT = ir.IntType(32), ir.IntType(64), ir.IntType(1), ir.FloatType()
INDEX = types.intp

# Coefficients, highest power first.
EXP = (1.395060218e-3, 8.368953523e-3, 4.166620414e-2, 1.666651831e-1, 5.000000096e-1)  # (exp(r) - 1 - r) / r²
EXP_2 = (1.867130293e-3, 9.017029709e-3, 5.579991370e-2, 2.401644499e-1, 6.931513118e-1)  # (2^r - 1) / r, r from 0 to 1
LOG = (-7.859611509e-2, 1.288164749e-1, -1.312875480e-1, 1.418119194e-1,
       -1.662455404e-1, 2.000228627e-1, -2.500081041e-1, 3.333331673e-1)  # (log(1 + m) - m + m²/2) / m³
TAIL = (3.608890444e-2, -1.589339862e-1, 2.093468023e-1, -5.645045024e-2,
        1.300327936e-1, 9.946501404e-2, 1.208263222e-1, 1.196245405e-1)  # P(X > x) exp(x²/2) / t of t = 1 / (1 + 0.3 x)

# float32 constants: a Python float in an expression would turn it into float64.
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
INFINITY, NAN = np.float32(np.inf), np.float32(np.nan)
LOG2_E, LN_2_HIGH, LN_2_LOW = np.float32(math.log2(math.e)), np.float32(0.693359375), np.float32(-2.12194440e-4)
SMALLEST_EXPONENT, LARGEST_EXPONENT = np.float32(-87.33), np.float32(88.72283)
SMALLEST_NORMAL = np.float32(2.0**-126)
INVERSE_SQRT_2PI = np.float32(1 / math.sqrt(2 * math.pi))
TAIL_SCALE = np.float32(0.3)


def call_by_name(builder, name: str, result: ir.Type, *arguments):
    """Call a function that the linker, or LLVM, knows by this name."""
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)


def _emit_multiply_add(builder, x, y, z, intrinsic_name="fmuladd"):
    """x * y + z, scalar or vector. LLVM fuses the two if the processor can, and never reassociates this form."""
    element = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    suffix = "f32" if isinstance(element, ir.FloatType) else "f64"
    name = f"llvm.{intrinsic_name}." + (suffix if element is x.type else f"v{x.type.count}{suffix}")
    return call_by_name(builder, name, x.type, x, y, z)


@intrinsic
def multiply_add(typing_context, x, y, z):
    """x * y + z."""
    return x(x, x, x), lambda context, builder, signature, args: _emit_multiply_add(builder, *args)


class Site(NamedTuple):
    """Where LLVM instructions are emitted, and for which types."""

    context: object
    builder: ir.IRBuilder
    kinds: tuple[types.Type, ...]
    result: types.Type
    element: types.Type | None  # of the first argument, if it is a pointer or a matrix

    def tuple(self, values):
        return self.context.make_tuple(self.builder, self.result, values)


def instructions(result: types.Type | Callable = types.void) -> Callable:
    """Make an intrinsic of emit(site, *values), which emits LLVM instructions and returns a value of type `result`.

    Integers and booleans are passed as indices, floats in the element type of the first argument (see `Site`). `result` may
    be a function of the arguments' types.
    """

    def decorate(emit):
        @functools.wraps(emit)
        def typed(typing_context, *kinds):
            first = kinds[0] if kinds else None
            first = first[0] if isinstance(first, types.BaseTuple) else first
            element = first.dtype if isinstance(first, types.CPointer) else None
            kinds = [INDEX if isinstance(kind, types.Integer | types.Boolean) else
                     element if element and isinstance(kind, types.Float) else kind for kind in kinds]
            kind_of_result = result if isinstance(result, types.Type) else result(*kinds)

            def codegen(context, builder, signature, values):
                made = emit(Site(context, builder, signature.args, signature.return_type, element), *values)
                return context.get_dummy_value() if made is None else made

            return kind_of_result(*kinds), codegen

        return intrinsic(typed)

    return decorate


@instructions(lambda x, coefficients: x)
def polynomial(site, x, coefficients):
    """Horner's rule over a global tuple of coefficients, unrolled, in the type of x."""
    kind, kinds = site.kinds
    values = [site.context.cast(site.builder, site.builder.extract_value(coefficients, i), kinds[i], kind)
              for i in range(len(kinds))]
    return functools.reduce(lambda result, value: _emit_multiply_add(site.builder, result, x, value), values)


@intrinsic
def bits_of(typing_context, x):
    return types.int32(types.float32), lambda context, builder, signature, args: builder.bitcast(args[0], INT32)


@intrinsic
def float_of_bits(typing_context, bits):
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(args[0], FLOAT)


def exp(x):
    """e**x. In float32 results below 2**-126 are zero."""
    return math.exp(x)


def exp_nonpositive(x):
    """e**x for x <= 0, without the cases that cannot occur. NaN goes through."""
    return math.exp(x)


def or_zero(x):
    """x; in float32, 0 for denormals: a matrix product with 0.1% of them took 5 times as long."""
    return x


def log(x):
    """The natural logarithm."""
    return math.log(x)


def normal(x):
    """The standard normal distribution: (P(X <= x), density at x), from a single exponential."""
    return 0.5 * math.erfc(-x / math.sqrt(2)), math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@jit
def _exp_in_range(x):
    """e**x for x from SMALLEST_EXPONENT to LARGEST_EXPONENT"""
    n = np.floor(multiply_add(x, LOG2_E, HALF))
    r = multiply_add(n, -LN_2_LOW, multiply_add(n, -LN_2_HIGH, x))  # x - n ln 2, with ln 2 in two pieces
    result = ONE + multiply_add(polynomial(r, EXP), r * r, r)
    # Times 2**n by adding n to the exponent's bits, as n may be 128, and 2**128 is no float32.
    return float_of_bits(bits_of(result) + (np.int32(n) << np.int32(23)))


def _exp_float32(x):
    within = SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x  # Numba would compile min and max, for 20 ms each
    within = LARGEST_EXPONENT if within > LARGEST_EXPONENT else within
    result = _exp_in_range(within)
    result = result if x > SMALLEST_EXPONENT else ZERO
    result = result if x < LARGEST_EXPONENT else INFINITY
    return result if x == x else x


def _exp_nonpositive_float32(x):
    result = _exp_in_range(SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x)  # NaN makes n = -2**31, and stays NaN
    return ZERO if x < SMALLEST_EXPONENT else result


@jit
def exponent_and_rest(x):
    """(n, m) of a normal positive float32: x = 2^n (1 + m), with 1 + m between sqrt(1/2) and sqrt(2)

    Integers are int32 throughout: in Numba the difference of two int32 is an int64, and loops would use those.
    """
    bits = np.int32(bits_of(x) - np.int32(0x3F3504F3))
    return np.int32(bits >> np.int32(23)), float_of_bits((bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3)) - ONE


def _log_float32(x):
    exponent, m = exponent_and_rest(x if x >= SMALLEST_NORMAL else x * np.float32(2.0**23))
    n = np.float32(exponent) - (ZERO if x >= SMALLEST_NORMAL else np.float32(23))
    square = m * m
    small = multiply_add(n, LN_2_LOW, multiply_add(polynomial(m, LOG) * m, square, -HALF * square))
    result = multiply_add(n, LN_2_HIGH, m + small)
    result = result if x > ZERO else (-INFINITY if x == ZERO else NAN)
    result = result if x < INFINITY else x
    return result if x == x else x


def _or_zero_float32(x):
    return ZERO if abs(x) < SMALLEST_NORMAL else x


def _normal_float32(x):
    e = exp_nonpositive(-HALF * x * x)
    t = ONE / multiply_add(TAIL_SCALE, abs(x), ONE)
    tail = polynomial(t, TAIL) * t * e  # P(X > |x|)
    return (ONE - tail if x > ZERO else tail), INVERSE_SQRT_2PI * e


def _in_kernels(definition, float32_version) -> None:
    """Let kernels call `definition`: float32 has its own version, other types use the definition itself."""

    @overload(definition, jit_options=PART)
    def choose(x):
        return float32_version if x == types.float32 else definition


for _definition, _version in (
    (exp, _exp_float32),
    (exp_nonpositive, _exp_nonpositive_float32),
    (or_zero, _or_zero_float32),
    (log, _log_float32),
    (normal, _normal_float32),
):
    _in_kernels(_definition, _version)


def _checked(array):
    """The type of an array; TypeError, when the kernel is compiled, if a pointer to its beginning is not enough."""
    if not isinstance(array, types.Array) or array.layout != "C":
        raise TypeError(f"kernels take arrays in C order here, got {array}; call them through the gate, `jit.ready`")
    return array


@instructions(lambda array, offset: types.CPointer(_checked(array).dtype))
def pointer(site, array, offset):
    """A pointer to element `offset` of the array, as if it were one-dimensional."""
    return site.builder.gep(site.context.make_array(site.kinds[0])(site.context, site.builder, array).data, [offset])


@intrinsic
def shift(typing_context, pointer, count):
    """The pointer, `count` elements further."""
    return pointer(pointer, INDEX), lambda context, builder, signature, args: builder.gep(args[0], [args[1]])


@instructions(lambda arguments, offset: types.Tuple([
    types.CPointer(stored(_checked(kind).dtype)) if isinstance(kind, types.Array) else kind for kind in arguments]))
def pointers(site, arguments, offset):
    """A tuple of arguments, with `pointer(array, offset)` in place of each array."""
    found = fields(site.builder, arguments, len(site.result))
    for i, kind in enumerate(site.kinds[0]):
        if isinstance(kind, types.Array):
            start = site.context.make_array(kind)(site.context, site.builder, found[i]).data
            found[i] = site.builder.gep(start, [offset])
    return site.tuple(found)


def stored(dtype):
    """The type of an element in memory: Numba cannot read booleans through a pointer."""
    return types.uint8 if dtype == types.boolean else dtype


@instructions(lambda pointers, strides, count: pointers)
def shift_each(site, pointers, strides, count):
    """A tuple of pointers, each moved by its stride times `count`."""
    pointers, strides = (fields(site.builder, values, len(site.result)) for values in (pointers, strides))
    return site.tuple([site.builder.gep(pointer, [site.builder.mul(stride, count)])
                       for pointer, stride in zip(pointers, strides)])


@instructions(lambda pointer, sizes: types.UniTuple(pointer, len(sizes)))
def consecutive(site, pointer, sizes):
    """Pointers to consecutive arrays of the given sizes."""
    pointers = [pointer]
    for size in fields(site.builder, sizes, len(site.result) - 1):
        pointers.append(site.builder.gep(pointers[-1], [size]))
    return site.tuple(pointers)


@instructions()
def call(site, function, arguments):
    """Call the machine code at an address, see `internals.entry_point`, with a tuple of arguments. It returns nothing."""
    values = fields(site.builder, arguments, len(site.kinds[1]))
    function_type = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    site.builder.call(site.builder.inttoptr(function, function_type.as_pointer()), values)


@intrinsic
def constant_like(typing_context, pointer, value):
    """The value in the dtype of the pointer's elements: float32 arithmetic with a Python number would be float64."""

    def codegen(context, builder, signature, arguments):
        return context.cast(builder, arguments[1], signature.args[1], signature.return_type)

    return pointer.dtype(pointer, value), codegen


@intrinsic(prefer_literal=True)
def on_stack(typing_context, count):
    """A pointer to memory for `count` float64 elements, a constant, valid while the function runs."""
    elements = count.literal_value

    def codegen(context, builder, signature, arguments):
        return cgutils.alloca_once(builder, ir.DoubleType(), elements)

    return types.CPointer(types.float64)(count), codegen


def fields(builder, values, count):
    """The first `count` values of a tuple."""
    return [builder.extract_value(values, i) for i in range(count)]


@intrinsic
def address(typing_context, pointer):
    """The pointer as an integer, in bytes."""
    return INDEX(pointer), lambda context, builder, signature, args: builder.ptrtoint(args[0], INT64)


@intrinsic
def pointer_like(typing_context, pointer, address):
    """An address in bytes as a pointer of the same type as `pointer`."""
    return pointer(pointer, INDEX), lambda context, builder, signature, args: builder.inttoptr(args[1], args[0].type)


def vector_shape(context) -> tuple[int, int, int, int]:
    """(bits of a vector, rows, vectors, depth) for the processor that Numba compiles for: the tile of accumulators that the
    registers hold is rows x vectors; depth is that of the product's panels: deeper ones need fewer passes over C, as long
    as a strip of them stays in the L2 cache."""
    if has_feature(context, "avx512f"):  # 32 registers; 2 MB of L2 from Sapphire Rapids on
        return 512, 6, 4, 384 if has_feature(context, "avx512fp16") else 256
    if has_feature(context, "avx2") and has_feature(context, "fma"):
        return 256, 6, 2, 256  # 16 registers
    if has_feature(context, "neon") or has_feature(context, "fp-armv8"):
        return 128, 6, 4, 256  # 32 registers
    return 128, 4, 2, 256  # 16 registers, of which a product needs one


def has_feature(context, name: str) -> bool:
    """Does the processor that Numba compiles for have this feature?"""
    _, _, features = processor(context.codegen())
    return f"+{name}" in features.split(",")


def constant(value: int) -> ir.Constant:
    return ir.Constant(INT64, value)


class VectorBuilder:
    """LLVM instructions on whole vectors of float32 or float64, which need not be aligned."""

    def __init__(self, context, builder, dtype):
        bits, self.tile_rows, self.tile_vectors, _ = vector_shape(context)
        self.builder = builder
        self.item_size = dtype.bitwidth // 8
        self.lanes = bits // dtype.bitwidth
        self.element = context.get_value_type(dtype)
        self.type = ir.VectorType(self.element, self.lanes)
        self.suffix = f"v{self.lanes}f{dtype.bitwidth}"
        self.has_powers_of_two = bits == 512 and has_feature(context, "avx512dq")  # `fraction`, and `times_power_of_two`
        self.has_pairs = bits == 512 and has_feature(context, "avx512bf16")

    def written_by(self, builder) -> "VectorBuilder":
        """The same, with another builder."""
        other = copy.copy(self)
        other.builder = builder
        return other

    def full(self, value: float) -> ir.Constant:
        return ir.Constant(self.type, [value] * self.lanes)

    def call(self, name, result, *arguments):
        return call_by_name(self.builder, name, result, *arguments)

    def shuffle(self, x, y, order):
        indices = ir.Constant(ir.VectorType(INT32, len(order)), order)
        return self.builder.shuffle_vector(x, y, indices)

    def splat(self, scalar):
        undefined = ir.Constant(ir.VectorType(scalar.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(INT32, 0))
        return self.shuffle(first, undefined, [0] * self.lanes)

    def first(self, count):
        """The mask of the lanes below `count`."""
        numbers = ir.Constant(ir.VectorType(INT64, self.lanes), list(range(self.lanes)))
        return self.builder.icmp_signed("<", numbers, self.splat(count))

    def load(self, address, mask=None):
        """A vector from memory; lanes outside the mask are zero, and their memory is not read."""
        address = self.builder.bitcast(address, self.type.as_pointer())
        if mask is None:
            return self.builder.load(address, align=self.item_size)
        name, alignment = f"llvm.masked.load.{self.suffix}.p0", ir.Constant(INT32, self.item_size)
        return self.call(name, self.type, address, alignment, mask, ir.Constant(self.type, None))

    def prefetch(self, address, cache, writing=0):
        write, keep, data = (ir.Constant(INT32, value) for value in (writing, cache, 1))
        self.call("llvm.prefetch.p0", ir.VoidType(), address, write, keep, data)

    def store(self, value, address, mask=None):
        address = self.builder.bitcast(address, self.type.as_pointer())
        if mask is None:
            self.builder.store(value, address, align=self.item_size)
        else:
            name, alignment = f"llvm.masked.store.{self.suffix}.p0", ir.Constant(INT32, self.item_size)
            self.call(name, ir.VoidType(), value, address, alignment, mask)

    def multiply_add(self, x, y, z):
        return _emit_multiply_add(self.builder, x, y, z)

    def integers(self, x):
        """The bits of float32 numbers."""
        return self.builder.bitcast(x, ir.VectorType(INT32, self.lanes))

    def add_pair_products(self, x, y, z):
        """z + x1 * y1 + x0 * y0, where each lane of x and y is a pair of bfloat16 numbers: two fused multiply-adds of
        float32, that of the upper halves first, with results below 2^-126 as zeros.

        `vdpbf16ps` does that in one instruction, on processors that have AVX512-BF16.
        """
        builder = self.builder
        if self.has_pairs:
            function = ir.FunctionType(self.type, [self.type] * 3)
            return builder.asm(function, "vdpbf16ps $3, $2, $0", "=v,0,v,v", [z, x, y], False)
        upper, places = (ir.Constant(ir.VectorType(INT32, self.lanes), [n] * self.lanes) for n in (-0x10000, 16))
        x, y = self.integers(x), self.integers(y)
        for a, b in ((builder.and_(x, upper), builder.and_(y, upper)), (builder.shl(x, places), builder.shl(y, places))):
            a, b = builder.bitcast(a, self.type), builder.bitcast(b, self.type)
            z = self.without_denormals(_emit_multiply_add(builder, a, b, z, "fma"))
        return z

    def without_denormals(self, x):
        """x, of float32, with numbers below 2^-126 as zeros with their signs."""
        bits, builder = self.integers(x), self.builder
        exponent, sign = (ir.Constant(bits.type, [mask] * self.lanes) for mask in (0x7F800000, -(2**31)))
        is_small = builder.icmp_signed("==", builder.and_(bits, exponent), ir.Constant(bits.type, [0] * self.lanes))
        return builder.bitcast(builder.select(is_small, builder.and_(bits, sign), bits), self.type)

    def fraction(self, x):
        """x - floor(x), of float32; 0 for infinities"""
        flags = [ir.Constant(INT32, 1 | 8), self.full(0.0), ir.Constant(ir.IntType(16), -1), ir.Constant(INT32, 4)]
        return self.call("llvm.x86.avx512.mask.reduce.ps.512", self.type, x, *flags)

    def times_power_of_two(self, x, exponent, mask):
        """x * 2^floor(exponent), of float32; 0 in lanes outside the mask"""
        mask = self.builder.bitcast(mask, ir.IntType(16))
        return self.call("llvm.x86.avx512.mask.scalef.ps.512", self.type, x, exponent, self.full(0.0), mask,
                         ir.Constant(INT32, 4))

    def maximum(self, x, y):
        """The larger of each pair; y where x is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def fold(self, x, combine):
        """All lanes combined into one number, pairwise."""
        step = self.lanes // 2
        while step:
            x = combine(x, self.shuffle(x, x, [(lane + step) % self.lanes for lane in range(self.lanes)]))
            step //= 2
        return self.builder.extract_element(x, ir.Constant(INT32, 0))


def vector_pass(emit):
    """Make an intrinsic of `emit(vectors, x, ...)`, where x is a pointer or a matrix, and `vectors` a VectorBuilder for its
    elements."""

    @functools.wraps(emit)
    def emit_at(site, *values):
        return emit(VectorBuilder(site.context, site.builder, site.element), *values)

    return instructions()(emit_at)


@instructions(lambda row, count: row.dtype)
def row_max(site, row, count):
    """The largest of row[0:count], ignoring NaN; -inf if count is 0."""
    vectors, builder = VectorBuilder(site.context, site.builder, site.result), site.builder
    least = vectors.full(-math.inf)
    result = cgutils.alloca_once_value(builder, least)
    whole = builder.and_(count, constant(-vectors.lanes))
    with cgutils.for_range_slice(builder, constant(0), whole, constant(vectors.lanes)) as (i, _):
        x = vectors.load(builder.gep(row, [i]))
        builder.store(vectors.maximum(x, builder.load(result)), result)
    mask = vectors.first(builder.sub(count, whole))
    x = builder.select(mask, vectors.load(builder.gep(row, [whole]), mask), least)
    return vectors.fold(vectors.maximum(x, builder.load(result)), vectors.maximum)
