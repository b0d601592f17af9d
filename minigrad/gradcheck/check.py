"""The check itself: every input of a problem, at the given point and, where that has kinks, at points nearby."""
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..tensor import Tensor
from .differences import (
    FAIL, INCONCLUSIVE, PASS, STEP, along, difference, judge, largest_finite, noise_of, random_direction, step_along,
)
from .problem import Point, Problem, flat, generator_for, mapped
from .report import GradcheckReport, InputReport, SideCheck
from .side_checks import saved_arrays, side_checks
from .vacuity import special_points, vacuous

SMALL_INPUT = 256  # up to so many elements, each is moved on its own
SMALL_JACOBIAN = 4096  # up to so many derivatives, and SMALL_OUTPUT rows, each is judged on its own
SMALL_OUTPUT = 128
PICKED = 16  # elements of a larger input that are moved on their own: those with small gradients, large ones, others
RETRIES = 4  # points nearby, where the given one has kinks
KINK_DIRECTIONS = 16
KINK_UNITS = 64  # inputs with no more elements at a kink are moved one by one as well
KINK_ROWS = 32  # outputs that are judged at a kink
BACKWARD_ROUNDING = 1e-11  # of the terms that a derivative is the sum of: the error of backward


@dataclass
class Options:
    """How closely to look. A derivative passes within atol + rtol * |numeric|, besides the rounding of differences."""

    eps: float = STEP
    atol: float | None = None  # None: 1e-11 of the largest derivative in the row
    rtol: float = 1e-9
    nondet_tol: float = 0.0  # how far a second backward may be from the first
    check_undefined_grad: bool = True
    fast_mode: bool = False  # only random directions
    directions: int = 3
    seed: int = 0

    def __post_init__(self):
        real, whole = (int, float, np.number), (int, np.integer)
        for name, kind, least, wanted in (
            ("eps", real, 1e-300, "a positive number"), ("rtol", real, 0, "a number from 0 on"),
            ("atol", real, 0, "None or a number from 0 on"), ("nondet_tol", real, 0, "a number from 0 on"),
            ("directions", whole, 1, "a whole number from 1 on"), ("seed", whole, 0, "a whole number from 0 on"),
        ):  # fmt: skip
            value = getattr(self, name)
            is_default = name == "atol" and value is None
            if not is_default and not (isinstance(value, kind) and least <= value < math.inf):
                raise ValueError(f"gradcheck: {name} must be {wanted}, got {value!r}")


def check(problem: Problem, options: Options, progress: Callable[[Iterable], Iterable] = iter) -> GradcheckReport:
    """Check all leaves of a problem. It is left as it was."""
    generator = generator_for(options.seed)
    with problem.preserved():
        outputs = problem.outputs()
        title = problem.title or title_of(outputs[0])
        saved = saved_arrays(outputs)
        try:
            point = Point(problem, outputs, generator)
            sides = side_checks(point, saved, generator, options.nondet_tol, options.check_undefined_grad)
        except Exception as error:  # noqa: BLE001  whatever a backward raises, it is wrong
            detail = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
            return GradcheckReport(title, [], [SideCheck("backward runs", False, detail)], [], False, options.seed,
                                   problem.evaluations)
        reports = [check_input(point, i, options, generator) for i in progress(range(len(problem.leaves)))]
        if not point.is_sum_of_rows():
            sides.append(SideCheck("linear in the upstream", False, "a dense upstream gives another gradient than its "
                                   "entries one by one"))
        if any(report.verdict != PASS for report in reports):
            judge_kinks(point, reports, options, generator)
        for attempt in range(RETRIES):
            open_inputs = [i for i, report in enumerate(reports) if report.verdict == INCONCLUSIVE]
            if not open_inputs:
                break
            problem.move(generator, upward=attempt % 2 == 1)
            nearby = Point(problem, problem.outputs(), generator)
            for i in open_inputs if nearby.is_finite() or not point.is_finite() else ():  # else it left the domain
                again = check_input(nearby, i, options, generator)
                if again.verdict != INCONCLUSIVE:
                    again.notes = [f"{again.name}: a kink or a jump at the given point; judged at a point nearby"]
                    reports[i] = again
            problem.restore()
    warnings = special_points(reports, problem.before, problem.constants)
    warnings += [f"output {k} is not on the tape: detach(), .data or no_grad() cut it off, or no input leads to it"
                 for k, out in enumerate(outputs) if not out.requires_grad]
    return GradcheckReport(title, reports, sides, warnings, vacuous(reports), options.seed, problem.evaluations)


def title_of(output: Tensor) -> str:
    """A function without a name is called after the op that made its output."""
    return "the function" if output.is_leaf else output.grad_fn.title


Move = tuple[str, np.ndarray]  # a name and a direction


def check_input(point: Point, i: int, options: Options, generator: np.random.Generator) -> InputReport:
    """All elements if they are few; else random directions and some elements, and more of them to report a failure."""
    leaf = point.problem.leaves[point.names[i]]
    gradient = point.gradients[i].reshape(-1)
    if leaf.numel() <= SMALL_INPUT and not (options.fast_mode and leaf.numel()):
        is_jacobian = point.size <= SMALL_OUTPUT and point.size * leaf.numel() <= SMALL_JACOBIAN
        return compare(point, i, units(range(leaf.numel()), leaf.shape), options, generator, is_jacobian)
    count = options.directions if options.fast_mode else options.directions + 5
    moves = [(f"direction {k}", random_direction(leaf.array, generator)) for k in range(count)]
    if not options.fast_mode:
        by_size = generator.permutation(leaf.numel())
        by_size = by_size[np.argsort(np.abs(gradient[by_size]), kind="stable")]
        picked = [*by_size[: PICKED // 2], *by_size[-PICKED // 4 :],
                  *generator.choice(leaf.numel(), PICKED // 4, replace=False)]
        moves += units(sorted(set(picked)), leaf.shape)
    report = compare(point, i, moves, options, generator)
    if report.verdict == FAIL:
        chosen = np.sort(generator.choice(leaf.numel(), min(leaf.numel(), SMALL_INPUT), replace=False))
        by_element = compare(point, i, units(chosen, leaf.shape), options, generator)
        report = by_element if by_element.verdict == FAIL else report
    return report


def units(elements: Iterable[int], shape: tuple[int, ...]) -> list[Move]:
    """One element at a time."""
    return [(f"entry {place(k, shape)}", np.eye(1, math.prod(shape), k).reshape(shape)) for k in elements]


def compare(point: Point, i: int, moves: list[Move], options: Options, generator: np.random.Generator,
            is_jacobian: bool = False) -> InputReport:
    """Backward against differences along each direction: all outputs apart, or weighted with the upstream."""
    problem = point.problem
    name, leaf = point.names[i], problem.leaves[point.names[i]]
    if is_jacobian:
        evaluate, gradient = problem.values, point.jacobians[i]
        number = [f" {k}" if len(point.outputs) > 1 else "" for k in range(len(point.outputs))]
        rows = [f"output{n} {place(j, out.shape)}" for n, out in zip(number, point.outputs) for j in range(out.numel())]
        values = problem.values()
    else:
        evaluate, gradient = point.projected, point.gradients[i].reshape(1, -1)
        rows = ["sum(outputs * upstream)"]
        values = np.array([np.sum(np.abs(np.where(point.upstream == 0, 0.0, problem.values() * point.upstream)))])
    centre = evaluate()
    noise = noise_of(along(evaluate, leaf.array, random_direction(leaf.array, generator)), centre)
    noise = np.maximum(noise, 4 * np.finfo(np.float64).eps * largest_finite(values))
    magnitude = np.where(np.isfinite(gradient), np.abs(gradient), 0.0)
    largest = np.max(magnitude, axis=1, initial=0.0)
    analytic, numeric, bound = np.zeros((3, len(rows), len(moves)))
    verdicts = np.full(analytic.shape, PASS, dtype="<U12")
    for k, (_, direction) in enumerate(moves):
        v = direction.reshape(-1)
        analytic[:, k] = gradient @ v
        if not np.all(np.isfinite(gradient)):  # 0 * NaN: other elements are not to blame
            analytic[:, k] = np.sum(np.where(v == 0, 0.0, gradient * v), axis=1)
        atol = BACKWARD_ROUNDING * (magnitude @ np.abs(v) + largest * np.max(np.abs(v), initial=0.0))
        judgement = judge(along(evaluate, leaf.array, direction), centre, analytic[:, k],
                          step_along(leaf.array, direction, options.eps), options.rtol,
                          atol if options.atol is None else np.full_like(atol, options.atol), noise)
        numeric[:, k], bound[:, k], verdicts[:, k] = judgement.numeric, judgement.bound, judgement.verdict
    sizes = {f"dim {d} of {name}": n for d, n in enumerate(leaf.shape)}
    sizes |= {f"dim {d} of the output": n for out in point.outputs[:1] for d, n in enumerate(out.shape)}
    sizes |= {f"the size of {name}": leaf.numel()}
    labels = [label for label, _ in moves]
    checked = f"{len(rows)} x {len(moves)} derivatives" if is_jacobian else described(labels, leaf.numel())
    return InputReport(name, leaf.shape, analytic, numeric, bound, verdicts, rows, labels, checked, sizes)


def described(labels: list[str], size: int) -> str:
    n_entries = sum(label.startswith("entry") for label in labels)
    n_directions = len(labels) - n_entries
    entries = f"all {size} entries" if n_entries == size else f"{n_entries} entries"
    if not n_directions:
        return entries
    return f"{n_directions} directions" + (f" and {entries}" if n_entries else "")


@dataclass
class Slopes:
    """How the outputs change along directions in which all inputs move at once: (outputs, directions)."""

    directions: np.ndarray  # the last third of the first 3 n are the sums of the others
    ups: np.ndarray  # (f(x + h v) - f(x)) / h
    downs: np.ndarray  # (f(x - h v) - f(x)) / h
    bends: np.ndarray  # ups + downs
    far_bends: np.ndarray  # the same from 8 h away
    is_bent: np.ndarray  # (outputs,): has the function a kink here?


def slopes_around(problem: Problem, h: float, generator: np.random.Generator) -> Slopes:
    """Along random directions, their sums, all at once, and if there are few, each element."""
    leaves = list(problem.leaves.values())
    before = flat(leaf.array for leaf in leaves)
    movable = np.isfinite(before)
    parts = movable * generator.standard_normal((2, KINK_DIRECTIONS // 2, before.size))
    directions = [*parts[0], *parts[1], *(parts[0] + parts[1]), movable * 1.0]
    if before.size <= KINK_UNITS:
        directions += list(np.eye(before.size)[movable])
    centre = problem.values()

    def slopes(step: float) -> np.ndarray:
        found = []
        for direction in directions:
            write_leaves(leaves, before + step * direction)
            found.append(difference(problem.values(), centre) / abs(step))
        write_leaves(leaves, before)
        return np.array(found).T

    ups, downs = slopes(h), slopes(-h)
    bends, far_bends = ups + downs, slopes(8 * h) + slopes(-8 * h)
    least = 1e-3 * (np.abs(ups) + np.abs(downs))
    least += (1e-14 + 64 * np.finfo(np.float64).eps * largest_finite(centre)[:, None]) / h
    # On a smooth curve a bend is 8 times as large from 8 times as far away; at a kink it is the same.
    is_bent = np.any((np.abs(bends) > 0.4 * np.abs(far_bends)) & (np.abs(bends) > least), axis=1)
    # The median of three bends neither way, but its derivative along a sum is not the sum of the derivatives.
    along_a, along_b, along_both = np.split((ups - downs)[:, : KINK_DIRECTIONS // 2 * 3] / 2, 3, axis=1)
    is_bent |= np.any(np.abs(along_a + along_b - along_both) > np.max(least, axis=1, keepdims=True), axis=1)
    return Slopes(np.array(directions), ups, downs, bends, far_bends, is_bent)


def judge_kinks(point: Point, reports: list[InputReport], options: Options, generator: np.random.Generator) -> None:
    """At a kink nothing fails for not being the derivative, as there is none; but a gradient can still be wrong there."""
    slopes = slopes_around(point.problem, options.eps * 1e-3, generator)
    for report in reports:
        rows = slopes.is_bent if len(report.verdicts) == point.size else np.full(1, np.any(slopes.is_bent))
        report.verdicts[rows] = np.where(report.verdicts[rows] == FAIL, INCONCLUSIVE, report.verdicts[rows])
    chosen = generator.permutation(np.flatnonzero(slopes.is_bent))[:KINK_ROWS]
    wrong = chosen[is_outside(point, slopes, chosen)] if len(chosen) else chosen
    for report in reports if len(wrong) else ():
        rows = wrong if len(report.verdicts) == point.size else slice(None)
        is_open = report.verdicts[rows] == INCONCLUSIVE
        report.verdicts[rows] = np.where(is_open, FAIL, report.verdicts[rows])
        if np.any(is_open):
            report.notes.append(f"{report.name}: a kink; the gradient is not between the slopes of its sides")


def is_outside(point: Point, slopes: Slopes, outputs: np.ndarray) -> np.ndarray:
    """Which of these outputs bend one way, and have a gradient that is not between the slopes of the sides?

    If f is convex there, v.g <= f'(x; v) must hold for all v. It does for relu'(0) = 0, and for any sharing of the
    gradient among equal maxima that sums to 1. All inputs move at once: maximum(x, y) at x = y is a kink of both.
    """
    ups, downs, bends, far_bends = (a[outputs] for a in (slopes.ups, slopes.downs, slopes.bends, slopes.far_bends))
    analytic = np.concatenate(point.rows(outputs), axis=1) @ slopes.directions.T
    slack = 1e-3 * (np.abs(ups) + np.abs(downs) + np.abs(analytic) + 1e-3)
    found = np.zeros(len(outputs), bool)
    for sign in (1.0, -1.0):  # convex, concave
        bends_one_way = np.all(sign * bends >= -slack, axis=1) & np.any(sign * bends > slack, axis=1)
        outside = (sign * analytic > sign * ups + slack) | (-sign * analytic > sign * downs + slack)
        found |= bends_one_way & np.any(outside, axis=1)
    is_steady = np.all(np.abs(bends - far_bends) <= slack, axis=1)
    return found & is_steady


def write_leaves(leaves: list[Tensor], vector: np.ndarray) -> None:
    start = 0
    for leaf in leaves:
        leaf.array[...] = vector[start:start + leaf.numel()].reshape(leaf.shape)
        start += leaf.numel()


def place(k: int, shape: tuple[int, ...]) -> str:
    """The k-th element, as an index."""
    return "(" + ", ".join(str(int(n)) for n in np.unravel_index(k, shape)) + ")" if shape else "()"


def leaf_copies(inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Tensor], list[np.ndarray]]:
    """(inputs with fresh leaves in place of those that require gradients, these by name, the arrays of all others).

    Inputs may be nested in tuples, lists and dicts.
    """
    leaves: dict[str, Tensor] = {}
    constants: list[np.ndarray] = []

    def copy(value: Any, name: str) -> Any:
        if isinstance(value, Tensor) and value.requires_grad:
            leaves[name] = Tensor(value.array, requires_grad=True)
            return leaves[name]
        if isinstance(value, (Tensor, np.ndarray)):
            constants.append(value.array if isinstance(value, Tensor) else value)
        return value

    copies = [mapped(value, copy, f"input {i}") for i, value in enumerate(inputs)]
    if not leaves:
        raise ValueError("gradcheck: none of the inputs requires a gradient; make them with requires_grad=True")
    return copies, leaves, constants
