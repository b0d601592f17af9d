"""One run of a sweep, in a process of its own, so that whatever happens to it does not affect the others.

    python -m models.commands.sweep_run

reads a line of JSON that describes the run, and answers in JSON. It ends when its parent does, even if that is killed.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any, TextIO

import minigrad as mg
from models import run as runs
from models.checkpoint import has_checkpoint
from models.commands import train
from models.distributed import ALONE
from models.sweep_folder import FAILURE

LOG = "log.txt"  # in a run's folder: the output of `minigrad train`
PATIENCE = 20.0  # seconds to wait until an orphaned process has ended and released its run's folder
MOST_DEATHS = 3  # of processes of one run, before giving up


def train_run(given: dict[str, Any], folder: pathlib.Path) -> str | None:
    """Start or resume the run. Returns why it failed, or None; the reason is also written to its folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wait_for(folder)
        (folder / FAILURE).unlink(missing_ok=True)
        with open(folder / LOG, "a", encoding="utf-8", errors="replace") as log, \
                contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            if has_checkpoint(folder):
                train.resume({"resume": str(folder)}, ALONE)
            else:
                train.start({**given, "out": str(folder)}, ALONE)
        return None
    except MemoryError:
        return fail(folder, "out of memory; choose a smaller model, context or batch size")
    except Exception as error:  # noqa: BLE001  the other runs must continue, whatever it is
        return fail(folder, " ".join(str(error).split()) or type(error).__name__)


def wait_for(folder: pathlib.Path) -> None:
    """Wait until no other process trains there, or PATIENCE has run out."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with runs.locked(folder):
                return
        except runs.TrainingError:
            if time.monotonic() > end:
                return  # training will report the lock
            time.sleep(0.1)


def fail(folder: pathlib.Path, reason: str) -> str:
    """Write the reason to the run's folder, if possible."""
    with contextlib.suppress(OSError):
        (folder / FAILURE).write_text(reason + "\n", encoding="utf-8")
    return reason


class Processes:
    """Executes runs, each in a process of its own; Ctrl-C reaches only the parent."""

    def __init__(self, workers: int, threads: int):
        self.count = workers
        self._pool = concurrent.futures.ThreadPoolExecutor(workers)
        self._threads = threads
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def submit(self, given: dict[str, Any], folder: pathlib.Path) -> concurrent.futures.Future[Any]:
        """A future of what `train_run` returns."""
        return self._pool.submit(self._run, given, folder)

    def stop(self, at_once: bool = False) -> None:
        """Start no more; running ones save and end, or are killed."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGKILL if at_once else signal.SIGINT)

    def close(self) -> None:
        """Start no more, and wait for running ones."""
        self._is_stopped = True
        self._pool.shutdown(cancel_futures=True)

    def _run(self, given: dict[str, Any], folder: pathlib.Path) -> str | None:
        job = json.dumps({"given": given, "folder": str(folder.absolute()), "threads": self._threads})
        try:
            for _ in range(MOST_DEATHS):
                answer, code = self._ask(job, folder)
                if self._is_stopped or answer:
                    return json.loads(answer or '"stopped"')
        except OSError as error:
            return fail(folder, f"{error.filename or 'its process'}: {error.strerror or error}")
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return fail(folder, f"its process ended {how}, {MOST_DEATHS} times; is there enough memory? See {folder / LOG}")

    def _ask(self, job: str, folder: pathlib.Path) -> tuple[str, int]:
        """(The answer of a new process, its exit code)."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOG, "a", encoding="utf-8") as log:
            with self._lock:
                if self._is_stopped:
                    return "", 0
                process: Any = start_process(log)
                self._running.add(process)
            with process:  # its input stays open as long as this process lives
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(job + "\n")
                    process.stdin.flush()
                answer = process.stdout.read()
                process.wait()
                with self._lock:
                    self._running.discard(process)
                return answer, process.returncode


def start_process(log: TextIO) -> subprocess.Popen[str]:
    """A process that runs `main`, below."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "models.commands.sweep_run"], text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)


class OnRanks:
    """Executes runs on all MPI ranks but the first, through mpi4py's executor."""

    def __init__(self, executor: Any, count: int):
        self._executor = executor
        self.count = count

    def submit(self, given: dict[str, Any], folder: pathlib.Path) -> concurrent.futures.Future[Any]:
        return self._executor.submit(train_run, given, folder.absolute())

    def stop(self, at_once: bool = False) -> None:
        """Nothing to do: after Ctrl-C, mpiexec ends all ranks."""

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, args=[sys.stdin.fileno()], daemon=True).start()
    mg.set_num_threads(job["threads"])
    reason = train_run(job["given"], pathlib.Path(job["folder"]))
    print(json.dumps(reason), flush=True)


def end_with_parent(descriptor: int) -> None:
    """Exit without saving: the run resumes from its last checkpoint."""
    os.read(descriptor, 1)  # returns only at the end of the input
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
