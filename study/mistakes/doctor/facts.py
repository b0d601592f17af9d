"""What can be seen of wrong numbers, in words: which results, on which inputs, where, and how far off."""
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .case import CHANCE, EXACT, NOT_NUMBERS, Case, Seen, arrays_of, by_chance, distance, fits, point_of
from .relations import listed, sentence

LARGE = 10.0
VISIBLE = 1e-6  # of the terms of a sum: what is more is not rounding
FEW_POINTS = 3  # what fewer inputs have in common, or differ in, says nothing; a single check has a table of its own

Inputs = dict[str, Any]


def arrays(inputs: Inputs, kind: str) -> list[np.ndarray]:
    return [array for array in arrays_of(inputs).values() if array.dtype.kind in kind]


def is_repeated(ids: np.ndarray) -> bool:
    return len(np.unique(ids)) < ids.size


ON_INPUTS: dict[str, Callable[[Inputs], bool]] = {  # what the inputs on which something is wrong may have in common
    "with repeated ids": lambda inputs: any(map(is_repeated, arrays(inputs, "i"))),
    "with masked positions": lambda inputs: any(not np.all(mask) for mask in arrays(inputs, "b")),
    "with a fully masked row": lambda inputs: any(np.any(~np.any(mask, -1)) for mask in arrays(inputs, "b")),
    "with ignored targets": lambda inputs: any(np.any(ids < 0) for ids in arrays(inputs, "i")),
    "with an axis of length 1": lambda inputs: any(1 in array.shape for array in arrays(inputs, "fib")),
    "with numbers beyond 10": lambda inputs: any(np.any(np.abs(array) > LARGE) for array in arrays(inputs, "f")),
    "that are not square": lambda inputs: any(a.ndim > 1 and a.shape[-1] != a.shape[-2] for a in arrays(inputs, "f")),
    "with batch axes": lambda inputs: any(array.ndim > 2 for array in arrays(inputs, "f")),
    "without batch axes": lambda inputs: all(array.ndim < 3 for array in arrays(inputs, "f")),
}


def common(inputs: Sequence[Inputs], is_so: Sequence[bool]) -> str:
    """"exactly those with repeated ids", if that tells the inputs on which something is so from the others; else ""."""
    if min(sum(is_so), len(is_so) - sum(is_so)) < 2:
        return ""  # one input has something of its own in any case
    return next((f"exactly those {text}" for text, holds in ON_INPUTS.items()
                 if not all(is_so) and [bool(holds(one)) for one in inputs] == list(is_so)), "")


def places(seen: Seen, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Parts of a result, as boolean arrays of its shape."""
    if not shape:
        return
    index = np.indices(shape)
    rows, columns = (index[-2], index[-1]) if len(shape) > 1 else (index[0], None)
    yield "in its first row" if columns is not None else "in its first element", rows == 0
    yield "in its last row" if columns is not None else "in its last element", rows == rows.max(initial=0)
    if columns is not None:
        yield "in its first column", columns == 0
        yield "in its last column", columns == columns.max(initial=0)
        yield "on its diagonal", rows == columns
        yield "off its diagonal", rows != columns
        yield "above its diagonal", rows < columns
        yield "below its diagonal", rows > columns
    if len(shape) > 2:
        yield "in the first of the batch", index[0] == 0
        yield "after the first of the batch", index[0] > 0
    for name, array in arrays_of(seen.inputs).items():
        if array.dtype.kind == "b" and fits(array.shape, shape):
            yield f"where {name} is False", np.broadcast_to(~array, shape)
            yield f"where {name} is True", np.broadcast_to(array, shape)
        elif array.dtype.kind == "f" and array.shape == shape:
            yield f"where {name} is negative", array < 0
            yield f"where {name} is positive", array > 0
            yield f"where {name} is beyond 10", np.abs(array) > LARGE
        elif array.dtype.kind == "i" and array.size and array.min() >= 0 and array.max() < shape[0]:
            counts = np.bincount(array.reshape(-1), minlength=shape[0]).reshape(-1, *[1] * (len(shape) - 1))
            yield f"in rows that occur in {name} more than once", np.broadcast_to(counts > 1, shape)
            yield f"in rows that do not occur in {name}", np.broadcast_to(counts == 0, shape)


def facts_of(case: Case, explained: Sequence[str]) -> tuple[str, ...]:
    """Which results are wrong, and for those that nothing explains, where and by how much."""
    lines = []
    right = [name for name in case.results if name not in case.wrong]
    if len(case.results) > 1:
        lines.append(", ".join(f"{listed(names)} {'are' if len(names) > 1 else 'is'} {word}"
                               for names, word in ((case.wrong, "wrong"), (right, "right")) if names))
    lines += grouped({name: on_which_inputs(case, name) for name in case.wrong if name not in explained})
    for name in case.wrong:
        if name not in explained:
            invariant = broken_invariant(case, name)
            lines += form_of(case, name) or filter(None, [
                where(case, name), not_finite(case, name), invariant,
                what_is_off(case, name) or ("" if invariant else how_far(case, name))])
    return tuple(lines)


def grouped(predicates: dict[str, str]) -> list[str]:
    """A sentence for each predicate, naming all results that share it; none for an empty one."""
    return [sentence([name for name in predicates if predicates[name] == predicate], predicate)
            for predicate in dict.fromkeys(predicates.values()) if predicate]


def on_which_inputs(case: Case, name: str) -> str:
    """"{is} wrong on 3 of 12 inputs: exactly those with repeated ids", or "" if it is wrong on all."""
    points = {point_of(seen): seen.inputs for seen in case.pieces(name)}
    wrong_at = {point_of(seen) for seen in case.seen if name in seen.wrong}
    if len(points) < FEW_POINTS or len(wrong_at) == len(points):
        return ""
    those = common([*points.values()], [point in wrong_at for point in points])
    return f"{{is}} wrong on {len(wrong_at)} of {len(points)} inputs" + (f": {those}" if those else "")


def form_of(case: Case, name: str) -> list[str]:
    """What is said of a result that is None or has the wrong shape, so that its places cannot be compared."""
    for seen in case.pieces(name):
        given, right = seen.given[name], seen.right[name]
        if given is None:
            return [f"{name} is None"]
        if given is NOT_NUMBERS:
            return [f"{name} is not an array of numbers"]
        if given.shape != right.shape:
            return [f"{name} has shape {given.shape} instead of {right.shape}"]
    return []


def where(case: Case, name: str) -> str:
    """The least likely part of a result that contains everything wrong in it, on all inputs."""
    wrong_at: dict[bytes, tuple[Seen, np.ndarray]] = {}  # of all upstreams together: they leave the parts as they are
    for seen in case.seen:
        if name in seen.wrong:
            _, before = wrong_at.get(point_of(seen), (seen, np.zeros_like(seen.wrong[name])))
            wrong_at[point_of(seen)] = seen, before | seen.wrong[name]
    chances: dict[str, float] = {}
    for k, (seen, wrong) in enumerate(wrong_at.values()):
        chances = {text: chances.get(text, 1.0) * by_chance(part, wrong) for text, part in places(seen, wrong.shape)
                   if not np.any(wrong & ~part) and (not k or text in chances)}
    best = min(chances, key=lambda text: chances[text], default="")
    return f"{name} is wrong only {best}" if best and chances[best] < CHANCE else ""


def not_finite(case: Case, name: str) -> str:
    for seen in case.pieces(name):
        given = seen.given[name]
        if given is not None and not np.all(np.isfinite(given)) and np.all(np.isfinite(seen.right[name])):
            kinds = [kind for kind, holds in (("NaN", np.isnan), ("infinite", np.isinf)) if np.any(holds(given))]
            return f"{int(np.sum(~np.isfinite(given)))} of {given.size} numbers of {name} are {' or '.join(kinds)}"
    return ""


def what_is_off(case: Case, name: str) -> str:
    """The error in a simple form that fits on all inputs: right up to a factor, or off by a multiple of an input."""
    wrong_on = [seen for seen in case.seen if name in seen.wrong]
    if sum(seen.right[name].ndim > 0 and shortest(seen.right[name]) > 2 for seen in wrong_on) < 2:
        return ""  # in rows of two numbers much fits by chance
    shapes = [seen.right[name].shape for seen in wrong_on]
    parts = [("", None), (" per row", -1), (" per column", -2)] if min(map(len, shapes)) > 1 else [("", None)]
    terms = {key: value for key, value in wrong_on[0].inputs.items()
             if isinstance(value, np.ndarray) and value.dtype.kind == "f"}
    terms = [key for key in terms if all(np.shape(seen.inputs[key]) == shape for seen, shape in zip(wrong_on, shapes))]
    for text, axis in parts:
        if all(is_multiple(case, seen, name, 0.0, seen.right[name], axis) for seen in wrong_on):
            return f"{name} is right up to a factor{text or ' for all of it, another one for each input'}"
    for text, axis in parts:
        along = {"": "", " per row": " in each row", " per column": " in each column"}[text]
        if axis and all(is_multiple(case, seen, name, seen.right[name], np.ones(1), axis) for seen in wrong_on):
            return f"{name}, yours minus right, is a single number{along}"
        for key in terms:
            if all(is_multiple(case, seen, name, seen.right[name], seen.inputs[key], axis) for seen in wrong_on):
                return f"{name}, yours minus right, is a multiple of {key}{along}"
    return ""


def is_multiple(case: Case, seen: Seen, name: str, start: np.ndarray | float, term: np.ndarray, axis: int | None) -> bool:
    """Is a result `start` plus a multiple of the term: one for all of it, or one along each line of this axis?"""
    given = seen.given[name]
    term = np.broadcast_to(term, given.shape)
    squares = np.sum(term * term, axis, keepdims=True)
    factor = np.sum((given - start) * term, axis, keepdims=True) / np.maximum(squares, 1e-300)
    return bool(np.all(case.agreement(given, start + factor * term)))


def broken_invariant(case: Case, name: str) -> str:
    """A sum that is zero in all that is right, though its terms are not, and in something that was given is not."""
    pieces = [seen for seen in case.pieces(name) if np.shape(seen.given[name]) == seen.right[name].shape]
    weights = ["", *arrays_of(pieces[0].inputs)] if pieces else []
    for key, (axis, line) in itertools.product(weights, {-1: "row", -2: "column"}.items()):
        found = [sums_of(seen, key, axis, seen.right[name], seen.given[name]) for seen in pieces]
        is_so = all(found) and all(is_zero for is_zero, *_ in found) and any(size for _, size, _ in found)
        if off := next((off for _, size, off in found if abs(off) > VISIBLE * size), 0.0) if is_so else 0.0:
            each, yours = (f"each {line} of ", "one of yours") if pieces[0].right[name].ndim > 1 else ("", "yours")
            return f"{each}{name}{key and f' * {key}'} should sum to 0; {yours} sums to {off:.4g}"
    return ""


def sums_of(seen: Seen, key: str, axis: int, right: np.ndarray, given: np.ndarray) -> tuple[bool, float, float] | None:
    """Are the sums of what is right zero, how large is what they consist of, and the sum of what was given furthest off?"""
    weight = seen.inputs[key] if key else np.ones(1)
    if right.ndim < -axis or not fits(weight.shape, right.shape):
        return None
    largest, sums = np.abs(right * weight).sum(axis).max(initial=0.0), (given * weight).sum(axis).reshape(-1)
    off = sums[np.argmax(np.abs(sums))] if sums.size else 0.0
    return bool(np.all(np.abs((right * weight).sum(axis)) <= EXACT * largest)), float(largest), float(off)


def shortest(array: np.ndarray) -> int:
    return min(array.shape[-2:], default=0)


def how_far(case: Case, name: str) -> str:
    if len({point_of(seen) for seen in case.pieces(name)}) < FEW_POINTS:
        return ""
    distances = (distance(seen.given[name], seen.right[name]) for seen in case.seen if name in seen.wrong)
    off = max((far for far in distances if far < 1e6), default=0.0)  # it is more where the right one is zero
    size = f"{off:.0f} times" if off > 10 else f"{off:.0%} of" if off > 0.01 else f"{off:.0e} of"
    return f"{name} is off by up to {size} its largest number" if off else ""
