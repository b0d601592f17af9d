"""Clipping gradients by their global norm."""
import math
from collections.abc import Iterable

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import norm, note_write
from nn.checks import positive


def clip_coefficient(total_norm: float, max_norm: float) -> float:
    """The factor for gradients: at most 1, and NaN if the norm is NaN."""
    coefficient = max_norm / (total_norm + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scale all gradients in place, so that their norm, as one long vector, is at most `max_norm`; return the norm before.

        norm = (sum of all |g|^norm_type)^(1 / norm_type),    max |g| for inf
        g    = g min(1, max_norm / (norm + 1e-6))

    If the norm is NaN or inf, all gradients become useless: check it, or choose error_if_nonfinite for a RuntimeError that
    leaves them alone. `foreach` is there for code written for PyTorch, and changes nothing.

    >>> import minigrad as mg
    >>> import nn
    >>> p = nn.Parameter(mg.zeros(2))
    >>> p.grad = mg.tensor([3.0, 4.0])
    >>> clip_grad_norm_([p], max_norm=1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6, 0.8])
    """
    positive("clip_grad_norm_", "max_norm", max_norm)
    norm_type = positive("clip_grad_norm_", "norm_type", float(norm_type))
    gradients = _gradients(parameters)
    total_norm = norm(gradients) if norm_type == 2 else _p_norm(gradients, norm_type)
    if error_if_nonfinite and not math.isfinite(total_norm):
        raise RuntimeError(f"clip_grad_norm_: the total norm of order {norm_type} is {total_norm}, non-finite, so "
                           "gradients cannot be clipped; minigrad.detect_anomaly finds the cause, and "
                           "error_if_nonfinite=False ignores it")
    coefficient = clip_coefficient(total_norm, max_norm)
    if coefficient != 1.0:
        with np.errstate(invalid="ignore"):  # inf * 0
            for gradient in gradients:
                gradient *= coefficient
                note_write(gradient)
    return mg.tensor(total_norm, dtype=mg.float64 if any(g.dtype == mg.float64 for g in gradients) else mg.float32)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[np.ndarray]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad.array for parameter in parameters if parameter.grad is not None]


def _p_norm(arrays: list[np.ndarray], p: float) -> float:
    """The p-norm of all elements, in float64. They are divided by the largest first, so that no power overflows."""
    largest = float(np.max([np.abs(array).max(initial=0) for array in arrays], initial=0))  # max() may pass over a NaN
    if p == math.inf or largest == 0 or not math.isfinite(largest):
        return largest
    total = sum(float(((np.abs(array, dtype=np.float64) / largest) ** p).sum()) for array in arrays)
    return largest * total ** (1 / p)
