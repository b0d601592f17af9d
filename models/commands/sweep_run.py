"""One run of a sweep; and a process of its own for it, so that whatever happens to one run, the others go on.

    python -m models.commands.sweep_run

is told in a line of JSON which run that is, and answers in JSON. It ends when its parent does, however that ended.
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
from models import checkpoint as checkpoints
from models import run as runs
from models.commands import train
from models.distributed import ALONE
from models.sweep_folder import FAILURE

LOG = "log.txt"  # in a run's folder: what `minigrad train` says
PATIENCE = 20.0  # seconds until a process whose parent was killed has ended, and no longer holds its run's folder
MOST_DEATHS = 3  # of processes of one run, until it is given up


def train_run(given: dict[str, Any], folder: pathlib.Path) -> str | None:
    """Begin the run, or go on with it, to its end. Why it failed, or None; that is in its folder, too."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wait_for(folder)
        (folder / FAILURE).unlink(missing_ok=True)
        with open(folder / LOG, "a", encoding="utf-8", errors="replace") as log, \
                contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            if any((folder / name).exists() for name in (checkpoints.NAME, checkpoints.PREVIOUS)):
                train.resume({"resume": str(folder)}, ALONE)
            else:
                train.start({**given, "out": str(folder)}, ALONE)
        return None
    except MemoryError:
        return fail(folder, "out of memory; choose a smaller model, context or batch size")
    except Exception as error:  # noqa: BLE001  the other runs of the sweep go on, whatever it is
        return fail(folder, " ".join(str(error).split()) or type(error).__name__)


def wait_for(folder: pathlib.Path) -> None:
    """Until no other process trains there, or PATIENCE is at its end."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with runs.locked(folder):
                return
        except runs.TrainingError:
            if time.monotonic() > end:
                return  # training says that it is locked
            time.sleep(0.1)


def fail(folder: pathlib.Path, reason: str) -> str:
    """Keep the reason in the run's folder, if it can be written to."""
    with contextlib.suppress(OSError):
        (folder / FAILURE).write_text(reason + "\n", encoding="utf-8")
    return reason


class Processes:
    """Runs so many at once, each in a process of its own, with so many threads. Ctrl-C is for who started them."""

    def __init__(self, workers: int, threads: int):
        self.count, self._pool = workers, concurrent.futures.ThreadPoolExecutor(workers)
        self._threads, self._running, self._is_stopped, self._lock = threads, set(), False, threading.Lock()

    def submit(self, given: dict[str, Any], folder: pathlib.Path) -> concurrent.futures.Future:
        """A future of what `train_run` returns."""
        return self._pool.submit(self._run, given, folder)

    def stop(self, at_once: bool = False) -> None:
        """Begin no more; those that run save and end, or just end."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGKILL if at_once else signal.SIGINT)

    def close(self) -> None:
        """Wait for those that run; no more are begun."""
        self._is_stopped = True
        self._pool.shutdown(cancel_futures=True)

    def _run(self, given: dict[str, Any], folder: pathlib.Path) -> str | None:
        task = json.dumps({"given": given, "folder": str(folder.absolute()), "threads": self._threads})
        try:
            for _ in range(MOST_DEATHS):
                answer, code = self._ask(task, folder)
                if self._is_stopped or answer:
                    return json.loads(answer or '"stopped"')
        except OSError as error:
            return fail(folder, f"{error.filename or 'its process'}: {error.strerror or error}")
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return fail(folder, f"its process ended {how}, {MOST_DEATHS} times; is there enough memory? See {folder / LOG}")

    def _ask(self, task: str, folder: pathlib.Path) -> tuple[str, int]:
        """(What a new process answers, its exit code)."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOG, "a", encoding="utf-8") as log:
            with self._lock:
                if self._is_stopped:
                    return "", 0
                process = start_process(log)
                self._running.add(process)
            with process:  # its input stays open as long as this process lives
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(task + "\n")
                    process.stdin.flush()
                answer = process.stdout.read()
                process.wait()
                with self._lock:
                    self._running.discard(process)
                return answer, process.returncode


def start_process(log: TextIO) -> subprocess.Popen:
    """What runs `main`, below."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "models.commands.sweep_run"], text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)


class OnRanks:
    """Runs on the ranks of MPI beside the first, by an executor of mpi4py, which gives each its next one."""

    def __init__(self, executor: Any, count: int):
        self._executor, self.count = executor, count

    def submit(self, given: dict[str, Any], folder: pathlib.Path) -> concurrent.futures.Future:
        """A future of what `train_run` returns."""
        return self._executor.submit(train_run, given, folder.absolute())

    def stop(self, at_once: bool = False) -> None:
        """mpiexec ends all ranks after Ctrl-C; runs go on from their last checkpoints."""

    def close(self) -> None:
        """Wait for those that run; no more are begun."""
        self._executor.shutdown(cancel_futures=True)


def main() -> None:
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, args=[sys.stdin.fileno()], daemon=True).start()
    mg.set_num_threads(task["threads"])
    reason = train_run(task["given"], pathlib.Path(task["folder"]))
    print(json.dumps(reason), flush=True)


def end_with_parent(descriptor: int) -> None:
    """At once: a killed run goes on from its last checkpoint."""
    os.read(descriptor, 1)  # nothing ever comes but the end
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
