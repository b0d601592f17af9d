"""How kernels are compiled and called. Only this file knows Numba's flags.

`jit` is for functions that kernels call; `kernel` is for functions that Python calls. Both compile at the first
call with a new combination of dtypes, not at import; cache.py stores the machine code on disk.
"""
import ctypes
import functools
import os
import threading
from typing import Callable, Sequence

import numba
import numpy as np
from numpy import ndarray

from ..pool import own
from .cache import KernelCache
from .internals import (
    CPUDispatcher, KernelCompiler, Library, Part, PartCompiler, compiler_lock, machine_code, new_dispatcher, Stored,
)

# What LLVM may do with floating point: reorder sums (so that loops vectorise), fuse multiply and add, use
# reciprocals. Not 'nnan' and 'ninf', which fastmath=True adds: they make isnan(nan) False and inf - inf 0.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
# All options are given, as Numba would take missing ones from the first caller of a part: the bits of `exp` would depend on
# which kernel was compiled first.
FLAGS = dict(nogil=True, error_model="numpy", fastmath=FAST_MATH, forceinline=False)
# How Numba compiles a function that kernels call.
PART = dict(FLAGS, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler)


def _compile(kind: type[CPUDispatcher], function: Callable, **options) -> CPUDispatcher:
    """Compile a function that is called by its address or from Python: its machine code is stored on disk."""
    return new_dispatcher(kind, function, KernelCompiler, KernelCache(function), **FLAGS, **options)


def jit(function: Callable | None = None, **options) -> Callable:
    """Compile a function that kernels call. Python cannot call it, as nothing checks its arrays.

    It becomes part of the kernels' own machine code, so it is not cached.
    """
    if function is None:
        return functools.partial(jit, **options)
    return new_dispatcher(Part, function, **PART | options)


# Without FAST_MATH: sums, products and quotients have the bits that NumPy gives them, and -0 stays -0.
exact = functools.partial(jit, fastmath=False)


def library(function: Callable) -> Callable:
    """Compile a function that kernels call by its address: only once; a `jit` function is optimised in each caller."""
    return _compile(Library, function, no_cpython_wrapper=True)


def ready(array: np.ndarray) -> np.ndarray:
    """The gate: the array itself if a kernel can take it, else a C-contiguous, aligned, writeable, native copy. Numba
    cannot tell aligned, unaligned, byte-swapped and read-only arrays apart, and would misread them."""
    if array.flags.carray and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def address(array: np.ndarray) -> int:
    """Where the elements of an array begin, whatever its strides, in a quarter of the time of `array.ctypes.data`: the
    address is the first field that NumPy adds to a Python object (PyArrayObject in its C API)."""
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


# Numba's fallback threading layer, workqueue, aborts the process if two threads launch at once, so launches take turns
# until threads.start() knows that another layer is used.
_turn = threading.RLock()
take_turns = True


def _hold_locks() -> None:
    """A fork waits while another thread compiles or launches a kernel: the child would inherit the lock for ever."""
    _turn.acquire()
    compiler_lock.acquire()


def _release_locks() -> None:
    compiler_lock.release()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks)


def _launch_in_turn(function, *arguments):
    with _turn:
        return function(*arguments)


def kernel(function: Callable | None = None, *, parallel: bool = False) -> Callable:
    """Compile a function that Python calls with arrays; they pass through `ready` first, but not in its `ungated` form.

    Kernels write into arrays that the caller made, so an output must be ready already, as it is if it came from np.empty.
    `parallel=True` says that it has loops that run on all threads (see `parallel.parallel_for`). Results must not depend on
    the number of threads: use blocks of fixed size, and add partial sums in the order of blocks.
    """
    if function is None:
        return functools.partial(kernel, parallel=parallel)
    dispatcher = _compile(Stored, function, no_cfunc_wrapper=True)

    def ungated(*arguments):
        result = _launch_in_turn(dispatcher, *arguments) if parallel and take_turns else dispatcher(*arguments)
        if own.observe_launch is not None:
            own.observe_launch(dispatcher, arguments)
        return result

    @functools.wraps(function)
    def launch(*arguments):
        gated = arguments
        for a in arguments:
            if type(a) is ndarray and not (a.flags.carray and a.dtype.isnative):
                gated = [ready(a) if type(a) is ndarray else a for a in arguments]
                break
        result = _launch_in_turn(dispatcher, *gated) if parallel and take_turns else dispatcher(*gated)
        observe = own.observe_launch
        if observe is not None:
            for array, copy in zip(arguments, gated):
                if copy is not array:
                    observe(np.copyto, (copy, array))
            observe(dispatcher, gated)
        return result

    launch.dispatcher, launch.ungated = dispatcher, ungated
    return launch


def resolved(function: Callable, arguments: Sequence) -> tuple[Callable, Sequence]:
    """The same call without the dispatcher, whose look-up of the machine code for these types takes 0.3 us each time.
    Arguments of other types would be misread."""
    found = machine_code(function, arguments) if isinstance(function, CPUDispatcher) else None
    if found is None:
        return function, arguments
    code, takes_tuple = found
    return (functools.partial(_launch_in_turn, code) if take_turns else code), ((arguments,) if takes_tuple else arguments)


def get_num_threads() -> int:
    """The number of threads that kernels use when this Python thread calls them."""
    return numba.get_num_threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads, 1 to the number of cores, for kernels that this Python thread calls.

    >>> set_num_threads(0)
    Traceback (most recent call last):
    ...
    ValueError: expected a number of threads from 1 to ..., got 0
    """
    limit = numba.config.NUMBA_NUM_THREADS
    if not isinstance(count, int) or not 1 <= count <= limit:
        raise ValueError(f"expected a number of threads from 1 to {limit}, got {count!r}")
    numba.set_num_threads(count)
