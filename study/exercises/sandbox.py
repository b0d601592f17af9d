"""`Sandbox`: a submission runs in its own process, with limits, and answers with arrays.

It starts in an empty folder, with NumPy, SciPy if it is installed, and the standard library, but without minigrad, torch or
jax. Arrays cross a pipe as raw bytes (`worker/wire.py`). The judge keeps the right results to itself, so nothing that a
submission prints, pickles or patches can change the verdict. The system limits CPU time, memory and files; the judge limits
wall time, and kills everything in the process group.

This guards against accidents and impatience. It is *not* a sandbox against malice: a submission may do what the user who
grades may do. If that is a risk, grade in a container. It is made for Linux; macOS does not limit addresses, and
submissions do not run on Windows (use WSL).
"""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from study.exercises.answer import DIED, RAISED, RETURNED, TIMEOUT, Answer
from study.exercises.submission import Source, safe
from study.exercises.worker import wire

WORKER = pathlib.Path(__file__).with_name("worker")
SITE = pathlib.Path(np.__file__).parents[1]
FLAGS = "-s", "-S", "-P", "-B", "-W", "ignore"  # only the standard library
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


class TooOften(Exception):
    """It calls the judge's functions too often."""


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
        self.failed: Answer | None = None  # the first statement that failed
        self.seconds_left = limits.total_seconds
        self.killed, self.deadline = False, 0.0
        self.closing = contextlib.ExitStack()

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

    def close(self) -> None:
        """End the process, and delete its folder."""
        self.closing.close()

    def call(self, arguments: list[Any]) -> Answer:
        """Call the function with copies of these arguments: arrays, numbers, functions of the judge, lists of them."""
        if self.end:
            return self.end
        functions: list[Callable[..., Any]] = []
        request = wire.packed({}, arguments, functions)
        started, seconds = time.monotonic(), min(self.limits.call_seconds, self.seconds_left)
        together = "" if seconds == self.limits.call_seconds else "after all others, "
        with self._ends(seconds, f"{together}a call takes more than {max(seconds, 0):.3g} seconds"):
            header, tree = self._ask(request, functions)
            self.seconds_left -= time.monotonic() - started
            if header["kind"] == "raised":
                return self._raised(header)
            results, after = tree
            return Answer(RETURNED, tuple(results), safe(header["container"])[:100],
                          tuple(safe(words)[:100] for words in header["given"]), tuple(after))
        assert self.end
        return self.end

    def _start(self) -> None:
        """Start the process, and wait until it has loaded NumPy."""
        if os.name != "posix":
            raise RuntimeError("submissions run only on Linux and macOS; on Windows, use WSL")
        empty = tempfile.TemporaryDirectory(prefix="exercise_", ignore_cleanup_errors=True)
        self.folder = self.closing.enter_context(empty)
        settings = {"limits": asdict(self.limits), "filename": self.source.filename, "function": self.function_name}
        self.pipe, theirs = socket.socketpair()
        self.replies = self.closing.enter_context(self.pipe.makefile("rb"))
        self.closing.enter_context(self.pipe)
        environment = ENVIRONMENT | {"HOME": self.folder, "TMPDIR": self.folder}
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
        nowhere = subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                [sys.executable, *FLAGS, str(WORKER), self.folder, str(theirs.fileno()), str(SITE)],
                stdin=nowhere, stdout=nowhere, stderr=nowhere, pass_fds=[theirs.fileno()], env=environment,
                cwd=self.folder, start_new_session=True)
        except OSError as error:
            raise RuntimeError(f"no process can be started for the submission: {error}") from error
        finally:
            theirs.close()
        self.closing.callback(self._kill)
        with self._ends(self.limits.start_seconds, "it does not start"):
            self._ask(wire.packed(settings), [])
        if self.end:
            raise RuntimeError(f"no process can be started for the submission: {self.end.message}")

    def _load(self) -> None:
        with self._ends(self.limits.load_seconds, f"the file runs for more than {self.limits.load_seconds:.3g} seconds"):
            header, _ = self._ask(wire.packed({"text": self.source.text}), [])
            if failed := header if header["kind"] == "raised" else header["failed"]:
                self.failed = self._raised(failed)
            found = header.get("found", "NoneType")
            if found == "NoneType":
                self.end = self.failed or Answer(RAISED, message=f"the file defines no {self.function_name}")
            elif found != "callable":
                self.end = Answer(RAISED, message=f"{self.function_name} is not a function, but of type {safe(found)}")

    @contextlib.contextmanager
    def _ends(self, seconds: float, too_long: str) -> Iterator[None]:
        """If the process hangs, dies or sends garbage, `self.end` becomes the answer to this call and all others."""
        self.deadline = time.monotonic() + seconds
        try:
            yield
            return
        except TooOften as error:
            kind, message = TIMEOUT, str(error)
        except TimeoutError:
            kind, message = TIMEOUT, too_long
        except (EOFError, OSError):
            kind, message = self._why_dead()
        except Exception:  # noqa: BLE001  whatever a submission may send
            kind, message = DIED, "it wrote to the pipe to the judge"
        self._kill()
        self.end = Answer(kind, message=message)

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
        """End it, and everything that it started, once: later, its number may be another's."""
        if not self.killed:
            self.killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _ask(self, request: bytes, functions: list[Callable[..., Any]]) -> tuple[dict[str, Any], Any]:
        """Send a request, serve its callbacks, and return its reply."""
        self._send(request)
        for _ in range(self.limits.callbacks + 1):
            self._in_time()
            header, tree = wire.receive(self.replies)
            if header["kind"] != "callback":
                return header, tree
            try:
                with np.errstate(all="ignore"):
                    result = functions[header["function"]](*tree)
                reply = wire.packed({"kind": "result"}, result, functions)
            except Exception as error:  # noqa: BLE001  it may be called with anything
                reply = wire.packed({"kind": "raised", "message": str(error)[:500]})
            self._send(reply)
        raise TooOften(f"it calls the functions that it is given more than {self.limits.callbacks} times")

    def _send(self, message: bytes) -> None:
        self._in_time()
        self.pipe.sendall(message)

    def _in_time(self) -> None:
        """What follows on the pipe is a TimeoutError after the deadline."""
        self.pipe.settimeout(max(self.deadline - time.monotonic(), 1e-3))

    def _raised(self, header: dict[str, Any]) -> Answer:
        kind, message, line = safe(header["type"])[:80], safe(header["message"])[:500], header["line"]
        more = {
            "MemoryError": f" (a submission may use {self.limits.megabytes / 1024:g} GB of memory)",
            "RecursionError": " (infinite recursion)",
            "EOFError": " (nobody can answer input())",
            "SystemExit": " (it exits instead of returning)",
        }.get(kind, "")
        if kind == "NameError" and self.failed:
            more = f" (before, {self.failed.place or 'a statement'} raised {self.failed.message})"
        return Answer(RAISED, message=(f"{kind}: {message}" if message else kind) + more, line=line,
                      place=self.source.place(line) if line else "", code=self.source.code(line) if line else "")
