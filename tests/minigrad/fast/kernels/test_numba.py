"""The private parts of Numba that kernels use, so that changes are noticed before a new version is allowed."""
import ast
import configparser
import importlib
import inspect
import operator
import pathlib

import numba
import pytest
from numba.core.caching import _Cache
from numba.core.dispatcher import Dispatcher

KERNELS = pathlib.Path(__file__).parents[4] / "minigrad" / "fast" / "kernels"
SETUP = configparser.ConfigParser()
SETUP.read(pathlib.Path(__file__).parents[4] / "setup.cfg")
INTERNALS = {  # what uses it in kernels/internals.py, and the signature of a function
    "numba.core.codegen:JITCodeLibrary.add_ir_module": ("_OfParts", "(self, ir_module)"),
    "numba.core.codegen:JITCodeLibrary._finalize_final_module": ("_Part and _SelfContained", "(self)"),
    "numba.core.codegen:JITCodeLibrary._optimize_functions": ("_OfParts", "(self, ll_module)"),
    "numba.core.codegen:JITCodeLibrary._optimize_final_module": ("_Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary._get_module_for_linking": ("_Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary._ensure_finalized": ("_Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals": ("_Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary.serialize_using_object_code": ("_SelfContained", "(self)"),
    "numba.core.codegen:JITCodeLibrary._get_compiled_object": ("_SelfContained", "(self)"),
    "numba.core.codegen:JITCodeLibrary._unserialize": ("_SelfContained", "(codegen, state)"),
    "numba.core.codegen:JITCodeLibrary.enable_object_caching": ("KernelCompiler", "(self)"),
    "numba.core.codegen:JITCodeLibrary.get_pointer_to_function": ("entry_point", "(self, name)"),
    "numba.core.codegen:JITCodeLibrary.has_dynamic_globals": ("to_bytes", None),
    "numba.core.codegen:JITCPUCodegen.magic_tuple": ("processor", "(self)"),
    "numba.core.codegen:CodeLibrary.add_linking_library": ("_OfParts and linked", "(self, library)"),
    "numba.core.compiler:Compiler.define_pipelines": ("_Compiler", "(self)"),
    "numba.core.compiler:Compiler._compile_core": ("PartCompiler and KernelCompiler", "(self)"),
    "numba.core.compiler:Flags.no_compile": ("PartCompiler", None),
    "numba.core.compiler_machinery:PassManager.run": ("_Compiler", "(self, state)"),
    "numba.core.cpu:CPUContext.insert_user_function": ("PartCompiler", "(self, func, fndesc, libs=())"),
    "numba.core.cpu:CPUContext.active_code_library": ("linked", None),
    "numba.core.cpu:CPUContext.declare_function": ("emit_call", "(self, module, fndesc)"),
    "numba.core.registry:CPUTarget.target_context": ("context", None),
    "numba.core.typing:Context.resolve_function_type": ("compile_part", "(self, func, args, kws)"),
    "numba.core.compiler:CompileResult._reduce": ("to_bytes", "(self)"),
    "numba.core.compiler:CompileResult._rebuild": ("from_bytes", None),
    "numba.core.compiler_lock:global_compiler_lock.acquire": ("compiler_lock", "()"),
    "numba.core.compiler_lock:global_compiler_lock.release": ("compiler_lock", "()"),
    "numba.core.serialize:dumps": ("to_bytes", "(obj)"),
    "numba.core.runtime:_nrt_python.c_helpers": ("name_runtime_functions", None),
    "numba.core.callconv:CPUCallConv.call_function": (
        "emit_call", "(self, builder, callee, resty, argtys, args, attrs=None)"),
    "numba.core.funcdesc:FunctionDescriptor.llvm_cfunc_wrapper_name": ("entry_point", None),
    "numba.core.dispatcher:Dispatcher.compile": ("entry_point", "(self, sig)"),
    "numba.core.dispatcher:Dispatcher.get_call_template": ("Part", "(self, args, kws)"),
    "numba.core.dispatcher:Dispatcher.typeof_pyval": ("machine_code", "(self, val)"),
}
PUBLIC = "numba.types", "numba.extending", "numba.core.cgutils"  # Numba's manual shows how to use these
ADVICE = "Numba {} has changed {}: look at {} in kernels/internals.py, and then at the bounds for numba in setup.cfg"


def test_numba_has_what_kernels_use():
    for name, (used, expected) in INTERNALS.items():
        module, _, path = name.partition(":")
        advice = ADVICE.format(numba.__version__, name, used)
        try:
            found = operator.attrgetter(path)(importlib.import_module(module))
        except (ImportError, AttributeError):
            pytest.fail(advice)
        assert expected is None or str(inspect.signature(found)) == expected, advice


def test_a_dispatcher_calls_the_methods_of_kernel_cache():
    advice = ADVICE.format(numba.__version__, "what it asks a cache for", "new_dispatcher, and at KernelCache")
    for name in "load_overload", "save_overload":
        assert len(inspect.signature(getattr(_Cache, name)).parameters) == 3, advice
        assert f"self._cache.{name}(" in inspect.getsource(Dispatcher.compile), advice


def test_only_internals_uses_private_parts_of_numba():
    """By imports or attributes."""
    unmistakable = {name.rpartition(".")[2] for name in INTERNALS} - {"compile", "run", "dumps", "acquire", "release", "_name"}
    found = []
    for path in sorted(set(KERNELS.rglob("*.py")) - {KERNELS / "internals.py"}):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
        names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        found += [(path.name, name) for name in names if name.startswith("numba.") and not name.startswith(PUBLIC)]
        found += [(path.name, node.attr) for node in nodes if isinstance(node, ast.Attribute) and node.attr in unmistakable]
    assert not found, f"move these to kernels/internals.py: {found}"


def test_setup_allows_no_numba_that_was_not_tried():
    (bounds,) = [line for line in SETUP["options"]["install_requires"].splitlines() if line.startswith("numba")]
    _, _, last = bounds.partition("<")
    version = tuple(map(int, numba.__version__.split(".")[:2]))
    assert version < tuple(map(int, last.split("."))), f"{bounds} does not allow Numba {numba.__version__}"
