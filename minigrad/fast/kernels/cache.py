"""The cache of compiled kernels: one file per signature, in a folder that nobody else can write to.

The names of folder and file contain a hash of everything that the machine code depends on, so no file is ever stale. A file
that is missing, damaged or unreadable is a miss: the kernel is compiled again. Without a writable place there is no cache.
"""
import contextlib
import functools
import hashlib
import os
import pathlib
import platform
import sys
import tempfile
import threading
import time
from typing import Callable

import llvmlite.binding
import numba
import numpy

from . import internals

try:
    import fcntl
except ImportError:  # Windows, where folders have no modes
    fcntl = None

SOURCES = pathlib.Path(__file__).parent
MOST_FOLDERS = 8  # of different sources or versions, as other environments may use, with some 15 MB each
A_WHILE = 1.0  # seconds of compiling, after which a message is printed
COMPILER_SETTINGS = "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"  # of numba.config


def _source_hash(sources: pathlib.Path) -> str:
    """A hash of all kernel sources: Numba's own cache checks one file only, and would keep stale callees."""
    versions = numba.__version__, llvmlite.__version__, numpy.__version__, sys.version, platform.machine()
    digest = hashlib.sha256(repr(versions).encode())
    for path in sorted(sources.rglob("*.py")):
        digest.update(path.relative_to(sources).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _is_ours_alone(status: os.stat_result) -> bool:
    """Does a file or folder belong to the user, and can nobody else write to it?

    Files are checked once they are open, so nothing written by others is ever run, even if they can swap folders.
    """
    return fcntl is None or status.st_uid == os.getuid() and not status.st_mode & 0o022


def _is_private_and_writable(folder: pathlib.Path) -> bool:
    """Can the user, and nobody else, make files here? Missing folders are made private, whatever the umask."""
    try:
        for path in [*reversed(folder.parents), folder]:
            if not path.is_dir():
                path.mkdir(mode=0o700, exist_ok=True)
        if any(path.is_symlink() or not _is_ours_alone(path.stat()) for path in (folder, folder.parent)):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def cache_folder() -> pathlib.Path | None:
    """The cache, below NUMBA_CACHE_DIR or in the user's cache folder; None if neither is usable."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for parent in os.environ.get("NUMBA_CACHE_DIR"), home:
        if not parent or parent.startswith("~"):  # no home folder
            continue
        folder = pathlib.Path(os.path.realpath(os.path.join(parent, "minigrad")), f"kernels-{_source_hash(SOURCES)}")
        if _is_private_and_writable(folder):
            os.utime(folder)
            _remove_unused(folder.parent)
            return folder
    return None


def _remove_unused(parent: pathlib.Path) -> None:
    """Delete the folders that have been unused for the longest time."""
    try:
        folders = [folder for folder in parent.glob("kernels-*") if not folder.is_symlink()]
        folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in folders[MOST_FOLDERS:]:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    except OSError:
        pass


@functools.cache
def _announce() -> None:
    """Print once why starting takes longer."""
    nowhere = "in every process, as there is no private, writable folder to keep them in: name one with NUMBA_CACHE_DIR"
    kept = "needed only the first time" if cache_folder() else nowhere
    print(f"minigrad: compiling kernels for these operations, {kept} ...", file=sys.stderr, flush=True)


@functools.cache
def _announce_loss(reason: str) -> None:
    """Print once that Numba has changed: the cache relies on private parts of it."""
    print(f"minigrad: kernels are compiled in every process, as Numba {numba.__version__} cannot keep them ({reason})",
          file=sys.stderr, flush=True)


# What must be called before machine code is loaded or compiled; see also threads.py.
prerequisites: list[Callable] = []


def _meet_prerequisites() -> None:
    while prerequisites:
        prerequisite = prerequisites.pop()  # which may need kernels itself
        try:
            prerequisite()
        except BaseException:
            prerequisites.append(prerequisite)
            raise


PATIENCE = 60.0  # seconds to wait while another process compiles a kernel


def lock(path: pathlib.Path, seconds: float = 0.0) -> int | None:
    """Lock a file against other processes until its descriptor is closed or this process ends; None if another process
    still holds the lock after these seconds, or the system has no locks."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= end:
                break
            time.sleep(0.005)
        except OSError:
            break
    os.close(descriptor)
    return None


class KernelCache:
    """Numba's interface to the cache. A file holds the SHA-256 of its name and payload, then Numba's pickled
    compile result. If another process is compiling a kernel already, this one waits for it."""

    seconds = 0.0  # that this process has waited for kernels to be compiled, here or elsewhere

    def __init__(self, function: Callable):
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._locks: dict[pathlib.Path, int] = {}  # of kernels being compiled
        self._word: threading.Timer | None = None  # says so after a while

    def _file(self, signature, codegen) -> pathlib.Path:
        settings = [getattr(numba.config, name, None) for name in COMPILER_SETTINGS]
        key = hashlib.sha256(repr((signature, internals.processor(codegen), settings)).encode()).hexdigest()[:16]
        return cache_folder() / f"{self._name}-{key}.bin"

    def is_missing(self, signature, target_context) -> bool:
        """Is it neither in the cache nor being compiled by another process?"""
        path = self._file(signature, target_context.codegen())
        if path.exists():
            return False
        held = lock(path.with_suffix(".lock"))
        if held is not None:
            os.close(held)
        return held is not None

    def load_overload(self, signature, target_context):
        _meet_prerequisites()
        path = cache_folder() and self._file(signature, target_context.codegen())
        loaded = path and self._load(path, target_context)
        if loaded is not None:
            return loaded
        self._begun = time.perf_counter()
        self._word = threading.Timer(A_WHILE - KernelCache.seconds, _announce)
        self._word.daemon = True
        self._word.start()
        if path is not None and path not in self._locks:
            self._locks[path] = lock(path.with_suffix(".lock"), PATIENCE)
            loaded = self._load(path, target_context)  # compiled elsewhere, perhaps, during the wait
            if loaded is not None:
                self._unlock(path)
                self._end_wait()
        return loaded

    def give_up(self) -> None:
        """Compiling has failed, or was interrupted: no other process need wait for it."""
        self._end_wait()
        for path in list(self._locks):
            self._unlock(path)

    def _end_wait(self) -> None:
        if self._word is not None:
            self._word.cancel()
            self._word = None
            KernelCache.seconds += time.perf_counter() - self._begun

    def _load(self, path, target_context):
        try:
            payload = _read(path)
            if payload is None:
                return None
            internals.name_runtime_functions()
            return internals.from_bytes(payload, target_context)
        except Exception as error:  # noqa: BLE001  whatever is wrong with the file, compile again
            _announce_loss(repr(error))

    def save_overload(self, signature, compile_result):
        self._end_wait()
        if cache_folder() is None:
            return
        path = self._file(signature, compile_result.codegen)
        try:
            payload = internals.to_bytes(compile_result)
            if payload is not None:
                _write(path, payload)
        except Exception as error:  # noqa: BLE001  what cannot be stored is compiled again next time
            _announce_loss(repr(error))
        finally:
            self._unlock(path)

    def _unlock(self, path: pathlib.Path) -> None:
        held = self._locks.pop(path, None)
        if held is not None:
            path.with_suffix(".lock").unlink(missing_ok=True)
            os.close(held)


def _digest(path: pathlib.Path, payload: bytes) -> bytes:
    """Including the name, so that another kernel's file does not pass for this one's."""
    return hashlib.sha256(path.name.encode() + payload).digest()


def _read(path: pathlib.Path) -> bytes | None:
    """What `_write` wrote; None if it is missing or damaged, or others could have written it."""
    try:
        with path.open("rb") as file:
            content = file.read() if _is_ours_alone(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    return content[32:] if content[:32] == _digest(path, content[32:]) else None


def _write(path: pathlib.Path, payload: bytes) -> None:
    temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        with open(temporary, "xb", opener=functools.partial(os.open, mode=0o600)) as file:
            file.write(_digest(path, payload) + payload)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
