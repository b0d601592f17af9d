"""The state of each Python thread: `this_thread`."""
import threading
from typing import Any


class _PerThread(threading.local):
    grad_enabled = True  # are operations put on the tape?
    is_textbook = False  # do ops run as `minigrad.ops` defines them, rather than an implementation?
    runner: Any = None  # what runs operations; None means runner.EAGER

    def __init__(self):
        self.identity = object()  # the system reuses its own thread numbers, this one is unique


this_thread = _PerThread()
