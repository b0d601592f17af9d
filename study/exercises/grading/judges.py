"""Processes that judge one submission at a time. Whatever happens to one of them, the class goes on.

A judge starts a sandbox for each submission, in which the student's code runs. Tasks and results are JSON over a pipe that
no other process has.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Pipe, wait
from typing import Any

from study.exercises.report import ERROR

MODULE = "study.exercises.grading.judge_process"
START_SECONDS = 120.0  # for a judge to start
PATIENCE = 120.0  # seconds for the judge itself, on top of those of the submission
CALLS = 6.0  # a submission may take this many times the seconds of one call
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


@dataclass(frozen=True)
class Task:
    """A submission to judge, the exercise by its name or file, and how many seconds one call may take."""

    path: str
    exercise: str
    seed: int
    seconds: float


Result = dict[str, Any]  # verdict, mistakes, sentence, report, right (gradients), numbers, seconds; `failed` if the
# judge failed


class NoJudges(Exception):
    """No judge can be started."""


def judge_all(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    """Results as they arrive from this many processes, which end with the generator."""
    waiting, idle, busy = deque(tasks), [], {}
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                judge = idle.pop() if idle else Judge()
                busy[judge.connection] = judge  # before it starts, so that it ends with the others
                judge.start(waiting.popleft())
            ready = wait(list(busy), timeout=max(0.0, min(judge.deadline for judge in busy.values()) - time.monotonic()))
            for judge in list(busy.values()):
                if judge.connection in ready or judge.deadline <= time.monotonic():
                    result = judge.result(judge.connection in ready)
                    del busy[judge.connection]
                    if result.get("failed"):
                        judge.end()
                    else:
                        idle.append(judge)
                    yield judge.task, result
    finally:
        for judge in (*idle, *busy.values()):
            judge.end()


class Judge:
    """One process. NoJudges if it does not start."""

    def __init__(self):
        self.connection, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True)  # so that Ctrl-C does not reach it
        try:
            if self._receive(self.connection.poll(START_SECONDS)) is None:
                raise NoJudges(f"the judge does not start (exit code {self.process.poll()}); try "
                               f"{sys.executable} -m {MODULE}")
        except BaseException:
            self.end()
            raise

    def start(self, task: Task) -> None:
        self.task, self.deadline = task, time.monotonic() + CALLS * task.seconds + PATIENCE
        with contextlib.suppress(OSError):  # it is dead: `result` says so
            self.connection.send_bytes(json.dumps(asdict(task)).encode())

    def result(self, is_ready: bool) -> Result:
        """Its result, or that it has failed."""
        found = self._receive(is_ready)
        if found is not None:
            return found
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0 if is_ready else 0.0)
        code = self.process.poll()
        how = "takes too long" if code is None else f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return failed(f"the judge itself {how}; grade again, or judge this one yourself")

    def _receive(self, is_ready: bool) -> Result | None:
        try:
            return json.loads(self.connection.recv_bytes()) if is_ready else None
        except (EOFError, OSError, ValueError):
            return None

    def end(self) -> None:
        """End it now. SIGTERM lets it end its sandbox."""
        self.process.terminate()
        try:
            self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.connection.close()


def failed(sentence: str) -> Result:
    """The result if the judge failed: nothing is known about the answer."""
    return {"verdict": ERROR, "mistakes": [], "sentence": sentence, "report": "", "right": [], "numbers": "", "source": "",
            "seconds": 0.0, "failed": True}
