"""What a right backward must do apart from giving the right numbers: be linear and repeatable, and change nothing."""
import contextlib
from typing import Callable, Mapping

import numpy as np

from .arguments import flat, split
from .blame import told
from .contract import CANCELLED, Remark, largest
from .report import SideCheck
from .subject import Record, Subject

EXACT = 1e-11  # for powers of two, which change no digit, unless logarithms are taken
FACTORS = -1.0, 2.0**10, 2.0**-10  # of upstreams, which are of size 1 otherwise
SMALL = 1e-6  # relative to the gradients of an upstream of size 1: an error that an absolute tolerance explains
REPEATABLE = "backward twice gives the same"
FEW_BITS = 2.0**12  # a number of at most 12 binary digits is one in float32, too
SAME = ""  # a check returns a sentence on what is wrong, or this; None where it does not apply or cannot run


def side_checks(point: Record, generator: np.random.Generator, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                is_exact: bool = True) -> list[SideCheck]:
    """All of them, at the leaves' current values; those that hold to the bit, whatever the dtype, unless it `is_exact`.

    Each gets recordings of its own where a backward changes what another one finds, so that their order does not matter.
    """
    found = run({REPEATABLE: lambda: repeatable(point, nondet_tol)})
    checks: dict[str, Callable[[], str | None]] = {}
    if not point.subject.is_random:
        checks["zero upstream gives exact zeros"] = lambda: all_zero(point)
    if not point.subject.is_random and is_exact:
        checks |= {
            "linear in the upstream": lambda: linear(point, generator),
            "recorded backward gives the same": lambda: recorded(point),
            **point.library.side_checks(point),
            "float64 throughout": lambda: full_precision(point),
        }
        if check_undefined_grad and len(point.outputs) > 1:
            checks["outputs one by one"] = lambda: one_by_one(point)
    checks["inputs are left as they were"] = lambda: point.subject.touched
    return found + run(checks)


def run(checks: Mapping[str, Callable[[], str | None]]) -> list[SideCheck]:
    """All of them. One that raises, which none expects of a backward, makes no number wrong."""
    found: list[SideCheck] = []
    for name, look in checks.items():
        try:
            detail = look()
        except Exception as error:  # noqa: BLE001  of the user's function
            detail = Remark(f"backward raises where a check looks at \"{name}\": {told(error)}")
        found.append(SideCheck(name, not detail, detail or SAME, not isinstance(detail, Remark), detail is not None))
    return found


def repeatable(point: Record, tolerance: float) -> str:
    """Also after a call elsewhere, since a layer may keep what its last forward saw: no mistake, but worth knowing."""
    subject, first = point.subject, point.gradients
    try:
        detail = same(point, first, point.again(), tolerance)
        detail = detail and type(detail)(f"a second backward of the same forward gives other numbers: {detail}")
        may_repeat = not detail or isinstance(detail, Remark)
    except Exception as error:  # noqa: BLE001
        detail, may_repeat = Remark(f"a second backward of the same forward raises: {told(error)}"), False
    if may_repeat:
        with contextlib.suppress(Exception):  # it may not be defined elsewhere
            subject.roll()
            subject.values()
        subject.restore()
        with contextlib.suppress(Exception):
            is_same = same(point, first, point.again(), tolerance)
            subject.is_repeatable = not is_same or isinstance(is_same, Remark)
        return detail
    if (other := same(point, first, point.backward(point.upstream), tolerance)) and not isinstance(other, Remark):
        subject.is_random = True
        return f"backward is not deterministic: {other}"
    return detail


def same(point: Record, a: list[np.ndarray], b: list[np.ndarray], tolerance: float) -> str:
    for name, x, y in zip(point.names, a, b, strict=True):
        if not np.allclose(x, y, rtol=0.0, atol=tolerance, equal_nan=True):
            detail = f"{name} differs by up to {largest(x - y):.3g}"
            return Remark(detail) if np.allclose(x, y, rtol=0.0, atol=CANCELLED * largest(x), equal_nan=True) else detail
    return SAME


def differentiated(point: Record, generator: np.random.Generator, digits: int | None = None) -> SideCheck:
    """Has the point its gradients now, of a function that repeats? If not, nothing else can be judged."""
    first = repeats(point.subject)
    if first.passed:
        try:
            point.differentiate(generator, digits)
        except Exception as error:  # noqa: BLE001  a backward that raises is wrong
            return SideCheck("backward gives gradients", False, told(error))
    return first


def repeats(subject: Subject) -> SideCheck:
    """Do two calls give the same?"""
    is_same = np.array_equal(subject.values(), subject.values(), equal_nan=True)
    subject.state.hold_drawn()
    if detail := subject.changed(subject.before):
        return SideCheck("inputs are left as they were", False, f"{detail}: let the function write to a copy")
    return SideCheck("forward twice gives the same", is_same, SAME if is_same else NOT_DETERMINISTIC)


NOT_DETERMINISTIC = (
    "the function is not deterministic, so it has no derivative to check: it draws random numbers, counts its calls, or "
    "keeps other state. Pass what changes as an input; random numbers may also come from a generator that outlives the "
    "call, global or your own, which the check holds fixed"
)


def all_zero(point: Record) -> str:
    for name, gradient, first in zip(point.names, point.backward(np.zeros_like(point.upstream)), point.gradients):
        wrong = gradient[(gradient != 0) & np.isfinite(first)]  # where it is NaN anyway, 0 * NaN is too
        if wrong.size:
            return f"{name}: gradients of up to {np.max(np.abs(wrong)):.3g}"
    return SAME


def linear(point: Record, generator: np.random.Generator) -> str:
    """backward(c u) = c backward(u), nearly to the last digit for c = -1 and powers of two; backward(u + w) = backward(u) +
    backward(w), also if u and w are zero in complementary places. What an absolute tolerance in it explains is a remark."""
    first, upstream, remark = point.gradients, point.upstream, SAME
    for factor in FACTORS:
        for name, x, y in zip(point.names, first, point.backward(factor * upstream)):
            if not np.allclose(x, y / factor, rtol=EXACT, atol=EXACT * largest(x), equal_nan=True):
                detail = f"{name}: backward({factor:g} u) is not {factor:g} backward(u)"
                if not np.allclose(factor * x, y, rtol=0.0, atol=SMALL * max(1.0, factor) * largest(x), equal_nan=True):
                    return detail
                remark = remark or Remark(f"{detail}: it differs by up to {largest(factor * x - y):.1g}, as by a "
                                          "tolerance that depends on the upstream's size")
    other, is_here = generator.standard_normal(upstream.shape), generator.random(upstream.shape) < 0.5
    for a, b in ((upstream, other), (np.where(is_here, upstream, 0.0), np.where(is_here, 0.0, upstream))):
        parts, whole = [x + y for x, y in zip(point.backward(a), point.backward(b))], point.backward(a + b)
        if detail := point.differs(whole, parts):
            detail = f"backward(u + w) is not backward(u) + backward(w); {detail}"
            if not all(np.allclose(x, y, rtol=0.0, atol=SMALL * largest(x), equal_nan=True) for x, y in zip(parts, whole)):
                return detail
            remark = remark or Remark(detail)
    return remark


def recorded(point: Record) -> str | None:
    """Does create_graph=True give the same? If it raises, that is for a check of gradients of gradients to report."""
    try:
        found = point.recorded()
    except Exception:  # noqa: BLE001
        return None
    detail = point.differs(found)
    return f"create_graph=True gives another gradient; {detail}" if detail else SAME


def full_precision(point: Record) -> str | None:
    """Random float64 numbers that float32 can all hold exactly have been through float32, and the function's have not.

    What remains of a gradient that cancels to zero has few digits, as ones and clipped numbers have: that proves nothing.
    """
    if point.precision or point.subject.coarseness:
        return None
    largest = max((np.max(np.abs(g), initial=0.0) for g in point.gradients), default=0.0)
    for name, gradient in zip(point.names, point.gradients):
        nonzero = gradient[gradient != 0]
        is_rest = np.max(np.abs(nonzero), initial=0.0) <= CANCELLED * max(largest, point.terms)
        is_long = np.frexp(nonzero)[0] * FEW_BITS % 1 != 0
        if np.any(is_long) and not is_rest and np.all(nonzero == nonzero.astype(np.float32)):
            detail = f"{name}: the gradient has been rounded to float32"
            values = flat(point.outputs)
            return Remark(f"{detail}, as the output is") if np.all(values == values.astype(np.float32)) else detail
    return SAME


def one_by_one(point: Record) -> str:
    total = [np.zeros_like(g) for g in point.gradients]
    parts = split(point.upstream, point.outputs)
    for part in parts:
        alone = flat(other if other is part else np.zeros_like(other) for other in parts)
        total = [a + b for a, b in zip(total, point.backward(alone))]
    return point.differs(total)
