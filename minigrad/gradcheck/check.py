"""The check itself: every input of a problem, at the given point and, where that has kinks, at points nearby."""
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..tensor import Tensor
from .differences import FAIL, INCONCLUSIVE, PASS, STEP, along, judge, step_along
from .problem import Problem, flat, generator_for
from .report import GradcheckReport, InputReport, SideCheck
from .side_checks import side_checks
from .vacuity import special_points, vacuous

SMALL_INPUT = 256  # up to so many elements, each is moved on its own
SMALL_JACOBIAN = 4096  # up to so many derivatives, and SMALL_OUTPUT rows, each is judged on its own
SMALL_OUTPUT = 128
RETRIES = 4  # points nearby, where the given one has kinks
KINK_DIRECTIONS = 16


@dataclass
class Options:
    """How closely to look. A derivative passes within atol + rtol * |numeric|, besides the rounding of differences."""

    eps: float = STEP
    atol: float | None = None  # None: 1e-9 of the largest derivative
    rtol: float = 1e-7
    nondet_tol: float = 0.0  # how far a second backward may be from the first
    check_undefined_grad: bool = True
    fast_mode: bool = False  # only random directions
    directions: int = 3
    seed: int = 0


class Point:
    """The problem where its leaves are now: outputs, a random upstream gradient, and what backward makes of it."""

    def __init__(self, problem: Problem, outputs: tuple[Tensor, ...], generator: np.random.Generator):
        self.problem = problem
        self.outputs = outputs
        self.size = sum(out.numel() for out in self.outputs)
        self.upstream = generator.standard_normal(self.size)
        self.gradients = self.backward(self.upstream)
        self._jacobians: list[np.ndarray] | None = None

    def backward(self, upstream: np.ndarray) -> list[np.ndarray]:
        """A gradient for each leaf, zeros where none arrived."""
        found = self.problem.gradients(self.outputs, upstream)
        leaves = self.problem.leaves.values()
        return [np.zeros(leaf.shape) if g is None else np.array(g) for leaf, g in zip(leaves, found)]

    @property
    def jacobians(self) -> list[np.ndarray]:
        """For each leaf, (outputs, elements), by one backward for each output."""
        if self._jacobians is None:
            rows = [self.backward(row) for row in np.eye(self.size)]
            self._jacobians = [
                np.array([row[i].reshape(-1) for row in rows]).reshape(self.size, leaf.numel())
                for i, leaf in enumerate(self.problem.leaves.values())
            ]
        return self._jacobians

    def projected(self) -> np.ndarray:
        """The one number that backward of `upstream` differentiates."""
        values = self.problem.values()
        return np.array([np.sum(np.where(self.upstream == 0, 0.0, values * self.upstream))])


def check(problem: Problem, options: Options, constants: Sequence[Any] = (),
          progress: Callable[[Iterable], Iterable] = iter) -> GradcheckReport:
    """Check all leaves of a problem. It is left as it was."""
    generator = generator_for(options.seed)
    with problem.preserved():
        outputs = problem.outputs()
        title = problem.title or title_of(outputs[0])
        try:
            point = Point(problem, outputs, generator)
            sides = side_checks(problem, point.outputs, point.upstream, generator, options.nondet_tol,
                                options.check_undefined_grad)
        except RuntimeError as error:
            failure = SideCheck("backward runs", False, str(error))
            return GradcheckReport(title, [], [failure], [], False, options.seed, problem.evaluations)
        arrays = [leaf.array.copy() for leaf in problem.leaves.values()]
        reports = [check_input(point, i, options, generator) for i in progress(range(len(problem.leaves)))]
        for attempt in range(RETRIES):
            open_inputs = [i for i, report in enumerate(reports) if report.verdict == INCONCLUSIVE]
            if not open_inputs:
                break
            if attempt == 0 and point.size * sum(leaf.numel() for leaf in problem.leaves.values()) <= SMALL_JACOBIAN:
                judge_kinks(point, [reports[i] for i in open_inputs], options, generator)
            problem.move(generator, upward=attempt % 2 == 1)
            nearby = Point(problem, problem.outputs(), generator)
            for i in open_inputs:
                if reports[i].verdict == INCONCLUSIVE:
                    again = check_input(nearby, i, options, generator)
                    if again.verdict != INCONCLUSIVE:
                        again.notes = [f"{again.name}: a kink or a jump at the given point; judged at a point nearby"]
                        reports[i] = again
            for leaf, array in zip(problem.leaves.values(), arrays):
                leaf.array[...] = array
    warnings = special_points(reports, arrays, constants)
    return GradcheckReport(title, reports, sides, warnings, vacuous(reports), options.seed, problem.evaluations)


def title_of(output: Tensor) -> str:
    """A function without a name is called after the op that made its output."""
    return "the function" if output.is_leaf else output.grad_fn.title


def check_input(point: Point, i: int, options: Options, generator: np.random.Generator) -> InputReport:
    """Random directions first; then all elements if they are few; then, for the report of a failure, some if many."""
    name, leaf = list(point.problem.leaves.items())[i]
    directions = [generator.standard_normal(leaf.shape) for _ in range(options.directions)] if leaf.numel() else []
    is_small = leaf.numel() <= SMALL_INPUT and not options.fast_mode
    moves = [(f"direction {k}", direction) for k, direction in enumerate(directions)]
    if is_small:
        moves = []
    elif not options.fast_mode:
        moves += [(f"direction {k + len(moves)}", generator.standard_normal(leaf.shape)) for k in range(5)]
    report = compare(point, i, moves, options, False) if moves else None
    if is_small or report.verdict == FAIL:
        chosen = np.arange(leaf.numel())
        if not is_small:
            chosen = np.sort(generator.choice(leaf.numel(), min(leaf.numel(), SMALL_INPUT), replace=False))
        units = [(f"entry {place(k, leaf.shape)}", unit(k, leaf.shape)) for k in chosen]
        is_jacobian = is_small and point.size <= SMALL_OUTPUT and point.size * leaf.numel() <= SMALL_JACOBIAN
        by_element = compare(point, i, units, options, is_jacobian)
        if is_small or by_element.verdict == FAIL:
            report = by_element
    return report


def compare(point: Point, i: int, moves: list[tuple[str, np.ndarray]], options: Options, is_jacobian: bool
            ) -> InputReport:
    """Backward against differences along each direction: all outputs apart, or weighted with the upstream."""
    problem = point.problem
    name, leaf = list(problem.leaves.items())[i]
    if is_jacobian:
        evaluate = problem.values
        number = [f" {k}" if len(point.outputs) > 1 else "" for k in range(len(point.outputs))]
        rows = [f"output{n} {place(j, out.shape)}" for n, out in zip(number, point.outputs) for j in range(out.numel())]
        gradient = point.jacobians[i]
    else:
        evaluate, rows, gradient = point.projected, ["sum(outputs * upstream)"], point.gradients[i].reshape(1, -1)
    finite = np.abs(gradient[np.isfinite(gradient)])
    is_unit = bool(moves) and moves[0][0].startswith("entry")
    scale = np.max(finite, initial=0.0) if is_unit else np.sqrt(np.sum(finite**2))
    atol = 1e-9 * scale if options.atol is None else options.atol
    analytic, numeric, bound = np.zeros((3, len(rows), len(moves)))
    verdicts = np.full(analytic.shape, PASS, dtype="<U12")
    for k, (_, direction) in enumerate(moves):
        analytic[:, k] = gradient @ direction.reshape(-1)
        if not np.all(np.isfinite(gradient)):  # 0 * NaN: other elements are not to blame
            analytic[:, k] = np.sum(np.where(direction.reshape(-1) == 0, 0.0, gradient * direction.reshape(-1)), axis=1)
        judgement = judge(along(evaluate, leaf.array, direction), analytic[:, k],
                          step_along(leaf.array, direction, options.eps), options.rtol, atol)
        numeric[:, k], bound[:, k], verdicts[:, k] = judgement.numeric, judgement.bound, judgement.verdict
    kind = "entries" if is_unit else "directions"
    n_checked = f"all {len(moves)}" if len(moves) == leaf.numel() else f"{len(moves)}"
    checked = f"{len(rows)} x {len(moves)} derivatives" if is_jacobian else f"{n_checked} {kind}"
    sizes = {f"dim {d} of {name}": n for d, n in enumerate(leaf.shape)}
    sizes |= {f"dim {d} of the output": n for out in point.outputs[:1] for d, n in enumerate(out.shape)}
    sizes |= {f"the size of {name}": leaf.numel()}
    return InputReport(name, leaf.shape, analytic, numeric, bound, verdicts, rows, [label for label, _ in moves],
                       checked, sizes)


def judge_kinks(point: Point, reports: list[InputReport], options: Options, generator: np.random.Generator) -> None:
    """At a kink that bends one way, a gradient is right if it is a slope in between: v.g <= f'(x; v) for all v.

    So is relu'(0) = 0, or any sharing of the gradient among equal maxima that sums to 1. Anything outside fails.
    All inputs move at once: maximum(x, y) at x = y is a kink of both.
    """
    problem = point.problem
    leaves = list(problem.leaves.values())
    sizes = [leaf.numel() for leaf in leaves]
    before = flat(leaf.array for leaf in leaves)
    directions = [np.ones(sum(sizes))] + [generator.standard_normal(sum(sizes)) for _ in range(KINK_DIRECTIONS)]
    centre, h = problem.values(), options.eps * 1e-3

    def slopes(step: float) -> np.ndarray:
        """(outputs, directions)"""
        found = []
        for direction in directions:
            place_leaves(leaves, before + step * direction)
            found.append((problem.values() - centre) / abs(step))
        place_leaves(leaves, before)
        return np.array(found).T

    ups, downs = slopes(h), slopes(-h)
    analytic = np.concatenate(point.jacobians, axis=1) @ np.array(directions).T
    slack = 1e-3 * (np.abs(ups) + np.abs(downs) + np.abs(analytic) + 1e-3)
    is_steady = np.all((np.abs(slopes(8 * h) - ups) <= slack) & (np.abs(slopes(-8 * h) - downs) <= slack), axis=1)
    for sign in (1.0, -1.0):  # convex, concave
        bends = sign * (ups + downs)
        one_way = np.all(bends >= -slack, axis=1) & np.any(bends > slack, axis=1)
        outside = (sign * analytic > sign * ups + slack) | (-sign * analytic > sign * downs + slack)
        wrong = is_steady & one_way & np.any(outside, axis=1)
        for report in reports:
            if len(report.verdicts) == point.size:
                verdicts = report.verdicts[wrong]
                report.verdicts[wrong] = np.where(verdicts == INCONCLUSIVE, FAIL, verdicts)
                if np.any(verdicts == INCONCLUSIVE):
                    report.notes.append(f"{report.name}: a kink; the gradient is not between the slopes of its sides")


def place_leaves(leaves: list[Tensor], vector: np.ndarray) -> None:
    start = 0
    for leaf in leaves:
        leaf.array[...] = vector[start:start + leaf.numel()].reshape(leaf.shape)
        start += leaf.numel()


def place(k: int, shape: tuple[int, ...]) -> str:
    """The k-th element, as an index."""
    return "(" + ", ".join(str(int(n)) for n in np.unravel_index(k, shape)) + ")" if shape else "()"


def unit(k: int, shape: tuple[int, ...]) -> np.ndarray:
    direction = np.zeros(shape)
    direction.reshape(-1)[k] = 1.0
    return direction


def leaf_copies(inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Tensor]]:
    """The inputs with fresh leaves in place of those that require gradients, and these by name."""
    copies, leaves = [], {}
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            x = leaves[f"input {i}"] = Tensor(np.array(x.array, order="K"), requires_grad=True)
        copies.append(x)
    return copies, leaves
