"""Runners that watch what others do."""
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .per_thread import this_thread
from .replays import notice
from .runner import Runner
from .tape import Op


class Observer(Runner):
    """Watches inside a `with` block while the previous runner does the work. Subclasses extend forward or backward."""

    _inner: Any = None  # the previous runner, inside the block

    def __enter__(self) -> Self:
        if self._inner is not None:
            raise RuntimeError(f"{type(self).__name__}: already entered; make another one for the inner block")
        before = this_thread.runner
        notice("observes operations (detect_anomaly, count_flops, trace)")
        self._inner = before
        this_thread.runner = self
        return self

    def __exit__(self, *exception: object) -> None:
        this_thread.runner = self._inner
        self._inner = None

    def forward(self, op: Op, inputs: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        return self._inner.forward(op, inputs, arrays, options)

    def made(self, tensor: Any) -> Any:
        return self._inner.made(tensor)

    def walk_begins(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
        self._inner.walk_begins(outputs, inputs)

    def backward(self, op: Op, dout: Any, onto: np.ndarray | None = None) -> tuple[Any, ...]:
        return self._inner.backward(op, dout)  # not onto others, to see what each op computes by itself
