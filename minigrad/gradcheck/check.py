"""The check itself: every input of a subject, at the given point and, if there are kinks, at points nearby."""
import dataclasses
import math
from typing import Any, Callable, Iterable

import numpy as np

from .above import consultations
from .arguments import generator_for
from .differences import (
    FAIL, INCONCLUSIVE, PASS, STEP, along, judge, largest_finite, levels_for, overall, random_direction, size_of,
    step_along, wider,
)
from .kinks import judge_kinks
from .report import LOST, PROJECTED, GradcheckReport, InputReport, SideCheck, index_of, special_points
from .side_checks import differentiated, side_checks
from .time_limit import TookTooLong
from .subject import NOISE, SMALL_OUTPUT, Record, Subject

SMALL_INPUT = 256  # up to this many elements, each is moved on its own
SMALL_JACOBIAN = 4096  # up to this many derivatives, and SMALL_OUTPUT rows, each is judged on its own
PICKED = 16  # elements of a larger input that are moved on their own: with small gradients, large ones, and random ones
RETRIES = 4  # points nearby to try if the given one has kinks
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
KINK_STEP = 1e-3  # times eps: the step at which the slopes of a kink's sides are taken
BACKWARD_ROUNDING = 1e-11  # backward's error, relative to the terms that add up to a derivative
NOTHING = 1e-13  # relative to the largest derivative: as much is lost in 1 + erf(x), where x is far below 0
NEGLIGIBLE = 1e-9  # relative to the output and to the largest derivative: nobody would see as much
ALIKE, MOST = 1e-3, 0.5  # so near to each other are so many derivatives from wide steps and small ones, without noise
STAIRS, BETWEEN = 2.0**-22, 1e-5  # errors of values that are larger than float32's; steps that stay between the jumps
FINEST = 0.1  # how well derivatives must be known, relative to a typical one
SHIFT = 0.5  # of a point that is outside of the domain
TINY = 1e-9  # errors up to this size may be rounding: how much of it backward has is then measured
NEIGHBOURS = 4  # points nearby that show it
NEARBY = 1e-13  # times x: how far away they are


Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclasses.dataclass
class Options:
    """How closely to look. A derivative passes within atol + rtol * |numeric|, plus the rounding of differences."""

    eps: float = STEP
    atol: float | None = None  # None: 1e-11 of the largest derivative in the row
    rtol: float = 1e-9
    nondet_tol: float = 0.0  # how far a second backward may deviate from the first
    check_undefined_grad: bool = True
    fast_mode: bool = False  # only random directions
    directions: int = 3
    seed: int = 0
    time_limit: float = 60.0  # seconds, of a single call of the function or its backward

    def __post_init__(self) -> None:
        real, whole = (int, float, np.number), (int, np.integer)
        for name, kind, least, wanted in (
            ("eps", real, 1e-300, "a positive number"), ("rtol", real, 0, "a number >= 0"),
            ("atol", real, 0, "None or a number >= 0"), ("nondet_tol", real, 0, "a number >= 0"),
            ("time_limit", real, 1e-3, "a number of seconds"),
            ("directions", whole, 1, "an integer >= 1"), ("seed", whole, 0, "an integer >= 0"),
        ):  # fmt: skip
            value = getattr(self, name)
            is_default = name == "atol" and value is None
            if not is_default and not (isinstance(value, kind) and least <= value < math.inf):
                raise ValueError(f"gradcheck: {name} must be {wanted}, got {value!r}")


def check(subject: Subject, options: Options, progress: Progress = iter) -> GradcheckReport:
    """Check all leaves of what is left unchanged."""
    subject.time_limit = options.time_limit
    try:
        return check_in_time(subject, options, progress)
    except TookTooLong as stopped:
        side = SideCheck("ends", False, f"{stopped}: give smaller inputs, or a larger time_limit", is_open=True)
        return GradcheckReport(subject.title or "the function", [], [side], subject.notes, options.seed)


def check_in_time(subject: Subject, options: Options, progress: Progress) -> GradcheckReport:
    generator = generator_for(options.seed)
    with subject.preserved():
        varied = subject.vary(generator)
        point = inside_domain(subject)
        # A function without a name is named after the op that made its output.
        title = subject.title or getattr(getattr(point.tensors[0], "grad_fn", None), "title", "the function")
        sides, reports = [differentiated(point, generator)], []
        if sides[0].passed:
            sides += side_checks(point, generator, options.nondet_tol, options.check_undefined_grad)
            reports = check_inputs(point, sides, options, generator, progress)
        if not reports:
            return GradcheckReport(title, [], sides, [], options.seed)
        is_wrong = FAIL in [*(side.verdict for side in sides), *(report.verdict for report in reports)]
        is_asked = is_wrong and not subject.is_random and not point.raised
        to_ask = consultations(point, reports, options.seed) if is_asked else []
        warnings = [*subject.notes, *varied, *special_points(reports, subject.before, subject.constants, point.outputs)]
    warnings += [f"output {k} is not on the tape: detach(), .data or no_grad() cut it off, or it depends on no input"
                 for k, is_known in enumerate(point.is_known) if not is_known]
    warnings += [f"output {k} is NaN in {lost} of {out.size} places, where nothing can be checked"
                 for k, out in enumerate(point.outputs) if (lost := np.count_nonzero(np.isnan(out)))]
    return GradcheckReport(title, reports, sides, warnings, options.seed, to_ask)


def inside_domain(subject: Subject) -> Record:
    """A recording where no output is NaN, if there is such a point near: |x| + 0.5, as for logarithms and roots."""
    point = Record(subject)
    lost = sum(np.count_nonzero(np.isnan(out)) for out in point.outputs)
    if not lost:
        return point
    for leaf in subject.leaves.values():
        leaf[...] = np.abs(leaf) + SHIFT
    inside = Record(subject)
    if any(np.any(np.isnan(out)) for out in inside.outputs):
        subject.restore()
        return Record(subject)
    subject.before = [array.copy() for array in subject.arrays()]
    subject.notes.append(f"the given point is outside of the domain, {lost} of {point.size} outputs are NaN there: checked "
                         f"at |x| + {SHIFT}")
    return inside


def check_inputs(point: Record, sides: list[SideCheck], options: Options, generator: np.random.Generator,
                 progress: Progress) -> list[InputReport]:
    """A report on each leaf; none if the function raises, and a side check has said why."""
    point.refuse_infinities()
    try:
        reports = [check_input(point, i, options, generator) for i in progress(range(len(point.names)))]
    except Exception:
        if overall([side.verdict for side in sides]) == PASS:
            raise
        return []
    if unseen := max(report.unseen for report in reports):
        point.subject.notes.append(said_of(point.precision, unseen))
    if point.raised:
        detail = f"backward raises for an upstream of one entry: {point.raised}"
        sides.append(SideCheck("upstreams of one entry", False, detail, makes_wrong=False))
    elif not point.subject.is_random and not point.is_sum_of_rows():
        sides.append(SideCheck("linear in the upstream", False, "a dense upstream gives another gradient than its "
                               "entries one by one"))
    if not point.raised and any(report.verdict != PASS for report in reports):
        judge_kinks(point, reports, KINK_STEP * options.eps, generator)
    if any(np.any(np.isnan(out)) for out in point.outputs):
        for report in reports:  # NaN comes from NaN: that is no mistake
            report.verdicts[np.isnan(report.analytic)] = INCONCLUSIVE
    else:
        judge_nearby(point, reports, options, generator)
    return reports


def said_of(precision: float, unseen: float) -> str:
    """A note on a function that is not computed in float64."""
    coarse = next((name for name, eps in EPS.items() if precision > eps / 8), "")
    where = f", as in {coarse}: let buffers and casts inside have the dtype of the inputs" if coarse else ""
    goes = f"an error of less than {min(100 * unseen, 100):.1g}% may go unnoticed"
    return f"the function's values are off by about {precision:.0e} of themselves{where}; {goes}"


def judge_nearby(point: Record, reports: list[InputReport], options: Options, generator: np.random.Generator) -> None:
    """Replace reports that say nothing, as at a kink, by others at points nearby."""
    subject = point.subject
    for attempt in range(RETRIES):
        open_inputs = [i for i, report in enumerate(reports) if report.verdict == INCONCLUSIVE and report.unseen <= FINEST]
        if not open_inputs:
            return
        subject.move(generator, upward=attempt % 2 == 1)
        nearby = Record(subject).differentiate(generator)
        nearby.noise = np.maximum(nearby.noise, point.noise)  # which values that are 0 do not show
        for i in open_inputs if nearby.is_finite() or not point.is_finite() else ():  # else it left the domain
            again = check_input(nearby, i, options, generator)
            if again.verdict != INCONCLUSIVE:
                place = reports[i].worst or (0, 0)
                again.notes = [f"{again.name}: judged at a point nearby; at the given one {reports[i].why_open(*place)}"]
                reports[i] = again
        subject.restore()


Move = tuple[str, np.ndarray]  # a name and a direction


def check_input(point: Record, i: int, options: Options, generator: np.random.Generator) -> InputReport:
    """All elements if there are few; else random directions and some elements, and more elements to report a failure. In
    fast mode, only random directions."""
    leaf = point.subject.leaves[point.names[i]]
    gradient = point.gradients[i].reshape(-1)
    if leaf.size <= SMALL_INPUT and not (options.fast_mode and leaf.size):
        is_jacobian = point.size <= SMALL_OUTPUT and point.size * leaf.size <= SMALL_JACOBIAN and bool(point.jacobians)
        return compare(point, i, units(range(leaf.size), leaf.shape), options, generator, is_jacobian)
    count = options.directions if options.fast_mode else options.directions + 5
    moves = [(f"direction {k}", random_direction(leaf, generator)) for k in range(count)]
    if not options.fast_mode:
        by_size = generator.permutation(leaf.size)
        by_size = by_size[np.argsort(np.abs(gradient[by_size]), kind="stable")]
        picked = [*by_size[: PICKED // 2], *by_size[-PICKED // 4 :],
                  *generator.choice(leaf.size, PICKED // 4, replace=False)]
        moves += units(sorted(set(picked)), leaf.shape)
    report = compare(point, i, moves, options, generator)
    if report.verdict == FAIL and not options.fast_mode:
        chosen = np.sort(generator.choice(leaf.size, min(leaf.size, SMALL_INPUT), replace=False))
        by_element = compare(point, i, units(chosen, leaf.shape), options, generator)
        report = by_element if by_element.verdict == FAIL else report
    return report


def units(elements: Iterable[int], shape: tuple[int, ...]) -> list[Move]:
    """One element at a time."""
    return [(index_of(k, shape), np.eye(1, math.prod(shape), k).reshape(shape)) for k in elements]


def compare(point: Record, i: int, moves: list[Move], options: Options, generator: np.random.Generator,
            is_jacobian: bool = False, is_exact: bool = False) -> InputReport:
    """Backward against differences along each direction: each output on its own, or all weighted with the upstream.

    An error passes up to 1e-11 of the largest derivative in the row, and also where no user would see it: up to 1e-9 of the
    output and of the largest derivative by any input, each input counted in units of its own size.
    """
    subject, precision = point.subject, 0.0 if is_exact else point.precision
    name, leaf = point.names[i], subject.leaves[point.names[i]]
    if is_jacobian:
        evaluate, gradient, noise = subject.values, point.jacobians[i], point.noise[:-1]
        one = len(point.outputs) == 1
        rows = [("output" if one else f"outputs[{k}]") + index_of(j, out.shape)
                for k, out in enumerate(point.outputs) for j in range(out.size)]
        values = subject.values()
    else:
        evaluate, gradient, noise = point.projected, point.gradients[i].reshape(1, -1), point.noise[-1:]
        rows = [PROJECTED]
        values = np.sum(np.abs(point.weighted(subject.values())), keepdims=True)
    centre = evaluate()
    noise = 0 * noise if is_exact else noise
    noise = np.maximum(noise, 4 * np.finfo(np.float64).eps * largest_finite(values))
    noise = np.maximum(noise, NOISE * precision * size_of(values))
    magnitude = np.where(np.isfinite(gradient), np.abs(gradient), 0.0)
    largest = np.max(magnitude, axis=1, initial=0.0)
    typical = point.typical(i)
    rounding = BACKWARD_ROUNDING + NOISE * max(precision, subject.coarseness)
    floor = (NOTHING + NOISE * subject.coarseness) * np.max(largest, initial=0.0)
    floor += NEGLIGIBLE * np.minimum(typical, largest_finite(values) / size_of(leaf))
    analytic, numeric, bound = np.zeros((3, len(rows), len(moves)))
    verdicts = np.full(analytic.shape, PASS, dtype="<U12")
    for k, (_, direction) in enumerate(moves):
        v = direction.reshape(-1)
        analytic[:, k] = gradient @ v
        if not np.all(np.isfinite(gradient)):  # 0 * NaN: other elements are not to blame
            analytic[:, k] = np.sum(np.where(v == 0, 0.0, gradient * v), axis=1)
        longest = np.max(np.abs(v), initial=0.0)
        atol = rounding * (magnitude @ np.abs(v) + largest * longest) + floor * longest
        atol = atol if options.atol is None else np.full_like(atol, options.atol)
        numeric[:, k], bound[:, k], verdicts[:, k] = judge(
            along(evaluate, [leaf], [direction]), centre, analytic[:, k],
            step_along(leaf, direction, options.eps * wider(precision)), options.rtol, atol, noise, levels_for(leaf))
    error, is_open = np.abs(analytic - numeric), verdicts != PASS
    if np.any(is_open) and np.all(error[is_open] <= TINY * max(1.0, np.max(largest, initial=0.0))):
        jumps = rounding_of_backward(point, i, is_jacobian, generator)
        lengths = [np.sum(np.abs(v)) for _, v in moves]
        verdicts[is_open & (error <= bound + 8 * np.outer(jumps, lengths))] = PASS
    if np.all(np.maximum(np.abs(analytic), np.abs(numeric)) <= LOST):
        verdicts[verdicts == FAIL] = INCONCLUSIVE
    known = np.max(np.where(np.isfinite(bound), bound, error), initial=0.0) if precision else 0.0
    unseen = float(known / max(typical, np.max(np.abs(numeric), initial=0.0), LOST))
    if unseen > FINEST:
        verdicts[verdicts == PASS] = INCONCLUSIVE
    sizes = {f"dim {d} of {name}": n for d, n in enumerate(leaf.shape)}
    sizes |= {f"dim {d} of the output": n for out in point.outputs[:1] for d, n in enumerate(out.shape)
              if leaf.shape[d:d + 1] != (n,)}  # else it is the same size under two names
    sizes |= {f"the size of {name}": leaf.size} if leaf.ndim > 1 else {}
    labels = [label for label, _ in moves]
    checked = f"{len(rows)} x {len(moves)} derivatives" if is_jacobian else described(labels, leaf.size)
    found = InputReport(name, leaf.shape, analytic, numeric, bound, verdicts, rows, labels, checked, sizes, unseen=unseen)
    if precision > STAIRS and found.verdict == FAIL:  # backward may be right between jumps, and wrong across them
        between = dataclasses.replace(options, eps=BETWEEN * options.eps)
        again = compare(point, i, moves, between, generator, is_jacobian, is_exact=True)
        if again.verdict == PASS:
            found.verdicts[found.verdicts == FAIL] = INCONCLUSIVE
    elif precision and found.verdict == INCONCLUSIVE:  # what looks like noise may be jumps, as those of many remainders
        again = compare(point, i, moves, options, generator, is_jacobian, is_exact=True)
        alike = np.abs(again.numeric - numeric) <= ALIKE * float(np.max(np.abs(numeric), initial=0.0))
        is_clear = again.verdict == FAIL and np.mean(alike) > MOST  # wide steps meet a kink in some places
        return again if again.verdict == PASS or is_clear else found
    return found


def rounding_of_backward(point: Record, i: int, is_jacobian: bool, generator: np.random.Generator) -> np.ndarray:
    """How far a gradient jumps about where inputs hardly move, as where terms cancel: the most in each row."""
    subject, found = point.subject, np.zeros(1)
    here = point.jacobians[i] if is_jacobian else point.gradients[i].reshape(1, -1)
    before = [array.copy() for array in subject.arrays()]
    for _ in range(NEIGHBOURS):
        for leaf in subject.leaves.values():
            leaf *= 1 + NEARBY * generator.uniform(-1, 1, leaf.shape)
        near = Record(subject)
        there = near.jacobians[i] if is_jacobian else near.backward(point.upstream)[i].reshape(1, -1)
        found = np.maximum(found, np.max(np.abs(there - here), axis=1))
        subject.restore(before)
    return found


def described(labels: list[str], size: int) -> str:
    n_directions = sum(label.startswith("direction") for label in labels)
    n_entries = len(labels) - n_directions
    entries = f"all {size} entries" if n_entries == size else f"{n_entries} entries"
    if not n_directions:
        return entries
    return f"{n_directions} directions" + (f" and {entries}" if n_entries else "")
