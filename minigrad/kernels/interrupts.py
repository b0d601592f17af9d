"""Ctrl-C while a kernel is compiled or loaded: it is obeyed between two passes of the compiler.

Python would obey it amid a pass, also in a function that LLVM calls: there its exception is lost, or the process crashes.
"""
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from numba.core import event


class _Waiting(event.Listener):
    """Notes SIGINT, and calls its handler as soon as the compiler's next pass starts."""

    def __init__(self):
        self._noted: tuple = ()
        self._handler: Callable = signal.signal(signal.SIGINT, self._note)

    def _note(self, *arguments) -> None:
        self._noted = arguments

    def obey(self) -> None:
        """Call the handler, if there was a signal."""
        if self._noted:
            try:
                self.end()
            finally:
                self._handler = signal.signal(signal.SIGINT, self._note)  # it may have chosen another

    def end(self) -> None:
        """From now on the handler is called at once; and now, if there was a signal."""
        signal.signal(signal.SIGINT, self._handler)
        noted, self._noted = self._noted, ()
        if noted:
            self._handler(*noted)

    def on_start(self, event) -> None:
        self.obey()

    def on_end(self, event) -> None:
        """Nothing: an error of the pass comes first."""


@contextlib.contextmanager
def between_passes() -> Iterator[None]:
    """Inside, Ctrl-C waits for the start of a pass, or the end. Only the main thread is told of signals."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(signal.getsignal(signal.SIGINT)):  # it is ignored, or another program's
        yield
        return
    waiting = _Waiting()
    try:
        with event.install_listener("numba:run_pass", waiting):
            yield
    finally:
        waiting.end()
