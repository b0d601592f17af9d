"""LayerNorm: each row to mean 0 and variance 1, then scaled and shifted."""
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import one_of, positive_int
from nn.module import Module, Parameter


class Norm(Module):
    """Base of the norms over the last axes: their shape, and a weight of that shape."""

    def __init__(self, normalized_shape: int | tuple[int, ...], elementwise_affine: bool, device: Any, dtype: Any):
        super().__init__()
        shape = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        self.normalized_shape: tuple[int, ...] = tuple(
            positive_int(type(self).__name__, "normalized_shape", n) for n in shape)
        self.elementwise_affine = elementwise_affine
        self.weight: Parameter | None = None
        if elementwise_affine:
            self.weight = Parameter(mg.ones(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weight to ones, and the bias to zeros."""
        for name, parameter in self.named_parameters():
            init.constant_(parameter, float(name == "weight"))

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(Norm):
    """Normalise over the last axes.

        y = (x - mean) / sqrt(variance + eps) * weight + bias

    Mean and variance (divided by n) are taken over the axes of `normalized_shape`, an int or a tuple; weight and bias
    have that shape, and start as ones and zeros. x (..., *normalized_shape) -> y, the same shape.

    Texts differ in the denominator, `eps_at`: "inside" is the one above, "outside" sqrt(variance) + eps, "double_root"
    sqrt(sqrt(variance)) + eps, a misprint worth studying. `unbiased` divides the variance by n - 1. With eps = 0 a
    constant row becomes NaN. Only the default denominator has a kernel.

    >>> LayerNorm(2)(mg.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.,  1.]])
    """

    def __init__(self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5,
                 elementwise_affine: bool = True, bias: bool = True, *, eps_at: str = "inside", unbiased: bool = False,
                 device: Any = None, dtype: Any = None):
        super().__init__(normalized_shape, elementwise_affine, device, dtype)
        self.eps = eps
        self.eps_at: str = one_of("LayerNorm", "eps_at", eps_at, F.DENOMINATORS)
        self.unbiased = unbiased
        self.bias: Parameter | None = None
        if elementwise_affine and bias:
            self.bias = Parameter(mg.zeros(*self.normalized_shape, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps,
                            eps_at=self.eps_at, unbiased=self.unbiased)
