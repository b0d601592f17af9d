"""Derivatives without backward: central differences, extrapolated, with the verdict on an analytic derivative.

With D(h) = (f(x + h v) - f(x - h v)) / 2h, whose error is c h^2 + O(h^4), Richardson's R = (4 D(h/2) - D(h)) / 3 has an
error of O(h^4) only. Where R and the analytic derivative agree, that settles it. Where they do not, h goes down by
fours: R has to settle on another value before that one is called wrong.
"""
from dataclasses import dataclass
from typing import Callable

import numpy as np

STEP = 1e-3  # times max(1, |x|)
LEVELS = 8  # steps from h to h / 4^7: a kink in between is left behind on the way
ROUNDING = 8 * np.finfo(np.float64).eps  # the error of a value of f, relative to the largest one
SETTLED = 0.05  # R's changes are this small, compared with its distance from the analytic value

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


def judge(value_at: Callable[[float], np.ndarray], analytic: np.ndarray, step: float, rtol: float, atol: float
          ) -> Judgement:
    """Is `analytic` the derivative of the vector value_at(t) at t = 0?

    >>> judge(lambda t: np.array([(3 + t) ** 3]), np.array([27.0]), 3e-3, 1e-7, 0.0).overall()
    'pass'
    >>> judge(lambda t: np.array([(3 + t) ** 3]), np.array([27.001]), 3e-3, 1e-7, 0.0).overall()
    'fail'
    >>> judge(lambda t: np.array([abs(t)]), np.array([0.5]), 1e-3, 1e-7, 0.0).overall()
    'inconclusive'
    """
    centre = value_at(0.0)
    numeric, bound = np.full(analytic.shape, np.nan), np.full(analytic.shape, np.inf)
    verdict = np.full(analytic.shape, INCONCLUSIVE, dtype="<U12")
    settled = [np.full(analytic.shape, np.nan)] * 2  # R at the two steps before
    first = settled[0]
    with np.errstate(all="ignore"):
        for level in range(LEVELS):
            h = step / 4**level
            up, down, half_up, half_down = (value_at(t) for t in (h, -h, h / 2, -h / 2))
            coarse, fine = difference(up, down) / (2 * h), difference(half_up, half_down) / h
            estimate = (4 * fine - coarse) / 3
            values = np.abs(np.concatenate([centre, up, down]))
            rounding = ROUNDING * np.max(values[np.isfinite(values)], initial=0.0) / h
            error = np.where(np.isfinite(analytic), np.abs(analytic - estimate), np.inf)
            change = np.maximum(np.abs(estimate - settled[-1]), np.abs(settled[-1] - settled[-2])) + rounding
            # Where noise rules, small steps may find the same plateau again and again: far from what large ones found.
            first = np.where(np.isfinite(first), first, estimate)
            is_settled = (change <= SETTLED * error) & ~(np.abs(estimate - first) > 0.5 * error)
            # On a smooth curve this second difference is halved with h; at a kink it stays.
            bend, half_bend = np.abs(up + down - 2 * centre) / h, np.abs(half_up + half_down - 2 * centre) / (h / 2)
            is_kink = (half_bend > 0.7 * bend) & (half_bend > 1e-3 * error + 4 * rounding)

            is_open = verdict == INCONCLUSIVE
            last_bound = np.abs(estimate - settled[-1]) if level else np.abs(fine - coarse)
            numeric[is_open] = estimate[is_open]
            bound[is_open] = (last_bound + rounding)[is_open]
            verdict[is_open & (error <= atol + rtol * np.abs(estimate) + rounding)] = PASS
            verdict[(verdict == INCONCLUSIVE) & is_settled & ~is_kink] = FAIL
            settled = [settled[-1], estimate]
            if not np.any(verdict == INCONCLUSIVE):
                break
    return Judgement(numeric, bound, verdict)


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
    """eps * max(1, |x|) for the largest x that moves, as a step along the direction."""
    moved = np.abs(array[direction != 0])
    return eps * max(1.0, float(np.max(moved, initial=0.0))) / float(np.max(np.abs(direction), initial=1e-300))
