"""What takes long says so, on a terminal only."""
import io
import sys
import threading

import pytest

from models import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream, seconds, shown", [
    (Terminal(), 0.0, "drawing ...\n"),
    (Terminal(), 100.0, ""),  # it ends before
    (io.StringIO(), 0.0, ""),  # nobody is waiting
])
def test_what_takes_long_says_so(stream, seconds, shown, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", seconds)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.saying("drawing"):
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer) and seconds == 0:
                timer.join()
    assert stream.getvalue() == shown
