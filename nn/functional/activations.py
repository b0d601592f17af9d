"""Activations: elementwise functions, and a table of those that layers know by name.

`inplace` is there for code written for PyTorch, and changes nothing: results have memory of their own.
"""
from collections.abc import Callable

import minigrad as mg
from minigrad import Tensor, ops
from minigrad.extend import apply, floating
from nn.checks import check_same_dtype, positive


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return apply(ops.activations.Silu, floating(x))


def logsigmoid(x: Tensor) -> Tensor:
    """log(1 / (1 + e^-x)), exact also where that fraction underflows."""
    return apply(ops.activations.Logsigmoid, floating(x))


def hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6: a piecewise linear sigmoid."""
    return apply(ops.activations.Hardsigmoid, floating(x))


def hardswish(x: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x) (Howard et al., arXiv:1905.02244)."""
    return apply(ops.activations.Hardswish, floating(x))


def mish(x: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, arXiv:1908.08681)."""
    return apply(ops.activations.Mish, floating(x))


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return apply(ops.activations.Softsign, floating(x))


def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return apply(ops.activations.Tanhshrink, floating(x))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation of it."""
    return x.gelu(approximate)


def gelu_tanh(x: Tensor) -> Tensor:
    """gelu(x, "tanh")"""
    return x.gelu("tanh")


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return x.relu()


def tanh(x: Tensor) -> Tensor:
    """(e^x - e^-x) / (e^x + e^-x)."""
    return x.tanh()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return x.sigmoid()


def swiglu(gate: Tensor, x: Tensor) -> Tensor:
    """silu(gate) * x in one pass, for a gate of the shape of x (Shazeer, arXiv:2002.05202).

    >>> import minigrad as mg
    >>> swiglu(mg.tensor([0.0, 20.0]), mg.tensor([3.0, 3.0]))
    tensor([ 0., 60.])
    """
    gate, x = floating(gate), floating(x)
    check_same_dtype("swiglu", gate, x)
    if gate.shape != x.shape:
        raise ValueError(f"swiglu: expected a gate and x of one shape, got {gate.shape} and {x.shape}")
    return apply(ops.activations.SwiGLU, gate, x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "tanh": tanh, "sigmoid": sigmoid, "silu": silu,
}


def leaky_relu(x: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope * x. At 0 the gradient is the slope."""
    return apply(ops.activations.LeakyRelu, floating(x), slope=float(negative_slope))


def elu(x: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (e^x - 1) (Clevert et al., arXiv:1511.07289). At 0 the gradient is alpha."""
    return apply(ops.activations.Elu, floating(x), alpha=float(alpha))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934


def selu(x: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 across layers (Klambauer et al., arXiv:1706.02515)."""
    return apply(ops.activations.Elu, floating(x), alpha=SELU_ALPHA, scale=SELU_SCALE)


def celu(x: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (e^(x / alpha) - 1): the gradient is continuous, 1 at 0 (arXiv:1704.07483)."""
    positive("celu", "alpha", alpha)
    return apply(ops.activations.Elu, floating(x), alpha=float(alpha), stretch=1 / alpha)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight * x; one weight, or one for each position along axis 1 (arXiv:1502.01852)."""
    if weight.shape not in ((1,), (), x.shape[1:2]):
        raise ValueError(f"prelu: expected one weight, or one per channel of x {x.shape}, got shape {weight.shape}")
    return mg.where(x > 0, x, x * weight.reshape((-1,) + (1,) * max(x.ndim - 2, 0) if weight.numel() > 1 else ()))


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of x along dim (Dauphin et al., arXiv:1612.08083)."""
    if x.shape[dim] % 2:
        raise ValueError(f"glu: halving size must be even, but dimension {dim} of {x.shape} is not")
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""
    return apply(ops.activations.Softplus, floating(x), beta=float(beta), threshold=float(threshold))


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clamped to [min_val, max_val]; the gradient is 0 outside and at both ends. Integers stay integers."""
    if not min_val < max_val:
        raise ValueError(f"hardtanh: min_val must be less than max_val, got {min_val!r} and {max_val!r}")
    if x.dtype.kind == "i":
        return x.clamp(int(min_val), int(max_val))
    return apply(ops.activations.Hardtanh, floating(x), low=float(min_val), high=float(max_val))


def relu6(x: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); the gradient at 0 and at 6 is 0."""
    return hardtanh(x, 0.0, 6.0)
