"""RMSNorm: each row to root mean square 1, then scaled."""
from typing import Any

from minigrad import Tensor
from nn import functional as F
from nn.layer_norm import Norm


class RMSNorm(Norm):
    """Normalise over the last axes, without subtracting the mean (Zhang and Sennrich, arXiv:1910.07467).

        y = x / sqrt(mean of x² + eps) * weight

    The mean is taken over the axes of `normalized_shape`, an int or a tuple; weight has that shape and starts as ones.
    eps is the dtype's machine epsilon unless given. x (..., *normalized_shape) -> y, the same shape.

    >>> import minigrad as mg
    >>> RMSNorm(2)(mg.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2, 1.4]])
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float | None = None,
                 elementwise_affine: bool = True, *, device: Any = None, dtype: Any = None):
        super().__init__(normalized_shape, elementwise_affine, device, dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
