"""The lecture notes' forms of attention: one layer with a switch for each choice that they discuss.

    q, k, v = x, x, x                     each projected or not        query_key=, value=
    scores  = q @ kᵀ * scale + bias       (H, Tq, Tk)                  scale=, positions=
    weights = softmax(scores)             without the future           causal=
    y       = projection of weights @ v   of all heads                 output_projection=

`nn.MultiHeadAttention` is the form that transformers use, and faster.
"""
import math
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from nn import Linear, Module, Parameter, init
from nn import functional as F
from nn.position import rotate


class Attention(Module):
    """Attention of x (B, Tq, D) to itself, or to a memory (B, Tk, memory_width), with H heads; B may be left out.

    - query_key: what makes queries and keys. "none": the tokens themselves; "shared": one projection to key_size
      features per head, by default width / heads, so that scores are symmetric; "separate": one for each.
    - value: True projects values to value_size features per head, by default width / heads; False takes the tokens
      themselves.
    - output_projection: "concat": one matrix for the concatenated heads; "sum": a matrix for each head, and the sum, which
      is the same function; "none": the concatenated heads as they are.
    - scale: what scores are divided by: "none", "d_k" sqrt(key_size), "d_model" sqrt(width), or a number to multiply by.
    - causal: False; "mask" sets the scores of the future to -inf; "renormalise" sets the weights of the future to zero and
      divides by the sum of the rest, which is the same function.
    - positions: "none"; "rotary" rotates queries and keys; "relative" adds a learned number for each head and t - s,
      constant beyond max_distance.
    - residual: True adds x to the result.
    - layout: tokens are the "rows" of x (..., T, D), or the "columns" of x (..., D, T), with weights (..., Tk, Tq).

    >>> x = mg.randn(5, 8)
    >>> plain = Attention(8, query_key="none", value=False, output_projection="none", scale="none")
    >>> bool((plain(x) - (x @ x.T).softmax(-1) @ x).abs().max() < 1e-5), sum(p.numel() for p in plain.parameters())
    (True, 0)
    """

    def __init__(self, width: int, heads: int = 1, *, query_key: str = "separate", value: bool = True,
                 output_projection: str = "concat", scale: str | float = "d_k", causal: bool | str = False,
                 key_size: int | None = None, value_size: int | None = None, memory_width: int | None = None,
                 positions: str = "none", max_distance: int = 32, residual: bool = False, layout: str = "rows",
                 bias: bool = False):
        super().__init__()
        self.heads = heads
        self.output_projection = output_projection
        self.causal = causal
        self.positions = positions
        self.max_distance = max_distance
        self.residual = residual
        self.layout = layout
        memory_width = memory_width or width
        self.key_size: int = width if query_key == "none" else key_size or width // heads
        self.value_size: int = value_size or width // heads if value else memory_width
        self.factor: float = self._factor(scale, width)
        self.query: Linear | Any = Linear(width, heads * self.key_size, bias) if query_key != "none" else None
        self.key: Linear | Any = Linear(memory_width, heads * self.key_size, bias) if query_key == "separate" else None
        self.value: Linear | Any = Linear(memory_width, heads * self.value_size, bias) if value else None
        if output_projection == "concat":
            self.out: Linear = Linear(heads * self.value_size, width, bias)
        elif output_projection == "sum":
            self.out_weights: Parameter = Parameter(mg.zeros(heads, width, self.value_size))
            bound = 1 / math.sqrt(heads * self.value_size)
            init.uniform_(self.out_weights, -bound, bound)
        if positions == "relative":
            self.relative_bias: Parameter = Parameter(mg.zeros(heads, 2 * max_distance + 1))

    def _factor(self, scale: str | float, width: int) -> float:
        named = {"none": 1.0, "d_k": 1 / math.sqrt(self.key_size), "d_model": 1 / math.sqrt(width)}
        return named[scale] if isinstance(scale, str) else float(scale)

    def forward(self, x: Tensor, memory: Tensor | None = None, need_weights: bool = False) -> Tensor | Any:
        """y (B, Tq, D), or (y, weights (B, H, Tq, Tk)), from which y is computed; without B if x is unbatched."""
        is_batched = x.ndim == 3

        def rows(x: Tensor) -> Tensor:
            """(B, T, D)"""
            x = x if is_batched else x[None]
            return x.mT if self.layout == "columns" else x

        x = rows(x)
        q, k, v = self.project(x, x if memory is None else rows(memory))
        weights = self.weights(q, k)
        weights = weights.mT if self.layout == "columns" else weights
        shown = weights if is_batched else weights[0]
        weights = shown if is_batched else shown[None]
        y = self._merge((weights.mT if self.layout == "columns" else weights) @ v)
        y = x + y if self.residual else y
        y = y.mT if self.layout == "columns" else y
        y = y if is_batched else y[0]
        return (y, shown) if need_weights else y

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, H, Tq, D_k), k (B, H, Tk, D_k), v (B, H, Tk, D_v); q and k are still to be `rotated`."""
        q = self._split(x, self.query)
        if self.key is None:
            k = q if source is x else self._split(source, self.query)
        else:
            k = self._split(source, self.key)
        return q, k, self._split(source, self.value)

    def _split(self, x: Tensor, projection: Linear | None) -> Tensor:
        """(B, T, D) -> (B, H, T, size), projected; or the tokens themselves for each head."""
        B, T, D = x.shape
        if projection is None:
            return x[:, None].expand(B, self.heads, T, D)
        return projection(x).reshape(B, T, self.heads, -1).transpose(1, 2)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """The weights (B, H, Tq, Tk)."""
        queries, keys = q.shape[2], k.shape[2]
        bias = self.position_bias(queries, keys)[None].to(q.dtype) if self.positions == "relative" else None
        weights = F.attention_weights(self.rotated(q), self.rotated(k), bias, self.causal == "mask", self.factor)
        if self.causal != "renormalise":
            return weights
        weights = weights.tril()
        return weights / weights.sum(-1, keepdim=True)

    def rotated(self, x: Tensor) -> Tensor:
        """Queries or keys (B, H, T, D_k) with rotary positions, or as they are."""
        return rotate(x) if self.positions == "rotary" else x

    def position_bias(self, queries: int, keys: int) -> Tensor:
        """What positions="relative" adds to the scores, (H, Tq, Tk)."""
        distance = np.arange(queries)[:, None] - np.arange(keys)
        return self.relative_bias[:, distance.clip(-self.max_distance, self.max_distance) + self.max_distance]

    def _merge(self, heads: Tensor) -> Tensor:
        """(B, H, T, D_v) -> (B, T, D)"""
        if self.output_projection == "sum":
            return (heads @ self.out_weights.mT).sum(1)
        concatenated = heads.transpose(1, 2).flatten(2)
        return self.out(concatenated) if self.output_projection == "concat" else concatenated
