"""The engine room's state for each Python thread: `own`."""
import threading
from collections.abc import Callable

import numpy as np

from .pool import Pool


class _Own(threading.local):
    observe_launch: Callable | None = None  # called as observe_launch(function, arguments) at each kernel launch

    def __init__(self):
        self.pool = Pool()  # memory for results
        self.workspaces: dict[tuple[str, str], np.ndarray] = {}  # scratch memory of kernels, by purpose and dtype


own = _Own()
