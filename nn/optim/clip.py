"""Clipping gradients by their global norm."""
from collections.abc import Iterable

import numpy as np

from minigrad.kernels.adamw import norm
from minigrad.tensor import Tensor
from minigrad.writes import note_write


def clip_coefficient(total_norm: float, max_norm: float) -> float:
    """What to multiply gradients by: at most 1; NaN if the norm is NaN."""
    coefficient = max_norm / (total_norm + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients, in place, so that their norm, as of one long vector, is at most `max_norm`.

        norm = sqrt(sum of all g²),    g = g min(1, max_norm / (norm + 1e-6))

    Returns the norm before. It is NaN or inf if a gradient is; then all gradients are spoilt, so look at it first.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.zeros(2))
    >>> p.grad = mg.tensor([3.0, 4.0])
    >>> clip_grad_norm_([p], max_norm=1.0)
    5.0
    >>> p.grad
    tensor([0.6, 0.8])
    """
    if not max_norm > 0:
        raise ValueError(f"clip_grad_norm_: max_norm must be positive, got {max_norm!r}")
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    gradients = [parameter.grad.array for parameter in parameters if parameter.grad is not None]
    total_norm = norm(gradients)
    coefficient = clip_coefficient(total_norm, max_norm)
    if coefficient != 1.0:
        with np.errstate(invalid="ignore"):  # inf * 0
            for gradient in gradients:
                gradient *= coefficient
                note_write(gradient)
    return total_norm
