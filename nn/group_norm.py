"""GroupNorm: each group of an example's channels to mean 0 and variance 1, then each channel scaled and shifted."""
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import positive_int
from nn.module import Module, Parameter


class GroupNorm(Module):
    """Normalise each of `num_groups` groups of channels (Wu and He, arXiv:1803.08494).

        y = (x - mean) / sqrt(variance + eps) * weight + bias

    Mean and variance (divided by n) are taken over a group's channels and all axes after them. Weight and bias, one number
    per channel, start as ones and zeros. x (B, num_channels, ...) -> y, the same shape.

    >>> GroupNorm(2, 4)(mg.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.,  1., -1.,  1.]])
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True):
        super().__init__()
        self.num_groups: int = positive_int("GroupNorm", "num_groups", num_groups)
        self.num_channels: int = positive_int("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels must be divisible by num_groups, got {num_channels} and "
                             f"{num_groups}")
        self.eps = eps
        self.affine = affine
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None
        if affine:
            self.weight = Parameter(mg.ones(num_channels, device=device, dtype=dtype))
        if affine and bias:
            self.bias = Parameter(mg.zeros(num_channels, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weight to ones, and the bias to zeros."""
        for name, parameter in self.named_parameters():
            init.constant_(parameter, float(name == "weight"))

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
