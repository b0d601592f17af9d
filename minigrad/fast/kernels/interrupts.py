"""Postponing Ctrl-C to a safe moment."""
import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Inside, Ctrl-C waits for the end. Python might handle it in a function that LLVM calls, where the exception is lost
    or the process crashes. Only the main thread gets signals.

    Handling it between the compiler's passes would gain little: the longest takes a third to three quarters of the time.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):  # ignored, or set outside Python
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
