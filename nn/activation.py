"""Activations as modules, to be put into a Sequential: each is a function of `nn.functional` and its options."""
from minigrad.tensor import Tensor
from nn import functional as F
from nn.function_module import FunctionModule
from nn.module import Module


class Identity(Module):
    """y = x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(FunctionModule):
    """y = max(x, 0)"""

    function = staticmethod(F.relu)


class LeakyReLU(FunctionModule):
    """y = x where it is positive, else negative_slope x"""

    function = staticmethod(F.leaky_relu)

    def __init__(self, negative_slope: float = 0.01):
        super().__init__(negative_slope=negative_slope)


class GELU(FunctionModule):
    """y = x Φ(x), with the normal distribution Φ; `approximate="tanh"` is GPT-2's formula for it."""

    function = staticmethod(F.gelu)

    def __init__(self, approximate: str = "none"):
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        super().__init__(approximate=approximate)


class SiLU(FunctionModule):
    """y = x sigmoid(x), also called swish"""

    function = staticmethod(F.silu)


class Mish(FunctionModule):
    """y = x tanh(softplus(x))"""

    function = staticmethod(F.mish)


class ELU(FunctionModule):
    """y = x where it is positive, else alpha (exp(x) - 1)"""

    function = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0):
        super().__init__(alpha=alpha)


class SELU(FunctionModule):
    """y = 1.0507 ELU(x) with alpha = 1.6733, which keep mean 0 and variance 1"""

    function = staticmethod(F.selu)


class CELU(FunctionModule):
    """y = x where it is positive, else alpha (exp(x / alpha) - 1); alpha is positive"""

    function = staticmethod(F.celu)

    def __init__(self, alpha: float = 1.0):
        super().__init__(alpha=alpha)


class ReLU6(FunctionModule):
    """y = min(max(x, 0), 6)"""

    function = staticmethod(F.relu6)


class Hardtanh(FunctionModule):
    """y = min(max(x, min_val), max_val)"""

    function = staticmethod(F.hardtanh)

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0):
        super().__init__(min_val=min_val, max_val=max_val)


class Hardsigmoid(FunctionModule):
    """y = min(max(x + 3, 0), 6) / 6"""

    function = staticmethod(F.hardsigmoid)


class Hardswish(FunctionModule):
    """y = x min(max(x + 3, 0), 6) / 6"""

    function = staticmethod(F.hardswish)


class Tanh(FunctionModule):
    """y = tanh(x)"""

    function = staticmethod(F.tanh)


class Tanhshrink(FunctionModule):
    """y = x - tanh(x)"""

    function = staticmethod(F.tanhshrink)


class Softsign(FunctionModule):
    """y = x / (1 + |x|)"""

    function = staticmethod(F.softsign)


class Sigmoid(FunctionModule):
    """y = 1 / (1 + exp(-x))"""

    function = staticmethod(F.sigmoid)


class LogSigmoid(FunctionModule):
    """y = -log(1 + exp(-x))"""

    function = staticmethod(F.logsigmoid)


class Softplus(FunctionModule):
    """y = log(1 + exp(beta x)) / beta, and x where beta x > threshold"""

    function = staticmethod(F.softplus)

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__(beta=beta, threshold=threshold)


class Softmax(FunctionModule):
    """y = exp(x) / sum of exp(x) along `dim`"""

    function = staticmethod(F.softmax)

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)


class Softmin(FunctionModule):
    """y = exp(-x) / sum of exp(-x) along `dim`"""

    function = staticmethod(F.softmin)

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)


class LogSoftmax(FunctionModule):
    """y = x - log(sum of exp(x) along `dim`)"""

    function = staticmethod(F.log_softmax)

    def __init__(self, dim: int = -1):
        super().__init__(dim=dim)
