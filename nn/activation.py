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

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn.checks import positive_int
from nn.function_module import FunctionModule
from nn.module import Module, Parameter


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class _InPlace(FunctionModule):
    inplace: bool = False  # for code written for PyTorch: it changes nothing


class ReLU(_InPlace, function=F.relu): ...
class ReLU6(_InPlace, function=F.relu6): ...
class SiLU(_InPlace, function=F.silu): ...
class Mish(_InPlace, function=F.mish): ...
class SELU(_InPlace, function=F.selu): ...
class Hardsigmoid(_InPlace, function=F.hardsigmoid): ...
class Hardswish(_InPlace, function=F.hardswish): ...
class Tanh(FunctionModule, function=F.tanh): ...
class Tanhshrink(FunctionModule, function=F.tanhshrink): ...
class Softsign(FunctionModule, function=F.softsign): ...
class Sigmoid(FunctionModule, function=F.sigmoid): ...
class LogSigmoid(FunctionModule, function=F.logsigmoid): ...


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    negative_slope: float = 0.01
    inplace: bool = False


class GELU(FunctionModule, function=F.gelu):
    approximate: str = "none"


class GLU(FunctionModule, function=F.glu):
    dim: int = -1


class PReLU(Module):
    """x where it is positive, else weight * x: one learned weight, or one for each position along axis 1.

    >>> import minigrad as mg
    >>> PReLU()(mg.tensor([-2.0, 4.0])).tolist()
    [-0.5, 4.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25):
        super().__init__()
        self.weight: Parameter = Parameter(mg.full((positive_int("PReLU", "num_parameters", num_parameters),), init))

    def forward(self, x: Tensor) -> Tensor:
        """x, with the negative elements times the weight."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.weight.numel()}"


class ELU(FunctionModule, function=F.elu):
    alpha: float = 1.0
    inplace: bool = False


class CELU(FunctionModule, function=F.celu):
    alpha: float = 1.0
    inplace: bool = False


class Hardtanh(FunctionModule, function=F.hardtanh):
    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


class Softplus(FunctionModule, function=F.softplus):
    beta: float = 1.0
    threshold: float = 20.0


class _AlongAxis(FunctionModule):
    dim: int
    _: KW_ONLY
    dtype: Any = None

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis, function=F.softmax): ...
class Softmin(_AlongAxis, function=F.softmin): ...
class LogSoftmax(_AlongAxis, function=F.log_softmax): ...
