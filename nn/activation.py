"""Activations as modules, for a Sequential: each is a function of `nn.functional` with its options."""
from minigrad import Tensor
from nn import functional as F
from nn.function_module import FunctionModule
from nn.module import Module


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(FunctionModule, function=F.relu):
    """y = max(x, 0)"""


class LeakyReLU(FunctionModule, function=F.leaky_relu):
    """y = x where it is positive, else negative_slope x"""

    def __init__(self, negative_slope: float = 0.01):
        super().__init__(negative_slope=negative_slope)


class GELU(FunctionModule, function=F.gelu):
    """y = x Φ(x), with the normal distribution Φ; `approximate="tanh"` is GPT-2's formula for it."""

    def __init__(self, approximate: str = "none"):
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        super().__init__(approximate=approximate)


class SiLU(FunctionModule, function=F.silu):
    """y = x sigmoid(x), also called swish"""


class Mish(FunctionModule, function=F.mish):
    """y = x tanh(softplus(x))"""


class ELU(FunctionModule, function=F.elu):
    """y = x where it is positive, else alpha (exp(x) - 1)"""

    def __init__(self, alpha: float = 1.0):
        super().__init__(alpha=alpha)


class SELU(FunctionModule, function=F.selu):
    """y = 1.0507 ELU(x) with alpha = 1.6733, which keeps mean 0 and variance 1"""


class CELU(FunctionModule, function=F.celu):
    """y = x where it is positive, else alpha (exp(x / alpha) - 1); alpha is positive"""

    def __init__(self, alpha: float = 1.0):
        super().__init__(alpha=alpha)


class ReLU6(FunctionModule, function=F.relu6):
    """y = min(max(x, 0), 6)"""


class Hardtanh(FunctionModule, function=F.hardtanh):
    """y = min(max(x, min_val), max_val)"""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0):
        super().__init__(min_val=min_val, max_val=max_val)


class Hardsigmoid(FunctionModule, function=F.hardsigmoid):
    """y = min(max(x + 3, 0), 6) / 6"""


class Hardswish(FunctionModule, function=F.hardswish):
    """y = x min(max(x + 3, 0), 6) / 6"""


class Tanh(FunctionModule, function=F.tanh):
    """y = tanh(x)"""


class Tanhshrink(FunctionModule, function=F.tanhshrink):
    """y = x - tanh(x)"""


class Softsign(FunctionModule, function=F.softsign):
    """y = x / (1 + |x|)"""


class Sigmoid(FunctionModule, function=F.sigmoid):
    """y = 1 / (1 + exp(-x))"""


class LogSigmoid(FunctionModule, function=F.logsigmoid):
    """y = -log(1 + exp(-x))"""


class Softplus(FunctionModule, function=F.softplus):
    """y = log(1 + exp(beta x)) / beta, and x where beta x > threshold"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__(beta=beta, threshold=threshold)


class Softmax(FunctionModule, function=F.softmax):
    """y = exp(x) / sum of exp(x) along `dim`"""

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)


class Softmin(FunctionModule, function=F.softmin):
    """y = exp(-x) / sum of exp(-x) along `dim`"""

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)


class LogSoftmax(FunctionModule, function=F.log_softmax):
    """y = x - log(sum of exp(x) along `dim`)"""

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)
