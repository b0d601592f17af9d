"""What a Python thread has of its own: `this_thread`."""
import threading
from typing import Any


class _PerThread(threading.local):
    grad_enabled = True  # are operations put on the tape? Each thread starts with yes
    is_textbook = False  # are ops run as they are written, and no implementation of them?
    runner: Any = None  # who runs operations; None: runner.EAGER

    def __init__(self):
        self.identity = object()  # while the thread lives; the system gives its number to another one afterwards


this_thread = _PerThread()
