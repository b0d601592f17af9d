"""A verdict that needs no step size: how fast does the remainder of the first-order Taylor expansion fall?

r(h) = |f(x + h v) - f(x) - h <g, v>| is c h^2 with the right gradient g, and about h |<g - f', v>| with a wrong one. So
log2 r(h) / r(h/2), over halved steps, is 2 for a right gradient and 1 for a wrong one.
"""
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from ..drawing.html import html_of_report
from ..tensor import Tensor
from .bridge import Given
from .differences import FAIL, INCONCLUSIVE, PASS, along, difference
from .problem import Point, Problem, generator_for, problem_of
from .side_checks import repeats

HALVINGS = 30
FIRST_STEP = 2.0**-3
FLOOR = 64 * np.finfo(np.float64).eps  # rounding in a remainder, relative to its terms


@dataclass(repr=False)
class TaylorReport:
    """The steps, the remainders along one direction, and their slope at the small end: nan if all is rounding."""

    verdict: str
    slope: float
    steps: np.ndarray
    remainders: np.ndarray
    floor: float
    is_vacuous: bool = False  # the function does not change along the direction

    def __bool__(self) -> bool:
        return self.verdict == PASS

    def __repr__(self) -> str:
        how = f"slope {self.slope:.2f}"
        if not np.isfinite(self.slope):
            how = {PASS: "no remainder above rounding: linear, and right", FAIL: "the gradient is not finite",
                   INCONCLUSIVE: "the function is not finite nearby"}[self.verdict]
        if self.is_vacuous:
            how = "no change above rounding: this proves nothing"
        return f"Taylor: {self.verdict.upper()}, {how}"

    def _repr_html_(self) -> str:
        return html_of_report(repr(self), self.verdict)


def taylor(fn: Callable[..., Any], inputs: Tensor | Sequence[Any], *, directions: int = 3, seed: int = 0
           ) -> TaylorReport:
    """The slope of the Taylor remainder of fn(*inputs), weighted with a random upstream: 2 if backward is right.

    Reports the worst of several random directions, in which all inputs move at once. If the function is linear, nothing
    but rounding remains, and that passes.

    >>> taylor(lambda x: x.exp(), Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    Taylor: PASS, slope 2.00
    >>> taylor(lambda x: x.detach() * x, Tensor([0.3, -0.8], dtype="float64", requires_grad=True))
    Taylor: FAIL, slope 1.00
    """
    generator = generator_for(seed)
    with Given.of(fn, inputs).as_float64() as (fn, inputs, details):
        problem = problem_of(fn, inputs, **details)
        with problem.preserved():
            if not (first := repeats(problem)).passed:
                raise ValueError(f"taylor: {first.detail}")
            point = Point(problem, problem.outputs(), generator)
            found = [remainder_slope(problem, point, generator) for _ in range(directions)]
    return min(found, key=lambda report: ([FAIL, INCONCLUSIVE, PASS].index(report.verdict), report.slope))


def remainder_slope(problem: Problem, point: Point, generator: np.random.Generator) -> TaylorReport:
    """One direction."""
    arrays = [leaf.array for leaf in problem.leaves.values()]
    direction = [generator.standard_normal(array.shape) for array in arrays]
    length = np.sqrt(sum(np.sum(v**2) for v in direction)) or 1.0
    direction = [v / length for v in direction]
    slope = sum(np.sum(g * v) for g, v in zip(point.gradients, direction))
    centre = problem.values()
    largest = float(np.sum(np.abs(np.where(point.upstream == 0, 0.0, centre * point.upstream))))
    steps = FIRST_STEP * 0.5 ** np.arange(HALVINGS)
    values_at = along(problem.values, arrays, direction)
    ahead, back = (np.array([np.sum(difference(values_at(sign * h), centre) * point.upstream) for h in steps])
                   for sign in (1, -1))
    remainders, bends = np.abs(ahead - steps * slope), np.abs(ahead + back)
    terms = sum(float(np.sum(np.abs(np.where(np.isfinite(a), g * a, 0.0)))) for g, a in zip(point.gradients, arrays))
    noise = float(np.max(bends[-HALVINGS // 2 :], initial=0.0))  # this close, nothing else is left of a second difference
    floor = FLOOR * (largest + terms) + 4 * noise
    is_vacuous = bool(np.all(np.abs(ahead) <= floor) and abs(slope) * FIRST_STEP <= floor)
    return TaylorReport(*verdict_of(steps, remainders, bends, floor), steps, remainders, floor, is_vacuous)


def verdict_of(steps: np.ndarray, remainders: np.ndarray, bends: np.ndarray, floor: float) -> tuple[str, float]:
    """The slope over the smallest steps whose remainders stand above rounding, and what it means.

    At a kink, remainders fall with slope 1 whatever the gradient, and so do `bends`, |f(x + hv) + f(x - hv) - 2 f(x)|.
    """
    if not np.all(np.isfinite(remainders[-HALVINGS // 2:])):
        return (FAIL if np.isnan(remainders[-1]) else INCONCLUSIVE), np.nan
    above = np.flatnonzero(remainders > floor)
    if len(above) == 0 or above[-1] < 3:
        return PASS, np.nan
    last = above[-1]
    used = np.arange(max(0, last - 4), last + 1)
    fitted, of_bends = (
        float(np.polyfit(np.log2(steps[used]), np.log2(np.maximum(values[used], 1e-300)), 1)[0])
        for values in (remainders, bends)
    )
    if fitted > 1.5:
        return PASS, fitted
    is_kink = of_bends < 1.5 and bends[last] > max(floor, 1e-3 * remainders[last])
    return (INCONCLUSIVE if is_kink or fitted < 0.7 else FAIL), fitted
