"""What a right backward must do apart from giving the right numbers: be linear and repeatable, and change nothing."""
from typing import Any, Callable, Mapping

import numpy as np

from .arguments import flat, split
from .blame import told
from .contract import CANCELLED, largest, nearly_equal
from .report import SideCheck
from .subject import Record, Subject

EXACT = 1e-11  # for powers of two, which change no digit, unless logarithms are taken
REPEATABLE = "backward twice gives the same"
SAME = ""  # a check returns a sentence on what is wrong, or this; None where it does not apply or cannot run


def side_checks(point: Record, saved: Any, generator: np.random.Generator, nondet_tol: float = 0.0,
                check_undefined_grad: bool = True) -> list[SideCheck]:
    """All of them, at the leaves' current values. `saved` is what the library has kept of forward before any backward."""
    upstream, first = point.upstream, point.gradients
    checks = {
        REPEATABLE: lambda: same(point, first, point.backward(upstream), nondet_tol),
        "zero upstream gives exact zeros": lambda: all_zero(point, point.backward(np.zeros_like(upstream))),
        "linear in the upstream": lambda: linear(point, generator),
        "recorded backward gives the same": lambda: recorded(point),
        **point.library.side_checks(point, saved),
        "float64 throughout": lambda: full_precision(point),
    }
    if check_undefined_grad and len(point.outputs) > 1:
        checks["outputs one by one"] = lambda: one_by_one(point)
    checks["inputs are left as they were"] = point.subject.changed
    return run(checks)


def rough_checks(point: Record) -> list[SideCheck]:
    """Those that hold to the bit, whatever the dtype."""
    upstream, first = point.upstream, point.gradients
    checks = {
        REPEATABLE: lambda: same(point, first, point.backward(upstream)),
        "zero upstream gives exact zeros": lambda: all_zero(point, point.backward(np.zeros_like(upstream))),
        "inputs are left as they were": point.subject.changed,
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


def same(point: Record, a: list[np.ndarray], b: list[np.ndarray], tolerance: float = 0.0) -> str:
    for name, x, y in zip(point.names, a, b, strict=True):
        if not np.allclose(x, y, rtol=0.0, atol=tolerance, equal_nan=True):
            return f"{name}: they differ by up to {np.max(np.abs(x - y)):.3g}"
    return SAME


def close(point: Record, expected: list[np.ndarray], got: list[np.ndarray]) -> str:
    for name, x, y in zip(point.names, expected, got, strict=True):
        if not nearly_equal(x, y, CANCELLED * point.terms):
            return f"{name}: they differ by up to {np.nanmax(np.abs(x - y)):.3g} of {np.nanmax(np.abs(x)):.3g}"
    return SAME


def repeats(subject: Subject) -> SideCheck:
    """Whether two calls give the same. If not, nothing else can be judged."""
    is_same = np.array_equal(subject.values(), subject.values(), equal_nan=True)
    if detail := subject.changed():
        return SideCheck("inputs are left as they were", False, f"{detail}: let the function write to a copy")
    return SideCheck("forward twice gives the same", is_same, SAME if is_same else NOT_DETERMINISTIC)


NOT_DETERMINISTIC = (
    "the function is not deterministic, so it has no derivative to check: it draws random numbers, counts its calls, or "
    "keeps other state. Pass what changes as an input; random numbers may also come from minigrad.random or PyTorch's "
    "global generator, which the check holds fixed"
)


def all_zero(point: Record, gradients: list[np.ndarray]) -> str:
    for name, gradient, first in zip(point.names, gradients, point.gradients):
        wrong = gradient[(gradient != 0) & np.isfinite(first)]  # where it is NaN anyway, 0 * NaN is too
        if wrong.size:
            return f"{name}: gradients of up to {np.max(np.abs(wrong)):.3g}"
    return SAME


def linear(point: Record, generator: np.random.Generator) -> str:
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


def recorded(point: Record) -> str | None:
    """Does create_graph=True give the same? If it raises, that is for a check of gradients of gradients to report."""
    try:
        found = point.recorded()
    except Exception:  # noqa: BLE001
        return None
    detail = close(point, point.gradients, found)
    return f"create_graph=True gives another gradient; {detail}" if detail else SAME


def full_precision(point: Record) -> str:
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


def one_by_one(point: Record) -> str:
    total = [np.zeros_like(g) for g in point.gradients]
    parts = split(point.upstream, point.outputs)
    for part in parts:
        alone = flat(other if other is part else np.zeros_like(other) for other in parts)
        total = [a + b for a, b in zip(total, point.backward(alone))]
    return close(point, point.gradients, total)
