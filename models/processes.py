"""Jobs done by several processes, with results in the order of the jobs."""
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


def in_order(function: Callable[..., Any], jobs: Iterable[tuple[Any, tuple[Any, ...]]],
             processes: int) -> Iterator[tuple[Any, Any]]:
    """(label, function(*arguments)) for each job (label, arguments), in order; only a few jobs are pending at a time, so
    that they and their results take little memory.

    With `processes` 1 they run in this process; with more, a script needs `if __name__ == "__main__":`. Exceptions of the
    function are raised here, and ProcessLost if a process dies.
    """
    if processes == 1:
        for label, arguments in jobs:
            yield label, function(*arguments)
        return
    pending: collections.deque[tuple[Any, concurrent.futures.Future[Any]]] = collections.deque()
    with workers(function, processes) as submit:
        for label, arguments in jobs:
            pending.append((label, submit(arguments)))
            if len(pending) > 2 * processes:
                label, future = pending.popleft()
                yield label, future.result()
        for label, future in pending:
            yield label, future.result()


@contextlib.contextmanager
def workers(function: Callable[..., Any],
            processes: int) -> Iterator[Callable[[tuple[Any, ...]], concurrent.futures.Future[Any]]]:
    """Yield a function that gives a job to the next free process. A thread of this process waits for each of them."""
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    all_workers: list[Worker] = []

    def do(arguments: tuple[Any, ...]) -> Any:
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
                worker.process.kill()  # nothing is lost, and the thread waiting for it continues
            threads.shutdown(cancel_futures=True)
            for worker in all_workers:
                worker.close()


class Worker:
    """A process that does one job at a time.

    It has its own pipe, which closes when it dies. (The processes of a ProcessPoolExecutor share one: if one is killed
    while writing a result, the executor waits for the rest forever.)
    """

    def __init__(self, context: Any, function: Callable[..., Any]):
        self._connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()

    def do(self, arguments: tuple[Any, ...]) -> Any:
        """function(*arguments), in the process."""
        try:
            self._connection.send(arguments)
            result, error = self._connection.recv()
        except (EOFError, OSError):
            raise ProcessLost("a process was killed, or could not start") from None
        if error:
            raise error
        return result

    def close(self) -> None:
        """Give back the descriptors of a process that ends. The garbage collector would, some time later."""
        self._connection.close()
        self.process.join()
        self.process.close()


def serve(connection: Connection, function: Callable[..., Any]) -> None:
    """The main loop of a worker: it does jobs until its parent closes the pipe or dies. Ctrl-C is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is already a process per core
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            arguments = connection.recv()
            try:
                answer: tuple[Any, Exception | None] = function(*arguments), None
            except Exception as error:  # noqa: BLE001  the parent raises it
                answer = None, error
            connection.send(answer)
