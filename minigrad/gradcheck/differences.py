"""Derivatives without backward: central differences, extrapolated, with the verdict on an analytic derivative.

With D(h) = (f(x + h v) - f(x - h v)) / 2h, whose error is c h^2 + O(h^4), Richardson's R = (4 D(h/2) - D(h)) / 3 has an
error of only O(h^4). How accurate R is follows from its change since the step before and from the noise of f, which it
multiplies by about 1/h. h is divided by four until R agrees with the analytic derivative, unless a more accurate R
contradicts it. To be called wrong, the derivative has to look wrong from a much smaller step as well.
"""
import math
from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

STEP = 1e-3  # times max(1, |x|)
LEVELS = 10  # steps from h to h / 4^9: a kink in between is left behind on the way
ROUNDING = 8 * np.finfo(np.float64).eps  # the error of a value of f, relative to itself
STEP_ROUNDING = 4 * np.finfo(np.float64).eps / STEP  # the error of the first step, relative to itself
CONFIRMING = 3  # a derivative that looks wrong at one level has to look wrong this many levels below, too
SETTLED = 0.05  # R's changes are at most this large, relative to R and to its distance from the analytic value
MOVES = 1e-11 * 16.0 ** np.array([*range(9), 8.5])  # the first leave only the noise of f; the last confirms the next
TIMES = np.array([-3.5, -2.4, -1.6, -0.5, 0.6, 1.4, 2.7, 3.5])  # uneven, as stairs may be even
FLAT, SUDDEN = 8, 1e4  # from one move to the next, noise grows by less, a curve by 256, and by more what begins
ALIKE = 1.6  # what is left of a curve varies by less in four of six places

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


def overall(verdicts: ArrayLike) -> str:
    """One wrong derivative makes it fail; otherwise, one open question leaves it open."""
    found = set(np.ravel(verdicts))
    return FAIL if FAIL in found else INCONCLUSIVE if INCONCLUSIVE in found else PASS


@dataclass
class Look:
    """How analytic derivatives compare at one step h; vectors of the same length."""

    estimate: np.ndarray  # R
    error: np.ndarray  # |analytic - R|
    rounding: np.ndarray  # how far off R may be because f is rounded
    change: np.ndarray  # of R since the step before; at the first step, |D(h/2) - D(h)|
    change_before: np.ndarray  # at the step before; NaN where there was none
    bend: np.ndarray  # |f(x + h v) + f(x - h v) - 2 f(x)| / h
    half_bend: np.ndarray  # the same for h / 2

    @property
    def is_known(self) -> np.ndarray:
        """Has R settled? It has not if it grows as h falls: the function is steeper than h can resolve."""
        return self.change <= SETTLED * np.abs(self.estimate) + self.rounding

    @property
    def bound(self) -> np.ndarray:
        """On the error of R."""
        return np.where(self.is_known, self.change + self.rounding, np.inf)

    @property
    def is_steady(self) -> np.ndarray:
        """Has R moved so little over two steps that it will not reach the analytic derivative?"""
        return np.maximum(self.change, self.change_before) + self.rounding <= SETTLED * self.error

    @property
    def is_kink(self) -> np.ndarray:
        """On a smooth curve the bend is halved with h; at a kink it stays."""
        return (self.half_bend > 0.7 * self.bend) & (self.half_bend > 1e-3 * self.error + 4 * self.rounding)


def look_from(level: int, value_at: Callable[[float], np.ndarray], centre: np.ndarray, analytic: np.ndarray, step: float,
              noise: np.ndarray | float, before: list[np.ndarray]) -> Look:
    """From h = step / 4^level; `before` are the estimates from larger steps."""
    h = step / 4**level
    up, down, half_up, half_down = (value_at(t) for t in (h, -h, h / 2, -h / 2))
    coarse, fine = difference(up, down) / (2 * h), difference(half_up, half_down) / h
    estimate = (4 * fine - coarse) / 3
    rounding = (noise + ROUNDING * largest_finite(centre, up, down)) / h
    return Look(
        estimate, error=np.where(np.isfinite(analytic), np.abs(analytic - estimate), np.inf),
        rounding=rounding + STEP_ROUNDING * 4**level * np.abs(estimate),
        change=np.abs(estimate - before[-1]) if before else np.abs(fine - coarse),
        change_before=np.abs(before[-1] - before[-2]) if len(before) > 1 else np.full(analytic.shape, np.nan),
        bend=np.abs(up + down - 2 * centre) / h, half_bend=np.abs(half_up + half_down - 2 * centre) / (h / 2),
    )


def judge(value_at: Callable[[float], np.ndarray], centre: np.ndarray, analytic: np.ndarray, step: float, rtol: float,
          atol: np.ndarray, noise: np.ndarray | float = 0.0, levels: int = LEVELS
          ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Is `analytic` the derivative of the vector value_at(t) at t = 0, where it is `centre`? Returns numeric derivatives,
    bounds on their errors, and a verdict on each analytic one.

    `noise` is the error of the values. For example, f(t) = ((3 + t)^3, |t|) has the derivatives 27 and none:

    >>> f = lambda t: np.array([(3 + t) ** 3, abs(t)])
    >>> right, wrong = np.array([27.0, 0.0]), np.array([27.0001, 0.5])
    >>> [judge(f, f(0), analytic, 3e-3, 1e-9, 0.0)[2].tolist() for analytic in (right, wrong)]
    [['pass', 'pass'], ['fail', 'inconclusive']]

    `right` agrees with R from the first step on. `wrong` does not; at the first three steps it looks like this:

    >>> estimates = []
    >>> for level in range(3):
    ...     look = look_from(level, f, f(0), wrong, 3e-3, 0.0, estimates)
    ...     estimates.append(look.estimate)
    ...     print(look.is_steady, look.is_kink)
    [False False] [False  True]
    [False False] [False  True]
    [ True  True] [False  True]

    By the third, R has twice moved by 2e-11 or less, and will not reach 27.0001, which is 1e-4 away: wrong. One more look
    CONFIRMING levels below agrees: fail. |t| bends as much up close as from far away, so no step makes R say anything
    about 0.5: inconclusive.
    """
    numeric, bound = np.full(analytic.shape, np.nan), np.full(analytic.shape, np.inf)  # the most accurate R
    first = numeric  # the first R that was known
    verdict = np.full(analytic.shape, INCONCLUSIVE, dtype="<U12")
    is_wrong, is_contradicted = np.zeros((2, *analytic.shape), bool)
    estimates: list[np.ndarray] = []
    is_last, level = False, 0
    with np.errstate(all="ignore"):
        while level < levels:
            look = look_from(level, value_at, centre, analytic, step, noise, estimates)
            estimates.append(look.estimate)
            is_better = look.bound < bound
            numeric = np.where(is_better | np.isnan(numeric), look.estimate, numeric)
            bound = np.where(is_better, look.bound, bound)
            first = np.where(np.isnan(first) & look.is_known, look.estimate, first)

            allowed = atol + rtol * np.abs(look.estimate)
            agrees_with_best = np.abs(analytic - numeric) <= allowed + 4 * bound
            verdict[(look.error <= allowed + look.rounding) & agrees_with_best & (verdict == INCONCLUSIVE)] = PASS

            # If f is rounded, small steps find the same plateau again and again, far from what large steps found.
            is_plateau = np.abs(look.estimate - first) > 0.5 * look.error
            is_contradicted |= is_wrong & (look.error + look.rounding < 0.5 * np.abs(analytic - numeric))
            is_wrong |= look.is_known & look.is_steady & ~look.is_kink & ~is_plateau
            is_open = (verdict == INCONCLUSIVE) & ~np.isnan(centre)
            if is_last or not np.any(is_open):
                break
            is_last = bool(np.all(is_wrong[is_open]))  # then one look from much closer confirms it
            level += CONFIRMING if is_last else 1
    verdict[(verdict == INCONCLUSIVE) & is_wrong & ~is_contradicted] = FAIL
    return numeric, bound, verdict


def largest_finite(*values: np.ndarray) -> np.ndarray:
    """The largest |value| of each row, ignoring infinities and NaN."""
    return np.max([np.where(np.isfinite(value), np.abs(value), 0.0) for value in values], axis=0)


def noise_of(value_at: Callable[[float], np.ndarray], centre: np.ndarray) -> np.ndarray:
    """The error of values: what is left of them between their neighbours, from moves that show float64's rounding to wide
    ones.

    What is left of a curve grows as the square of the moves, and is alike in most places. Rounding to float32 makes
    stairs: up to the width of one, nothing is left, and from there on, its height. A single jump is in two places alone,
    and what is left at a kink grows as the moves.
    """
    with np.errstate(all="ignore"):
        found = np.array([left_between(value_at, scale) for scale in MOVES])
        typical = np.sort(np.abs(found), axis=1)[:, 3]
        floor = np.finfo(np.float64).eps * largest_finite(centre) + np.finfo(np.float64).tiny
        growth = typical / np.maximum([floor, *typical[:-1]], floor)
        is_alike = np.any([same_size(found[:, k], found[:, k + 3]) for k in range(3)], axis=0)
        is_curve = is_alike & (growth > FLAT) & (growth < SUDDEN)
        is_curve[0] = is_alike[0] & is_curve[1] & (growth[0] > FLAT)
        is_noise = np.logical_and.accumulate(~is_curve)
        is_noise[1:] &= np.append((growth > 1 / FLAT) & (growth < FLAT), np.zeros_like(is_curve[:1]), axis=0)[2:]
    return ROUNDING / np.finfo(np.float64).eps * np.max(np.where(is_noise, typical, 0.0), axis=0)


def same_size(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Are they as alike as what is left of a curve in two places?"""
    return (a * b > 0) & (np.abs(a) < ALIKE * np.abs(b)) & (np.abs(b) < ALIKE * np.abs(a))


def left_between(value_at: Callable[[float], np.ndarray], scale: float) -> np.ndarray:
    """Values minus what a line between their neighbours' gives, in order. Infinities count as 0."""
    values = np.array([value_at(scale * t) for t in TIMES])
    values = np.where(np.isfinite(values), values, 0.0)
    weight = ((TIMES[2:] - TIMES[1:-1]) / (TIMES[2:] - TIMES[:-2])).reshape(-1, *[1] * (values.ndim - 1))
    return np.sort(values[1:-1] - weight * values[:-2] - (1 - weight) * values[2:], axis=0)


def difference(up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """up - down; 0 where both are the same infinity, as masked scores are."""
    return np.where(up == down, 0.0, up - down)


def along(evaluate: Callable[[], np.ndarray], arrays: Sequence[np.ndarray], direction: Sequence[np.ndarray]
          ) -> Callable[[float], np.ndarray]:
    """t -> evaluate() with `arrays`, which it reads, moved by t * direction in place and back again."""

    def value_at(t: float) -> np.ndarray:
        before = [array.copy() for array in arrays]
        for array, start, v in zip(arrays, before, direction):
            array[...] = start + t * v
        try:
            return evaluate()
        finally:
            for array, start in zip(arrays, before):
                array[...] = start

    return value_at


def step_along(array: np.ndarray, direction: np.ndarray, eps: float = STEP) -> float:
    """The largest step along the direction that moves no x by more than eps * max(1, |x|)."""
    speed = np.abs(direction) / scale_of(array)
    return eps / float(np.max(speed, initial=1e-300))


def scale_of(array: np.ndarray) -> np.ndarray:
    """max(1, |x|) of each element; 1 for infinities."""
    return np.maximum(1.0, np.where(np.isfinite(array), np.abs(array), 1.0))


def levels_for(array: np.ndarray) -> int:
    """More than LEVELS, where all numbers are tiny: what is measured in metres may vary over nanometres."""
    return LEVELS + max(0, math.ceil(-math.log(size_of(array), 4)))


def wider(precision: float) -> float:
    """How much wider steps are, where values have this relative error: noise / h is then as small as h^4."""
    return max(1.0, precision / np.finfo(np.float64).eps) ** 0.2


def size_of(array: np.ndarray) -> float:
    """The root mean square of what is finite; 1 if all is 0."""
    squares = np.square(array[np.isfinite(array)])
    return float(np.sqrt(np.mean(squares))) if np.any(squares) else 1.0


def random_direction(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Normal numbers, each at the scale of its element, so that large elements do not set the step for small ones."""
    return np.where(np.isfinite(array), generator.standard_normal(array.shape) * scale_of(array), 0.0)
