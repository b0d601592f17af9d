"""Checks of arguments that several layers share."""
import numbers
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from minigrad import Tensor
from minigrad.extend import compute

T = TypeVar("T")


def positive_int(owner: str, name: str, value: int) -> int:
    """The value as an int; ValueError if it is not a positive integer.

    >>> positive_int("Linear", "in_features", 0)
    Traceback (most recent call last):
    ...
    ValueError: Linear: in_features must be a positive integer, got 0
    """
    try:
        if operator.index(value) > 0:
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{owner}: {name} must be a positive integer, got {value!r}")


def positive(owner: str, name: str, value: float) -> float:
    """The value, if it is a positive number, or inf."""
    if not value > 0:
        raise ValueError(f"{owner}: {name} must be positive, got {value!r}")
    return value


def probability(owner: str, name: str, value: float) -> float:
    """The value as a float, if it is a number from 0 to 1."""
    if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        raise ValueError(f"{owner}: {name} must be a probability, from 0 to 1, got {value!r}")
    return float(value)


def one_of(owner: str, name: str, value: T, choices: Iterable[Any]) -> T:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(map(str, choices))}, got {value!r}")
    return value


def row_of_padding(name: str, padding_idx: int, rows: int) -> int:
    """padding_idx counted from the front; ValueError if there is no such row."""
    if not isinstance(padding_idx, (int, np.integer)) or not -rows <= padding_idx < rows:
        raise ValueError(f"{name}: padding_idx must be None or an integer from {-rows} to {rows - 1}, got "
                         f"{padding_idx!r:.100}")
    return int(padding_idx) % rows


def class_ids(name: str, ids: Tensor | np.ndarray, classes: int, ignore_index: int | None = None) -> np.ndarray:
    """The ids as an array, checked to be 0 to classes - 1 (or ignore_index): a kernel would read past the table."""
    return compute(_checked_ids, ids, name, classes, ignore_index)


def _checked_ids(ids: np.ndarray, name: str, classes: int, ignore_index: int | None) -> np.ndarray:
    array = np.array(ids)  # a copy, which nobody writes to before backward
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    array = array.astype(np.int64, copy=False)
    if not array.size or array.min() >= 0 and array.max() < classes:
        return array
    bad = (array < 0) | (array >= classes)
    if ignore_index is not None:
        bad &= array != ignore_index
    if bad.any():
        raise IndexError(f"{name}: index {array[bad][0]} is out of range; expected 0 to {classes - 1}")
    return array


def check_same_dtype(owner: str, x: Tensor, *others: Tensor | None) -> None:
    """TypeError unless all tensors have the dtype of x."""
    for other in others:
        if other is not None and other.dtype != x.dtype:
            raise TypeError(f"{owner}: expected one dtype, got {x.dtype} and {other.dtype}; convert with .to(dtype)")


def check_padding_mask(owner: str, mask: Tensor, shape: tuple[int, ...]) -> None:
    """ValueError if a key_padding_mask has another shape or dtype, or hides all keys of a sequence."""
    if mask.shape != shape or mask.dtype != bool:
        raise ValueError(f"{owner}: key_padding_mask must be boolean, of shape {shape}, got {mask.dtype} {mask.shape}")
    compute(_hides_all_keys, mask, owner)


def _hides_all_keys(mask: np.ndarray, owner: str) -> np.ndarray:
    hidden: Any = mask.all(axis=1)
    if hidden.any():
        raise ValueError(f"{owner}: key_padding_mask hides all keys of sequence {hidden.argmax()}, so its queries have "
                         "nothing to attend to; leave out such sequences, or unmask a key")
    return hidden


def check_causal_mask(owner: str, mask: Tensor | None) -> None:
    """ValueError unless the mask (..., Tq, Tk) is causal: True, or -inf, exactly where a key comes after the query."""
    if mask is None:
        raise ValueError(f"{owner}: Need attn_mask if specifying the is_causal hint: give the causal mask, too, such as "
                         "mg.ones(T, T, dtype=mg.bool).triu(1)")
    compute(_is_causal, mask, owner)


def _is_causal(mask: np.ndarray, owner: str) -> np.ndarray:
    future = ~np.tri(*mask.shape[-2:], dtype=np.bool_)
    if (mask != (future if mask.dtype == bool else np.where(future, -np.inf, 0.0))).any():
        raise ValueError(f"{owner}: is_causal=True promises the causal mask, but attn_mask is another; leave is_causal out")
    return future
