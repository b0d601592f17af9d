"""The process of one contestant: it reads calls from standard input and writes their results to standard output."""
import importlib
import os
import pickle
import sys
import time

import numpy as np

from benchmarks.common import peak_megabytes

PAUSE_SECONDS = 0.02  # within which the previous contestant's threads stop spinning


class Session:
    """What the parent can call."""

    def build(self, module: str, function: str, arguments: dict, threads: int) -> None:
        """Make the step that is measured."""
        if hasattr(os, "sched_setaffinity"):  # JAX uses all cores it may, and has no option for their number
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        self.step = getattr(importlib.import_module(module), function)(**arguments)
        self.is_long = False

    def results(self, count: int) -> list[list[np.ndarray]]:
        """The results of the next steps."""
        return [[np.asarray(array).copy() for array in self.step()] for _ in range(count)]

    def time(self, seconds: float) -> np.ndarray:
        """The seconds of each step in a block of that length, after one that counts only if it would fill the block."""
        time.sleep(PAUSE_SECONDS)
        if not self.is_long:
            self.step()
        times = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            started = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - started)
        self.is_long = times[0] > seconds
        return np.array(times)

    def peak_megabytes(self) -> float:
        """See `common.peak_megabytes`."""
        return peak_megabytes()


def main() -> None:
    calls, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps what libraries print out of the results
    session = Session()
    while True:
        try:
            method, *arguments = pickle.load(calls)
        except EOFError:  # the parent has closed the pipe
            return
        pickle.dump(getattr(session, method)(*arguments), results)
        results.flush()


if __name__ == "__main__":
    main()
