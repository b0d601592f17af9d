"""Activations as modules, for a Sequential: each is a function of `nn.functional`, with its options and its docstring.

>>> import nn
>>> nn.Sequential(nn.LeakyReLU(0.1), nn.Softmax(dim=0))
Sequential(
  (0): LeakyReLU(negative_slope=0.1)
  (1): Softmax(dim=0)
)
"""
from dataclasses import KW_ONLY
from typing import Any

from minigrad import Tensor
from nn import functional as F
from nn.function_module import FunctionModule
from nn.module import Module


class Identity(Module):
    """y = x, whatever arguments stand where it takes the place of another layer."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class _InPlace(FunctionModule):
    inplace: bool = False  # for code written for PyTorch: it changes nothing


class ReLU(_InPlace, function=F.relu): """max(x, 0)."""
class SiLU(_InPlace, function=F.silu): """x * sigmoid(x), also called swish."""
class Tanh(FunctionModule, function=F.tanh): """(e^x - e^-x) / (e^x + e^-x)."""
class Sigmoid(FunctionModule, function=F.sigmoid): """1 / (1 + e^-x)."""


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    """x where it is positive, else negative_slope * x. At 0 the gradient is the slope."""

    negative_slope: float = 0.01
    inplace: bool = False


class GELU(FunctionModule, function=F.gelu):
    """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation of it."""

    approximate: str = "none"


class Softplus(FunctionModule, function=F.softplus):
    """log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0


class _AlongAxis(FunctionModule):
    dim: int
    _: KW_ONLY
    dtype: Any = None

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis, function=F.softmax): """e^x / sum of e^x along dim."""
class LogSoftmax(_AlongAxis, function=F.log_softmax): """x - log(sum of e^x along dim)."""
