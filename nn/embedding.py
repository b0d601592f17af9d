"""Embedding: a table of vectors, looked up by ids."""
from typing import Any, Self

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import positive_int, row_of_padding
from nn.module import Module, Parameter


class Embedding(Module):
    """Look up rows of a table by integer ids.

        y[..., t] = weight[ids[..., t]] [+ positions[t]]

    weight (num_embeddings, embedding_dim), from N(0, 1); ids (...) -> y (..., embedding_dim). A table of positions
    (P, embedding_dim), P at least T, is added in the same pass. An IndexError names an id out of range.

    Row padding_idx is for ids that only pad short sequences: it starts as zeros and gets no gradient, so it stays zero,
    under weight decay too.

    >>> Embedding(10, 4)(mg.tensor([[1, 2, 1]])).shape
    (1, 3, 4)
    >>> Embedding(10, 2, padding_idx=0)(mg.tensor([0])).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, *,
                 device: Any = None, dtype: Any = None):
        super().__init__()
        self.num_embeddings: int = positive_int("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim: int = positive_int("Embedding", "embedding_dim", embedding_dim)
        self.padding_idx: int | None = (
            None if padding_idx is None else row_of_padding("Embedding", padding_idx, num_embeddings))
        self.weight: Parameter = Parameter(mg.zeros(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """A layer whose weight (num_embeddings, embedding_dim) is given, and not trained unless freeze is False."""
        layer = init.skip_init(cls, *embeddings.shape, padding_idx)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return F.embedding(ids, self.weight, self.padding_idx, positions=positions)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
