"""More exact relations: the right result for an input that was changed on the way, or something added to the right one.

"dk is what it would be if the last row of q were left out": a loop that ends too early. The right routine runs again
with each input changed in each of these ways.
"""
import itertools
from collections.abc import Callable

import numpy as np

from .case import Case, Expected, Seen
from .relations import Relation

Change = Callable[[np.ndarray], np.ndarray]


def left_out(axis: int, index: int) -> Change:
    """Without one entry along an axis; an array that has no such axis stays as it is."""

    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        if array.ndim >= -axis:
            np.moveaxis(changed, axis, 0)[index] = 0
        return changed

    return change


def row_left_out(index: int) -> Change:
    """Without one row, counted through all axes in front."""

    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        if array.ndim > 1:
            changed.reshape(-1, array.shape[-1])[index] = 0
        return changed

    return change


def reshaped(array: np.ndarray) -> np.ndarray:
    """What a transpose makes of it if there was a reshape where the routine transposes."""
    if array.ndim < 2:
        return array
    turned = np.swapaxes(array, -1, -2)
    return np.swapaxes(array.reshape(turned.shape), -1, -2)


CHANGES: dict[str, tuple[str, Change]] = {  # {name: (what was done to the input, how)}
    "last column left out": ("the last column of {input} were left out, as if a loop ended too early",
                             left_out(-1, -1)),
    "first column left out": ("the first column of {input} were left out, as if a loop started at 1", left_out(-1, 0)),
    "last row left out": ("the last row of {input} were left out, as if a loop ended too early", left_out(-2, -1)),
    "first row left out": ("the first row of {input} were left out, as if a loop started at 1", left_out(-2, 0)),
    "last of all rows left out": ("the very last row of {input} were left out, as if a loop ended too early",
                                  row_left_out(-1)),
    "first of all rows left out": ("the very first row of {input} were left out, as if a loop started at 1",
                                   row_left_out(0)),
    "reshaped": ("{input} were reshaped where it has to be transposed", reshaped),
    "absolute": ("the absolute value of {input} stood for it", np.abs),
    "shifted along": ("{input} were shifted by one along its last axis", lambda a: np.roll(a, 1, -1)),
    "shifted back": ("{input} were shifted back by one along its last axis", lambda a: np.roll(a, -1, -1)),
    "shifted down": ("the rows of {input} were shifted down by one", lambda a: np.roll(a, 1, -2) if a.ndim > 1 else a),
    "shifted up": ("the rows of {input} were shifted up by one", lambda a: np.roll(a, -1, -2) if a.ndim > 1 else a),
    "squared": ("the square of {input} stood for it", np.square),
    "negative": ("-{input} stood for {input}", np.negative),
    "positive part": ("the negative numbers of {input} were set to 0", lambda a: np.maximum(a, 0)),
}


def float_arrays(case: Case) -> list[str]:
    """The names of the inputs that are float arrays, the upstream gradient first."""
    return [key for key, value in case.seen[0].inputs.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def is_changed(what: str, change: Change) -> Callable[[Case, str, Expected], str | None]:
    """Finds the input that was changed so. The result must not be right for the unchanged one."""

    def find(case: Case, name: str, reference: Expected) -> str | None:
        for key in float_arrays(case):
            if case.explains(name, case.rerun(name, **{key: lambda seen, key=key: change(seen.inputs[key])})):
                return f"{{is}} what would be right if {what.format(input=key)}"
        return None

    return find


def is_added(case: Case, name: str, reference: Expected) -> str | None:
    """An input, the upstream or another result that was added to the right result, or subtracted."""

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
                return f"{{is}} right but for {key}, which is {word} it"
    return None


def is_added_on_the_way(case: Case, name: str, reference: Expected) -> str | None:
    """An input that was added to another before the right routine ran."""
    for key, other in itertools.permutations(float_arrays(case), 2):
        if case.explains(name, case.rerun(name, **{key: lambda seen, key=key, other=other: sum_of(seen, key, other)})):
            return f"{{is}} what would be right if {other} were added to {key}"
    return None


def sum_of(seen: Seen, key: str, other: str) -> np.ndarray:
    """An input and another, in the shape of the first; ValueError if they do not fit."""
    return seen.inputs[key] + np.broadcast_to(seen.inputs[other], seen.inputs[key].shape)


def has_another_mask(case: Case, name: str, reference: Expected) -> str | None:
    """Each number is what it would be if all were kept, or zero; but not by the mask that was given."""
    masks = [key for key, value in case.seen[0].inputs.items() if isinstance(value, np.ndarray) and value.dtype.kind == "b"]
    kept = dropped = 0
    for seen in case.seen if masks else ():
        given = seen.given.get(name)
        if given is None or np.shape(given) != np.shape(reference(seen)):
            return None
        everything = case.rerun(name, **{masks[0]: lambda seen: np.ones_like(seen.inputs[masks[0]])})(seen)
        is_kept = case.agreement(given, everything)
        if not np.all(is_kept | (given == 0)):
            return None
        kept, dropped = kept + np.sum(is_kept & (given != 0)), dropped + np.sum(given == 0)
    return f"{{has}} a mask of its own: {masks[0]} is not used" if min(kept, dropped) > 4 else None


AS_IF: tuple[Relation, ...] = (
    Relation("another mask", has_another_mask),
    *(Relation(name, is_changed(*how)) for name, how in CHANGES.items()),
    Relation("something added", is_added),
    Relation("added on the way", is_added_on_the_way),
)
