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
from nn.init import constant_
from nn.module import Module, Parameter


class Identity(Module):
    """y = x, whatever arguments stand where it takes the place of another layer."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class _InPlace(FunctionModule):
    inplace: bool = False  # for code written for PyTorch: it changes nothing


class ReLU(_InPlace, function=F.relu): """max(x, 0)."""
class ReLU6(_InPlace, function=F.relu6): """min(max(x, 0), 6); the gradient at 0 and at 6 is 0."""
class SiLU(_InPlace, function=F.silu): """x * sigmoid(x), also called swish."""
class Mish(_InPlace, function=F.mish): """x * tanh(softplus(x)) (Misra, arXiv:1908.08681)."""
class SELU(_InPlace, function=F.selu):
    """1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 across layers (Klambauer et al., arXiv:1706.02515)."""
class Hardsigmoid(_InPlace, function=F.hardsigmoid): """relu6(x + 3) / 6: a piecewise linear sigmoid."""
class Hardswish(_InPlace, function=F.hardswish): """x * hardsigmoid(x) (Howard et al., arXiv:1905.02244)."""
class Tanh(FunctionModule, function=F.tanh): """(e^x - e^-x) / (e^x + e^-x)."""
class Tanhshrink(FunctionModule, function=F.tanhshrink): """x - tanh(x), within roundings of x, as in PyTorch."""
class Softsign(FunctionModule, function=F.softsign): """x / (1 + |x|)."""
class Sigmoid(FunctionModule, function=F.sigmoid): """1 / (1 + e^-x)."""
class LogSigmoid(FunctionModule, function=F.logsigmoid):
    """log(1 / (1 + e^-x)), exact also where that fraction underflows."""


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    """x where it is positive, else negative_slope * x. At 0 the gradient is the slope."""

    negative_slope: float = 0.01
    inplace: bool = False


class GELU(FunctionModule, function=F.gelu):
    """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation of it."""

    approximate: str = "none"


class GLU(FunctionModule, function=F.glu):
    """a * sigmoid(b), where a and b are the halves of x along dim (Dauphin et al., arXiv:1612.08083)."""

    dim: int = -1


class PReLU(Module):
    """x where it is positive, else weight * x: one learned weight, or one for each position along axis 1.

    >>> import minigrad as mg
    >>> PReLU()(mg.tensor([-2.0, 4.0])).tolist()
    [-0.5, 4.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        super().__init__()
        self.init: float = init
        shape = (positive_int("PReLU", "num_parameters", num_parameters),)
        self.weight: Parameter = Parameter(mg.full(shape, float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weights to their initial value."""
        constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        """x, with the negative elements times the weight."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.weight.numel()}"


class ELU(FunctionModule, function=F.elu):
    """x where it is positive, else alpha (e^x - 1) (Clevert et al., arXiv:1511.07289). At 0 the gradient is alpha."""

    alpha: float = 1.0
    inplace: bool = False


class CELU(FunctionModule, function=F.celu):
    """x where it is positive, else alpha (e^(x / alpha) - 1): the gradient is continuous, 1 at 0 (arXiv:1704.07483)."""

    alpha: float = 1.0
    inplace: bool = False


class Hardtanh(FunctionModule, function=F.hardtanh):
    """x clamped to [min_val, max_val]; the gradient is 0 outside and at both ends. Integers stay integers."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


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
class Softmin(_AlongAxis, function=F.softmin): """softmax(-x, dim): the smallest element gets the largest weight."""
class LogSoftmax(_AlongAxis, function=F.log_softmax): """x - log(sum of e^x along dim)."""
