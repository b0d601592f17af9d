"""All that a Python thread has of its own: `this_thread`, the only thread-local object of the library."""
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .pool import Pool


class _PerThread(threading.local):
    grad_enabled = True  # are operations put on the tape? Each thread starts with yes
    is_textbook = False  # are ops run as they are written, and no implementation of them?
    runner: Any = None  # who runs operations; None: runner.EAGER
    observe_launch: Callable | None = None  # told of each kernel launch, as observe_launch(function, arguments)

    def __init__(self):
        self.identity = object()  # while the thread lives; the system gives its number to another one afterwards
        self.pool = Pool()  # memory for results
        self.workspaces: dict[tuple[str, str], np.ndarray] = {}  # memory for kernels' work, by purpose and dtype


this_thread = _PerThread()
