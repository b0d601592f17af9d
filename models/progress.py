"""The progress of long work: a bar on a terminal, elsewhere an occasional line; and what it is that takes long."""
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

import tqdm

SECONDS_BETWEEN_LINES = 10  # without a terminal
PATIENCE = 1.0  # seconds of silence on a terminal


def has_bar() -> bool:
    """Can stderr show a bar? A file cannot, nor can a terminal without a known width."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    return sys.stderr.isatty()


@contextlib.contextmanager
def saying(what: str) -> Iterator[None]:
    """If what happens inside takes longer than a second, say so on a terminal, above the bar if there is one."""
    timer = threading.Timer(PATIENCE, tqdm.tqdm.write, [f"{what} ..."], {"file": sys.stderr})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """A context for work of this total, of which some is already done; in tqdm's `layout`, {desc} is the text."""

    def __init__(self, total: int, done: int, layout: str, **options: bool | str | float):
        self._total, self._bar = total, None
        if has_bar():
            self._bar = tqdm.tqdm(total=total, initial=done, bar_format=layout, dynamic_ncols=True, **options)
        self.begin(done)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, done: int) -> None:
        """Estimate the time left from now on, not from what was done before."""
        self._first, self._begun = done, time.monotonic()
        self._last_line = self._begun

    def left(self, done: int) -> str:
        """The time left, such as "01:30 left"; empty while unknown, and at the end."""
        if not self._first < done < self._total:
            return ""
        seconds = (self._total - done) * (time.monotonic() - self._begun) / (done - self._first)
        return f"{tqdm.tqdm.format_interval(seconds)} left"

    def show(self, done: int, text: str, line: str, is_due: bool = False) -> None:
        """Show the text next to the bar; without one print the line, if it is due or the last was long ago."""
        if self._bar is not None:
            self._bar.set_description_str(text, refresh=False)
            self._bar.update(done - self._bar.n)
        elif is_due or time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(line, file=sys.stderr)
