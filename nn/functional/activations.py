"""Activations: elementwise functions of the input, x in their formulas, and a table of those that layers know by name.

`inplace` is there for code written for PyTorch, and changes nothing: results have memory of their own.
"""
from collections.abc import Callable

import minigrad as mg
from minigrad import Tensor, ops
from minigrad.extend import apply, check_dim, floating
from nn.checks import check_same_dtype, positive


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return apply(ops.activations.Silu, floating(input))


def logsigmoid(input: Tensor) -> Tensor:
    """log(1 / (1 + e^-x)), exact also where that fraction underflows."""
    return apply(ops.activations.Logsigmoid, floating(input))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6: a piecewise linear sigmoid."""
    return apply(ops.activations.Hardsigmoid, floating(input))


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x) (Howard et al., arXiv:1905.02244)."""
    return apply(ops.activations.Hardswish, floating(input))


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, arXiv:1908.08681)."""
    return apply(ops.activations.Mish, floating(input))


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return apply(ops.activations.Softsign, floating(input))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x), within roundings of x, as in PyTorch."""
    return apply(ops.activations.Tanhshrink, floating(input))


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation of it."""
    return input.gelu(approximate)


def gelu_tanh(input: Tensor) -> Tensor:
    """gelu(x, "tanh")"""
    return input.gelu("tanh")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu()


def tanh(input: Tensor) -> Tensor:
    """(e^x - e^-x) / (e^x + e^-x)."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return input.sigmoid()


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


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope * x. At 0 the gradient is the slope."""
    return apply(ops.activations.LeakyRelu, floating(input), slope=float(negative_slope))


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (e^x - 1) (Clevert et al., arXiv:1511.07289). At 0 the gradient is alpha."""
    return apply(ops.activations.Elu, floating(input), alpha=float(alpha))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 across layers (Klambauer et al., arXiv:1706.02515)."""
    return apply(ops.activations.Elu, floating(input), alpha=SELU_ALPHA, scale=SELU_SCALE)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (e^(x / alpha) - 1): the gradient is continuous, 1 at 0 (arXiv:1704.07483)."""
    positive("celu", "alpha", alpha)
    return apply(ops.activations.Elu, floating(input), alpha=float(alpha), stretch=1 / alpha)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight * x; one weight, or one for each position along axis 1 (arXiv:1502.01852)."""
    if weight.shape not in ((1,), (), input.shape[1:2]):
        raise ValueError(f"prelu: expected one weight, or one per channel of the input {input.shape}, got shape "
                         f"{weight.shape}")
    slope = weight.reshape((-1,) + (1,) * max(input.ndim - 2, 0) if weight.numel() > 1 else ())
    return mg.where(input > 0, input, input * slope)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of x along dim (Dauphin et al., arXiv:1612.08083)."""
    if input.ndim == 0 or input.shape[check_dim("glu", input, dim)] % 2:
        raise ValueError(f"glu: halving size must be even, but dimension {dim} of {input.shape} is not")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""
    return apply(ops.activations.Softplus, floating(input), beta=float(beta), threshold=float(threshold))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clamped to [min_val, max_val]; the gradient is 0 outside and at both ends. Integers stay integers."""
    if not min_val < max_val:
        raise ValueError(f"hardtanh: min_val must be less than max_val, got {min_val!r} and {max_val!r}")
    if input.dtype.kind == "i":
        return input.clamp(int(min_val), int(max_val))
    return apply(ops.activations.Hardtanh, floating(input), low=float(min_val), high=float(max_val))


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); the gradient at 0 and at 6 is 0."""
    return hardtanh(input, 0.0, 6.0)
