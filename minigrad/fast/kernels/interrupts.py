"""Ctrl-C, obeyed at moments that suit."""
import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Inside, Ctrl-C waits for the end: Python would obey it also in a function that LLVM calls, where its exception is
    lost, or the process crashes. Only the main thread gets signals.

    The longest pass takes a third to three quarters of the time in which a kernel is compiled: to obey between passes would
    save little.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):  # ignored, or another program's
        yield
        return
    noted = []
    signal.signal(signal.SIGINT, lambda *arguments: noted.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(*noted[-1])
