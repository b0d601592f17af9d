"""Everything that relies on private parts of Numba: how functions become machine code, and how that is called and stored.

A new version may change any of it. So setup.cfg allows only versions that were tried, and test_numba.py has a row for each
private name used here, which fails and says where to look if the name has changed. No other file uses such names.
"""
import functools
import gc
import pickle
from collections.abc import Callable, Sequence

import llvmlite.binding
from llvmlite import ir
from llvmlite.binding import Linkage, parse_assembly
from numba import _dispatcher, types
from numba.core import codegen, compiler, runtime, serialize
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target

compiler_lock = global_compiler_lock
# LLVM uses 256 bits on most processors that have 512; most loops here would take 1.3 to 1.5 times as long.
WIDEST_VECTORS = '"prefer-vector-width"="512"'
UNUSED = {"inline_closure_likes", "nopython_rewrites"}  # for closures and expressions of arrays, which no kernel has

# ---------------------------------------------------------------------------------------------- making machine code


class _OfParts(codegen.JITCodeLibrary):
    """The code of a function, and of functions that become parts of it."""

    def add_ir_module(self, module: ir.Module) -> None:
        for function in module.functions:
            if not function.is_declaration:
                set.add(function.attributes, WIDEST_VECTORS)  # llvmlite's own `add` accepts only attributes without a value
        super().add_ir_module(module)

    def _optimize_functions(self, module):
        module.data_layout = self._codegen._data_layout  # functions are optimised once, together with their callees

    def add_linking_library(self, library: codegen.JITCodeLibrary) -> None:
        is_loaded = next(library._final_module.functions, None) is None  # from disk, as machine code only
        if is_loaded or isinstance(library, _SelfContained):  # which the next process would load
            raise TypeError(f"{self.name} calls {library.name} by name; make it with `jit`, or call it by its address")
        super().add_linking_library(library)


class _Part(_OfParts):
    """A function that kernels call, as LLVM instructions: it is optimised and becomes machine code only inside kernels.

    Numba would do both for each function separately too, for other callers: that took a third of the time.
    """

    def _optimize_final_module(self):
        """Nothing to do: it is not final."""

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
    """The machine code of a kernel and of all functions that it calls, shared with no other kernel.

    Numba gives all copies of a function one name, and the linker takes the first that the process has met. But each kernel
    optimises its copy anew, with sums in another order, so a kernel's results would depend on what was compiled or loaded
    before it.
    """

    def _finalize_final_module(self):
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:  # a copy
                function.linkage = Linkage.internal
        super()._finalize_final_module()

    def serialize_using_object_code(self):
        """The machine code, and only the names of functions in place of their LLVM instructions, which nothing needs any
        more: they would take a tenth of the memory of a training process."""
        names = [function.name for function in self._final_module.functions
                 if not function.is_declaration and function.linkage == Linkage.external]
        stubs = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
        return self.name, "object", (self._get_compiled_object(), parse_assembly(stubs).as_bitcode())


class _Compiler(compiler.Compiler):
    """Numba's compiler, without passes that never find anything to do: they take a tenth of the time."""

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
        """As in Numba, but the Python function that stands for the part takes no arguments."""
        result = super()._compile_core()
        nothing = {}.clear
        self.state.targetctx.insert_user_function(nothing, result.fndesc, [result.library])
        return result._replace(entry_point=nothing)


class KernelCompiler(_Compiler):
    """The compiler of kernels."""

    def _compile_core(self):
        """As in Numba, but without garbage collection, which takes a tenth of the time."""
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return super()._compile_core()
        finally:
            if is_collecting:
                gc.enable()

    def define_pipelines(self):
        self.state.library = _SelfContained(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


# ------------------------------------------------------------------------------------------------ calling functions


class Stored(CPUDispatcher):
    """A function whose machine code a cache stores."""

    def compile(self, signature):
        try:
            return super().compile(signature)
        except BaseException:
            if hasattr(self._cache, "give_up"):
                self._cache.give_up()
            raise


class Library(Stored):
    """A function that only kernels call. It has no Python interface: a call from Python would jump to address 0."""

    def __call__(self, *arguments, **options):
        raise TypeError(f"{self.__name__} is a part of kernels: they call it, Python cannot")


class Part(Library):
    """A function that becomes part of its callers. It is compiled once for all integers; Numba would for each constant."""

    def get_call_template(self, args, kws):
        return super().get_call_template([types.unliteral(kind) for kind in args], kws)


def new_dispatcher(kind: type[CPUDispatcher], function: Callable, pipeline_class: type, cache=None,
                   **options) -> CPUDispatcher:
    """A dispatcher, which compiles a function for each combination of argument types; a cache stores the machine code, or
    is told to `give_up` if there will be none."""
    made = kind(function, targetoptions=options | {"nopython": True, "boundscheck": None}, pipeline_class=pipeline_class)
    if cache is not None:
        made._cache = cache
    return made


def is_missing(function: CPUDispatcher, signature: tuple) -> bool:
    """Is the machine code for a signature missing from the kernel's cache?"""
    return function._cache.is_missing(signature, function.targetctx)


def entry_point(function: Library, signature: tuple) -> int:
    """The address of a library function's machine code for a signature; compiled or loaded if necessary."""
    function.compile(signature)
    compiled = function.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


_entries: dict[tuple[CPUDispatcher, bytes], tuple[Callable, bool]] = {}  # by kernel and fingerprint of the arguments


def machine_code(function: CPUDispatcher, arguments: Sequence) -> tuple[Callable, bool] | None:
    """The machine code that a kernel's dispatcher calls for these arguments, and whether it takes them as one tuple; None
    if the kernel is not compiled for their types."""
    key = function, _dispatcher.compute_fingerprint(tuple(arguments))
    if key not in _entries:
        found = _of_types(function, tuple(map(function.typeof_pyval, arguments)))  # which takes 0.3 ms
        if found is None:
            return None
        _entries[key] = found
    return _entries[key]


def _of_types(function: CPUDispatcher, kinds: tuple[types.Type, ...]) -> tuple[Callable, bool] | None:
    for signature, compiled in function.overloads.items():
        is_of_tuple = len(signature) == 1 and isinstance(signature[0], types.BaseTuple)  # a function of *arguments
        if (tuple(signature[0].types) if is_of_tuple else signature) == kinds:
            return compiled.entry_point, is_of_tuple
    return None


def compile_part(typing_context, part: types.Dispatcher, kinds: tuple[types.Type, ...]) -> None:
    """Compile a part for these types, during type inference of its caller."""
    typing_context.resolve_function_type(part, kinds, {})


def linked(context, part: types.Dispatcher, kinds: tuple[types.Type, ...]):
    """The descriptor of a part compiled for these types, which is linked into what is being compiled."""
    compiled = part.dispatcher.overloads[kinds]
    context.active_code_library.add_linking_library(compiled.library)
    return compiled.fndesc


def emit_call(context, builder: ir.IRBuilder, description, kinds: tuple[types.Type, ...], values: list[ir.Value]) -> None:
    """Call a `linked` part that returns nothing."""
    function = context.declare_function(builder.module, description)
    context.call_conv.call_function(builder, function, types.none, kinds, values)


def context():
    """What kernels are compiled in."""
    return cpu_target.target_context


def processor(target) -> tuple[str, str, str]:
    """(system, name of the processor, its features as LLVM writes them) that Numba compiles for."""
    return target.magic_tuple()


# ---------------------------------------------------------------------------------------------- storing machine code


def to_bytes(compiled: compiler.CompileResult) -> bytes | None:
    """Compiled code for other processes; None if it contains addresses of this process."""
    return None if compiled.library.has_dynamic_globals else serialize.dumps(compiled._reduce())


def from_bytes(content: bytes, target_context) -> compiler.CompileResult:
    return compiler.CompileResult._rebuild(target_context, *pickle.loads(content))


@functools.cache
def name_runtime_functions() -> None:
    """Register Numba's runtime with the linker, which is all that loading machine code needs.

    Numba's `target_context.refresh()` also prepares to compile: 30 MB and 0.1 s that a warm start saves. If a kernel is
    compiled after all, Numba itself does the rest.
    """
    for name, address in runtime._nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
