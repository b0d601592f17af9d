"""Embedding: a table of vectors, looked up by integer ids."""
import minigrad as mg
from minigrad.tensor import Tensor
from nn import functional as F
from nn import init
from nn.checks import positive_int
from nn.module import Module, Parameter


class Embedding(Module):
    """The rows of a table for integer ids.

        y[..., t] = weight[ids[..., t]] [+ positions[t]]

    weight (num_embeddings, embedding_dim), from N(0, 1); ids (...) -> y (..., embedding_dim). A table of positions
    (P, embedding_dim) may be added in the same pass; there are at most P ids in a row then. An IndexError names an id
    outside of 0 .. num_embeddings - 1.

    >>> import nn
    >>> nn.Embedding(10, 4)(mg.tensor([[1, 2, 1]])).shape
    (1, 3, 4)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int):
        super().__init__()
        self.num_embeddings = positive_int("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim = positive_int("Embedding", "embedding_dim", embedding_dim)
        self.weight = Parameter(mg.zeros(num_embeddings, embedding_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return F.embedding(ids, self.weight, positions)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
