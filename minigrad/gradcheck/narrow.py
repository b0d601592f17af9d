"""Gradients in float32, bfloat16 or float16, whose rounding is too coarse for the small steps of differences.

A function that also runs in float64 is judged there, by differences; its narrow gradients must then be those of float64, as
far as rounding allows. One that does not, such as a kernel for bfloat16 alone, is judged by wide steps: they show a wrong
factor but nothing finer, and where noise hides even that, the verdict is inconclusive.
"""
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arguments import flat, generator_for
from .blame import told
from .check import EPS, Options, check
from .contract import CANCELLED, RELATIVE, largest
from .differences import FAIL, INCONCLUSIVE, PASS
from .libraries import Library
from .report import PROJECTED, GradcheckReport, InputReport, index_of
from .side_checks import differentiated, side_checks
from .subject import Given, Record, Subject

SURE = 8  # roundings by which a right gradient may be off
WRONG = 16  # roundings by which no right one is off
NEIGHBOURS = 6  # points one rounding away, which show what rounding does to a gradient
STEPS = np.linspace(1 / 16, 1, 16)  # relative to the widest
SCALES = 1, 1 / 4, 1 / 16  # of the widest step
DIRECTIONS = 4
STEADY = 1 / 3  # of an error: by how much it may change at smaller steps
SCATTER = 5  # standard errors by which a right gradient may be off along a direction
FINEST = 0.1  # how well a slope must be known, relative to its typical size
COARSE = 1e-4  # an error that wide steps may have in any dtype, relative to the same


def check_narrow(given: Given, options: Options) -> GradcheckReport:
    """The report on a function of inputs that are not all float64."""
    library, narrow = given.library, given.subject()
    dtypes = [str(x.dtype).rpartition(".")[2] for x in narrow.likes]
    eps, dtype = max(map(library.eps, narrow.likes)), " and ".join(dict.fromkeys(dtypes))
    generator = generator_for(options.seed)
    with narrow.preserved():
        point = Record(narrow)
        first = differentiated(point, generator, digits=3)
        if not first.passed:
            return GradcheckReport(narrow.title, [], [first], [], options.seed)
        found = against_float64(given, point, eps, dtypes, options)
        if isinstance(found, GradcheckReport):
            return found
        reports = [by_wide_steps(point, i, library, narrow.likes[i], generator) for i in range(len(narrow.leaves))]
        note = (f"{found}; compared with differences of {dtype} at wide steps, an error of less than "
                f"{max(map(noticed, reports)):.3g}% may go unnoticed")
        sides = [first, *side_checks(point, generator, is_exact=False)]
        notes = [*narrow.notes, note]
        return GradcheckReport(f"{narrow.title} in {dtype}", reports, sides, notes, options.seed)


def against_float64(given: Given, point: Record, eps: float, dtypes: list[str], options: Options) -> GradcheckReport | str:
    """The report in float64, with a row for each narrow gradient; or a sentence if the function does not compute the same
    there."""
    with given.library.wide():
        wide = given.widened().subject()
        with wide.state.preserved():
            try:
                with wide.preserved():
                    exact = Neighbourhood(wide, point.upstream, eps, generator_for(options.seed))
            except Exception as error:  # noqa: BLE001  whatever it raises, it has no float64 copy
                return f"the function does not run in float64 ({told(error)})"
            if not exact.is_wide:
                return "the function computes in a narrower dtype even if it is given float64"
            values = flat(point.outputs)
            inputs = max(map(largest, wide.before))  # x * (1 + erf(x)) loses all its digits where erf(x) is nearly -1
            is_same = np.abs(values - exact.values) <= WRONG * (exact.rounding + eps * inputs)
            if not np.all(is_same | ~np.isfinite(values)):
                return "the function computes something else in float64"
            wide.coarseness = coarseness(wide, point.upstream, generator_for(options.seed))
            if wide.coarseness:
                wide.notes.append(f"the backward's gradients are off by about {wide.coarseness:.0e} of themselves, as in "
                                  "float32, even if it is given float64")
            report = check(wide, options)
    def rows(roundings):
        return [narrow_row(f"{name} in {dtype}", *given) for name, dtype, *given in zip(
            point.names, dtypes, point.gradients, exact.gradients, roundings)]

    found = rows(exact.roundings)
    if not all(row.verdict == PASS for row in found):  # terms that cancel leave more, but only in the narrow dtype
        own = Neighbourhood(point.subject, point.upstream, eps, generator_for(options.seed))
        more = [np.maximum(ours**2 - theirs**2, 0.0) for ours, theirs in zip(own.roundings, exact.roundings)]
        found = rows([rounding + np.sqrt(np.mean(extra)) for rounding, extra in zip(exact.roundings, more)])
    if any(row.verdict == FAIL for row in found):
        with given.library.wide(), wide.preserved():
            excuse(wide, point.upstream, eps, found, generator_for(options.seed))
    wrong = dict.fromkeys(dtype for row, dtype in zip(found, dtypes) if row.verdict == FAIL)
    if report and wrong:
        report.warnings.append(f"the gradients are right in float64: what is wrong is in {' and '.join(wrong)} alone")
    report.inputs += found
    return report


class Neighbourhood:
    """A float64 function's values and gradients, and by how much a rounding of inputs and upstream changes them.

    `is_wide` unless it computes in float32 within.
    """

    def __init__(self, subject: Subject, upstream: np.ndarray, eps: float, generator: np.random.Generator):
        def rounded(array):
            return array * (1 + eps * generator.choice([-1, 1], array.shape) * generator.uniform(0.5, 1, array.shape))

        centre = gradients_at(subject, upstream)
        squares, self.is_wide = [0.0] * len(centre), False
        for _ in range(NEIGHBOURS):
            for leaf, before in zip(subject.leaves.values(), subject.before):
                leaf[...] = rounded(before)
            there = gradients_at(subject, rounded(upstream))
            squares = [total + (a - b) ** 2 for total, a, b in zip(squares, there, centre)]
            is_constant = np.array_equal(there[0], centre[0]) and not any(map(np.any, there[1:]))
            self.is_wide |= is_constant or any(np.any(a != a.astype(np.float32)) for a in there)  # else float32 within
        self.values, *self.gradients = centre
        smallest = np.finfo(np.float16 if eps == np.finfo(np.float16).eps else np.float32).tiny  # below, digits are lost
        sizes, terms = list(map(largest, centre)), np.sum(np.abs(upstream * self.values))
        # Where a whole gradient cancels, as that of a bias ahead of a softmax, rounding of its terms remains.
        sizes[1:] = [terms if size <= CANCELLED * terms else size for size in sizes[1:]]
        self.rounding, *self.roundings = (np.sqrt(total / NEIGHBOURS) + eps * size + smallest
                                          for total, size in zip(squares, sizes))


def gradients_at(subject: Subject, upstream: np.ndarray) -> list[np.ndarray]:
    """The values, and each leaf's gradient."""
    record = Record(subject)
    return [flat(record.outputs), *record.backward(upstream)]


def coarseness(subject: Subject, upstream: np.ndarray, generator: np.random.Generator) -> float:
    """The relative error of a backward that computes in float32: by that, backward(u + w) is not backward(u) + backward(w).

    0 if it is less, as in float64, or so much more that it is a mistake.
    """
    point, other = Record(subject), generator.standard_normal(upstream.shape)
    ours, others, both = map(point.backward, (upstream, other, upstream + other))
    found = max(map(largest, [a + b - c for a, b, c in zip(ours, others, both)])) / (max(map(largest, both)) or 1.0)
    return found if RELATIVE < found < SURE * EPS["float32"] else 0.0


def excuse(subject: Subject, upstream: np.ndarray, eps: float, rows: list[InputReport], generator: np.random.Generator
           ) -> None:
    """Turn failures into open questions where rounding on the way may be to blame.

    x + 1 rounds a small x by as much as 1, perhaps across a kink: float64 then gives such gradients where every input moves
    by a rounding of its largest number. Where tanh(x) is nearly 1, 1 - tanh(x)^2 has the rounding of 1.
    """
    lowest = highest = gradients_at(subject, upstream)
    for _ in range(NEIGHBOURS):
        for leaf, before in zip(subject.leaves.values(), subject.before):
            leaf[...] = before + eps * largest(before) * generator.choice([-1, 1], before.shape)
        try:
            there = gradients_at(subject, upstream)
        except Exception:  # noqa: BLE001  the function may not be defined there
            continue
        lowest, highest = list(map(np.fmin, lowest, there)), list(map(np.fmax, highest, there))
    for row, low, high in zip(rows, lowest[1:], highest[1:]):
        slack = np.maximum(row.bound, 2 * eps * largest(upstream))
        is_between = (low.reshape(1, -1) - slack <= row.analytic) & (row.analytic <= high.reshape(1, -1) + slack)
        row.verdicts[is_between & (row.verdicts == FAIL)] = INCONCLUSIVE


def narrow_row(name: str, narrow: np.ndarray, exact: np.ndarray, rounding: np.ndarray) -> InputReport:
    """A narrow gradient next to that of float64."""
    analytic, numeric, rounding = (array.reshape(1, -1) for array in (narrow, exact, rounding))
    error, is_same = np.abs(analytic - numeric), (analytic == numeric) | np.isnan(analytic) & np.isnan(numeric)
    verdicts = np.where(is_same | (error <= SURE * rounding), PASS, np.where(error <= WRONG * rounding, INCONCLUSIVE, FAIL))
    entries = [index_of(k, exact.shape) for k in range(exact.size)]
    return InputReport(name, exact.shape, analytic, numeric, SURE * rounding, verdicts, [PROJECTED], entries,
                       f"all {exact.size} entries", reference="float64")


def by_wide_steps(point: Record, i: int, library: Library, like: Any, generator: np.random.Generator) -> InputReport:
    """Backward against slopes of the narrow function itself along random directions.

    The widest step is eps^(1/4) of each element: in narrow dtypes smaller ones drown in noise, and wider ones cross kinks.
    None changes a sign, since many functions have a kink or a pole at 0.
    """
    leaf = list(point.subject.leaves.values())[i]
    start, gradient = leaf.copy(), point.gradients[i]
    root_mean_square = np.sqrt(np.mean(start**2)) if np.any(start) else 1.0
    size = np.where(start == 0, root_mean_square, np.abs(start)) * library.eps(like) ** 0.25

    def moved(change):
        leaf[...] = library.array(library.tensor(np.asarray(start + change), like))
        move, value = leaf - start, point.projected()[0]
        leaf[...] = start
        return move, value

    typical = np.sqrt(np.sum((gradient * size) ** 2) / 3)
    # What remains of a slope in which terms as large as the output cancel is rounding.
    terms = np.sqrt(np.sum((point.upstream * flat(point.outputs)) ** 2))
    nothing = max(COARSE, SURE * library.eps(like)) * typical + library.eps(like) ** 1.25 * terms
    directions = [size * generator.uniform(-1, 1, start.shape) for _ in range(DIRECTIONS)]
    found = [error_along(moved, gradient, direction, typical, nothing) for direction in directions]
    error, bound, verdicts = (np.array([column]) for column in zip(*found))
    analytic = np.array([[np.sum(gradient * direction) for direction in directions]])
    return InputReport(point.names[i], start.shape, analytic, analytic + error, np.maximum(bound, nothing), verdicts,
                       [PROJECTED], [f"direction {k}" for k in range(DIRECTIONS)], f"{DIRECTIONS} directions")


def noticed(report: InputReport) -> float:
    """By how many percent a gradient must be too large for the verdict not to be a pass, along its steepest direction."""
    steepest = np.max(np.abs(report.numeric), initial=0.0)
    return min(100 * float(np.max(report.bound, initial=0.0)) / steepest, 100.0) if steepest else 100.0


def error_along(moved: Callable[[np.ndarray], tuple[np.ndarray, float]], gradient: np.ndarray, direction: np.ndarray,
                typical: float, nothing: float) -> tuple[float, float, str]:
    """How far the slope is from what the gradient says, how well that is known, and the verdict.

    f(x + t v) - f(x - t v) without what the gradient says is a t + b t^3 + c t^5, where a is 0 if it is right.

    The moves are rounded as the inputs are, and taken as they are then. What the fit leaves is noise, and says how well a
    is known. A kink nearby changes a as well, but it also bends the curve: f(x + t v) + f(x - t v) - 2 f(x) is t^2 d + ...
    of a smooth function, and grows with t at a kink.
    """
    best_error, best_bound, best_verdict = np.nan, np.nan, ""
    _, centre = moved(np.zeros_like(direction))
    may_be_right = False

    def remainder(change):
        move, value = moved(change)
        return float(value - centre - np.sum(gradient * move))

    for scale in SCALES:
        ahead, back = ([remainder(sign * scale * t * direction) / scale for t in STEPS] for sign in (1, -1))
        odd, even = np.subtract(ahead, back), np.add(ahead, back)
        (error, bound), bend = fitted(odd, [1, 3, 5]), fitted(even, [1, 2, 4])
        verdict = judged(error, bound, bend, max(typical, abs(np.sum(gradient * direction) + error)), nothing)
        if verdict == FAIL and may_be_right:
            verdict = INCONCLUSIVE  # a staircase, as of a narrower dtype within, is flat from close by
        may_be_right |= abs(error) <= bound
        is_contradicted = best_verdict == FAIL and abs(error - best_error) > bound + STEADY * abs(best_error)
        if not best_verdict or bound < best_bound or is_contradicted:
            best_error, best_bound, best_verdict = error, bound, verdict
        if best_verdict == PASS:
            break
    return best_error, best_bound, best_verdict


def fitted(rest: np.ndarray, powers: Sequence[int]) -> tuple[float, float]:
    """Half of the coefficient of t in the fit, and how well it is known."""
    if not np.all(np.isfinite(rest)):
        return np.nan, np.inf
    columns = STEPS[:, None] ** powers
    found, *_ = np.linalg.lstsq(columns, rest, rcond=None)
    noise = np.sqrt(np.sum((rest - columns @ found) ** 2) / (len(STEPS) - len(powers)))
    return found[0] / 2, SCATTER * noise * np.sqrt(np.linalg.inv(columns.T @ columns)[0, 0]) / 2


def judged(error: float, bound: float, bend: tuple[float, float], typical: float, nothing: float) -> str:
    """The verdict on an error: up to `nothing` it is none. A `typical` slope says how well this one must be known."""
    is_kink = abs(error) <= 2 * abs(bend[0]) + bend[1]
    if abs(error) > max(3 * bound, nothing) and not is_kink:
        return FAIL
    return PASS if abs(error) <= max(bound, nothing) and bound <= FINEST * typical else INCONCLUSIVE
