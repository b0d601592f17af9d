"""What kernels need of Numba and is not public, so that a new version that changed it is noticed before it is allowed."""
import configparser
import importlib
import inspect
import operator
import pathlib

import numba
import pytest
from numba.core.caching import _Cache

from minigrad.kernels.cache import KernelCache

SETUP = configparser.ConfigParser()
SETUP.read(pathlib.Path(__file__).parents[3] / "setup.cfg")
INTERNALS = {  # where in kernels/ it is used, and if it is a function, how it is called
    "numba.core.codegen:JITCodeLibrary._finalize_final_module": ("jit.py, _SelfContained", "(self)"),
    "numba.core.codegen:JITCodeLibrary._optimize_functions": ("jit.py, _Part and _SelfContained", "(self, ll_module)"),
    "numba.core.codegen:JITCodeLibrary._optimize_final_module": ("jit.py, _Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary._get_module_for_linking": ("jit.py, _Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals": ("jit.py, _Part", "(self)"),
    "numba.core.codegen:JITCodeLibrary.serialize_using_object_code": ("jit.py, _SelfContained", "(self)"),
    "numba.core.codegen:JITCodeLibrary._unserialize": ("jit.py, _SelfContained", "(codegen, state)"),
    "numba.core.codegen:JITCodeLibrary.get_pointer_to_function": ("jit.py, entry_point", "(self, name)"),
    "numba.core.codegen:JITCodeLibrary.has_dynamic_globals": ("cache.py, save_overload", None),
    "numba.core.codegen:JITCPUCodegen.magic_tuple": ("cache.py, _file, and simd.py, vector_shape", "(self)"),
    "numba.core.codegen:CodeLibrary.add_linking_library": ("parallel.py, _run", "(self, library)"),
    "numba.core.compiler:Compiler.define_pipelines": ("jit.py, _Compiler", "(self)"),
    "numba.core.compiler:Compiler._compile_core": ("jit.py, _PartCompiler and _KernelCompiler", "(self)"),
    "numba.core.compiler:Flags.no_compile": ("jit.py, _PartCompiler", None),
    "numba.core.compiler_machinery:PassManager.run": ("jit.py, _Compiler", "(self, state)"),
    "numba.core.event:install_listener": ("interrupts.py, between_passes", "(kind, listener)"),
    "numba.core.cpu:CPUContext.insert_user_function": ("jit.py, _PartCompiler", "(self, func, fndesc, libs=())"),
    "numba._dynfunc:make_function": ("jit.py, _PartCompiler", None),
    "numba.core.compiler:CompileResult._reduce": ("cache.py, save_overload", "(self)"),
    "numba.core.compiler:CompileResult._rebuild": ("cache.py, load_overload", None),
    "numba.core.compiler_lock:global_compiler_lock.acquire": ("jit.py, _hold_locks", "()"),
    "numba.core.compiler_lock:global_compiler_lock.release": ("jit.py, _release_locks", "()"),
    "numba.core.serialize:dumps": ("cache.py, save_overload", "(obj)"),
    "numba.core.runtime:_nrt_python.c_helpers": ("cache.py, _name_runtime_functions", None),
    "numba.core.callconv:CPUCallConv.call_function": (
        "parallel.py, _emit_loop", "(self, builder, callee, resty, argtys, args, attrs=None)"),
    "numba.core.funcdesc:FunctionDescriptor.llvm_cfunc_wrapper_name": ("jit.py, entry_point", None),
    "numba.core.dispatcher:Dispatcher.compile": ("jit.py, entry_point", "(self, sig)"),
    "numba.np.ufunc.parallel:_launch_threads": ("threads.py, _start_numbas", "()"),
}
ADVICE = "Numba {} has changed {}: look at kernels/{}, and then at the bounds for numba in setup.cfg"


@pytest.mark.parametrize("name", INTERNALS)
def test_numba_is_as_kernels_know_it(name):
    used, expected = INTERNALS[name]
    module, _, path = name.partition(":")
    advice = ADVICE.format(numba.__version__, name, used)
    try:
        found = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError):
        pytest.fail(advice)
    assert expected is None or str(inspect.signature(found)) == expected, advice


def test_a_dispatcher_asks_its_cache_for_what_kernel_cache_has():
    advice = ADVICE.format(numba.__version__, "what it asks a cache for", "cache.py, KernelCache")
    wanted = {name for name in vars(_Cache) if not name.startswith("_")}
    assert wanted <= {name for name in dir(KernelCache) if not name.startswith("_")}, advice
    for name in "load_overload", "save_overload":
        assert len(inspect.signature(getattr(_Cache, name)).parameters) == 3, advice


def test_setup_allows_no_numba_that_was_not_tried():
    (bounds,) = [line for line in SETUP["options"]["install_requires"].splitlines() if line.startswith("numba")]
    _, _, last = bounds.partition("<")
    version = tuple(map(int, numba.__version__.split(".")[:2]))
    assert version < tuple(map(int, last.split("."))), f"{bounds} does not allow Numba {numba.__version__}"
