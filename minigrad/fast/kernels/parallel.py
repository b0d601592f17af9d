"""Loops over blocks on all threads, inside a kernel: `parallel_for(body, blocks, work, arguments)`.

Numba's own `prange` analyses and rewrites the whole function around the loop, and compiles the body as a separate function
with its own interface: 0.54 s for a small kernel, and 2.2 us for each launch. Here the team of threads.py gets a function
and a pointer to the arguments: 0.16 s, and 1.2 us. Without a team, Numba's threading layer runs the loop.
"""
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from . import threads
from .internals import compile_part, emit_call, linked
from .simd import INDEX, INT64, call_by_name, constant, instructions
from .threads import BYTES, LOOP_TYPE
from .thresholds import WORTH_A_THREAD


def _emit_loop(context, module, body, packed_type, argument_types):
    """The function that runs one part: body(block, *arguments) for its blocks, in order."""
    name = f"part.{body.mangled_name}"
    if name in module.globals:
        return module.globals[name]
    loop = ir.Function(module, LOOP_TYPE, name)
    loop.linkage = "internal"
    builder = ir.IRBuilder(loop.append_basic_block())
    addresses, counts, _, data = loop.args
    packed = builder.load(builder.bitcast(data, packed_type.as_pointer()))
    blocks, parts, values = (builder.extract_value(packed, i) for i in range(3))
    values = [builder.extract_value(values, i) for i in range(len(argument_types))]
    first_part = builder.ptrtoint(builder.load(addresses), INT64)  # part p is passed as the address p
    last_part = builder.add(first_part, builder.load(counts))
    first, last = (builder.sdiv(builder.mul(blocks, part), parts) for part in (first_part, last_part))
    with cgutils.for_range_slice(builder, first, last, constant(1)) as (block, _):
        emit_call(context, builder, body, (INDEX, *argument_types), [block, *values])
    builder.ret_void()
    return loop


@instructions(INDEX)
def available_threads(site):
    """get_num_threads(), in a kernel."""
    return call_by_name(site.builder, "get_num_threads", INT64)


@intrinsic
def parallel_for(typing_context, body, blocks, work, arguments):
    """body(block, *arguments) for block in range(blocks), shared among the threads in order; `body` is a jit function.

    `work` is the total number of elements: little work runs on the calling thread. No block may depend on another; then no
    result depends on the number of threads.
    """
    argument_types = tuple(arguments)
    compile_part(typing_context, body, (INDEX, *argument_types))

    def codegen(context, builder, signature, values):
        _, blocks, work, packed = values
        zero, one = constant(0), constant(1)
        available = call_by_name(builder, "get_num_threads", INT64)
        parts = builder.select(builder.icmp_signed("<", available, blocks), available, blocks)
        is_worth_it = builder.icmp_signed(">=", work, constant(WORTH_A_THREAD))
        several = builder.and_(is_worth_it, builder.icmp_signed(">", parts, one))
        parts = builder.select(several, parts, one)

        everything = cgutils.pack_struct(builder, (blocks, parts, packed))
        data = builder.bitcast(cgutils.alloca_once_value(builder, everything), BYTES)
        first = cgutils.alloca_once_value(builder, ir.Constant(BYTES, None))
        count, step = (cgutils.alloca_once_value(builder, number) for number in (parts, one))
        part = linked(context, body, (INDEX, *argument_types))
        loop = _emit_loop(context, builder.module, part, everything.type, argument_types)
        with builder.if_else(several) as (then, otherwise):
            with then:
                if threads.IS_SUPPORTED:
                    call_by_name(builder, threads.SYMBOL, INT64, builder.bitcast(loop, BYTES), data, parts)
                else:
                    pointers = [builder.bitcast(pointer, BYTES) for pointer in (loop, first, count, step, data)]
                    call_by_name(builder, "numba_parallel_for", ir.VoidType(), *pointers, zero, one, parts)
            with otherwise:
                builder.call(loop, [first, count, step, data])
        return context.get_dummy_value()

    return types.void(body, INDEX, INDEX, arguments), codegen
