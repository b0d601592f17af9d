"""Tasks done by several processes, their results in the order of the tasks."""
import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any


class ProcessLost(Exception):
    """A process was killed, or could not start."""


def in_order(function: Callable, tasks: Iterable[tuple[Any, tuple]], processes: int) -> Iterator[tuple[Any, Any]]:
    """(label, function(*arguments)) of tasks (label, arguments), in their order, by so many processes; few of them are
    under way at a time, so that they and their results take little memory.

    With one process it is this one; with more, a script needs `if __name__ == "__main__":`. An exception of the function is
    raised here, and ProcessLost if a process is no more.
    """
    if processes == 1:
        for label, arguments in tasks:
            yield label, function(*arguments)
        return
    waiting = collections.deque()
    with workers(function, processes) as submit:
        for label, arguments in tasks:
            waiting.append((label, submit(arguments)))
            if len(waiting) > 2 * processes:
                label, future = waiting.popleft()
                yield label, future.result()
        while waiting:
            label, future = waiting.popleft()
            yield label, future.result()


@contextlib.contextmanager
def workers(function: Callable, processes: int) -> Iterator[Callable[[tuple], concurrent.futures.Future]]:
    """Yield a function that lets the next free process do a task. A thread of this process waits for each of the others."""
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    free, all_workers = queue.SimpleQueue(), []

    def do(arguments: tuple) -> Any:
        worker = free.get()
        try:
            return worker.do(arguments)
        finally:
            free.put(worker)

    with concurrent.futures.ThreadPoolExecutor(processes) as threads:
        try:
            for _ in range(processes):
                all_workers.append(Worker(context, function))
                free.put(all_workers[-1])
            yield lambda arguments: threads.submit(do, arguments)
        finally:
            for worker in all_workers:
                worker.process.kill()  # it holds nothing that could be lost; the thread that waits for it goes on
            threads.shutdown(cancel_futures=True)


class Worker:
    """A process that does one task at a time.

    It has a pipe of its own, which ends with it. (The processes of a ProcessPoolExecutor write to one pipe: when one is
    killed amid a result, the executor waits for the rest of it for ever.)
    """

    def __init__(self, context: multiprocessing.context.BaseContext, function: Callable):
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()

    def do(self, arguments: tuple) -> Any:
        try:
            self._connection.send(arguments)
            result, error = self._connection.recv()
        except (EOFError, OSError):
            raise ProcessLost("a process was killed, or could not start") from None
        if error:
            raise error
        return result


def serve(connection: Connection, function: Callable) -> None:
    """What a process does: tasks, until the one that gives them closes the pipe or ends. Ctrl-C is left to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a process for each core
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            arguments = connection.recv()
            try:
                answer = function(*arguments), None
            except Exception as error:  # noqa: BLE001 (raised where the result is waited for)
                answer = None, error
            connection.send(answer)
