"""Activations as modules, to be put into a Sequential."""
from minigrad.tensor import Tensor
from nn import functional as F
from nn.module import Module


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    """y = max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


class GELU(Module):
    """y = x Φ(x), with the normal distribution Φ; `approximate="tanh"` is GPT-2's formula for it."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """y = tanh(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class Sigmoid(Module):
    """y = 1 / (1 + exp(-x))"""

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class Softmax(Module):
    """y = exp(x) / sum of exp(x) along `dim`"""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
