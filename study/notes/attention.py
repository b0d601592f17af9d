"""The lecture notes' forms of attention: one layer with a switch for each choice that they discuss.

    q, k, v = x, x, x                     each projected or not        query_key=, value=
    weights = softmax(q @ kᵀ * scale)     (H, Tq, Tk)                  scale=, causal=
    y       = projection of weights @ v   of all heads                 output_projection=

`nn.MultiHeadAttention` is the form that transformers use, and faster.
"""
from typing import Any

from minigrad import Tensor
from nn import Linear, Module
from nn import functional as F


class Attention(Module):
    """Attention of x (..., Tq, D) to itself, or to a memory (..., Tk, memory_width), with H heads.

    - query_key: what makes queries and keys. "none": the tokens themselves; "shared": one projection to key_size
      features per head, by default width / heads, so that scores are symmetric; "separate": one for each.
    - value: True projects values to value_size features per head, by default width / heads; False takes the tokens
      themselves.
    - output_projection: True: one matrix for the concatenated heads; False: the concatenated heads as they are.
    - scale: what scores are multiplied by, by default 1 / sqrt(key_size).
    - causal: True sets the scores of the future to -inf.

    >>> import minigrad as mg
    >>> x = mg.randn(5, 8)
    >>> plain = Attention(8, query_key="none", value=False, output_projection=False, scale=1.0)
    >>> bool((plain(x) - (x @ x.T).softmax(-1) @ x).abs().max() < 1e-5), sum(p.numel() for p in plain.parameters())
    (True, 0)
    """

    def __init__(self, width: int, heads: int = 1, *, query_key: str = "separate", value: bool = True,
                 output_projection: bool = True, scale: float | None = None, causal: bool = False,
                 key_size: int | None = None, value_size: int | None = None, memory_width: int | None = None):
        super().__init__()
        self.heads, self.causal = heads, causal
        memory_width = memory_width or width
        self.key_size: int = width if query_key == "none" else key_size or width // heads
        self.value_size: int = value_size or width // heads if value else memory_width
        self.scale: float = self.key_size**-0.5 if scale is None else scale
        keys, values = heads * self.key_size, heads * self.value_size
        self.query: Linear | Any = Linear(width, keys, bias=False) if query_key != "none" else None
        self.key: Linear | Any = Linear(memory_width, keys, bias=False) if query_key == "separate" else self.query
        self.value: Linear | Any = Linear(memory_width, values, bias=False) if value else None
        self.out: Linear | Any = Linear(values, width, bias=False) if output_projection else None

    def forward(self, x: Tensor, memory: Tensor | None = None, need_weights: bool = False) -> Tensor | Any:
        """y (..., Tq, D), or (y, weights (..., H, Tq, Tk)), from which y is computed."""
        q, k, v = self.project(x, x if memory is None else memory)
        weights = F.attention_weights(q, k, None, self.causal, self.scale)
        y = self._merge(weights @ v)
        return (y, weights) if need_weights else y

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (..., H, Tq, D_k), k (..., H, Tk, D_k), v (..., H, Tk, D_v)"""
        return self._split(x, self.query), self._split(source, self.key), self._split(source, self.value)

    def _split(self, x: Tensor, projection: Linear | None) -> Tensor:
        """(..., T, D) -> (..., H, T, size), projected; or the tokens themselves for each head."""
        if projection is None:
            return x.unsqueeze(-3).expand(*x.shape[:-2], self.heads, *x.shape[-2:])
        return projection(x).reshape(*x.shape[:-1], self.heads, -1).transpose(-3, -2)

    def _merge(self, heads: Tensor) -> Tensor:
        """(..., H, T, D_v) -> (..., T, D)"""
        concatenated = heads.transpose(-3, -2).flatten(-2)
        return concatenated if self.out is None else self.out(concatenated)
