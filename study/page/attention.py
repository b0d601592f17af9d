"""One head of attention as plain steps in float64, which a trace records one by one:

    q, k, v       = x @ w_q, x @ w_k, x @ w_v      where it starts from x
    scores        = q @ k^T * scale                (Tq, Tk), + bias if there is one
    masked_scores = scores, and -inf where the mask is False
    weights       = softmax(masked_scores), row by row
    output        = weights @ v                    (Tq, Dv), and @ w_o where it starts from x
    loss          = sum(output * upstream)         so that the gradient at output is upstream
"""
import dataclasses
import math

import numpy as np

import minigrad as mg
from minigrad import Tensor

FROM_Q_K_V = "q", "k", "v"
FROM_X = "x", "w_q", "w_k", "w_v", "w_o"


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs of a computation by their names, and the upstream gradient of its output."""

    inputs: dict[str, np.ndarray]
    upstream: np.ndarray
    causal: bool = True

    @property
    def tokens(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return len(self.upstream), len(self.inputs.get("k", self.upstream))

    @property
    def mask(self) -> np.ndarray:
        """(Tq, Tk), True where a query attends to a key."""
        return np.tri(*self.tokens, dtype=bool) if self.causal else np.ones(self.tokens, dtype=bool)

    def tensors(self) -> dict[str, Tensor]:
        """The inputs as named Tensors in float64 that require gradients."""
        found = {name: mg.tensor(array, dtype=mg.float64, requires_grad=True) for name, array in self.inputs.items()}
        for name, tensor in found.items():
            tensor.name = name
        return found


@dataclasses.dataclass(frozen=True)
class Head(Inputs):
    """The inputs of a head, FROM_Q_K_V or FROM_X, and the upstream gradient of its output.

    q (Tq, D), k (Tk, D), v (Tk, Dv), upstream (Tq, Dv); or x (T, C), w_q, w_k (C, D), w_v (C, Dv), w_o (Dv, C') and
    upstream (T, C'). `bias` (Tq, Tk) is added to the scores.
    """

    scale: float | None = None  # of q @ k^T; None: 1 / sqrt(D)
    bias: np.ndarray | None = None
    labels: tuple[str, ...] = ()  # of the tokens

    @property
    def starts_from_x(self) -> bool:
        return "x" in self.inputs

    @property
    def factor(self) -> float:
        """The scale as a number."""
        size = self.inputs["w_k" if self.starts_from_x else "k"].shape[1]
        return 1 / math.sqrt(size) if self.scale is None else self.scale


def attention(head: Head, inputs: dict[str, Tensor]) -> Tensor:
    """The loss of a head with these Tensors as its inputs.

    >>> attention(DEFAULT, DEFAULT.tensors()).item()
    3.0364409...
    """
    if head.starts_from_x:
        x, w_q, w_k, w_v, w_o = (inputs[name] for name in FROM_X)
        q = x @ w_q
        k = x @ w_k
        v = x @ w_v
    else:
        q, k, v = (inputs[name] for name in FROM_Q_K_V)
    k_transposed = k.mT
    products = q @ k_transposed
    if head.bias is None:
        scores = products * head.factor
    else:
        bias = mg.tensor(head.bias, dtype=mg.float64)
        scaled_products = products * head.factor
        scores = scaled_products + bias
    masked_scores = mg.where(mg.tensor(head.mask), scores, -math.inf)
    weights = masked_scores.softmax(-1)
    if head.starts_from_x:
        attended = weights @ v
        output = attended @ w_o
    else:
        output = weights @ v
    upstream = mg.tensor(head.upstream, dtype=mg.float64)
    read_out = output * upstream
    loss = read_out.sum()
    return loss


DEFAULT = Head(  # the mask hides the largest scores of tokens 0 and 1
    {"q": np.array([[1.0, 0.5], [-0.5, 1.5], [2.0, -1.0], [0.5, 1.0]]),
     "k": np.array([[1.0, -0.5], [0.5, 1.0], [-1.0, 1.5], [1.5, 0.5]]),
     "v": np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [2.0, -1.0]])},
    upstream=np.array([[0.5, 0.0], [-0.5, 1.0], [1.0, 0.5], [1.0, -1.0]]),
)
