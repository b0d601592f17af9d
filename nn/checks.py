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
