"""Activations: elementwise functions of the input, x in their formulas, and a table of those that layers know by name.

`inplace` is there for code written for PyTorch, and changes nothing: results have memory of their own.
"""
from collections.abc import Callable

from minigrad import Tensor, ops
from minigrad.extend import apply, floating
from nn.checks import check_same_dtype


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return apply(ops.activations.Silu, floating(input))


def logsigmoid(input: Tensor) -> Tensor:
    """log(1 / (1 + e^-x)), exact also where that fraction underflows."""
    return apply(ops.activations.Logsigmoid, floating(input))


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


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""
    return apply(ops.activations.Softplus, floating(input), beta=float(beta), threshold=float(threshold))
