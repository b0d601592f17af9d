"""`Sandbox`: a submission runs in its own process, with limits, and answers with arrays.

It starts in an empty folder, with NumPy, SciPy if it is installed, and the standard library, but without minigrad, torch or
jax. Arrays cross as raw bytes over pipes (`worker/wire.py`). The judge keeps the right results to itself, so nothing that
a submission prints, pickles or patches can change the verdict. The system limits CPU time, memory and files; the judge
limits wall time, and kills everything that was started. Python's audit events (`worker/guard.py`) refuse to write outside
the folder, to read anything but Python's and NumPy's own files, and to use processes, signals and the network.

This guards against accidents, impatience and curiosity. It is *not* a sandbox against malice: audit events can be evaded by
someone who knows Python's internals, and they can then act as the user who grades. If that is a risk, grade in a container
or as an unprivileged user. It is made for Linux; macOS does not limit addresses, and submissions do not run on Windows (use
WSL).
"""
import contextlib
import os
import pathlib
import secrets
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from study.exercises.answer import DIED, RAISED, RETURNED, TIMEOUT, Answer
from study.exercises.worker.returned import copy_of
from study.exercises.worker import wire
from study.exercises.submission import Source, safe

WORKER = pathlib.Path(__file__).with_name("worker")
SITE = pathlib.Path(np.__file__).parents[1]
FLAGS = "-s", "-S", "-P", "-B", "-W", "ignore"  # only the standard library
READABLE = ("numpy", "numpy.libs", "scipy", "scipy.libs")  # of the folder in which NumPy is installed
KEPT = 2048  # bytes of its output
PIECE = 2**16
PIPE = 2**20  # no pipe holds more
ENVIRONMENT = {
    "PATH": os.defpath, "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:backslashreplace",
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1",
}


@dataclass(frozen=True)
class Limits:
    """What a submission may use. Seconds are wall time, except those of the processor."""

    start_seconds: float = 60.0  # until NumPy is loaded
    load_seconds: float = 10.0  # for loading the student's file
    call_seconds: float = 10.0
    total_seconds: float = 60.0  # of all calls
    processor_seconds: int = 60
    megabytes: int = 2048  # of address space
    file_megabytes: int = 4  # of one file
    processes: int = 32  # and threads, on top of those that already run
    callbacks: int = 10000  # calls of the judge's functions


class Sandbox:
    """A `Caller` in its own process, in an empty folder, with limits. A context manager:

        with Sandbox(source, "softmax_backward") as caller:
            answer = caller.call([dout, x])

    One process serves all calls, so the judge can see if a submission keeps anything between them. Once it has died or
    hung, every further call gets the same answer. RuntimeError if no process can be started.
    """

    def __init__(self, source: Source, function_name: str, limits: Limits = Limits()):
        self.source, self.function_name, self.limits = source, function_name, limits
        self.end: Answer | None = None  # the answer to all calls, once there can be no other
        self.failed: Answer | None = None  # the first statement of a notebook that failed
        self.printed = bytearray()
        self.seconds_left = limits.total_seconds
        self.folder = ""
        self.process: subprocess.Popen | None = None
        self.killed = False

    def __enter__(self) -> "Sandbox":
        try:
            self._start()
            self._load()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def call(self, arguments: list[Any]) -> Answer:
        """Call the function with copies of these arguments: arrays, numbers, functions of the judge, lists of them."""
        if self.end:
            return self.end
        started = time.monotonic()
        seconds = min(self.limits.call_seconds, self.seconds_left)
        functions: list[Callable[..., Any]] = []
        kept = copy_of(arguments)
        together = "" if seconds == self.limits.call_seconds else "after all others, "
        with self._ends(f"{together}a call takes more than {max(seconds, 0):.3g} seconds"):
            header, tree = self._ask({}, arguments, seconds, functions)
            self.seconds_left -= (took := time.monotonic() - started)
            return self._answer(header, tree, kept, took)
        return self.end

    # Starting and ending.

    def _start(self) -> None:
        """Start the process, and wait until it has loaded NumPy."""
        if os.name != "posix":
            raise RuntimeError("submissions run only on Linux and macOS; on Windows, use WSL")
        limits, source = self.limits, self.source
        settings = {
            "limits": asdict(limits), "readable": [*READABLE, os.path.realpath(sys.executable)],
            "filename": source.filename, "is_notebook": source.is_notebook, "function": self.function_name,
        }
        try:
            self.folder = tempfile.mkdtemp(prefix="exercise_")
            self._spawn()
            deadline = time.monotonic() + limits.start_seconds
            self._send(wire.pack(settings, None), deadline)
            self._receive(deadline)
        except (OSError, EOFError, wire.Garbage) as error:
            if self.process:
                self._kill()
                self._drain()
            reason = self.told.strip().rpartition("\n")[2] or error
            raise RuntimeError(f"no process can be started for the submission: {reason}") from error

    def _spawn(self) -> None:
        requests, self.requests = os.pipe()
        self.replies, replies = os.pipe()
        self.output, output = os.pipe()
        for descriptor in (self.requests, self.replies, self.output):
            os.set_blocking(descriptor, False)
        environment = ENVIRONMENT | {"HOME": self.folder, "TMPDIR": self.folder}
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
        try:
            self.process = subprocess.Popen(
                [sys.executable, *FLAGS, str(WORKER), self.folder, str(requests), str(replies), str(SITE)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(requests, replies), env=environment,
                cwd=self.folder, start_new_session=True)
        finally:
            for descriptor in (requests, replies, output):
                os.close(descriptor)

    def _load(self) -> None:
        text = np.frombuffer(self.source.text.encode("utf-8", "surrogatepass"), np.uint8)
        with self._ends(f"the file runs for more than {self.limits.load_seconds:.3g} seconds", loading=True):
            header, _ = self._ask({}, text, self.limits.load_seconds, [])
            failed = header if header.get("kind") == "raised" else header.get("failed")
            if isinstance(failed, dict):
                self.failed = self._raised({**header, **failed}, loading=True)
            found = header.get("found")
            if found in (None, "NoneType"):
                self.end = self.failed or Answer(RAISED, message=f"the file defines no {self.function_name}", loading=True)
            elif found != "callable":
                words = f"{self.function_name} is not a function, but of type {safe(str(found))}"
                self.end = Answer(RAISED, message=words, loading=True)

    @contextlib.contextmanager
    def _ends(self, too_long: str, loading: bool = False):
        """If the process hangs, dies or sends garbage, `self.end` becomes the answer to this call and all others."""
        started = time.monotonic()
        try:
            yield
            return
        except TimeoutError as error:
            kind, message = TIMEOUT, str(error) or too_long
        except (EOFError, OSError):
            kind, message = self._why_dead()
        except wire.Garbage:
            kind, message = DIED, "it wrote to the pipe to the judge"
        self._kill()
        self._drain()
        self.end = Answer(kind, message=message, printed=self.told, loading=loading, seconds=time.monotonic() - started)

    def _why_dead(self) -> tuple[str, str]:
        try:
            code = self.process.wait(2)
        except subprocess.TimeoutExpired:
            return DIED, "it closed the pipe to the judge"
        if code >= 0:
            return DIED, f"it ended the process (os._exit?) with code {code} instead of returning"
        if -code == getattr(signal, "SIGXCPU", None):
            return TIMEOUT, f"it uses more than {self.limits.processor_seconds} seconds of CPU time"
        return DIED, {
            signal.SIGSEGV: "its process crashed (segmentation fault): is there an infinite recursion?",
            signal.SIGKILL: "its process was killed: it may have taken too much memory or time",
        }.get(-code, f"its process was ended by {signal.Signals(-code).name}")

    def _kill(self) -> None:
        """End it, and everything that it started."""
        if self.process is not None and not self.killed:
            self.killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """End the process, and delete its folder."""
        self._kill()
        for name in ("requests", "replies", "output"):
            if name in vars(self):
                os.close(vars(self).pop(name))
        if self.folder:
            remove(self.folder)

    # Talking.

    def _ask(self, header: dict[str, Any], tree: Any, seconds: float,
             functions: list[Callable[..., Any]]) -> tuple[dict[str, Any], Any]:
        """Send a request, serve its callbacks, and return its reply."""
        deadline = time.monotonic() + seconds
        token = secrets.token_hex(8)
        self._send(wire.pack({**header, "call": token}, tree, functions), deadline)
        asked = 0
        while True:
            header, tree = self._receive(deadline)
            if header.get("kind") != "callback":
                if header.get("call") != token:
                    raise wire.Garbage("no reply to this call")
                return header, tree
            asked += 1
            if asked > self.limits.callbacks:
                raise TimeoutError(f"it calls the functions that it is given more than {self.limits.callbacks} times")
            self._send(self._called_back(header, tree, functions), deadline)

    def _called_back(self, header: dict[str, Any], arguments: Any, functions: list[Callable[..., Any]]) -> bytes:
        """The result of one of the judge's functions."""
        number = header.get("function")
        if not (type(number) is int and 0 <= number < len(functions) and isinstance(arguments, tuple)):
            raise wire.Garbage("no function of the judge")
        try:
            with np.errstate(all="ignore"):
                result = functions[number](*arguments)
            return wire.pack({"kind": "result"}, result, functions)
        except Exception as error:  # noqa: BLE001  it may be called with anything
            return wire.pack({"kind": "raised", "message": str(error)[:500]}, None)

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self.requests, selectors.EVENT_WRITE, deadline)
            view = view[os.write(self.requests, view[:PIECE]):]

    def _receive(self, deadline: float) -> tuple[dict[str, Any], Any]:
        header, body = wire.lengths(self._read(wire.PREFIX.size, deadline))
        fields, tree = wire.unpack(self._read(header, deadline), self._read(body, deadline))
        if not isinstance(fields, dict):
            raise wire.Garbage("no message")
        return fields, tree

    def _read(self, size: int, deadline: float) -> bytearray:
        data = bytearray()
        while len(data) < size:
            self._wait(self.replies, selectors.EVENT_READ, deadline)
            piece = os.read(self.replies, min(size - len(data), PIECE))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until it can be read or written, and collect output meanwhile."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            selector.register(self.output, selectors.EVENT_READ)
            printing = True
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                ready = {key.fd for key, _ in selector.select(left)}
                if printing and self.output in ready and not self._take():
                    selector.unregister(self.output)
                    printing = False
                if descriptor in ready:
                    return

    def _take(self) -> bool:
        """Collect some output, and keep its beginning; may there be more?"""
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self.output, PIECE)
            self.printed += piece[:KEPT - len(self.printed)]
            return bool(piece)
        return True

    def _drain(self) -> None:
        """Collect the output that is left."""
        with contextlib.suppress(OSError):
            for _ in range(PIPE // PIECE):  # it may print forever
                self.printed += os.read(self.output, PIECE)[:KEPT - len(self.printed)]

    # What it says.

    @property
    def told(self) -> str:
        """The beginning of its output, without control characters."""
        return safe(self.printed.decode("utf-8", "replace"))

    def _answer(self, header: dict[str, Any], tree: Any, arguments: list[Any], seconds: float) -> Answer:
        self._drain()
        if header.get("kind") == "raised":
            return self._raised(header, seconds=seconds)
        match header, tree:
            case {"kind": "returned", "container": str(container), "given": list(given)}, [list(results), after]:
                pass
            case _:
                raise wire.Garbage("no answer")
        if len(given) != len(results) or not all(r is None or isinstance(r, np.ndarray) for r in results):
            raise wire.Garbage("no answer")
        after = tuple(after if isinstance(after, list) else arguments)
        return Answer(RETURNED, tuple(results), safe(container)[:100], tuple(safe(str(w))[:100] for w in given), after,
                      printed=self.told, refused=refused(header), seconds=seconds)

    def _raised(self, header: dict[str, Any], loading: bool = False, seconds: float = 0.0) -> Answer:
        kind, message, line = str(header.get("type")), safe(str(header.get("message"))), header.get("line")
        line = line if type(line) is int and 0 < line <= len(self.source.lines) else None
        more = {
            "MemoryError": f" (a submission may use {self.limits.megabytes / 1024:g} GB of memory)",
            "RecursionError": " (infinite recursion)",
            "EOFError": " (nobody can answer input())",
            "SystemExit": " (it exits instead of returning)",
        }.get(kind, "")
        if kind == "NameError" and self.failed:
            more = f" (before, {self.failed.place or 'a cell'} raised {self.failed.message})"
        text = f"{safe(kind)[:80]}: {message[:500]}{more}" if message else f"{safe(kind)[:80]}{more}"
        return Answer(RAISED, message=text, line=line,
                      place=self.source.place(line) if line else "", code=self.source.code(line) if line else "",
                      printed=self.told, refused=refused(header), loading=loading, seconds=seconds)


def refused(header: dict[str, Any]) -> tuple[str, ...]:
    found = header.get("refused")
    return tuple(safe(str(what))[:250] for what in found[:20]) if isinstance(found, list) else ()


def remove(folder: str) -> None:
    """Delete a folder, even if the submission has locked it, unless it has done so itself."""
    if not os.path.isdir(folder):
        return
    os.chmod(folder, stat.S_IRWXU)
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(path := os.path.join(place, name)):
                os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
