"""Additive attention: a small network computes the scores, instead of a dot product."""
import math

from minigrad import Tensor
from nn.checks import check_padding_mask
from nn.linear import Linear
from nn.module import Module


class AdditiveAttention(Module):
    """Additive attention (Bahdanau et al., arXiv:1409.0473) of states s (B, Tq, D) to a memory h (B, Tk, memory_width).

        scores[t, j] = w . tanh(W_s s_t + W_h h_j),    weights = softmax over j,    c_t = sum of weights[t, j] h_j

    W_s s + W_h h is one matrix times [h, s]. The result is (c (B, Tq, memory_width), weights (B, Tq, Tk)).

    >>> import minigrad as mg
    >>> c, weights = AdditiveAttention(4, 6, hidden=5)(mg.randn(2, 3, 4), mg.randn(2, 7, 6))
    >>> c.shape, weights.shape
    ((2, 3, 6), (2, 3, 7))
    """

    def __init__(self, width: int, memory_width: int, hidden: int):
        super().__init__()
        self.state: Linear = Linear(width, hidden)
        self.context: Linear = Linear(memory_width, hidden, bias=False)
        self.score: Linear = Linear(hidden, 1, bias=False)

    def forward(self, s: Tensor, h: Tensor, key_padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if key_padding_mask is not None:
            check_padding_mask("AdditiveAttention", key_padding_mask, h.shape[:2])
        together = self.state(s)[:, :, None] + self.context(h)[:, None]
        scores = self.score(together.tanh()).squeeze(-1)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None], -math.inf)
        weights = scores.softmax(-1)
        return weights @ h, weights
