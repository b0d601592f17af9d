"""Activations as modules, for a Sequential: each is a function of `nn.functional`, and has its docstring.

>>> import nn
>>> nn.Sequential(nn.LeakyReLU(0.1), nn.Softmax(dim=0))
Sequential(
  (0): LeakyReLU(negative_slope=0.1)
  (1): Softmax(dim=0)
)
"""
from minigrad import Tensor
from nn import functional as F
from nn.function_module import FunctionModule
from nn.module import Module


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(FunctionModule, function=F.relu): ...
class SiLU(FunctionModule, function=F.silu): ...
class Mish(FunctionModule, function=F.mish): ...
class SELU(FunctionModule, function=F.selu): ...
class ReLU6(FunctionModule, function=F.relu6): ...
class Hardsigmoid(FunctionModule, function=F.hardsigmoid): ...
class Hardswish(FunctionModule, function=F.hardswish): ...
class Tanh(FunctionModule, function=F.tanh): ...
class Tanhshrink(FunctionModule, function=F.tanhshrink): ...
class Softsign(FunctionModule, function=F.softsign): ...
class Sigmoid(FunctionModule, function=F.sigmoid): ...
class LogSigmoid(FunctionModule, function=F.logsigmoid): ...


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__(negative_slope=negative_slope)


class GELU(FunctionModule, function=F.gelu):
    def __init__(self, approximate: str = "none"):
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        super().__init__(approximate=approximate)


class ELU(FunctionModule, function=F.elu):
    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(alpha=alpha)


class CELU(FunctionModule, function=F.celu):
    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(alpha=alpha)


class Hardtanh(FunctionModule, function=F.hardtanh):
    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__(min_val=min_val, max_val=max_val)


class Softplus(FunctionModule, function=F.softplus):
    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__(beta=beta, threshold=threshold)


class Softmax(FunctionModule, function=F.softmax):
    def __init__(self, dim: int):
        super().__init__(dim=dim)


class Softmin(FunctionModule, function=F.softmin):
    def __init__(self, dim: int):
        super().__init__(dim=dim)


class LogSoftmax(FunctionModule, function=F.log_softmax):
    def __init__(self, dim: int):
        super().__init__(dim=dim)
