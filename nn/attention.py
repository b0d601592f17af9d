"""Attention in all its forms: one layer with independent switches.

    q, k, v = x, x, x                     each projected or not        query_key=, value=, key_value_heads=
    scores  = q @ kᵀ * scale + bias       (H, Tq, Tk)                  scale=, positions=
    weights = softmax(scores)             without the future           causal=, window=
    y       = projection of weights @ v   of all heads                 output_projection=

This layer is for comparing the forms; it uses fused attention where it can. `MultiHeadAttention` is faster: the form that
transformers use (query_key="separate", value=True, output_projection="concat"), with PyTorch's parameters.
"""
import math
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import check_padding_mask, one_of, positive_int, probability
from nn.linear import Linear
from nn.module import Module, Parameter
from nn.position import BASE, rotate, rotation

CHOICES: dict[str, tuple[bool | str, ...]] = {
    "query_key": ("none", "shared", "separate"),
    "output_projection": ("none", "concat", "sum"),
    "causal": (False, "mask", "renormalise"),
    "layout": ("rows", "columns"),
    "positions": ("none", "rotary", "relative"),
}


class Attention(Module):
    """Attention of x (B, Tq, D) to itself, or to a memory (B, Tk, memory_width), with H heads.

    - query_key: what makes queries and keys. "none": the tokens themselves; "shared": one projection to key_size
      features per head, by default width / heads, so that scores are symmetric; "separate": one for each.
    - value: True projects values to value_size features per head, by default width / heads; False takes the tokens
      themselves.
    - output_projection: "concat": one matrix for the concatenated heads; "sum": a matrix for each head, and the sum, which
      is the same function; "none": the concatenated heads as they are. With "sum", each head's matrix has full rank if
      value=False, and rank value_size if value=True.
    - scale: what scores are divided by: "none", "d_k" sqrt(key_size), "d_model" sqrt(width), or a number to multiply by.
    - causal: False; "mask" sets the scores of the future to -inf; "renormalise" sets the weights of the future to zero and
      divides by the sum of the rest, which is the same function.
    - positions: "none"; "rotary" rotates queries and keys; "relative" adds a learned number for each head and t - s,
      constant beyond max_distance.
    - residual: True adds x to the result.
    - window: with causal="mask", each token sees only the last `window` tokens, including itself; by default all.
    - key_value_heads: the number of heads of keys and values, each shared by heads / key_value_heads consecutive heads of
      queries (grouped-query attention, Ainslie et al., arXiv:2305.13245); 1 is multi-query attention. By default heads.
    - rotary_base, rotary_scaling: for positions="rotary", see `nn.position.rotary_frequencies`.
    - layout: tokens are the "rows" of x (..., T, D), or the "columns" of x (..., D, T), with weights (..., Tk, Tq).

    The input may be unbatched, (T, D). A ValueError names switches that contradict each other, and the way out.

    >>> x = mg.randn(5, 8)
    >>> plain = Attention(8, query_key="none", value=False, output_projection="none", scale="none")
    >>> bool((plain(x) - (x @ x.T).softmax(-1) @ x).abs().max() < 1e-5), sum(p.numel() for p in plain.parameters())
    (True, 0)
    """

    def __init__(self, width: int, heads: int = 1, *, query_key: str = "separate", value: bool = True,
                 output_projection: str = "concat", scale: str | float = "d_k", causal: bool | str = False,
                 key_size: int | None = None, value_size: int | None = None, memory_width: int | None = None,
                 positions: str = "none", max_distance: int = 32, residual: bool = False,
                 layout: str = "rows", bias: bool = False, dropout: float = 0.0, key_value_heads: int | None = None,
                 rotary_base: float = BASE, rotary_scaling: str = "none", window: int | None = None):
        super().__init__()
        self.query_key = query_key
        self.output_projection = output_projection
        self.causal = causal
        self.layout = layout
        self.positions = positions
        for name, choices in CHOICES.items():
            one_of("Attention", name, getattr(self, name), choices)
        self.width: int = positive_int("Attention", "width", width)
        self.heads: int = positive_int("Attention", "heads", heads)
        self.memory_width: int = width if memory_width is None else memory_width
        self.projects_value = value
        self.max_distance = max_distance
        self.residual = residual
        self.dropout: float = probability("Attention", "dropout", dropout)
        self.key_value_heads: int = positive_int("Attention", "key_value_heads",
                                                 heads if key_value_heads is None else key_value_heads)
        self.rotary_base = rotary_base
        self.rotary_scaling = rotary_scaling
        self.window: int | None = None if window is None else positive_int("Attention", "window", window)
        self._check_switches(key_size, value_size)
        each = width // heads
        key_size = width if query_key == "none" else each if key_size is None else key_size
        value_size = self.memory_width if not value else each if value_size is None else value_size
        self.key_size: int = positive_int("Attention", "key_size", key_size)
        self.value_size: int = positive_int("Attention", "value_size", value_size)
        self.factor: float = self._factor(scale)
        if residual and self.out_width != width:
            raise ValueError(f"Attention: residual=True adds y to x, {width} wide, but output_projection='none' leaves "
                             f"{heads} heads of value_size={self.value_size}; choose output_projection='concat', or "
                             "another value_size")
        if query_key != "none":
            self.query: Linear = Linear(width, heads * self.key_size, bias)
        if query_key == "separate":
            self.key: Linear = Linear(self.memory_width, self.key_value_heads * self.key_size, bias)
        if value:
            self.value: Linear = Linear(self.memory_width, self.key_value_heads * self.value_size, bias)
        if output_projection == "concat":
            self.out: Linear = Linear(heads * self.value_size, width, bias)
        elif output_projection == "sum":
            self.out_weights: Parameter = Parameter(mg.zeros(heads, width, self.value_size))
            bound = 1 / math.sqrt(heads * self.value_size)
            init.uniform_(self.out_weights, -bound, bound)
        if positions == "relative":
            self.relative_bias: Parameter = Parameter(mg.zeros(heads, 2 * max_distance + 1))

    @property
    def out_width(self) -> int:
        """The width of y: that of x, or without an output projection that of all heads together."""
        return self.heads * self.value_size if self.output_projection == "none" else self.width

    def _factor(self, scale: str | float) -> float:
        named = {"none": 1.0, "d_k": 1 / math.sqrt(self.key_size), "d_model": 1 / math.sqrt(self.width)}
        if isinstance(scale, str) and scale not in named or not isinstance(scale, (str, int, float)):
            raise ValueError(f"Attention: scale must be 'none', 'd_k', 'd_model' or a number, got {scale!r}")
        return named[scale] if isinstance(scale, str) else float(scale)

    def forward(self, x: Tensor, memory: Tensor | None = None, key_padding_mask: Tensor | None = None,
                need_weights: bool = False) -> Tensor | Any:
        """y (B, Tq, D), or (y, weights (B, H, Tq, Tk)); without B if x is unbatched.

        y is computed from these weights, so they have a gradient after `weights.retain_grad()`. key_padding_mask (B, Tk) is
        True where a key is padding; a ValueError names a sequence of which it hides all keys.
        """
        if self.layout == "columns":
            x, memory = x.mT, None if memory is None else memory.mT
        is_batched = x.ndim == 3
        if not is_batched:
            x, memory = x[None], None if memory is None else memory[None]
        source = x if memory is None else memory
        self._check_shapes(x, source, key_padding_mask)
        q, k, v = self.project(x, source)
        mask = self._mask(q, k, key_padding_mask)
        is_causal = self.causal == "mask" and mask is None
        dropout = self.dropout if self.training else 0.0
        if need_weights or self.causal == "renormalise":
            weights = F.attention_weights(self.rotated(q), self.rotated(k), mask, is_causal, self.factor)
            if self.causal == "renormalise":
                weights = weights.tril()
                total = weights.sum(-1, keepdim=True)
                weights = weights / total.masked_fill(total == 0, 1.0)
            shown, weights = self._shown(weights, is_batched)
            heads = F.drop_weights(weights, dropout) @ v
        else:
            longer = q if q.shape[2] > k.shape[2] else k
            heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, self.factor, self._rotation(longer))
        y = self._merge(heads)
        y = x + y if self.residual else y
        y = y if is_batched else y[0]
        y = y if self.layout == "rows" else y.mT
        return (y, shown) if need_weights else y

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, H, Tq, D_k), k (B, H, Tk, D_k), v (B, H, Tk, D_v); q and k are still to be `rotated`."""
        query = None if self.query_key == "none" else self.query
        q = self._split(x, query)
        if self.query_key == "separate":
            k = self._split(source, self.key, self.key_value_heads)
        else:
            k = q if source is x else self._split(source, query)
        v = self._split(source, self.value if self.projects_value else None, self.key_value_heads)
        return q, self._for_each_query(k), self._for_each_query(v)

    def rotated(self, x: Tensor) -> Tensor:
        """Queries or keys (B, H, T, D_k) with rotary positions, or as they are."""
        return rotate(x, base=self.rotary_base, scaling=self.rotary_scaling) if self.positions == "rotary" else x

    def _rotation(self, x: Tensor) -> Tensor | None:
        """The rotation of x (B, H, T, D_k), if there is one."""
        if self.positions != "rotary":
            return None
        T, D = x.shape[2:]
        return rotation(T, D, self.rotary_base, self.rotary_scaling, dtype=x.dtype)

    def _for_each_query(self, x: Tensor) -> Tensor:
        """(B, key_value_heads, T, size) -> (B, H, T, size): each head repeated for the heads of queries that share it."""
        B, groups, T, size = x.shape
        if groups == self.heads:
            return x
        return x[:, :, None].expand(B, groups, self.heads // groups, T, size).reshape(B, self.heads, T, size)

    def _split(self, x: Tensor, projection: Linear | None, heads: int | None = None) -> Tensor:
        """(B, T, D) -> (B, H, T, size), projected; or the tokens themselves for each head."""
        B, T, D = x.shape
        heads = self.heads if heads is None else heads
        if projection is None:
            return x[:, None].expand(B, heads, T, D)
        return projection(x).reshape(B, T, heads, projection.out_features // heads).transpose(1, 2)

    def _mask(self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None) -> Tensor | None:
        """What is added to the scores, broadcasting to (B, H, Tq, Tk); None if nothing is, or only the causal mask."""
        queries, keys = q.shape[2], k.shape[2]
        parts = []
        if self.positions == "relative":
            parts.append(self.position_bias(queries, keys)[None])
        if key_padding_mask is not None:
            hidden = key_padding_mask[:, None, None, :]
            parts.append(mg.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, -math.inf))
        window = queries if self.window is None else self.window
        if self.causal == "mask" and (parts or queries > window):
            seen = np.tri(queries, keys, dtype=bool) & ~np.tri(queries, keys, -window, dtype=bool)
            parts.append(Tensor(np.where(seen, 0.0, -np.inf), dtype=q.dtype))
        return sum(parts[1:], parts[0]).to(q.dtype) if parts else None

    def position_bias(self, queries: int, keys: int) -> Tensor:
        """What positions="relative" adds to the scores, (H, Tq, Tk)."""
        distance = np.arange(queries)[:, None] - np.arange(keys)
        index = np.clip(distance, -self.max_distance, self.max_distance) + self.max_distance
        return self.relative_bias[:, index]

    def _shown(self, weights: Tensor, is_batched: bool) -> tuple[Tensor, Tensor]:
        """The weights in the caller's form, and (B, H, Tq, Tk) again, computed from it: y depends on what is returned."""
        shown = weights if is_batched else weights[0]
        shown = shown.mT if self.layout == "columns" else shown
        weights = shown.mT if self.layout == "columns" else shown
        return shown, weights if is_batched else weights[None]

    def _merge(self, heads: Tensor) -> Tensor:
        """(B, H, T, D_v) -> (B, T, out_width)"""
        if self.output_projection == "sum":
            return (heads @ self.out_weights.mT).sum(1)
        B, H, T, size = heads.shape
        concatenated = heads.transpose(1, 2).reshape(B, T, H * size)
        return self.out(concatenated) if self.output_projection == "concat" else concatenated

    def _check_switches(self, key_size: int | None, value_size: int | None) -> None:
        """ValueError for switches that contradict each other."""
        query_key, width, memory_width = self.query_key, self.width, self.memory_width
        heads, groups = self.heads, self.key_value_heads
        is_divided = query_key != "none" and key_size is None or self.projects_value and value_size is None
        contradictions = [
            (is_divided and width % heads != 0,
             f"heads must divide width, got {heads} and {width}; change one of them, or give key_size and value_size"),
            (query_key == "none" and key_size not in (None, width),
             f"query_key='none' takes the tokens as keys; leave out key_size={key_size}, or choose query_key='separate'"),
            (query_key != "separate" and memory_width != width,
             f"query_key={query_key!r} treats x and the memory alike, so memory_width must be the width {width}, got "
             f"{memory_width}; choose query_key='separate'"),
            (heads % groups != 0, f"key_value_heads must divide heads, got {groups} and {heads}; change one of them"),
            (groups != heads and (query_key != "separate" or not self.projects_value),
             f"key_value_heads={groups} needs projections of its own, query_key='separate' and value=True; got "
             f"query_key={query_key!r} and value={self.projects_value}"),
            (self.window is not None and self.causal != "mask",
             f"window={self.window} limits how far back a token sees; choose causal='mask', got causal={self.causal!r}"),
            (self.positions != "rotary" and (self.rotary_base, self.rotary_scaling) != (BASE, "none"),
             f"rotary_base and rotary_scaling need positions='rotary', got positions={self.positions!r}; leave them out"),
            (not self.projects_value and value_size not in (None, memory_width),
             f"value=False takes the tokens as values; leave out value_size={value_size}, or choose value=True"),
            (self.layout == "columns" and self.causal,
             f"causal={self.causal!r} would mask queries instead of keys, as layout='columns' has weights (keys, queries); "
             "choose layout='rows' and pass x.mT"),
            (self.positions == "rotary" and query_key == "none",
             "positions='rotary' rotates projected queries and keys, and query_key='none' has none; choose "
             "query_key='separate', or a PositionEncoding before the layer"),
        ]
        for is_contradiction, message in contradictions:
            if is_contradiction:
                raise ValueError(f"Attention: {message}")

    def _check_shapes(self, x: Tensor, source: Tensor, key_padding_mask: Tensor | None) -> None:
        for name, tensor, width in (("x", x, self.width), ("memory", source, self.memory_width)):
            if tensor.ndim != 3 or tensor.shape[2] != width:
                form = f"(B, T, {width})" if self.layout == "rows" else f"(B, {width}, T)"
                raise ValueError(f"Attention: {name} must have shape {form} for layout={self.layout!r}, or the same "
                                 f"without B; got {tensor.shape} as rows")
        if source.shape[0] != x.shape[0]:
            raise ValueError(f"Attention: x and memory must have the same B, got {x.shape[0]} and {source.shape[0]}")
        if self.causal and source.shape[1] < x.shape[1]:
            raise ValueError(f"Attention: causal={self.causal!r} needs as many keys as queries, got {source.shape[1]} "
                             f"and {x.shape[1]}; cross-attention is not causal: causal=False")
        if key_padding_mask is not None:
            check_padding_mask("Attention", key_padding_mask, source.shape[:2])

    def extra_repr(self) -> str:
        groups = f", key_value_heads={self.key_value_heads}" if self.key_value_heads != self.heads else ""
        positions = f", positions={self.positions!r}" if self.positions != "none" else ""
        window = f", window={self.window}" if self.window is not None else ""
        return (f"{self.width}, heads={self.heads}{groups}, query_key={self.query_key!r}, value={self.projects_value}, "
                f"output_projection={self.output_projection!r}, causal={self.causal!r}{positions}{window}")
