"""Verdicts at a kink, where there is no derivative, but the gradient can still be wrong."""
from dataclasses import dataclass

import numpy as np

from .arguments import flat, split
from .differences import FAIL, INCONCLUSIVE, along, difference, largest_finite, size_of, wider
from .report import InputReport
from .subject import NOISE, Record, Subject

DIRECTIONS = 16
UNITS = 64  # up to this many elements are also moved one by one
ROWS = 32  # the most outputs that are judged


@dataclass
class Slopes:
    """How the outputs change along directions in which all inputs move at once: (outputs, directions)."""

    directions: np.ndarray  # the last of the first three blocks holds the sums of the other two
    ups: np.ndarray  # (f(x + h v) - f(x)) / h
    downs: np.ndarray  # (f(x - h v) - f(x)) / h
    bends: np.ndarray  # ups + downs
    far_bends: np.ndarray  # the same with 8 h
    is_bent: np.ndarray  # (outputs,): does the function have a kink here?
    noise: float  # how far off slopes are, of a function that is not computed in float64


def slopes_around(subject: Subject, h: float, precision: float, generator: np.random.Generator) -> Slopes:
    """Slopes along random directions, their sums, all ones, and, if there are few elements, each of them."""
    leaves = list(subject.leaves.values())
    reach = np.isfinite(flat(leaves)) * flat([np.full(leaf.shape, min(1.0, size_of(leaf))) for leaf in leaves])
    parts = reach * generator.standard_normal((2, DIRECTIONS // 2, reach.size))
    directions = [*parts[0], *parts[1], *(parts[0] + parts[1]), reach]
    if reach.size <= UNITS:
        directions += list(np.diag(reach)[reach > 0])
    centre = subject.values()
    values_at = [along(subject.values, leaves, split(v, leaves)) for v in directions]

    def slopes(step: float) -> np.ndarray:
        return np.array([difference(value_at(step), centre) / abs(step) for value_at in values_at]).T

    ups, downs = slopes(h), slopes(-h)
    noise = NOISE * precision * float(np.max(largest_finite(centre), initial=0.0)) / h
    bends, far_bends = ups + downs, slopes(8 * h) + slopes(-8 * h)
    least = noise + 1e-3 * (np.abs(ups) + np.abs(downs))
    least += (1e-14 + 64 * np.finfo(np.float64).eps * largest_finite(centre)[:, None]) / h
    # On a smooth curve, a step 8 times as large bends 8 times as much; at a kink, as much.
    is_bent = np.any((np.abs(bends) > 0.4 * np.abs(far_bends)) & (np.abs(bends) > least), axis=1)
    # The median of three numbers bends neither way, but its derivative along a sum is not the sum of the derivatives.
    along_a, along_b, along_both = np.split((ups - downs)[:, : DIRECTIONS // 2 * 3] / 2, 3, axis=1)
    is_bent |= np.any(np.abs(along_a + along_b - along_both) > np.max(least, axis=1, keepdims=True), axis=1)
    return Slopes(np.array(directions), ups, downs, bends, far_bends, is_bent, noise)


def judge_kinks(point: Record, reports: list[InputReport], h: float, generator: np.random.Generator) -> None:
    """At a kink there is no derivative to compare with; a gradient fails only if it is not between the slopes around it."""
    slopes = slopes_around(point.subject, h * wider(point.precision) ** 2, point.precision, generator)
    chosen = generator.permutation(np.flatnonzero(slopes.is_bent))[:ROWS]
    is_wrong = np.zeros(point.size, bool)
    is_wrong[chosen] = is_outside(point, slopes, chosen)
    for report in reports:
        is_whole = len(report.verdicts) == point.size
        report.is_bent, of_row = (rows if is_whole else np.any(rows, keepdims=True) for rows in (slopes.is_bent, is_wrong))
        report.verdicts[report.is_bent[:, None] & (report.verdicts == FAIL)] = INCONCLUSIVE
        is_open = of_row[:, None] & (report.verdicts == INCONCLUSIVE)
        report.verdicts[is_open] = FAIL
        if np.any(is_open):
            report.notes.append(f"{report.name}: a kink; the gradient is not between the slopes of its sides")


def is_outside(point: Record, slopes: Slopes, outputs: np.ndarray) -> np.ndarray:
    """Which of these outputs bend one way, but have a gradient that is not between the slopes of the sides?

    If f is convex there, v.g <= f'(x; v) must hold for all v. It does for relu'(0) = 0, and for any split of the gradient
    among equal maxima that sums to 1. All inputs move at once: maximum(x, y) at x = y is a kink in both.
    """
    ups, downs, bends, far_bends = (a[outputs] for a in (slopes.ups, slopes.downs, slopes.bends, slopes.far_bends))
    analytic = np.concatenate(point.rows(outputs), axis=1) @ slopes.directions.T
    slack = slopes.noise + 1e-3 * (np.abs(ups) + np.abs(downs) + np.abs(analytic) + 1e-3)
    found = np.zeros(len(outputs), bool)
    for sign in (1.0, -1.0):  # convex, concave
        bends_one_way = np.all(sign * bends >= -slack, axis=1) & np.any(sign * bends > slack, axis=1)
        outside = (sign * analytic > sign * ups + slack) | (-sign * analytic > sign * downs + slack)
        found |= bends_one_way & np.any(outside, axis=1)
    is_steady = np.all(np.abs(bends - far_bends) <= slack, axis=1)
    return found & is_steady
