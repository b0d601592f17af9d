"""A head from a JSON file: {"q": [[1.0, 0.5], ...], "k": ..., "v": ..., "upstream": ..., "causal": true, "scale": null}

q, k, v can be replaced by x with w_q, w_k, w_v and w_o. `causal` (default: true), `scale` (null: 1 / sqrt(D)) and `labels`,
a string for each token, are optional.
"""
import collections
import json
import math
import os
import reprlib
from typing import Any

import numpy as np

from models.data import read_text
from study.page.attention import FROM_Q_K_V, FROM_X, Head

MOST_BYTES = 2_000_000  # of a file: far more than a page can show
LARGEST = 1e6  # absolute value of a number, so that products stay finite
LONGEST_LABEL = 12  # characters
OPTIONAL = "causal", "scale", "labels"
SHAPES_FROM_Q_K_V = {"q": "TD", "k": "SD", "v": "SV", "upstream": "TV"}  # equal letters are equal lengths
SHAPES_FROM_X = {"x": "TC", "w_q": "CD", "w_k": "CD", "w_v": "CV", "w_o": "VO", "upstream": "TO"}


def read(path: str | os.PathLike) -> Head:
    """The head in a JSON file; ValueError or OSError with a line that says what is wrong with it."""
    if os.path.isfile(path) and os.path.getsize(path) > MOST_BYTES:
        raise ValueError(f"{path} has {os.path.getsize(path):,} bytes, far more than a page can show; keep a few rows and "
                         "columns of each matrix")
    try:
        return head_of(parse(read_text(path)))
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


def head_of(given: Any) -> Head:
    """The head that parsed JSON describes; ValueError if it does not describe one."""
    if not isinstance(given, dict):
        raise ValueError(f"expected an object with q, k, v and upstream, got {_kind(given)}")
    names = FROM_X if "x" in given else FROM_Q_K_V
    if mixed := [name for name in FROM_Q_K_V if "x" in given and name in given]:
        raise ValueError(f"it has x, and also {', '.join(mixed)}; give q, k and v, or x with w_q, w_k, w_v and w_o")
    if missing := [name for name in (*names, "upstream") if name not in given]:
        raise ValueError(f"it lacks {', '.join(missing)}; give {', '.join(names)} and upstream")
    known = (*names, "upstream", *OPTIONAL)
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"unknown {', '.join(map(reprlib.repr, unknown))}; known are {', '.join(known)}")
    causal = given.get("causal", True)
    if not isinstance(causal, bool):
        raise ValueError(f"causal must be true or false, got {_kind(causal)}")
    scale = given.get("scale")
    inputs = {name: matrix(name, given[name]) for name in names}
    head = Head(inputs, matrix("upstream", given["upstream"]), causal, None if scale is None else number("scale", scale))
    check_shapes(head)
    return Head(inputs, head.upstream, causal, head.scale, labels=labels("labels", given.get("labels", []), head.tokens))


def matrix(name: str, rows: Any) -> np.ndarray:
    """A list of rows of numbers as an array; ValueError names the place of anything else."""
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{name} must be a list of rows of numbers, got {_kind(rows)}")
    for i, row in enumerate(rows):
        if not isinstance(row, list) or not row:
            raise ValueError(f"{name}[{i}] must be a row, a list of numbers, got {_kind(row)}")
        if len(row) != len(rows[0]):
            raise ValueError(f"{name} is ragged: row 0 has {_count(len(rows[0]), 'number')}, row {i} has {len(row)}")
    return np.array([[number(f"{name}[{i}][{j}]", value) for j, value in enumerate(row)] for i, row in enumerate(rows)])


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


def check_shapes(head: Head) -> None:
    """ValueError with both shapes if two matrices do not fit together."""
    matrices, first = {**head.inputs, "upstream": head.upstream}, {}
    for name, letters in (SHAPES_FROM_X if head.starts_from_x else SHAPES_FROM_Q_K_V).items():
        for axis, letter in enumerate(letters):
            other, other_axis = first.setdefault(letter, (name, axis))
            if matrices[name].shape[axis] != matrices[other].shape[other_axis]:
                here, there = (("rows", "columns")[i] for i in (axis, other_axis))
                as_many = f"as many {here} as {other}" + ("" if here == there else f" has {there}")
                raise ValueError(f"{name} must have {as_many}; got {name} {matrices[name].shape}, "
                                 f"{other} {matrices[other].shape}")


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
