"""All that rests on what Numba does not promise: how functions become machine code, and how that is called and kept.

A new version may change any of it. So setup.cfg allows none that was not tried, and test_numba.py has a row for each name
of Numba's that is used here: it fails, and says where to look, if that is not what it was. No other file uses such a name.
"""
import ctypes
import functools
import gc
import mmap
import os
import pathlib
import pickle
import re
from collections.abc import Callable, Sequence

import llvmlite.binding
from llvmlite import ir
from llvmlite.binding import Linkage, ffi, parse_assembly
from numba import types
from numba.core import codegen, compiler, runtime, serialize
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from .interrupts import postponed

compiler_lock = global_compiler_lock
# For most processors with 512 bits LLVM would use 256, and most loops here would take 1.3 to 1.5 times as long.
WIDEST_VECTORS = '"prefer-vector-width"="512"'
UNUSED = {"inline_closure_likes", "nopython_rewrites"}  # for closures and expressions of arrays, which no kernel has

# ------------------------------------------------------------------------------------------- machine code, in the making


class _OfParts(codegen.JITCodeLibrary):
    """The code of a function, and of those that become parts of it."""

    def add_ir_module(self, module: ir.Module) -> None:
        for function in module.functions:
            if not function.is_declaration:
                set.add(function.attributes, WIDEST_VECTORS)  # llvmlite's `add` knows attributes without a value only
        super().add_ir_module(module)

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout  # they are optimised once, with all that they call

    def add_linking_library(self, library: codegen.JITCodeLibrary) -> None:
        is_loaded = next(library._final_module.functions, None) is None  # from the disk, as machine code alone
        if is_loaded or isinstance(library, _SelfContained):  # which the next process loads
            raise TypeError(f"{self.name} calls {library.name} by name; make it with `jit`, or call it by its address")
        super().add_linking_library(library)


class _Part(_OfParts):
    """A function that kernels call, as LLVM's instructions: it is optimised, and becomes machine code, in kernels alone.

    Numba does both for each function by itself as well, for all who may call it: that took a third of the time.
    """

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


class _Compiler(compiler.Compiler):
    """Numba's compiler, without passes that would find nothing to do: a tenth of the time."""

    def define_pipelines(self):
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [step for step in pipeline.passes if step[0].name() not in UNUSED]
        return [pipeline]


class PartCompiler(_Compiler):
    """The compiler of functions that kernels call."""

    def define_pipelines(self):
        self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.flags.no_compile = True
        return super().define_pipelines()

    def _compile_core(self):
        """As Numba does it, but the function of Python's by which it finds the part is one that takes no arguments."""
        result = super()._compile_core()
        nothing = {}.clear
        self.state.targetctx.insert_user_function(nothing, result.fndesc, [result.library])
        return result._replace(entry_point=nothing)


class KernelCompiler(_Compiler):
    """The compiler of kernels."""

    def _compile_core(self):
        """As Numba does it, but without searches for garbage, which take a tenth of the time."""
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            with postponed():
                return super()._compile_core()
        finally:
            if is_collecting:
                gc.enable()

    def define_pipelines(self):
        self.state.library = _SelfContained(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


# --------------------------------------------------------------------------------------------- who may call a function


class Library(CPUDispatcher):
    """A function that kernels call. It has no interface to Python, which would jump to the address 0."""

    def __call__(self, *arguments, **options):
        raise TypeError(f"{self.__name__} is a part of kernels: they call it, Python cannot")


class Part(Library):
    """One that becomes a part of each. It is compiled once for all integers: Numba would compile it for each constant."""

    def get_call_template(self, args, kws):
        return super().get_call_template([types.unliteral(kind) for kind in args], kws)


def new_dispatcher(kind: type[CPUDispatcher], function: Callable, pipeline_class: type, cache=None,
                   **options) -> CPUDispatcher:
    """What compiles a function for each combination of types that it is called with; a cache keeps the machine code."""
    made = kind(function, targetoptions=options | {"nopython": True, "boundscheck": None}, pipeline_class=pipeline_class)
    if cache is not None:
        made._cache = cache
    return made


def is_missing(function: CPUDispatcher, signature: tuple) -> bool:
    """Has the kernel's cache no machine code for a signature?"""
    return function._cache.is_missing(signature, function.targetctx)


def entry_point(function: Library, signature: tuple) -> int:
    """The address of a library function's machine code for a signature; it is compiled or loaded if need be."""
    function.compile(signature)
    compiled = function.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


def machine_code(function: CPUDispatcher, arguments: Sequence) -> tuple[Callable, bool] | None:
    """What a kernel's dispatcher would call for the types of these arguments, and whether it takes them as one tuple; None
    if it is not compiled for them."""
    kinds = tuple(map(function.typeof_pyval, arguments))
    for signature, compiled in function.overloads.items():
        is_of_tuple = len(signature) == 1 and isinstance(signature[0], types.BaseTuple)  # it is a function of *arguments
        if (tuple(signature[0].types) if is_of_tuple else signature) == kinds:
            return compiled.entry_point, is_of_tuple
    return None


def compile_part(typing_context, part: types.Dispatcher, kinds: tuple[types.Type, ...]) -> None:
    """Compile a part for these types, while what calls it gets its types."""
    typing_context.resolve_function_type(part, kinds, {})


def linked(context, part: types.Dispatcher, kinds: tuple[types.Type, ...]):
    """What describes a part that was compiled for these types; it becomes one of what is compiled now."""
    compiled = part.dispatcher.overloads[kinds]
    context.active_code_library.add_linking_library(compiled.library)
    return compiled.fndesc


def emit_call(context, builder: ir.IRBuilder, description, kinds: tuple[types.Type, ...], values: list[ir.Value]) -> None:
    """Call a `linked` part that returns nothing."""
    function = context.declare_function(builder.module, description)
    context.call_conv.call_function(builder, function, types.none, kinds, values)


def processor(target) -> tuple[str, str, str]:
    """(system, name of the processor, its features as LLVM writes them) that Numba compiles for."""
    return target.magic_tuple()


def unchanged(smaps: str, path: str) -> list[tuple[int, int]]:
    """(first address, end) of a file's mappings that nobody can write to, and that have no page of the process's own, as
    relocations make them: such a page is anonymous, or swapped out.

    >>> text = "7f00-8f00 r-xp 0 0 1  /a.so\\nAnonymous: {} kB\\nSwap: 0 kB\\n9f00-af00 rw-p 0 0 1  /a.so\\nSwap: 0 kB\\n"
    >>> unchanged(text.format(0), "/a.so"), unchanged(text.format(4), "/a.so"), unchanged(text.format(0), "/b.so")
    ([(32512, 36608)], [], [])
    """
    mappings = re.findall(rf"^(\w+)-(\w+) r-.* {re.escape(path)}\n((?:[A-Z]\w*:.*\n)*)", smaps, re.MULTILINE)
    return [(int(first, 16), int(end, 16)) for first, end, sizes in mappings
            if not re.search(r"^(Anonymous|Swap): +[1-9]", sizes, re.MULTILINE)]


def give_back_pages_of_llvm() -> None:
    """Unmap what only the start of LLVM's library needed; the next access maps it again, from the system's cache of files.

    At its peak `minigrad train` has 158 MB instead of 189 with preset micro, and 376 instead of 411 with small.
    """
    try:
        madvise = ctypes.CDLL(None).madvise
        smaps = pathlib.Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):  # not Linux
        return
    for first, end in unchanged(smaps, os.path.realpath(ffi.lib._name)):
        madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


# ------------------------------------------------------------------------------------------------ compiled code, kept


def to_bytes(compiled: compiler.CompileResult) -> bytes | None:
    """What is compiled, for other processes; None if it holds addresses in this one."""
    return None if compiled.library.has_dynamic_globals else serialize.dumps(compiled._reduce())


def from_bytes(content: bytes, target_context) -> compiler.CompileResult:
    return compiler.CompileResult._rebuild(target_context, *pickle.loads(content))


@functools.cache
def name_runtime_functions() -> None:
    """Make Numba's runtime known to the linker: all that loading machine code needs.

    Numba's way, `target_context.refresh()`, gets ready to compile as well: 30 MB and 0.1 s that a warm start can save.
    Where a kernel is compiled after all, Numba itself does the rest.
    """
    for name, address in runtime._nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)

