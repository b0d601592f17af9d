"""Checks of arguments that several layers share."""
import operator

import numpy as np

from minigrad import Tensor
from minigrad.extend import compute


def positive_int(layer: str, name: str, value: int) -> int:
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
    raise ValueError(f"{layer}: {name} must be a positive integer, got {value!r}")


def probability(layer: str, name: str, value: float) -> float:
    """The value, if it is a number from 0 to 1."""
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{layer}: {name} must be a probability, from 0 to 1, got {value!r}")
    return value


def same_dtype(name: str, x: Tensor, *others: Tensor | None) -> None:
    """TypeError unless all tensors have the dtype of x."""
    for other in others:
        if other is not None and other.dtype != x.dtype:
            raise TypeError(f"{name}: expected one dtype, got {x.dtype} and {other.dtype}; convert with .to(dtype)")


def padding_mask(layer: str, mask: Tensor, shape: tuple[int, int]) -> None:
    """ValueError for a key_padding_mask that does not fit, or that hides all keys of a sequence."""
    if mask.shape != shape or mask.dtype != bool:
        raise ValueError(f"{layer}: key_padding_mask must be boolean, of shape {shape}, got {mask.dtype} {mask.shape}")
    compute(_some_key_is_seen, mask, layer)


def _some_key_is_seen(mask: np.ndarray, layer: str) -> np.ndarray:
    hidden = mask.all(axis=1)
    if hidden.any():
        raise ValueError(f"{layer}: key_padding_mask hides all keys of sequence {hidden.argmax()}, so that its queries "
                         "have nothing to attend to; leave such sequences out, or let one key be seen")
    return hidden


def causal_mask(layer: str, mask: Tensor | None) -> None:
    """ValueError unless the mask (..., Tq, Tk) is the causal one: True, or -inf, where a key comes after the query."""
    if mask is None:
        raise ValueError(f"{layer}: Need attn_mask if specifying the is_causal hint: give the causal mask, too, as by "
                         "mg.ones(T, T, dtype=mg.bool).triu(1)")
    compute(_is_causal, mask, layer)


def _is_causal(mask: np.ndarray, layer: str) -> np.ndarray:
    future = ~np.tri(*mask.shape[-2:], dtype=bool)
    if (mask != (future if mask.dtype == bool else np.where(future, -np.inf, 0.0))).any():
        raise ValueError(f"{layer}: is_causal=True says that the mask is the causal one, and it is another; leave "
                         "is_causal out")
    return future
