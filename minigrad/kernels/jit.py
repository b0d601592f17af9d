"""How kernels are compiled, cached and called. Only this file knows Numba's flags.

`jit` is for functions that kernels call; `kernel` is for functions that Python calls. Both compile at the first
call with a new combination of dtypes, not at import, and keep the machine code on disk.
"""
import functools
import hashlib
import os
import pathlib
import pickle
import platform
import sys
import tempfile
import threading
from typing import Callable

import llvmlite.binding
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.core.runtime import _nrt_python

# What LLVM may do with floating point: reorder sums (so that loops vectorise), fuse multiply and add, use
# reciprocals. Not 'nnan' and 'ninf', which fastmath=True adds: they make isnan(nan) False and inf - inf 0.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
FLAGS = dict(nogil=True, error_model="numpy", fastmath=FAST_MATH)

SOURCES = pathlib.Path(__file__).parent


def _source_hash(sources: pathlib.Path) -> str:
    """A hash of all kernel sources: Numba's own cache looks at one file, and would keep stale callees."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.version} {platform.machine()}".encode())
    for path in sorted(sources.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _is_private_and_writable(folder: pathlib.Path) -> bool:
    """Can files be made here? And by nobody else: machine code is loaded from this folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        if hasattr(os, "getuid") and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o002):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def cache_folder() -> pathlib.Path | None:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the sources, or the user's cache; None if nowhere."""
    candidates = [SOURCES / "__pycache__"]
    try:
        candidates.append(pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "minigrad")
    except RuntimeError:  # no home folder
        pass
    if os.environ.get("NUMBA_CACHE_DIR"):
        candidates.insert(0, pathlib.Path(os.environ["NUMBA_CACHE_DIR"]) / "minigrad")
    for candidate in candidates:
        folder = candidate / f"kernels-{_source_hash(SOURCES)}"
        if _is_private_and_writable(folder):
            _remove_older(candidate, keep=3)
            return folder
    return None


def _remove_older(parent: pathlib.Path, keep: int) -> None:
    """Delete the machine code of older sources, but for the newest few (another version may be in use)."""
    try:
        folders = sorted(parent.glob("kernels-*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[keep:]:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    except OSError:
        pass


@functools.cache
def _name_runtime_functions() -> None:
    """Make Numba's runtime known to the linker: all that loading machine code needs.

    Numba's way, `target_context.refresh()`, gets ready to compile as well: 30 MB and 0.1 s that a warm start can save.
    Where a kernel is compiled after all, Numba itself does the rest.
    """
    for name, address in _nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@functools.cache
def _announce() -> None:
    """Say why the first second takes longer, once in a process that compiles."""
    kept = "once for this machine" if cache_folder() else "each time, as no folder to keep them is writable"
    print(f"minigrad: compiling kernels, {kept} ...", file=sys.stderr, flush=True)


prerequisites: list[Callable] = []  # what has to be called before machine code is loaded or compiled; see threads.py


class KernelCache(caching._Cache):
    """One file per compiled signature: a SHA-256 of the rest, then Numba's pickled compile result.

    The file's name holds the hash of everything that the code depends on, so nothing is ever stale. A file that is
    missing, damaged or unreadable is a miss: the kernel is compiled again. A place that cannot be written is no error.
    """

    def __init__(self, function: Callable):
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    @property
    def cache_path(self):
        return str(cache_folder())

    def _file(self, signature, codegen) -> pathlib.Path:
        key = hashlib.sha256(repr((signature, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return cache_folder() / f"{self._name}-{key}.bin"

    def load_overload(self, signature, target_context):
        while prerequisites:
            prerequisites.pop()()
        loaded = self._loaded(signature, target_context) if cache_folder() else None
        if loaded is None:
            _announce()
        return loaded

    def _loaded(self, signature, target_context):
        _name_runtime_functions()
        try:
            content = self._file(signature, target_context.codegen()).read_bytes()
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                return None
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(content[32:]))
        except Exception:  # noqa: BLE001  whatever is wrong with the file, compiling again is right
            return None

    def save_overload(self, signature, compile_result):
        if cache_folder() is None or compile_result.library.has_dynamic_globals:
            return  # dynamic globals are addresses in this process
        payload = serialize.dumps(compile_result._reduce())
        path = self._file(signature, compile_result.codegen)
        temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        try:
            temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def enable(self):
        pass

    def disable(self):
        pass

    def flush(self):
        for path in cache_folder().glob(f"{self._name}-*.bin") if cache_folder() else ():
            path.unlink(missing_ok=True)


def jit(function: Callable | None = None, **options) -> Callable:
    """Compile a function that kernels call. It is not for Python code: nothing checks its arrays.

    It becomes part of the kernels' own machine code, so it is not cached, and has no interface to Python.
    """
    if function is None:
        return functools.partial(jit, **options)
    return numba.njit(**FLAGS, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)


def library(function: Callable) -> Callable:
    """Compile a function that kernels call by its address: once, while a `jit` function is optimised in each caller."""
    dispatcher = numba.njit(**FLAGS, no_cpython_wrapper=True)(function)
    dispatcher._cache = KernelCache(function)
    return dispatcher


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


# Numba's fallback threading layer, workqueue, aborts the process when two threads launch at once: launches take turns
# until threads.start() knows that another one is used.
_turn = threading.RLock()
take_turns = True


def _launch_in_turn(dispatcher, arguments):
    with _turn:
        return dispatcher(*arguments)


class _Observer(threading.local):
    """Who is told of each launch of this Python thread, as observe(dispatcher, arguments); see minigrad/recording.py."""

    observe: Callable | None = None


observer = _Observer()


def kernel(function: Callable | None = None, *, parallel: bool = False) -> Callable:
    """Compile a function that Python calls with arrays; they pass through `ready` first, but not in its `ungated` form.

    Kernels write into arrays that the caller made, so an output must be ready already; it is if it came from np.empty.
    `parallel=True` says that it has loops that run on all threads (see `parallel.parallel_for`). Whoever writes one keeps
    its result independent of the number of threads: blocks of fixed size, and partial sums added in the order of blocks.
    """
    if function is None:
        return functools.partial(kernel, parallel=parallel)
    dispatcher = numba.njit(**FLAGS, no_cfunc_wrapper=True)(function)
    dispatcher._cache = KernelCache(function)

    def ungated(*arguments):
        result = _launch_in_turn(dispatcher, arguments) if parallel and take_turns else dispatcher(*arguments)
        if observer.observe is not None:
            observer.observe(dispatcher, arguments)
        return result

    @functools.wraps(function)
    def launch(*arguments):
        gated = [ready(a) if type(a) is np.ndarray else a for a in arguments]
        result = _launch_in_turn(dispatcher, gated) if parallel and take_turns else dispatcher(*gated)
        if observer.observe is not None:
            for array, copy in zip(arguments, gated):
                if copy is not array:
                    observer.observe(np.copyto, (copy, array))
            observer.observe(dispatcher, gated)
        return result

    launch.dispatcher, launch.ungated = dispatcher, ungated
    return launch


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
