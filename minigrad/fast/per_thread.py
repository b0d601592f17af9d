"""What the engine room keeps for each Python thread: `own`."""
import threading
from collections.abc import Callable

import numpy as np

from .pool import Pool


class _Own(threading.local):
    observe_launch: Callable | None = None  # told of each kernel launch, as observe_launch(function, arguments)

    def __init__(self):
        self.pool = Pool()  # memory for results
        self.workspaces: dict[tuple[str, str], np.ndarray] = {}  # memory for kernels' work, by purpose and dtype


own = _Own()
