"""A function that does not end is told, rather than waited for."""
import contextlib
import signal
import threading
from collections.abc import Iterator


class TookTooLong(BaseException):
    """Raised in the middle of somebody's code, which shall not catch it."""


@contextlib.contextmanager
def limited(seconds: float, what: str) -> Iterator[None]:
    """TookTooLong if what happens inside takes longer: in the main thread, where Python has signals, unless there is such a
    limit already."""
    is_main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    if not is_main or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def stop(*_: object) -> None:
        raise TookTooLong(f"{what} took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
