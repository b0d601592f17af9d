"""A function's inputs at sizes of 1 and 0, at which backwards often go wrong."""
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

STEP, ROUGH = 1e-5, 1e-4  # of plain differences, and how far they may be off


class Shorter(NamedTuple):
    """All axes of length `n` are cut to `size`, in the inputs that move and in the other values."""

    n: int
    size: int
    where: str
    arrays: list[np.ndarray]
    values: list[Any]


def shortened(names: Sequence[str], arrays: Sequence[np.ndarray], values: Sequence[Any]) -> Iterator[Shorter]:
    """Each length in turn cut to 1 and to 0; to 0 only if no last axis, which has features, has this length."""
    axes: dict[int, str] = {}
    for name, array in zip(names, arrays):
        for axis, n in enumerate(array.shape):
            axes.setdefault(n, f"axis {axis} of {name}")
    features = {array.shape[-1] for array in arrays if array.ndim > 1}
    for n, size in itertools.product(axes, (1, 0)):
        if n > size and (size or n not in features):
            yield Shorter(n, size, f"{axes[n]} has size {size}", [cut(array, n, size) for array in arrays],
                          [cut(value, n, size) if isinstance(value, np.ndarray) else value for value in values])


def cut(value: np.ndarray, n: int, size: int) -> np.ndarray:
    return value[tuple(slice(size if length == n else None) for length in value.shape)]


def wrong_slopes(value: Callable[[list[np.ndarray]], float], arrays: Sequence[np.ndarray], gradients: Sequence[Any]
                 ) -> set[int]:
    """The arrays along which value(arrays) has another slope than its gradients say, each in a random direction."""
    directions = [np.random.default_rng(i).normal(size=array.shape) for i, array in enumerate(arrays)]

    def is_wrong(moving: Sequence[int]) -> bool:
        def moved(t: float) -> list[np.ndarray]:
            return [array + t * directions[i] if i in moving else array for i, array in enumerate(arrays)]

        near, far = ((value(moved(t)) - value(moved(-t))) / (2 * t) for t in (STEP, 3 * STEP))
        is_known = abs(near - far) <= ROUGH * max(abs(near), abs(far), 1e-3)
        expected = sum(np.sum(np.asarray(gradients[i]) * directions[i]) for i in moving)
        return is_known and abs(near - expected) > ROUGH * max(abs(near), 1e-3)

    everything = range(len(arrays))
    return {i for i in everything if is_wrong([i])} if is_wrong(everything) else set()
