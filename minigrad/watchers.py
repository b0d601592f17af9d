"""Who looks on while operations are applied and differentiated: `detect_anomaly` and `count_flops` are such."""
import threading
from typing import Any, Sequence

import numpy as np

from . import recording


class _State(threading.local):
    watchers: tuple["Watcher", ...] = ()


state = _State()


class Watcher:
    """Told of each operation of this Python thread inside a `with` block."""

    def __enter__(self):
        recording.refuse("watches operations (detect_anomaly, count_flops)", "watch the whole step, outside")
        self._before = state.watchers
        state.watchers += (self,)
        return self

    def __exit__(self, *exception):
        state.watchers = self._before

    def forward(self, op, arrays: Sequence, output: np.ndarray) -> None:
        """op has made the output of these arrays."""

    def backward(self, op, dout: Any, shares: Sequence) -> None:
        """op has made these gradients, one for each input, of dout."""
