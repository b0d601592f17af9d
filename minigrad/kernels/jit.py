"""How kernels are compiled and called. Only this file knows Numba's flags.

`jit` is for functions that kernels call; `kernel` is for functions that Python calls. Both compile at the first
call with a new combination of dtypes, not at import; cache.py keeps the machine code on disk.
"""
import ctypes
import functools
import gc
import os
import threading
from typing import Callable, Sequence

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import Linkage, parse_assembly
from numba import _dynfunc, types
from numba.core import codegen, compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numpy import ndarray

from ..per_thread import this_thread
from .cache import KernelCache
from .interrupts import between_passes

# What LLVM may do with floating point: reorder sums (so that loops vectorise), fuse multiply and add, use
# reciprocals. Not 'nnan' and 'ninf', which fastmath=True adds: they make isnan(nan) False and inf - inf 0.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
FLAGS = dict(nogil=True, error_model="numpy", fastmath=FAST_MATH)
# For most processors with 512 bits LLVM would use 256, and most loops here would take 1.3 to 1.5 times as long.
WIDEST_VECTORS = '"prefer-vector-width"="512"'


class _OfParts(codegen.JITCodeLibrary):
    """What has functions that are parts of it."""

    def add_ir_module(self, module: ir.Module) -> None:
        for function in module.functions:
            if not function.is_declaration:
                set.add(function.attributes, WIDEST_VECTORS)  # llvmlite's `add` knows attributes without a value only
        super().add_ir_module(module)

    def add_linking_library(self, library: codegen.JITCodeLibrary) -> None:
        is_loaded = next(library._final_module.functions, None) is None  # from the disk, as machine code alone
        if is_loaded or isinstance(library, _SelfContained):  # which the next process loads
            raise TypeError(f"{self.name} calls {library.name} by name; make it with `jit`, or call it by its address")
        super().add_linking_library(library)


class _Part(_OfParts):
    """A function that kernels call, as LLVM's instructions: it is optimised, and becomes machine code, in kernels alone.

    Numba does both for each function by itself as well, for all who may call it: that took a third of the time.
    """

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        """It is not final."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self):
        self._ensure_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.linkonce_odr  # several kernels may have a copy
        return self._final_module


class _SelfContained(_OfParts):
    """The machine code of a kernel and of all functions that it calls, which belong to no other.

    Numba gives all copies of a function one name. Of these the linker takes the first that the process came by; but copies
    are optimised in each kernel anew, and order their sums in other ways. So a kernel's results would depend on what was
    compiled or loaded before it.
    """

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout  # they are optimised once, with all that they call

    def _finalize_final_module(self):
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:  # a copy
                function.linkage = Linkage.internal
        super()._finalize_final_module()

    def serialize_using_object_code(self):
        """The machine code, and of LLVM's instructions, which nobody needs any more, the names of the functions only: all
        of them would take a tenth of the memory of a training process."""
        names = [function.name for function in self._final_module.functions
                 if not function.is_declaration and function.linkage == Linkage.external]
        stubs = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
        return self.name, "object", (self._get_compiled_object(), parse_assembly(stubs).as_bitcode())


UNUSED = {"inline_closure_likes", "nopython_rewrites"}  # for closures and expressions of arrays, which no kernel has


class _Compiler(compiler.Compiler):
    """Numba's compiler, without passes that would find nothing to do: a tenth of the time."""

    def define_pipelines(self):
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [step for step in pipeline.passes if step[0].name() not in UNUSED]
        return [pipeline]


class _PartCompiler(_Compiler):
    """The compiler of functions that kernels call."""

    def define_pipelines(self):
        self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.flags.no_compile = True
        return super().define_pipelines()

    def _compile_core(self):
        """As Numba does it, but with nothing that Python could call."""
        result = super()._compile_core()
        function = result.fndesc
        nothing = _dynfunc.make_function(function.lookup_module(), function.qualname, "", 0, result.environment, ())
        self.state.targetctx.insert_user_function(nothing, function, [result.library])
        return result._replace(entry_point=nothing)


class _KernelCompiler(_Compiler):
    """The compiler of kernels."""

    def _compile_core(self):
        """As Numba does it, but without searches for garbage, which take a tenth of the time."""
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            with between_passes():
                return super()._compile_core()
        finally:
            if is_collecting:
                gc.enable()

    def define_pipelines(self):
        self.state.library = _SelfContained(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _NotForPython(CPUDispatcher):
    """A function that kernels call, without the interface to Python: Numba would jump to the address 0."""

    def __call__(self, *arguments, **options):
        name = self.py_func.__name__
        raise TypeError(f"{name} is for kernels to call, not for Python; there is {name}.py_func")


class _PartDispatcher(_NotForPython):
    """A part of kernels. It is compiled once for all integers: Numba would compile it for each constant."""

    def get_call_template(self, args, kws):
        return super().get_call_template([types.unliteral(kind) for kind in args], kws)


# How Numba compiles a function that kernels call.
PART = dict(FLAGS, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_PartCompiler)


def _dispatcher(kind: type[CPUDispatcher], function: Callable, pipeline_class: type, **options) -> CPUDispatcher:
    """What compiles a function for each combination of types that it is called with."""
    return kind(function, targetoptions=options | {"nopython": True, "boundscheck": None}, pipeline_class=pipeline_class)


def _compile(kind: type[CPUDispatcher], function: Callable, **options) -> CPUDispatcher:
    """Compile a function that is called by its address or from Python: its machine code is kept on disk."""
    dispatcher = _dispatcher(kind, function, _KernelCompiler, **FLAGS, **options)
    dispatcher._cache = KernelCache(function)
    return dispatcher


def jit(function: Callable | None = None, **options) -> Callable:
    """Compile a function that kernels call. It is not for Python code: nothing checks its arrays.

    It becomes part of the kernels' own machine code, so it is not cached, and has no interface to Python.
    """
    if function is None:
        return functools.partial(jit, **options)
    return _dispatcher(_PartDispatcher, function, **PART | options)


def library(function: Callable) -> Callable:
    """Compile a function that kernels call by its address: once, while a `jit` function is optimised in each caller."""
    return _compile(_NotForPython, function, no_cpython_wrapper=True)


def entry_point(function: Callable, signature: tuple) -> int:
    """The address of a `library` function's machine code for a signature; it is compiled or loaded if need be."""
    function.compile(signature)
    compiled = function.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


def ready(array: np.ndarray) -> np.ndarray:
    """The gate: the array itself if a kernel can take it, else a C-contiguous, aligned, writeable, native copy.

    Numba gives aligned, unaligned, byte-swapped and read-only arrays one fingerprint, and would misread them.
    """
    if array.flags.carray and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def address(array: np.ndarray) -> int:
    """Where the elements of an array begin, whatever its strides (in a quarter of the time of `array.ctypes.data`).

    What NumPy adds to a Python object begins with that: its C interface says so (PyArrayObject).
    """
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


# Numba's fallback threading layer, workqueue, aborts the process when two threads launch at once: launches take turns
# until threads.start() knows that another one is used.
_turn = threading.RLock()
take_turns = True


def _hold_locks() -> None:
    """A fork waits for the kernel that another thread compiles or launches: a child would inherit the lock for ever."""
    _turn.acquire()
    global_compiler_lock.acquire()


def _release_locks() -> None:
    global_compiler_lock.release()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks)


def _launch_in_turn(function, *arguments):
    with _turn:
        return function(*arguments)


def kernel(function: Callable | None = None, *, parallel: bool = False) -> Callable:
    """Compile a function that Python calls with arrays; they pass through `ready` first, but not in its `ungated` form.

    Kernels write into arrays that the caller made, so an output must be ready already; it is if it came from np.empty.
    `parallel=True` says that it has loops that run on all threads (see `parallel.parallel_for`). Whoever writes one keeps
    its result independent of the number of threads: blocks of fixed size, and partial sums added in the order of blocks.
    """
    if function is None:
        return functools.partial(kernel, parallel=parallel)
    dispatcher = _compile(CPUDispatcher, function, no_cfunc_wrapper=True)

    def ungated(*arguments):
        result = _launch_in_turn(dispatcher, *arguments) if parallel and take_turns else dispatcher(*arguments)
        if this_thread.observe_launch is not None:
            this_thread.observe_launch(dispatcher, arguments)
        return result

    @functools.wraps(function)
    def launch(*arguments):
        gated = arguments
        for a in arguments:
            if type(a) is ndarray and not (a.flags.carray and a.dtype.isnative):
                gated = [ready(a) if type(a) is ndarray else a for a in arguments]
                break
        result = _launch_in_turn(dispatcher, *gated) if parallel and take_turns else dispatcher(*gated)
        observe = this_thread.observe_launch
        if observe is not None:
            for array, copy in zip(arguments, gated):
                if copy is not array:
                    observe(np.copyto, (copy, array))
            observe(dispatcher, gated)
        return result

    launch.dispatcher, launch.ungated = dispatcher, ungated
    return launch


def resolved(function: Callable, arguments: Sequence) -> tuple[Callable, Sequence]:
    """The same call, to be made often: of the machine code that a dispatcher picks for the types of these arguments, which
    takes it 0.3 us each time. Arguments of other types would be misread."""
    if not isinstance(function, Dispatcher):
        return function, arguments
    kinds = tuple(map(function.typeof_pyval, arguments))
    for signature, compiled in function.overloads.items():
        is_of_tuple = len(signature) == 1 and isinstance(signature[0], types.BaseTuple)  # it is a function of *arguments
        if (tuple(signature[0].types) if is_of_tuple else signature) == kinds:
            code = functools.partial(_launch_in_turn, compiled.entry_point) if take_turns else compiled.entry_point
            return code, ((arguments,) if is_of_tuple else arguments)
    return function, arguments


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
