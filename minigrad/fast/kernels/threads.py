"""The threads that share the blocks of a kernel: a team that stays fast on a busy machine.

`fork_join(loop, data, parts)` calls loop(part) for each part, and returns when all are done. The calling thread and its
helpers take the next part as soon as they are free. With OpenMP each loop waits until every thread gets to its portion:
next to one other busy process on two cores, a training step of preset nano took 2.2 times as long, here 1.5. On two cores
that many processes share, a launch takes 0.9 us here, 84 with OpenMP and 61 with workqueue (Numba 0.68); a compiled step of
preset micro takes 3.9 ms, 145 with OpenMP, and with workqueue 1.3 times as long. To repeat this, set IS_SUPPORTED to False
and run `python -m benchmarks training_step` next to other processes.

- Whichever thread is running takes the next part: a loop ends without the helpers if they come too late.
- A helper spins for a while, waiting for the next loop, and then sleeps; so does a waiting caller. Waking up takes 50 to
  80 us, as long as a small loop, so they spin long, but not if other processes want the processor: see `_spin`.
- If the team works for another Python thread, or is missing after os.fork(), the caller does all parts itself.

The team's state is a few words of memory, one per cache line. TICKET is the word that assigns work, read and changed
atomically: a loop's number, its count of parts, and the next part. So a helper that slept through some loops cannot mistake
one for another. This needs Linux's futex; elsewhere Numba's threading layer is used.
"""
import atexit
import ctypes
import functools
import os
import platform
import sys

import numba
from llvmlite import binding, ir
from numba.core import cgutils

from . import jit
from .cache import prerequisites
from .internals import entry_point
from .jit import library
from .simd import INDEX, INT64, call_by_name, constant, instructions

SYMBOL = "minigrad_fork_join"
NAMES = SYMBOL, "get_num_threads", "numba_parallel_for"  # all functions that kernels call by name, see `start`
# How long a thread spins, in cycles of the processor's clock, 2 to 3 per nanosecond. On two cores LONG takes a compiled
# step of preset nano to 0.93 of its time, as helpers would sleep while Python copies gradients; but next to one busy
# process, where SHORT is right, an uncompiled step took 47 ms instead of 34. SHORT is the time that Python takes between
# two small ops: with a third of it, relu of 256 x 256 elements took 40 to 120 us.
LONG, SHORT = 300_000, 150_000
INTERRUPTION = 2_000_000  # cycles between two turns: another process had the processor. Virtual machines pause for less
WARY = 10_000  # loops after an interruption, in which threads spin SHORT
HAS_CLOCK = platform.machine() in ("x86_64", "AMD64")
CYCLES_OF_A_TURN = 25  # where there is no clock

LINE = 8  # words of 8 bytes in a cache line
OWNER, TICKET, DONE, WAKE, SLEEPERS, CALLER, LOOP, DATA, STOP, WARINESS = (LINE * i for i in range(10))
WORDS = 10 * LINE
BLOCKS, PARTS = 0, 1  # words of a loop's data, see parallel.py
FINER = 8  # times as many parts if helpers sleep: they come late, and the wait for their last part should be short
PART_BITS, COUNT_BITS = 20, 20
PART_MASK = (1 << PART_BITS) - 1

FUTEX_WAIT, FUTEX_WAKE = 128, 129  # within this process
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0)
IS_SUPPORTED = sys.platform == "linux" and FUTEX_CALL > 0

BYTES = ir.IntType(8).as_pointer()
# The function of one part: f(arguments, counts, strides, data), as in NumPy's ufunc loops and Numba's parallel ones.
LOOP_TYPE = ir.FunctionType(ir.VoidType(), [BYTES.as_pointer(), INT64.as_pointer(), INT64.as_pointer(), BYTES])


@instructions(INDEX)
def _own_state(site):
    """The team's state, initially zero: memory in the machine code of the one function that calls this."""
    array = ir.ArrayType(INT64, WORDS)
    state = ir.GlobalVariable(site.builder.module, array, "team")
    state.linkage, state.initializer, state.align = "internal", ir.Constant(array, None), 64
    return site.builder.ptrtoint(state, INT64)


def _address(site, state, word):
    return site.builder.add(state, site.builder.mul(word, constant(8)))


def _word(site, state, word):
    return site.builder.inttoptr(_address(site, state, word), INT64.as_pointer())


@instructions(INDEX)
def load(site, state, word):
    """state[word], and everything written before it"""
    return site.builder.load_atomic(_word(site, state, word), "seq_cst", 8)


@instructions()
def store(site, state, word, value):
    """state[word] = value, after everything written before"""
    site.builder.store_atomic(value, _word(site, state, word), "seq_cst", 8)


@instructions(INDEX)
def add(site, state, word, value):
    """state[word] += value atomically; returns the old value"""
    return site.builder.atomic_rmw("add", _word(site, state, word), value, "seq_cst")


@instructions(INDEX)
def swap(site, state, word, value):
    """state[word] = value atomically; returns the old value"""
    return site.builder.atomic_rmw("xchg", _word(site, state, word), value, "seq_cst")


@instructions()
def pause(site):
    """Tell the processor that this thread only waits."""
    if "x86_64" in binding.get_process_triple():
        call_by_name(site.builder, "llvm.x86.sse2.pause", ir.VoidType())


@instructions(INDEX)
def _clock(site):
    """The processor's clock, in cycles; 0 if there is none."""
    return call_by_name(site.builder, "llvm.readcyclecounter", INT64) if HAS_CLOCK else constant(0)


@instructions()
def futex(site, state, word, operation, value):
    """FUTEX_WAIT: sleep while the word's lower half is `value`; FUTEX_WAKE: wake `value` sleepers"""
    call_by_name(site.builder, "syscall", INT64, constant(FUTEX_CALL), _address(site, state, word), operation, value,
                 *[constant(0)] * 3)


@instructions()
def _call_loop(site, loop, part, data):
    """loop(part), see parallel.py"""
    builder = site.builder
    first, one = cgutils.alloca_once(builder, BYTES), cgutils.alloca_once_value(builder, constant(1))
    builder.store(builder.inttoptr(part, BYTES), first)
    builder.call(builder.inttoptr(loop, LOOP_TYPE.as_pointer()), [first, one, one, builder.inttoptr(data, BYTES)])


@jit.jit
def _take_parts(state):
    """Do parts of the current loop until none is left."""
    while True:
        ticket = add(state, TICKET, 1)
        part, count = ticket & PART_MASK, (ticket >> PART_BITS) & PART_MASK
        if part >= count:
            return 0
        _call_loop(load(state, LOOP), part, load(state, DATA))
        if add(state, DONE, 1) == count - 1 and load(state, CALLER) != 0:
            store(state, CALLER, 0)
            futex(state, CALLER, FUTEX_WAKE, 1)


@jit.jit
def _spin(state, word, value, is_awaited):
    """Wait until state[word] is the value, or if not `is_awaited`, until it is not. False if that takes too long.

    A turn takes some nanoseconds, unless the thread was interrupted because others want its processor. Spinning would take
    time from them, for which the system would make this process wait later, so it spins only SHORT for a while.
    """
    begin = before = _clock()
    turns = 0
    while (load(state, word) == value) != is_awaited:
        pause()
        turns += 1
        now = _clock() if HAS_CLOCK else turns * CYCLES_OF_A_TURN
        if now - before > INTERRUPTION:
            store(state, WARINESS, WARY)
        if now - begin > (LONG if load(state, WARINESS) == 0 else SHORT):
            return False
        before = now
    return True


@library
def _help(state):
    """The helpers' main loop."""
    seen = load(state, WAKE)
    while True:
        while not _spin(state, WAKE, seen, False):
            add(state, SLEEPERS, 1)
            futex(state, WAKE, FUTEX_WAIT, seen)
            add(state, SLEEPERS, -1)
        seen = load(state, WAKE)
        if load(state, STOP) != 0:
            return 0
        _take_parts(state)


@library
def _fork_join(loop, data, parts):
    """Call the loop for each part below `parts`; for parts = 0, only return where the team's state is."""
    state = _own_state()
    if parts == 0:
        return state
    if swap(state, OWNER, 1) != 0:
        for part in range(parts):
            _call_loop(loop, part, data)
        return 0
    helpers = parts - 1
    if load(state, SLEEPERS) > 0:
        parts = min(load(data, BLOCKS), FINER * parts)
        store(data, PARTS, parts)
    store(state, LOOP, loop)
    store(state, DATA, data)
    store(state, DONE, 0)
    number = ((load(state, TICKET) >> (PART_BITS + COUNT_BITS)) + 1) & 0x7FFFFF
    store(state, TICKET, (number << (PART_BITS + COUNT_BITS)) | (parts << PART_BITS))
    add(state, WAKE, 1)
    if load(state, SLEEPERS) > 0:
        futex(state, WAKE, FUTEX_WAKE, helpers)
    _take_parts(state)
    while not _spin(state, DONE, parts, True):
        store(state, CALLER, 1)
        if load(state, DONE) != parts:
            futex(state, CALLER, FUTEX_WAIT, 1)
        store(state, CALLER, 0)
    wariness = load(state, WARINESS)
    if wariness > 0:
        store(state, WARINESS, wariness - 1)
    store(state, OWNER, 0)
    return 0


@library
def _stop(state):
    """Stop the helpers."""
    store(state, STOP, 1)
    add(state, WAKE, 1)
    futex(state, WAKE, FUTEX_WAKE, PART_MASK)


def _start_numbas() -> None:
    """Start Numba's threads, which also registers get_num_threads and numba_parallel_for with the linker."""
    try:
        numba.get_num_threads()
    except ValueError:
        raise RuntimeError(f"NUMBA_THREADING_LAYER: Numba cannot load {numba.config.THREADING_LAYER!r} here; unset it"
                           ) from None


@functools.cache
def start() -> None:
    """Register `fork_join` with the linker and start a helper for each further core, before any kernel is loaded."""
    _start_numbas()
    jit.take_turns = layer() == "workqueue"
    if not IS_SUPPORTED:
        return
    entry = entry_point(_fork_join, (INDEX,) * 3)
    binding.add_symbol(SYMBOL, entry)
    state = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(entry)(0, 0, 0)
    helpers = [ctypes.c_ulong() for _ in range(numba.config.NUMBA_NUM_THREADS - 1)]
    system, helper = ctypes.CDLL(None), ctypes.c_void_p(entry_point(_help, (INDEX,)))
    for thread in helpers:
        system.pthread_create(ctypes.byref(thread), None, helper, ctypes.c_void_p(state))
    stop = ctypes.CFUNCTYPE(None, ctypes.c_int64)(entry_point(_stop, (INDEX,)))
    owner = os.getpid()

    def stop_helpers() -> None:  # before the interpreter frees their machine code
        if os.getpid() == owner:
            stop(state)
            for thread in helpers:
                system.pthread_join(thread, None)

    atexit.register(stop_helpers)


def layer() -> str:
    """What runs loops on several threads: 'team' for this file, the name of Numba's layer, or 'not started'."""
    try:
        return "team" if IS_SUPPORTED else numba.threading_layer()
    except ValueError:
        return "not started"


if os.environ.get("NUMBA_THREADING_LAYER"):  # fail at the import if it cannot be loaded
    _start_numbas()
prerequisites.append(start)
