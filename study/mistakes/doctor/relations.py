"""Exact relations between what was given and what is right, which need no table of mistakes: transposed, negated, ...

Each looks at one result on all inputs, and finds a predicate ("{is} transposed") or None. It compares with a reference:
what is right, or what a known mistake gives, as a gradient may have a known mistake and be negated too.
"""
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minigrad.gradcheck.constants import constant_ratio, names_of_constant

from .case import EXACT, Case, Expected, Seen, arrays_of, distance
from .formulas import has_formula, has_other_formula, is_in_another_order, is_mended

LARGEST_JACOBIAN = 400  # the most outputs that are differentiated one by one
FEW_DIGITS = 1e-2  # a factor this close to 1 was meant to be 1
MEANINGS = {  # of a factor
    "N": "as if a division by N were missing, or a sum replaced a mean", "1/N": "as if a mean replaced a sum",
    "sqrt(N)": "as if 1/sqrt(N) were missing", "1/sqrt(N)": "as if it were divided by sqrt(N) once too often",
    "N/(N-1)": "as if N - 1 replaced N", "(N-1)/N": "as if N replaced N - 1",
}

Find = Callable[[Case, str, Expected], str | None]


@dataclass(frozen=True)
class Relation:
    """A relation's name, what finds it, and whether it may come on top of a known mistake."""

    name: str
    find: Find
    composes: bool = False


def given_as(predicate: str, expected: Callable[[Case, Seen, str, np.ndarray], np.ndarray | None]) -> Find:
    """Finds the predicate if what was given is expected(case, seen, name, reference)."""

    def find(case: Case, name: str, reference: Expected) -> str | None:
        is_so = case.explains(name, lambda seen: expected(case, seen, name, reference(seen)))
        return predicate if is_so else None

    return find


def is_missing(case: Case, name: str, reference: Expected) -> str | None:
    return "{is} None" if all(seen.given[name] is None for seen in case.pieces(name)) else None


def is_zero(case: Case, name: str, reference: Expected) -> str | None:
    given = [seen.given[name] for seen in case.pieces(name)]
    return "{is} zero everywhere" if all(g is not None and g.size and not np.any(g) for g in given) else None


def is_multiplied(case: Case, name: str, reference: Expected) -> str | None:
    """A constant factor, named after what it consists of on all inputs."""
    ratios, sizes = [], []
    for seen in case.pieces(name):
        given, right = seen.given[name], reference(seen)
        ratio = constant_ratio(given, right) if np.shape(given) == np.shape(right) and given is not None else None
        if not np.all(case.agreement(given, right * (ratio or 0.0))):
            return None
        if ratio is not None and np.any(right):
            ratios.append(ratio)
            sizes.append(sizes_of(seen))
    if not ratios or all(ratio == 0 for ratio in ratios):
        return None
    names = names_of_constant(ratios, sizes)
    is_constant = max(ratios) - min(ratios) <= 1e-6 * max(map(abs, ratios))
    if not names and max(abs(ratio - 1) for ratio in ratios) < FEW_DIGITS:
        factor = f"multiplied by {ratios[0]:.12g}" if is_constant else "off by a factor near 1"
        return f"{{is}} {factor}: a constant with too few digits"
    if not names and not is_constant:
        return None
    text = ", or ".join(names[:3]) or f"{ratios[0]:.6g}"
    meaning = MEANINGS.get(names[0].split(",")[0].split(" with")[0], "") if names else ""
    return f"{{is}} multiplied by {text}" + (f": {meaning}" if meaning and len(names) == 1 else "")


def sizes_of(seen: Seen) -> dict[str, float]:
    """What a factor may consist of: {"the width of q": 4, ...}; numbers among the inputs under their own names."""
    found: dict[str, float] = {}
    for name, array in arrays_of(seen.inputs).items():
        axes = {-1: "the width" if array.ndim > 1 else "the length", -2: "the number of rows"}
        found |= {f"{axes[axis]} of {name}": array.shape[axis] for axis in axes if array.ndim >= -axis}
        found |= {f"axis {axis} of {name}": array.shape[axis] for axis in range(array.ndim - 2)}
        if array.dtype.kind == "i":
            found |= {f"how many of {name} are not negative": int(np.sum(array >= 0))}
    for name, array in arrays_of(seen.inputs).items():
        found |= {f"the number of elements of {name}": array.size}
        if array.ndim > 2:
            found |= {f"the number of rows of {name} in all": math.prod(array.shape[:-1])}
    return found | {name: value for name, value in seen.inputs.items()
                    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and value > 1e-3}


def is_summed(case: Case, name: str, reference: Expected) -> str | None:
    """Summed over an axis that it should keep; that axis may be gone, have length 1, or be filled with the sum."""
    for axis, what in ((-1, "its last axis"), (-2, "its rows"), (0, "its first axis"), (None, "all its axes")):
        for way in "", ", with keepdims", ", with the same number all along it":
            def expected(seen, axis=axis, way=way):
                right = reference(seen)
                total = right.sum(axis, keepdims=bool(way))
                return np.broadcast_to(total, right.shape) if "same" in way else total
            if case.explains(name, expected):
                return f"{{is}} summed over {what}, which should be kept{way}"
    return None


def is_unsummed(case: Case, name: str, reference: Expected) -> str | None:
    """A sum over some axes is missing; the numbers tell which ones."""
    wrong = None
    for seen in case.pieces(name):
        given, right = seen.given[name], reference(seen)
        if given is None or given.size < right.size:
            return None
        if given.shape == right.shape:
            if not np.all(case.agreement(given, right)):
                return None
            continue
        if given.size == right.size < np.size(seen.inputs.get("dout")):  # the sum is taken, with keepdims
            return None
        sets_of_axes = (axes for n in range(1, given.ndim + 1) for axes in itertools.combinations(range(given.ndim), n))
        if not any(np.all(case.agreement(given.sum(axes).reshape(-1), right.reshape(-1))) for axes in sets_of_axes):
            return None
        if given.size > right.size and right.shape == seen.right[name].shape:
            wrong = wrong or (given.shape, right.shape)
    return f"{{is}} not summed: it has shape {wrong[0]} instead of {wrong[1]}" if wrong else None


def has_other_shape(case: Case, name: str, reference: Expected) -> str | None:
    """The right numbers in another shape."""
    wrong = None
    for seen in case.pieces(name):
        given, right = seen.given[name], reference(seen)
        if given is None or not np.all(case.agreement(given.reshape(-1), right.reshape(-1))):
            return None
        if given.shape != right.shape == seen.right[name].shape:  # a known mistake may itself change the shape
            wrong = wrong or (given.shape, right.shape)
    if wrong is None:
        return None
    is_kept = [n for n in wrong[0] if n != 1] == [n for n in wrong[1] if n != 1]
    reason = ", with an extra axis of length 1: sum without keepdims" if is_kept and len(wrong[0]) > len(wrong[1]) else ""
    return f"{{has}} the right numbers in shape {wrong[0]} instead of {wrong[1]}{reason}"


def is_rounded(case: Case, name: str, reference: Expected) -> str | None:
    """Right to about 7 digits, with errors in both directions, as in float32.

    On top of a known mistake that is itself this close, such as another eps, it would mean nothing.
    """
    if case.tolerance > EXACT or is_near_right(case, name, reference):
        return None
    errors = []
    for seen in case.pieces(name):
        given, right = seen.given[name], reference(seen)
        if given is None or given.shape != right.shape or not np.all(np.isfinite(given) & np.isfinite(right)):
            return None
        largest = np.max(np.abs(right), initial=0.0)
        if np.any(np.abs(given - right) > 2e-5 * largest + 1e-12):
            return None
        is_off = np.abs(given - right) > 1e-11 * largest
        errors += list(np.sign((given - right) * right)[is_off])
    if len(errors) >= 8 and 0.15 < np.mean(np.array(errors) > 0) < 0.85:
        return "{is} right to only about 7 digits, as with float32, a rounded constant or a difference quotient"
    return None


def is_near_right(case: Case, name: str, reference: Expected) -> bool:
    """Is this almost right, but not quite?"""
    return 0 < max(distance(reference(seen), seen.right[name]) for seen in case.seen if name in seen.right) < 1e-3


def upstream_of_ones(case: Case, seen: Seen, name: str, reference: np.ndarray) -> np.ndarray | None:
    return case.rerun(name, dout=lambda seen: np.ones_like(seen.inputs["dout"]))(seen)


def upstream_itself(case: Case, seen: Seen, name: str, reference: np.ndarray) -> np.ndarray:
    return seen.inputs["dout"]


def is_an_input(case: Case, name: str, reference: Expected) -> str | None:
    """One of the inputs, or its negative."""
    for key, array in arrays_of(case.seen[0].inputs).items():
        if array.dtype.kind == "f":
            for sign, word in ((1.0, f"{key} itself"), (-1.0, f"-{key}")):
                if case.explains(name, lambda seen, key=key, sign=sign: sign * seen.inputs[key]):
                    return f"{{is}} {word}"
    return None


def diagonal(case: Case, seen: Seen, name: str, reference: np.ndarray) -> np.ndarray | None:
    """What is left if each output depends on its own input only; None if inputs and outputs do not pair up."""
    dout = seen.inputs["dout"]
    if dout.shape != reference.shape or dout.size > LARGEST_JACOBIAN:
        return None
    found = np.zeros(dout.size)
    for k in range(dout.size):
        unit = np.eye(1, dout.size, k).reshape(dout.shape)
        found[k] = case.rerun(name, dout=lambda seen, unit=unit: unit)(seen).reshape(-1)[k]
    return found.reshape(dout.shape) * dout


def part_of_upstream(axis: int, index: int):
    def expected(case: Case, seen: Seen, name: str, reference: np.ndarray) -> np.ndarray | None:
        dout = seen.inputs["dout"]
        part = np.zeros_like(dout)
        at = tuple(index if a == axis % dout.ndim else slice(None) for a in range(dout.ndim))
        part[at] = dout[at]
        return case.rerun(name, dout=lambda seen: part)(seen)
    return expected


def without(axis: int, index: int):
    def expected(case: Case, seen: Seen, name: str, reference: np.ndarray) -> np.ndarray:
        found = reference.copy()
        np.swapaxes(found, 0, axis)[index] = 0.0
        return found
    return expected


def in_other_order(turn: Callable[[np.ndarray], np.ndarray]):
    """The reference with its elements moved, if it has at least two axes."""
    return lambda case, seen, name, reference: turn(reference) if reference.ndim > 1 else reference


def is_anothers(case: Case, name: str, reference: Expected) -> str | None:
    """The gradient of another input."""
    for other in case.routine.results:
        if other != name and case.explains(name, case.right(other)):
            return f"{{is}} what {other} should be"
    return None


ENDS = {"first": 0, "last": -1}

FORMULAS = (Relation("another formula", has_other_formula), Relation("mended", is_mended),
            Relation("another order", is_in_another_order), Relation("a formula", has_formula))
RELATIONS: tuple[Relation, ...] = (
    Relation("none", is_missing),
    Relation("zero", is_zero),
    Relation("negated", given_as("{has} the wrong sign", lambda case, seen, name, right: -right), True),
    Relation("transposed", given_as("{is} transposed", in_other_order(lambda a: np.swapaxes(a, -1, -2))), True),
    Relation("axes reversed", given_as("{has} all axes reversed: .T instead of swapping the last two",
                                       in_other_order(lambda a: a.T)), True),
    Relation("other shape", has_other_shape, True),
    Relation("unsummed", is_unsummed, True),
    *FORMULAS[:3],
    Relation("upstream", given_as("{is} the upstream gradient, unchanged", upstream_itself)),
    Relation("an input", is_an_input),
    Relation("negative upstream", given_as("{is} -dout", lambda case, seen, name, right: -seen.inputs["dout"])),
    Relation("exchanged", is_anothers),
    Relation("upstream ignored", given_as("{does} not depend on the upstream gradient, as if dout were 1",
                                          upstream_of_ones)),
    Relation("factor", is_multiplied, True),
    Relation("summed", is_summed, True),
    Relation("diagonal", given_as("{has} only the diagonal of the Jacobian, as if each output depended on its own input "
                                  "alone", diagonal)),
    *(Relation(f"{which} only", given_as(f"{{is}} made of only the {which} entry of dout along its {axis} axis, as if "
                                         "overwritten instead of added to", part_of_upstream(number, index)))
      for number, axis in ((0, "first"), (-2, "last but one")) for which, index in ENDS.items()),
    *(Relation(f"{which} zero", given_as(f"{{is}} right, except that the {which} {part} is zero", without(axis, index)))
      for axis, part in ((0, "entry along the first axis"), (-2, "row"), (-1, "column")) for which, index in ENDS.items()),
    FORMULAS[3],
    Relation("rounded", is_rounded, True),
)
COMPOSING = tuple(relation for relation in RELATIONS if relation.composes)


def sentence(names: list[str], predicate: str) -> str:
    """(["dq", "dk"], "{is} zero") -> "dq and dk are zero"."""
    many = len(names) > 1
    verbs = {"is": "are", "has": "have", "does": "do"}
    return f"{listed(names)} " + predicate.format(**{one: several if many else one for one, several in verbs.items()})


def listed(names: list[str]) -> str:
    """["dq", "dk", "dv"] -> "dq, dk and dv"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
