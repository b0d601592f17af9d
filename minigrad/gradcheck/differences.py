"""Derivatives without backward: central differences, extrapolated, with an estimate of their own error."""
from dataclasses import dataclass
from typing import Callable

import numpy as np

STEP = 1e-3
TOLERANCE = 1e-6
FULL_CHECK = 256  # arrays up to this size are checked entry by entry, larger ones along random directions


def derivative(function: Callable[[], float], array: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
    """The derivative of function() as `array` moves along `direction`, and how far off it may be.

    With D(h) = (f(x + h v) - f(x - h v)) / 2h, whose error is c h^2 + O(h^4), Richardson's (4 D(h/2) - D(h)) / 3 has an
    error of O(h^4) only, and D(h/2) - D(h) bounds it. The array is changed in place, and restored.

    >>> x = np.array([3.0])
    >>> value, error = derivative(lambda: float(x[0] ** 3), x, np.ones(1))
    >>> abs(value - 27) < 1e-9
    True
    """
    before = array.copy()
    step = STEP * float(max(1.0, np.max(np.abs(before[direction != 0]), initial=0.0)) / np.max(np.abs(direction)))

    def central(h: float) -> float:
        array[...] = before + h * direction
        above = function()
        array[...] = before - h * direction
        return (above - function()) / (2 * h)

    try:
        coarse, fine = central(step), central(step / 2)
    finally:
        array[...] = before
    return (4 * fine - coarse) / 3, abs(fine - coarse)


@dataclass
class Comparison:
    """How an analytic gradient compares with differences, at its worst place."""

    place: str
    analytic: float
    numeric: float
    relative_error: float  # |analytic - numeric|, in units of the array's largest derivative
    directions: int
    passed: bool


def compare(
    function: Callable[[], float], array: np.ndarray, gradient: np.ndarray, random: np.random.Generator,
    directions: int = 8,
) -> Comparison:
    """Hold `gradient` against differences of function() in `array`, which function() reads.

    Every entry if there are up to 256; otherwise `directions` random normal directions.
    """
    if array.size <= FULL_CHECK:
        places = [(f"entry {tuple(int(i) for i in index)}", index) for index in np.ndindex(array.shape)]
    else:
        places = [(f"direction {i}", None) for i in range(directions)]
    analytic, numeric, error = np.zeros((3, len(places)))
    for i, (_, index) in enumerate(places):
        direction = np.zeros(array.shape) if index is not None else random.standard_normal(array.shape)
        if index is not None:
            direction[index] = 1.0
        analytic[i] = np.sum(gradient * direction)
        numeric[i], error[i] = derivative(function, array, direction)
    scale = max(np.max(np.abs(numeric), initial=0.0), np.max(np.abs(analytic), initial=0.0), 1e-12)
    with np.errstate(invalid="ignore"):
        relative = np.nan_to_num(np.abs(analytic - numeric) / scale, nan=np.inf)
    if not places:
        return Comparison("no entries", 0.0, 0.0, 0.0, 0, True)
    allowed = TOLERANCE + 1e-2 * error / scale
    worst = int(np.argmax(relative - allowed))
    return Comparison(
        places[worst][0], float(analytic[worst]), float(numeric[worst]), float(relative[worst]), len(places),
        bool(np.all(relative <= allowed)),
    )
