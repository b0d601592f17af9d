"""Initialisation: each function fills a Tensor in place, with the generator of `mg.manual_seed` or its own, and returns it.

Inside `skip_init` they leave it as it is.

For a weight (out, in): fan_in = in and fan_out = out; further axes multiply both.
"""
import contextvars
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from minigrad import Generator, Tensor
from minigrad.random import generator as checked


_Made = TypeVar("_Made")

_is_skipped = contextvars.ContextVar("is_skipped", default=False)
_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which to scale the weights before this function; `param` is leaky_relu's negative slope.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"calculate_gain: nonlinearity must be leaky_relu or one of {', '.join(_GAINS)}, "
                         f"got {nonlinearity!r}")
    return _GAINS[nonlinearity]


def skip_init(module_cls: Callable[..., _Made], *args: object, **kwargs: object) -> _Made:
    """module_cls(*args, **kwargs) without drawing initial parameters, for a module whose parameters are loaded next: until
    then, large ones take no memory.

    >>> from nn import Linear
    >>> skip_init(Linear, 2, 3).weight.any().item()
    False
    """
    token = _is_skipped.set(True)
    try:
        return module_cls(*args, **kwargs)
    finally:
        _is_skipped.reset(token)


def _fill(tensor: Tensor, values: Callable[[], float | np.ndarray]) -> Tensor:
    if not _is_skipped.get():
        tensor.data[...] = values()
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """The number `val` everywhere."""
    return _fill(tensor, lambda: val)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return _fill(tensor, lambda: 0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return _fill(tensor, lambda: 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform between a and b."""
    return _fill(tensor, lambda: checked(generator).uniform(a, b, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with this mean and standard deviation."""
    return _fill(tensor, lambda: checked(generator).normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator | None = None
) -> Tensor:
    """Normal with this mean and standard deviation; values outside of [a, b] are drawn again."""
    below_a, below_b = (0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))) for x in (a, b))
    if not below_b - below_a > 0.01:
        raise ValueError(f"trunc_normal_: [{a}, {b}] holds less than 1% of a normal distribution with mean {mean} and "
                         f"standard deviation {std}")
    normal = checked(generator).normal
    values = normal(mean, std, tensor.shape)
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = normal(mean, std, np.count_nonzero(outside))
        outside = (values < a) | (values > b)
    return _fill(tensor, lambda: values)


def _fans(tensor: Tensor) -> dict[str, int]:
    if tensor.ndim < 2:
        raise ValueError(f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, "
                         f"got shape {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return {"fan_in": tensor.shape[1] * receptive, "fan_out": tensor.shape[0] * receptive}


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2 / sum(_fans(tensor).values()))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ±gain sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(3) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance gain² 2 / (fan_in + fan_out)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """gain times a random matrix with orthonormal rows or columns, whichever are fewer; axes after the first are one.

    It is uniformly distributed among these (Saxe et al., arXiv:1312.6120).
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: expected at least 2 dimensions, got shape {tensor.shape}")
    rows, columns = len(tensor), tensor.numel() // max(len(tensor), 1)
    q, r = np.linalg.qr(checked(generator).normal(size=(max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return _fill(tensor, lambda: gain * (q if rows >= columns else q.T).reshape(tensor.shape))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fans = _fans(tensor)
    if mode not in fans:
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[mode])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:
    """Uniform in ±gain sqrt(3 / fan); `a` is leaky_relu's negative slope."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:
    """Normal with variance gain² / fan; `a` is leaky_relu's negative slope."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)
