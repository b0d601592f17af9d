"""More exact relations: the right result for a changed input, or the right result with something added.

"dk is what would be right if the last row of q were left out": a loop that ends too early. The right routine runs again
with each input changed in each of these ways.
"""
import itertools
import math
from collections.abc import Callable

import numpy as np

from .case import Case, Expected, Seen
from .relations import Find, Relation

Change = Callable[[np.ndarray], np.ndarray]


def left_out(axis: int, index: int) -> Change:
    """Without one entry along an axis; unchanged if there is no such axis."""

    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        if array.ndim >= -axis:
            np.moveaxis(changed, axis, 0)[index] = 0
        return changed

    return change


def row_left_out(index: int) -> Change:
    """Without one row, counting through all leading axes."""

    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        if array.ndim > 1:
            changed.reshape(-1, array.shape[-1])[index] = 0
        return changed

    return change


def reshaped(array: np.ndarray) -> np.ndarray:
    """Whose transpose is the array reshaped to the transpose's shape."""
    if array.ndim < 2:
        return array
    turned = np.swapaxes(array, -1, -2)
    return np.swapaxes(array.reshape(turned.shape), -1, -2)


CHANGES: dict[str, tuple[str, Change]] = {  # {name: (what is said of the input, how it is changed)}
    "last column left out": ("the last column of {input} were left out, as if a loop ended too early",
                             left_out(-1, -1)),
    "first column left out": ("the first column of {input} were left out, as if a loop started at 1", left_out(-1, 0)),
    "last row left out": ("the last row of {input} were left out, as if a loop ended too early", left_out(-2, -1)),
    "first row left out": ("the first row of {input} were left out, as if a loop started at 1", left_out(-2, 0)),
    "last of all rows left out": ("the very last row of {input} were left out, as if a loop ended too early",
                                  row_left_out(-1)),
    "first of all rows left out": ("the very first row of {input} were left out, as if a loop started at 1",
                                   row_left_out(0)),
    "reshaped": ("{input} were reshaped instead of transposed", reshaped),
    "absolute": ("{input} were replaced by its absolute value", np.abs),
    "shifted along": ("{input} were shifted by one along its last axis", lambda a: np.roll(a, 1, -1)),
    "shifted back": ("{input} were shifted back by one along its last axis", lambda a: np.roll(a, -1, -1)),
    "shifted down": ("the rows of {input} were shifted down by one", lambda a: np.roll(a, 1, -2) if a.ndim > 1 else a),
    "shifted up": ("the rows of {input} were shifted up by one", lambda a: np.roll(a, -1, -2) if a.ndim > 1 else a),
    "squared": ("{input} were squared", np.square),
    "negative": ("{input} were negated", np.negative),
    "positive part": ("the negative elements of {input} were set to 0", lambda a: np.maximum(a, 0)),
}


MOST_ROWS = 64
CUTS = {"last": "an incomplete block at the end were skipped", "first": "the first block were overwritten"}


def float_arrays(case: Case) -> list[str]:
    """The names of the inputs that are float arrays, the upstream gradient first."""
    return [key for key, value in case.seen[0].inputs.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def is_changed(what: str, change: Change) -> Find:
    """Finds the input that was changed this way. For the unchanged input the result is known to be wrong."""

    def find(case: Case, name: str, reference: Expected) -> str | None:
        for key in float_arrays(case):
            if case.explains(name, case.rerun(name, **{key: lambda seen, key=key: change(seen.inputs[key])})):
                return f"{{is}} what would be right if {what.format(input=key)}"
        return None

    return find


def is_added(case: Case, name: str, reference: Expected) -> str | None:
    """An input, the upstream gradient or another result was added to the right result, or subtracted from it."""

    def plus(sign: float, term: Callable[[Seen], np.ndarray]) -> Expected:
        def expected(seen: Seen) -> np.ndarray | None:
            right = reference(seen)
            found = right + sign * term(seen)
            return found if found.shape == right.shape else None
        return expected

    terms = {key: lambda seen, key=key: seen.inputs[key] for key in float_arrays(case)}
    terms |= {other: lambda seen, other=other: seen.right[other] for other in case.results if other != name}
    for key, term in terms.items():
        for sign, word in ((1.0, "added to"), (-1.0, "subtracted from")):
            if case.explains(name, plus(sign, term)):
                return f"{{is}} right, except that {key} is {word} it"
    return None


def is_combined(what: str, how: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Find:
    """Finds an input that was combined with another, or with the output, before the right routine ran."""

    def combined(case: Case, key: str, other: str) -> Callable[[Seen], np.ndarray]:
        inputs = case.routine.arguments[1:]

        def changed(seen: Seen) -> np.ndarray:
            """In the shape of the first; ValueError if the other does not fit."""
            with_it = seen.inputs[other] if other else case.routine.forward(*(seen.inputs[name] for name in inputs))
            return how(seen.inputs[key], np.broadcast_to(with_it, seen.inputs[key].shape))
        return changed

    def find(case: Case, name: str, reference: Expected) -> str | None:
        others = [*float_arrays(case), *([""] if case.routine.forward else [])]
        for key, other in itertools.product(float_arrays(case), others):
            if key != other and case.explains(name, case.rerun(name, **{key: combined(case, key, other)})):
                return f"{{is}} what would be right if {what.format(key=key, other=other or 'the output')}"
        return None

    return find


def has_another_mask(case: Case, name: str, reference: Expected) -> str | None:
    """Each number is either zero or what it would be if all were kept, but not according to the given mask."""
    masks = [key for key, value in case.seen[0].inputs.items() if isinstance(value, np.ndarray) and value.dtype.kind == "b"]
    kept = dropped = 0
    for seen in case.pieces(name) if masks else ():
        given = seen.given[name]
        if given is None or np.shape(given) != np.shape(reference(seen)):
            return None
        everything = case.rerun(name, **{masks[0]: lambda seen: np.ones_like(seen.inputs[masks[0]])})(seen)
        is_kept = case.agreement(given, everything)
        if not np.all(is_kept | (given == 0)):
            return None
        kept, dropped = kept + np.sum(is_kept & (given != 0)), dropped + np.sum(given == 0)
    return f"{{has}} a mask of its own: {masks[0]} is not used" if min(kept, dropped) > 4 else None


def is_cut_off(case: Case, name: str, reference: Expected) -> str | None:
    """The last rows of the upstream do not count, or the first, counting through all leading axes."""
    count = max(math.prod(np.shape(seen.inputs.get("dout"))[:-1]) for seen in case.seen)
    for n, (end, reason) in itertools.product(range(2, min(count, MOST_ROWS)), CUTS.items()):
        rows = slice(-n, None) if end == "last" else slice(n)
        if case.explains(name, case.rerun(name, dout=lambda seen, rows=rows: without_rows(seen.inputs["dout"], rows))):
            return f"{{is}} what would be right if the {end} {n} rows of dout were left out, as if {reason}"
    return None


def without_rows(dout: np.ndarray, rows: slice) -> np.ndarray:
    found = dout.reshape(-1, dout.shape[-1]).copy()
    found[rows] = 0
    return found.reshape(dout.shape)


AS_IF: tuple[Relation, ...] = (
    Relation("another mask", has_another_mask),
    *(Relation(name, is_changed(*how)) for name, how in CHANGES.items()),
    Relation("rows left out", is_cut_off),
    Relation("something added", is_added),
    *(Relation(f"{word} on the way", is_combined(what, how)) for word, what, how in (
        ("added", "{other} were added to {key}", np.add), ("replaced", "{other} replaced {key}", lambda a, b: b),
        ("multiplied", "{key} were multiplied by {other}", np.multiply))),
)
