"""Ctrl-C, obeyed at moments that suit: see `internals.between_passes`."""
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


class _Waiting:
    """Notes SIGINT, and calls its handler when it is told to obey."""

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


@contextlib.contextmanager
def postponed() -> Iterator[Callable[[], None]]:
    """Inside, Ctrl-C waits until the function that it gives is called, or the end. Only the main thread gets signals."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(signal.getsignal(signal.SIGINT)):  # it is ignored, or another program's
        yield lambda: None
        return
    waiting = _Waiting()
    try:
        yield waiting.obey
    finally:
        waiting.end()
