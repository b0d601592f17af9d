"""Linear: y = x Wᵀ + b, and perhaps an activation."""
import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import one_of, positive_int
from nn.module import Module, Parameter


class Linear(Module):
    """Multiply the last axis by a matrix, add a bias, and perhaps apply an activation.

        y = activation(x Wᵀ + b)

    weight (out_features, in_features), bias (out_features,); x (..., in_features) -> y (..., out_features).
    Both start uniform in ±1/sqrt(in_features). The activation is None or one of F.ACTIVATIONS, such as "relu".

    >>> layer = Linear(4, 3)
    >>> layer.weight.shape, layer(mg.ones(2, 4)).shape
    ((3, 4), (2, 3))
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
                 activation: str | None = None):
        super().__init__()
        self.in_features: int = positive_int("Linear", "in_features", in_features)
        self.out_features: int = positive_int("Linear", "out_features", out_features)
        self.activation: str | None = one_of("Linear", "activation", activation, (None, *F.ACTIVATIONS))
        self.weight: Parameter = Parameter(mg.zeros(out_features, in_features, device=device, dtype=dtype))
        self.bias: Parameter | None = Parameter(mg.zeros(out_features, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        activation = "" if self.activation is None else f", activation={self.activation!r}"
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}{activation}"
