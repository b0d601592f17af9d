"""Dropout: random zeros while training."""
from minigrad import Tensor
from nn import functional as F
from nn.checks import probability
from nn.module import Module


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p); in eval, do nothing.

    `inplace` is there for code written for PyTorch, and changes nothing: the result has memory of its own.

    >>> import minigrad as mg
    >>> Dropout(0.5).eval()(mg.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        self.p: float = probability("Dropout", "p", p)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
