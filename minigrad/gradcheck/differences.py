"""Derivatives without backward: central differences, extrapolated, with the verdict on an analytic derivative.

With D(h) = (f(x + h v) - f(x - h v)) / 2h, whose error is c h^2 + O(h^4), Richardson's R = (4 D(h/2) - D(h)) / 3 has an
error of O(h^4) only. How far R is known comes from its change since the step before, and from the noise of f: about
h^-1 times as much. h goes down by fours until R agrees with the analytic derivative, unless an R that was known better
contradicts it. To be called wrong, it has to look wrong from much nearer as well.
"""
from dataclasses import dataclass
from typing import Callable

import numpy as np

STEP = 1e-3  # times max(1, |x|)
LEVELS = 10  # steps from h to h / 4^9: a kink in between is left behind on the way
ROUNDING = 8 * np.finfo(np.float64).eps  # the error of a value of f, relative to itself
STEP_ROUNDING = 4 * np.finfo(np.float64).eps / STEP  # the error of the first step, relative to itself
CONFIRMING = 3  # so many levels below the one at which a derivative looks wrong, it has to look wrong as well
SETTLED = 0.05  # R's changes are this small, compared with R itself and with its distance from the analytic value
PROBE = 1e-11  # moves so small that only the noise of f is left in a second difference

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


@dataclass
class Judgement:
    """Numeric derivatives, bounds on their errors, and a verdict on each analytic one; vectors of the same length."""

    numeric: np.ndarray
    bound: np.ndarray
    verdict: np.ndarray

    def overall(self) -> str:
        return overall(self.verdict)


def overall(verdicts) -> str:
    """One wrong derivative fails all, one open question leaves all open."""
    verdicts = set(np.ravel(verdicts))
    return FAIL if FAIL in verdicts else INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS


def judge(value_at: Callable[[float], np.ndarray], centre: np.ndarray, analytic: np.ndarray, step: float, rtol: float,
          atol: np.ndarray, noise: np.ndarray | float = 0.0) -> Judgement:
    """Is `analytic` the derivative of the vector value_at(t) at t = 0, where it is `centre`?

    `noise` is the error of its values.

    >>> cube, bend = lambda t: np.array([(3 + t) ** 3]), lambda t: np.array([abs(t)])
    >>> judge(cube, cube(0), np.array([27.0]), 3e-3, 1e-9, 0.0).overall()
    'pass'
    >>> judge(cube, cube(0), np.array([27.001]), 3e-3, 1e-9, 0.0).overall()
    'fail'
    >>> judge(bend, bend(0), np.array([0.5]), 1e-3, 1e-9, 0.0).overall()
    'inconclusive'
    """
    numeric, best_bound = np.full(analytic.shape, np.nan), np.full(analytic.shape, np.inf)
    verdict = np.full(analytic.shape, INCONCLUSIVE, dtype="<U12")
    is_wrong, is_contradicted = np.zeros((2, *analytic.shape), bool)
    is_last = False
    first = np.full(analytic.shape, np.nan)  # the first R that was known
    settled = [first, first]  # R at the two steps before
    with np.errstate(all="ignore"):
        level = 0
        while level < LEVELS:
            h = step / 4**level
            up, down, half_up, half_down = (value_at(t) for t in (h, -h, h / 2, -h / 2))
            coarse, fine = difference(up, down) / (2 * h), difference(half_up, half_down) / h
            estimate = (4 * fine - coarse) / 3
            rounding = (noise + ROUNDING * largest_finite(centre, up, down)) / h
            rounding = rounding + STEP_ROUNDING * 4**level * np.abs(estimate)
            error = np.where(np.isfinite(analytic), np.abs(analytic - estimate), np.inf)
            change = np.abs(estimate - settled[-1]) if level else np.abs(fine - coarse)
            # An R that grows as h falls is not settling: the function is steeper than h can see.
            is_known = change <= SETTLED * np.abs(estimate) + rounding
            bound = np.where(is_known, change + rounding, np.inf)
            is_better = bound < best_bound
            numeric = np.where(is_better | np.isnan(numeric), estimate, numeric)
            best_bound = np.where(is_better, bound, best_bound)
            allowed = atol + rtol * np.abs(estimate)
            is_refuted = ~(np.abs(analytic - numeric) <= allowed + 4 * best_bound)
            # On a smooth curve this second difference is halved with h; at a kink it stays.
            bend, half_bend = np.abs(up + down - 2 * centre) / h, np.abs(half_up + half_down - 2 * centre) / (h / 2)
            is_kink = (half_bend > 0.7 * bend) & (half_bend > 1e-3 * error + 4 * rounding)
            is_steady = np.maximum(change, np.abs(settled[-1] - settled[-2])) + rounding <= SETTLED * error

            # Where f is rounded, small steps find the same plateau again and again, far from what large ones found.
            first = np.where(np.isnan(first) & is_known, estimate, first)
            is_plateau = np.abs(estimate - first) > 0.5 * error
            is_contradicted |= is_wrong & (error + rounding < 0.5 * np.abs(analytic - numeric))
            is_wrong |= is_steady & is_known & ~is_kink & ~is_plateau
            agrees = (verdict == INCONCLUSIVE) & (error <= allowed + rounding) & ~is_refuted
            verdict[agrees] = PASS
            settled = [settled[-1], estimate]
            is_open = verdict == INCONCLUSIVE
            if not np.any(is_open) or is_last:
                break
            is_last = np.all(is_wrong[is_open])  # then one look from much nearer confirms it
            level += CONFIRMING if is_last else 1
    verdict[(verdict == INCONCLUSIVE) & is_wrong & ~is_contradicted] = FAIL
    return Judgement(numeric, best_bound, verdict)


def largest_finite(*values: np.ndarray) -> np.ndarray:
    """The largest |value| of each row, infinities and NaN aside."""
    return np.max([np.where(np.isfinite(value), np.abs(value), 0.0) for value in values], axis=0)


def noise_of(value_at: Callable[[float], np.ndarray], centre: np.ndarray) -> np.ndarray:
    """How far values are off: what is left of f(x + h v) + f(x - h v) - 2 f(x) for moves of about PROBE."""
    with np.errstate(all="ignore"):
        found = [np.abs(value_at(h) + value_at(-h) - 2 * centre) for h in (PROBE, 1.7 * PROBE, 3.1 * PROBE)]
    return ROUNDING / np.finfo(np.float64).eps * largest_finite(*found)


def difference(up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """up - down; 0 where both are the same infinity, as masked scores are."""
    return np.where(up == down, 0.0, up - down)


def along(evaluate: Callable[[], np.ndarray], array: np.ndarray, direction: np.ndarray
          ) -> Callable[[float], np.ndarray]:
    """t -> evaluate() with `array`, which it reads, moved by t * direction in place, and moved back."""

    def value_at(t: float) -> np.ndarray:
        before = array.copy()
        array[...] = before + t * direction
        try:
            return evaluate()
        finally:
            array[...] = before

    return value_at


def step_along(array: np.ndarray, direction: np.ndarray, eps: float = STEP) -> float:
    """The step along the direction in which no x moves by more than eps * max(1, |x|), and one by that."""
    speed = np.abs(direction) / scale_of(array)
    return eps / float(np.max(speed, initial=1e-300))


def scale_of(array: np.ndarray) -> np.ndarray:
    """max(1, |x|) of each element; 1 for infinities."""
    return np.maximum(1.0, np.where(np.isfinite(array), np.abs(array), 1.0))


def random_direction(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Normal numbers, each in the scale of its element, so that large elements do not set the step for small ones."""
    return np.where(np.isfinite(array), generator.standard_normal(array.shape) * scale_of(array), 0.0)
