"""The state of each Python thread: `this_thread`."""
import threading
from typing import Any, Final


class _PerThread(threading.local):
    grad_enabled: bool = True  # are operations put on the tape?
    is_textbook: bool = False  # do ops run as `minigrad.ops` defines them, rather than an implementation?
    rounds_products: bool = False  # do products take operands in bfloat16, see fast/autocast.py?
    runner: Any = None  # what runs operations; None means runner.EAGER

    def __init__(self) -> None:
        self.identity: object = object()  # the system reuses its own thread numbers, this one is unique


this_thread: Final = _PerThread()
