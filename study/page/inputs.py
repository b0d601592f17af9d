"""Numbers from a JSON file: {"q": [[1.0, 0.5], ...], "k": ..., "v": ..., "upstream": ..., "causal": true, "scale": null}

q, k, v can be replaced by x with w_q, w_k, w_v and w_o; for a block, with w_in, w_out and the gains of its norms too. w_u
and targets, a class for each token, replace upstream where the loss is the cross-entropy. `causal` (default: true), `scale`
(null: 1 / sqrt(D)) and `labels`, a string for each token, are optional; a block has neither scale nor labels.
"""
import collections
import dataclasses
import json
import math
import os
import reprlib
from typing import Any

import numpy as np

from models.token_file import read_text
from study.page import block
from study.page.attention import FROM_Q_K_V, FROM_X, Head, Inputs

MOST_BYTES = 2_000_000  # of a file: far more than a page can show
LARGEST = 1e6  # absolute value of a number, so that products stay finite
LONGEST_LABEL = 12  # characters
OF_TARGETS = "w_u", "targets"  # replace upstream


def read(path: str | os.PathLike, placement: str | None = None, cross_entropy: bool = False, **changes: Any) -> Inputs:
    """The head in a JSON file, or the block of a placement; `changes` are other fields of it, such as `heads`. ValueError
    or OSError with a line that says what is wrong with the file."""
    if os.path.isfile(path) and os.path.getsize(path) > MOST_BYTES:
        raise ValueError(f"{path} has {os.path.getsize(path):,} bytes, far more than a page can show; keep a few rows and "
                         "columns of each matrix")
    try:
        return numbers_of(parse(read_text(path)), placement, cross_entropy, **changes)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None


def parse(text: str) -> Any:
    """Strict JSON: ValueError also for NaN and for duplicate keys.

    >>> parse('{"q": [[1, 2.5]]}')
    {'q': [[1.0, 2.5]]}
    >>> parse('{"q": [[1, 2.5]')
    Traceback (most recent call last):
    ...
    ValueError: not valid JSON: expecting ',' delimiter in line 1, column 16
    """
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not allowed; numbers must be finite")

    def once(pairs: list[tuple[str, Any]]) -> dict:
        names = [name for name, _ in pairs]
        if twice := [name for name, count in collections.Counter(names).items() if count > 1]:
            raise ValueError(f"{reprlib.repr(twice[0])} appears twice")
        return dict(pairs)

    try:
        return json.loads(text, parse_constant=refuse, parse_int=float, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise ValueError(f"not valid JSON: {what} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("its lists are nested too deeply; a matrix is a list of rows") from None


def numbers_of(given: Any, placement: str | None = None, cross_entropy: bool = False, **changes: Any) -> Inputs:
    """What parsed JSON describes; ValueError if it does not describe a head, or a block of this placement."""
    if not isinstance(given, dict):
        raise ValueError(f"expected an object with q, k, v and upstream, got {_kind(given)}")
    names = block.names(placement) if placement else FROM_X if "x" in given else FROM_Q_K_V
    ends = OF_TARGETS if cross_entropy or "targets" in given else ("upstream",)
    if mixed := [name for name in FROM_Q_K_V if "x" in given and name in given]:
        raise ValueError(f"it has x, and also {', '.join(mixed)}; give q, k and v, or x with w_q, w_k, w_v and w_o")
    if "targets" in given and "upstream" in given:
        raise ValueError("it has targets, and also upstream; with targets, upstream follows from the cross-entropy")
    if missing := [name for name in (*names, *ends) if name not in given]:
        raise ValueError(f"it lacks {', '.join(missing)}; give {', '.join((*names, *ends[:-1]))} and {ends[-1]}")
    optional = ("causal",) if placement else ("causal", "scale", "labels")
    known = (*names, *ends, *optional)
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"unknown {', '.join(map(reprlib.repr, unknown))}; known are {', '.join(known)}")
    causal = given.get("causal", True)
    if not isinstance(causal, bool):
        raise ValueError(f"causal must be true or false, got {_kind(causal)}")
    arrays = {name: array(name, given[name], 1 if name.startswith("gain") else 2)
              for name in (*names, *ends) if name != "targets"}
    tokens = len(arrays[names[0]])
    if "targets" in ends:
        changes["targets"] = targets(given["targets"], tokens, arrays["w_u"].shape[1])
    upstream = arrays.pop("upstream", None)
    if upstream is None:
        upstream = np.zeros((tokens, len(arrays["w_u"])))  # unknown until the loss is computed
    if placement:
        numbers = block.BlockInputs(arrays, upstream, causal, placement, **changes)
    else:
        scale = None if given.get("scale") is None else number("scale", given["scale"])
        numbers = Head(arrays, upstream, causal, scale, **changes)
    check_shapes(numbers)
    if "labels" in given:
        numbers = dataclasses.replace(numbers, labels=labels("labels", given["labels"], numbers.tokens))
    return numbers


def array(name: str, given: Any, axes: int) -> np.ndarray:
    """A row of numbers, or a list of rows, as an array; ValueError names the place of anything else."""
    if axes == 0:
        return np.array(number(name, given))
    if not isinstance(given, list) or not given:
        expected = "a list of rows of numbers" if axes > 1 else "a row, a list of numbers"
        raise ValueError(f"{name} must be {expected}, got {_kind(given)}")
    parts = [array(f"{name}[{i}]", part, axes - 1) for i, part in enumerate(given)]
    for i, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ValueError(f"{name} is ragged: row 0 has {_count(len(parts[0]), 'number')}, row {i} has {len(part)}")
    return np.array(parts)


def targets(given: Any, tokens: int, classes: int) -> tuple[int, ...]:
    """A class for each token; ValueError for anything else."""
    if not isinstance(given, list) or len(given) != tokens:
        raise ValueError(f"targets must be a list of {tokens} classes, one for each token, got {_kind(given)}"
                         + (f" of {len(given)}" if isinstance(given, list) and given else ""))
    for i, target in enumerate(given):
        if number(f"targets[{i}]", target) not in range(classes):
            raise ValueError(f"targets[{i}] must be a class from 0 to {classes - 1}, a column of w_u; got {target:g}")
    return tuple(map(int, given))


def number(place: str, value: Any) -> float:
    """The value, if it is a number whose products stay finite; ValueError if not."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"{place} must be a number, got {_kind(value)}")
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise ValueError(f"{place} is {value:g}; numbers can be at most {LARGEST:,.0f}, so that all results are finite")
    return float(value)


def labels(place: str, given: Any, tokens: tuple[int, int]) -> tuple[str, ...]:
    """A string for each token, or none at all; ValueError for anything else."""
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        raise ValueError(f"{place} must be a list of strings, got {_kind(given)}")
    if given and tokens != (len(given), len(given)):
        needed = f"{tokens[0]} tokens" if tokens[0] == tokens[1] else f"{tokens[0]} queries and {tokens[1]} keys"
        raise ValueError(f"{place} has {_count(len(given), 'string')} for {needed}"
                         + ("" if tokens[0] == tokens[1] else "; leave it out"))
    for i, label in enumerate(given):
        if not 1 <= len(label) <= LONGEST_LABEL:
            raise ValueError(f"{place}[{i}] has {_count(len(label), 'character')}, expected 1 to {LONGEST_LABEL}")
    return tuple(given)


def check_shapes(numbers: Inputs) -> None:
    """ValueError with both shapes if two matrices do not fit together, or one does not fit the number of heads."""
    matrices = numbers.inputs | ({} if numbers.targets else {"upstream": numbers.upstream})
    heads, first = {"H": numbers.heads, "G": numbers.groups}, {}
    for name in [name for name in numbers.axes if name in matrices]:
        shape = matrices[name].shape
        for axis, (*many, letter) in enumerate(numbers.axes[name]):
            count, here = heads[many[0]] if many else 1, _side(axis, shape)
            if shape[axis] % count:
                raise ValueError(f"{name} must have a multiple of {count} {here}, for that many heads; got {name} {shape}")
            length, other, there = first.setdefault(letter, (shape[axis] // count, name, here))
            if shape[axis] // count != length:
                each = f" for each head, {length}, not {shape[axis] // count}" if many and numbers.heads > 1 else ""
                as_many = f"as many {here} as {other}" + ("" if here == there else f" has {there}")
                raise ValueError(f"{name} must have {as_many}{each}; got {name} {shape}, "
                                 f"{other} {matrices[other].shape}")


def _side(axis: int, shape: tuple[int, ...]) -> str:
    return "numbers" if len(shape) == 1 else ("rows", "columns")[axis]


def _kind(value: Any) -> str:
    """What was given, in words and shortened."""
    if isinstance(value, (list, dict)):
        kind = "list" if isinstance(value, list) else "object"
        return f"a {kind}" if value and kind == "list" else f"an {kind}" if value else f"an empty {kind}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"the string {reprlib.repr(value)}" if isinstance(value, str) else f"the number {value:g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
