"""The engine room's names without kernels: the same in NumPy, or None for what only kernels can do."""
import functools
import math
import os
import sys
from typing import Any, Callable, Iterable

import numpy as np

from ..per_thread import this_thread
from ..runner import EAGER, Runner
from ..tensor import Tensor
from .nests import each

MultiTensorAdam = MultiTensorMuon = MultiTensorStep = None  # optimizers step one parameter at a time


class NoticeOfNumba(Runner):
    """Runs the first op of the process and prints that Numba would make it faster."""

    def forward(self, op, inputs, arrays, options):
        if this_thread.runner is self:  # unless an observer wraps it
            this_thread.runner = EAGER
        if os.environ.get("MINIGRAD_FAST") != "0":
            os.environ["MINIGRAD_FAST"] = "0"  # say it once, and not again in child processes
            print("minigrad: Numba is not installed, so NumPy computes everything, slower: pip install numba",
                  file=sys.stderr)
        return super().forward(op, inputs, arrays, options)


def compile(function: Callable | None = None, *, check: bool = False, fullgraph: bool = False, dynamic: bool | None = None,
            mode: str | None = None, backend: str | None = None) -> Callable:
    """The function itself; nothing is captured. Its results are copies off the tape, like those of a replay."""
    if function is None:
        return functools.partial(compile, check=check)

    @functools.wraps(function)
    def step(*inputs: Tensor) -> Any:
        return each(function(*inputs), lambda value: value.detach().clone() if isinstance(value, Tensor) else value)

    step.forget, step.constants = lambda: None, list
    return step


def get_num_threads() -> int:
    """One: minigrad's own. NumPy's BLAS may use more."""
    return 1


def set_num_threads(count: int) -> None:
    """Changes nothing here. ValueError if there are fewer cores than that."""
    if not 1 <= count <= (os.cpu_count() or 1):
        raise ValueError(f"expected a number of threads from 1 to {os.cpu_count()}, got {count}")


def norm(arrays: Iterable[np.ndarray]) -> float:
    """The 2-norm of all elements, summed in float64.

    >>> norm([np.array([3.0]), np.array([4.0])])
    5.0
    """
    return math.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in arrays))


def compile_ahead() -> None:
    """No-op: there is nothing to compile."""


def multiplies_bfloat16() -> bool:
    return False


def cache_folder() -> str:
    return "none: there are no kernels"


def threading_layer() -> str:
    return "none: NumPy alone"
