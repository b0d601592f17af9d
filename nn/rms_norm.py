"""RMSNorm: each row to root mean square 1, then scaled."""
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn.checks import positive_int
from nn.module import Module, Parameter


class RMSNorm(Module):
    """Normalise over the last axes, without subtracting their mean (Zhang and Sennrich, arXiv:1910.07467).

        y = x / sqrt(mean of x² + eps) * weight

    The mean is taken over the axes of `normalized_shape`, an int or a tuple; weight has that shape and starts as ones.
    eps is the dtype's machine epsilon unless given. x (..., *normalized_shape) -> y, the same shape; a ValueError says
    what does not fit.

    >>> import nn
    >>> nn.RMSNorm(2)(mg.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2, 1.4]])
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float | None = None,
                 elementwise_affine: bool = True, *, device: Any = None, dtype: Any = None):
        super().__init__()
        shape = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        self.normalized_shape = tuple(positive_int("RMSNorm", "normalized_shape", n) for n in shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(mg.ones(*self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
