"""What a right backward must do apart from giving the right numbers: be linear and repeatable, and change nothing."""
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .. import tape
from ..autograd.grad_mode import no_grad
from ..runner import EAGER
from ..tape import Op
from ..tensor import Tensor
from .blame import told
from .problem import CANCELLED, Point, Problem, flat, nodes_below, roots, same_bits, split
from .report import SideCheck

RELATIVE = 1e-9  # how far rounding may take two ways of computing the same gradient apart
EXACT = 1e-11  # for powers of two, which change no digit, unless logarithms are taken
REPEATABLE = "backward twice gives the same"
SAME = ""  # a check returns a sentence on what is wrong, or this; None where it does not apply or cannot run


def side_checks(point: Point, saved: dict[Op, list[Any]], generator: np.random.Generator, nondet_tol: float = 0.0,
                check_undefined_grad: bool = True) -> list[SideCheck]:
    """All of them, at the leaves' current values. `saved` are copies of what forward saved, made before any backward."""
    problem, upstream, first = point.problem, point.upstream, point.gradients
    checks = {
        REPEATABLE: lambda: same(point, first, point.backward(upstream), nondet_tol),
        "zero upstream gives exact zeros": lambda: all_zero(point, point.backward(np.zeros_like(upstream))),
        "linear in the upstream": lambda: linear(point, generator),
        "recorded backward gives the same": lambda: recorded(point),
        "each op keeps the contract": lambda: each_op(point, saved),
        "float64 throughout": lambda: full_precision(point),
    }
    if check_undefined_grad and len(point.outputs) > 1:
        checks["outputs one by one"] = lambda: one_by_one(point)
    checks |= problem.own_checks(point)
    checks["inputs are left as they were"] = problem.changed
    return run(checks)


def rough_checks(point: Point) -> list[SideCheck]:
    """Those that hold to the bit, whatever the dtype."""
    problem, upstream, first = point.problem, point.upstream, point.gradients
    checks = {
        REPEATABLE: lambda: same(point, first, point.backward(upstream)),
        "zero upstream gives exact zeros": lambda: all_zero(point, point.backward(np.zeros_like(upstream))),
        "inputs are left as they were": problem.changed,
    }
    return run(checks)


def run(checks: Mapping[str, Callable[[], str | None]]) -> list[SideCheck]:
    """All of them, up to the first that raises."""
    found: list[SideCheck] = []
    for name, look in checks.items():
        try:
            detail = look()
        except Exception as error:  # noqa: BLE001  of the user's function
            return [*found, SideCheck(name, False, told(error), has_raised=True)]
        found.append(SideCheck(name, not detail, detail or SAME, was_run=detail is not None))
    return found


def same(point: Point, a: list[np.ndarray], b: list[np.ndarray], tolerance: float = 0.0) -> str:
    for name, x, y in zip(point.names, a, b, strict=True):
        if not np.allclose(x, y, rtol=0.0, atol=tolerance, equal_nan=True):
            return f"{name}: they differ by up to {np.max(np.abs(x - y)):.3g}"
    return SAME


def close(point: Point, expected: list[np.ndarray], got: list[np.ndarray]) -> str:
    for name, x, y in zip(point.names, expected, got, strict=True):
        if not nearly_equal(x, y, CANCELLED * point.terms):
            return f"{name}: they differ by up to {np.nanmax(np.abs(x - y)):.3g} of {np.nanmax(np.abs(x)):.3g}"
    return SAME


def nearly_equal(x: np.ndarray, y: np.ndarray, rounding: float) -> bool:
    return np.allclose(x, y, rtol=RELATIVE, atol=RELATIVE * largest(x) + rounding, equal_nan=True)


def difference(names: Sequence[str], expected: Sequence[Any], got: Sequence[Any], rounding: float) -> str:
    """The name of the first that is not as expected, and by how much; "" if there is none."""
    for name, x, y in zip(names, map(np.asarray, expected), map(np.asarray, got), strict=True):
        if not nearly_equal(x, y, rounding):
            return f"{name} differs by up to {np.nanmax(np.abs(x - y)):.3g} of {largest(x):.3g}"
    return SAME


def largest(x: np.ndarray) -> float:
    """The largest finite |x|."""
    return float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0))


def repeats(problem: Problem) -> SideCheck:
    """Whether two calls give the same. If not, nothing else can be judged."""
    is_same = np.array_equal(problem.values(), problem.values(), equal_nan=True)
    if detail := problem.changed():
        return SideCheck("inputs are left as they were", False, f"{detail}: let the function write to a copy")
    return SideCheck("forward twice gives the same", is_same, SAME if is_same else NOT_DETERMINISTIC)


NOT_DETERMINISTIC = (
    "the function is not deterministic, so it has no derivative to check: it draws random numbers, counts its calls, or "
    "keeps other state. Pass what changes as an input; random numbers may also come from minigrad.random or PyTorch's "
    "global generator, which the check holds fixed"
)


def all_zero(point: Point, gradients: list[np.ndarray]) -> str:
    for name, gradient, first in zip(point.names, gradients, point.gradients):
        wrong = gradient[(gradient != 0) & np.isfinite(first)]  # where it is NaN anyway, 0 * NaN is too
        if wrong.size:
            return f"{name}: gradients of up to {np.max(np.abs(wrong)):.3g}"
    return SAME


def linear(point: Point, generator: np.random.Generator) -> str:
    """backward(c u) = c backward(u), nearly to the last digit for c = -1 and powers of two; backward(u + w) = backward(u) +
    backward(w), also if u and w are zero in complementary places."""
    first, upstream = point.gradients, point.upstream
    for factor in (-1.0, 2.0**12, 2.0**40, 2.0**-20, 2.0**-40):
        for name, x, y in zip(point.names, first, point.backward(factor * upstream)):
            if not np.allclose(x, y / factor, rtol=EXACT, atol=EXACT * largest(x), equal_nan=True):
                return f"{name}: backward({factor:g} u) is not {factor:g} backward(u)"
    other, is_here = generator.standard_normal(upstream.shape), generator.random(upstream.shape) < 0.5
    for a, b in ((upstream, other), (np.where(is_here, upstream, 0.0), np.where(is_here, 0.0, upstream))):
        parts = [x + y for x, y in zip(point.backward(a), point.backward(b))]
        if detail := close(point, parts, point.backward(a + b)):
            return f"backward(u + w) is not backward(u) + backward(w); {detail}"
    return SAME


def recorded(point: Point) -> str | None:
    """Does create_graph=True give the same? If it raises, that is for a check of gradients of gradients to report."""
    try:
        found = point.problem.gradients(point.outputs, point.upstream, on_tape=True)
    except Exception:  # noqa: BLE001
        return None
    detail = close(point, point.gradients, point.filled(found))
    return f"create_graph=True gives another gradient; {detail}" if detail else SAME


def recorded_from(problem: Problem, outputs: tuple[Tensor, ...], generator: np.random.Generator) -> str | None:
    """The same for outputs that have not been differentiated yet; the check itself finds out if that raises."""
    try:
        point = Point(problem, outputs, generator)
    except Exception:  # noqa: BLE001
        return None
    return recorded(point)


def full_precision(point: Point) -> str:
    """Random float64 numbers that float32 can all hold exactly have been through float32.

    What remains of a gradient that cancels to zero also has few digits, but proves nothing.
    """
    largest = max((np.max(np.abs(g), initial=0.0) for g in point.gradients), default=0.0)
    for name, gradient in zip(point.names, point.gradients):
        nonzero = gradient[gradient != 0]
        is_rest = np.max(np.abs(nonzero), initial=0.0) <= CANCELLED * max(largest, point.terms)
        if nonzero.size and not is_rest and np.all(nonzero == nonzero.astype(np.float32)):
            return f"{name}: the gradient has been rounded to float32"
    return SAME


def one_by_one(point: Point) -> str:
    total = [np.zeros_like(g) for g in point.gradients]
    parts = split(point.upstream, point.outputs)
    for part in parts:
        alone = flat(other if other is part else np.zeros_like(other) for other in parts)
        total = [a + b for a, b in zip(total, point.backward(alone))]
    return close(point, point.gradients, total)


def each_op(point: Point, saved: dict[Op, list[Any]]) -> str:
    """For each op on the way: its backward changes no array, returns none that it keeps, has the right dtype, and accepts
    any memory layout of the upstream."""
    with no_grad():
        arrived = tape.gradients(roots(point.outputs, point.upstream), list(saved), EAGER, True)
        for op, dout in zip(saved, arrived):
            if dout is not None and (detail := op_contract(op, np.array(dout), saved[op], point.terms)):
                return f"{op.title}.backward {detail}"
    return SAME


def saved_arrays(outputs: Sequence[Tensor]) -> dict[Op, list[Any]]:
    """Copies of what each op has saved."""
    return {op: [a.copy() for a in op.saved if isinstance(a, np.ndarray)]
            for op in nodes_below(outputs) if isinstance(op, Op)}


def op_contract(op: Op, dout: np.ndarray, saved_before: list[np.ndarray], terms: float) -> str:
    before, gradients = dout.copy(), op.input_gradients(dout, EAGER)
    saved = [array for array in op.saved if isinstance(array, np.ndarray)]
    if not same_bits(dout, before):
        return "changes the upstream gradient that it is given"
    if not all(map(same_bits, saved, saved_before)):
        return "changes an array that forward saved"
    given = [(parent, g) for parent, g in zip(op.parents, gradients) if parent is not None and g is not None]
    for i, (parent, gradient) in enumerate(given):
        if gradient.dtype != parent.dtype == dout.dtype:
            return f"gives a {gradient.dtype} gradient for a {parent.dtype} input"
        if any(np.shares_memory(gradient, array) for array in saved):
            return "returns an array that forward saved: adding to it in place changes the next backward"
        others = [dout] + [g for _, g in given[:i]]
        if op.fresh_gradients and any(np.shares_memory(gradient, array) for array in others):
            return "promises fresh gradients, but one shares memory with the upstream or with another gradient"
    for layout, lay_out in LAYOUTS.items():
        laid_out = lay_out(dout)
        expected, got = (op.input_gradients(u, EAGER) for u in (np.array(laid_out, order="C"), laid_out))
        pairs = [(x, y) for x, y in zip(expected, got) if x is not None and y is not None]
        if not all(nearly_equal(np.asarray(x), np.asarray(y), CANCELLED * terms) for x, y in pairs):
            return f"gives another gradient when the upstream lies in memory {layout}"
    return SAME


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "backwards with gaps": lambda a: np.repeat(a.reshape(-1)[::-1], 2)[::-2].reshape(a.shape),
    "column by column": lambda a: np.array(a, order="F"),
    "as a single broadcast number": lambda a: np.broadcast_to(a.dtype.type(0.7), a.shape),
}
