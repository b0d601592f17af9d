"""Attention in all its forms: one layer whose switches are independent of each other.

    q, k, v = x, x, x                   each projected or not        query_key=, value=
    scores  = q @ kᵀ * scale + bias     (H, Tq, Tk)                  scale=, positions=
    weights = softmax(scores)           without the future           causal=
    y       = read-out of weights @ v   of all heads                 read_out=

`MultiHeadAttention` is the form that transformers use (query_key="separate", value=True, read_out="concat"), with
PyTorch's parameters, and is faster. Here the switches, and not the speed, are the point; where the fused kernel can
serve, it does.
"""
import math

import numpy as np

import minigrad as mg
from minigrad.runner import compute
from minigrad.tensor import Tensor
from nn import functional as F
from nn import init
from nn.checks import positive_int, probability
from nn.linear import Linear
from nn.module import Module, Parameter
from nn.position import rotate

CHOICES = {
    "query_key": ("none", "shared", "separate"),
    "read_out": ("none", "concat", "sum"),
    "causal": (False, "mask", "renormalise"),
    "layout": ("rows", "columns"),
    "positions": ("none", "rotary", "relative"),
}


class Attention(Module):
    """Attention of x (B, Tq, D) to itself, or to a context (B, Tk, context_width), with H heads.

    - query_key: what makes queries and keys. "none": the tokens themselves; "shared": one projection to key_size
      features a head, so that scores are symmetric; "separate": one for each.
    - value: True projects values to value_size features a head; False takes the tokens themselves.
    - read_out: "concat": one matrix for the heads side by side; "sum": a matrix for each head, and the sum, which is the
      same function; "none": the heads side by side as they are. value=False with "sum" is the full-rank read-out,
      value=True with "sum" the same of rank value_size.
    - scale: what scores are divided by: "none", "d_k" sqrt(key_size), "d_model" sqrt(width), or a number to multiply by.
    - causal: False; "mask" sets the scores of the future to -inf; "renormalise" sets weights of the future to zero and
      divides by what is left: the same function.
    - positions: "none"; "rotary" turns queries and keys; "relative" adds a learned number for each head and t - s,
      which stays the same beyond max_distance.
    - residual: True adds x to what comes out.
    - layout: tokens are the "rows" of x (..., T, D), or the "columns" of x (..., D, T), weights then (..., Tk, Tq).

    Unbatched input (T, D) is welcome. A ValueError names switches that contradict each other, and the way out.

    >>> import nn
    >>> x = mg.randn(5, 8)
    >>> plain = nn.Attention(8, query_key="none", value=False, read_out="none", scale="none")
    >>> bool((plain(x) - (x @ x.T).softmax(-1) @ x).abs().max() < 1e-5), sum(p.numel() for p in plain.parameters())
    (True, 0)
    """

    def __init__(self, width: int, heads: int = 1, *, query_key: str = "separate", value: bool = True,
                 read_out: str = "concat", scale: str | float = "d_k", causal: bool | str = False,
                 key_size: int | None = None, value_size: int | None = None, context_width: int | None = None,
                 positions: str = "none", max_distance: int = 32, residual: bool = False,
                 layout: str = "rows", bias: bool = False, dropout: float = 0.0):
        super().__init__()
        for name, chosen in (("query_key", query_key), ("read_out", read_out), ("causal", causal), ("layout", layout),
                             ("positions", positions)):
            if chosen not in CHOICES[name]:
                raise ValueError(f"Attention: {name} must be one of {', '.join(map(repr, CHOICES[name]))}, got {chosen!r}")
        self.width, self.heads = positive_int("Attention", "width", width), positive_int("Attention", "heads", heads)
        self.context_width = width if context_width is None else context_width
        _check_sizes(self, query_key, value, key_size, value_size, layout, causal, positions)
        self.query_key, self.projects_value, self.read_out = query_key, value, read_out
        self.causal, self.layout, self.positions, self.max_distance = causal, layout, positions, max_distance
        self.dropout = probability("Attention", "dropout", dropout)
        each = max(1, width // heads)
        self.key_size = width if query_key == "none" else each if key_size is None else key_size
        self.value_size = self.context_width if not value else each if value_size is None else value_size
        self.factor, self.residual = self._factor(scale), residual
        if residual and self.out_width != width:
            raise ValueError(f"Attention: residual=True adds y to x, {width} wide, but read_out='none' leaves {heads} "
                             f"heads of value_size={self.value_size}; choose read_out='concat', or another value_size")
        if query_key != "none":
            self.query = Linear(width, heads * self.key_size, bias)
        if query_key == "separate":
            self.key = Linear(self.context_width, heads * self.key_size, bias)
        if value:
            self.value = Linear(self.context_width, heads * self.value_size, bias)
        if read_out == "concat":
            self.out = Linear(heads * self.value_size, width, bias)
        elif read_out == "sum":
            self.out_weights = Parameter(mg.zeros(heads, width, self.value_size))
            bound = 1 / math.sqrt(heads * self.value_size)
            init.uniform_(self.out_weights, -bound, bound)
        if positions == "relative":
            self.relative_bias = Parameter(mg.zeros(heads, 2 * max_distance + 1))

    @property
    def out_width(self) -> int:
        """How wide y is: that of x, but without a read-out that of all heads."""
        return self.heads * self.value_size if self.read_out == "none" else self.width

    def _factor(self, scale: str | float) -> float:
        named = {"none": 1.0, "d_k": 1 / math.sqrt(self.key_size), "d_model": 1 / math.sqrt(self.width)}
        if isinstance(scale, str) and scale not in named or not isinstance(scale, (str, int, float)):
            raise ValueError(f"Attention: scale must be 'none', 'd_k', 'd_model' or a number, got {scale!r}")
        return named[scale] if isinstance(scale, str) else float(scale)

    def forward(self, x: Tensor, context: Tensor | None = None, key_padding_mask: Tensor | None = None,
                need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """y (B, Tq, D), or (y, weights (B, H, Tq, Tk)), from which y is computed.

        key_padding_mask (B, Tk) is True where a key is padding; a ValueError says where it would hide all keys.
        """
        if self.layout == "columns":
            x, context = x.mT, None if context is None else context.mT
        is_batched = x.ndim == 3
        if not is_batched:
            x, context = x[None], None if context is None else context[None]
        source = x if context is None else context
        self._check_shapes(x, source, key_padding_mask)
        q, k, v = self._project(x, source)
        mask = self._mask(q, k, key_padding_mask)
        if need_weights or self.causal == "renormalise" or self.dropout and self.training:
            shown, weights = self._shown(self._weights(q, k, mask), is_batched)
            heads = F.dropout(weights, self.dropout, self.training) @ v
        else:
            shown = None
            heads = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal == "mask" and mask is None,
                                                   scale=self.factor)
        y = x + self._read(heads) if self.residual else self._read(heads)
        y = y if is_batched else y[0]
        y = y if self.layout == "rows" else y.mT
        return (y, shown) if need_weights else y

    def _project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, H, Tq, D_k), k (B, H, Tk, D_k), v (B, H, Tk, D_v)"""
        query = None if self.query_key == "none" else self.query
        q = self._split(x, query)
        if self.query_key == "separate":
            k = self._split(source, self.key)
        else:
            k = q if source is x else self._split(source, query)
        v = self._split(source, self.value if self.projects_value else None)
        if self.positions == "rotary":
            q, k = rotate(q), rotate(k)
        return q, k, v

    def _split(self, x: Tensor, projection: Linear | None) -> Tensor:
        """(B, T, D) -> (B, H, T, size), projected; or the tokens themselves for each head."""
        B, T, D = x.shape
        if projection is None:
            return x[:, None].expand(B, self.heads, T, D)
        return projection(x).reshape(B, T, self.heads, -1).transpose(1, 2)

    def _mask(self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None) -> Tensor | None:
        """What is added to the scores, (B, H, Tq, Tk) or less; None if nothing is, but perhaps by the causal kernel."""
        queries, keys = q.shape[2], k.shape[2]
        parts = []
        if self.positions == "relative":
            distance = np.arange(queries)[:, None] - np.arange(keys)
            index = np.clip(distance, -self.max_distance, self.max_distance) + self.max_distance
            parts.append(self.relative_bias[:, index][None])
        if key_padding_mask is not None:
            hidden = key_padding_mask[:, None, None, :]
            parts.append(mg.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, -math.inf))
        if parts and self.causal == "mask":
            parts.append(Tensor(np.where(np.tri(queries, keys, dtype=bool), 0.0, -np.inf), dtype=q.dtype))
        return sum(parts[1:], parts[0]).to(q.dtype) if parts else None

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """The definition, spelled out."""
        scores = q @ k.mT * self.factor
        if mask is not None:
            scores = scores + mask
        past = Tensor(np.tri(*scores.shape[-2:], dtype=bool))
        if self.causal == "mask":
            scores = mg.where(past, scores, -math.inf)
        blind = (scores == -math.inf).all(-1, keepdim=True)  # sees no key: its softmax would be 0 / 0
        weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
        if self.causal == "renormalise":
            weights = weights * past.to(weights.dtype)
            total = weights.sum(-1, keepdim=True)
            weights = weights / total.masked_fill(total == 0, 1.0)
        return weights

    def _shown(self, weights: Tensor, is_batched: bool) -> tuple[Tensor, Tensor]:
        """The weights in the caller's form, and the same (B, H, Tq, Tk), computed from it: so y depends on what is
        returned, which after retain_grad() has a gradient."""
        is_turned = self.layout == "columns"
        shown = weights if is_batched else weights[0]
        shown = shown.mT if is_turned else shown
        weights = shown.mT if is_turned else shown
        return shown, weights if is_batched else weights[None]

    def _read(self, heads: Tensor) -> Tensor:
        """(B, H, T, D_v) -> (B, T, out_width)"""
        if self.read_out == "sum":
            return (heads @ self.out_weights.mT).sum(1)
        B, H, T, size = heads.shape
        side_by_side = heads.transpose(1, 2).reshape(B, T, H * size)
        return self.out(side_by_side) if self.read_out == "concat" else side_by_side

    def _check_shapes(self, x: Tensor, source: Tensor, key_padding_mask: Tensor | None) -> None:
        for name, tensor, width in (("x", x, self.width), ("context", source, self.context_width)):
            if tensor.ndim != 3 or tensor.shape[2] != width:
                form = f"(B, T, {width})" if self.layout == "rows" else f"(B, {width}, T)"
                raise ValueError(f"Attention: {name} must have shape {form} for layout={self.layout!r}, or the same "
                                 f"without B; got {tensor.shape} as rows")
        if source.shape[0] != x.shape[0]:
            raise ValueError(f"Attention: x and context must have the same B, got {x.shape[0]} and {source.shape[0]}")
        if self.causal and source.shape[1] < x.shape[1]:
            raise ValueError(f"Attention: causal={self.causal!r} needs as many keys as queries, got {source.shape[1]} "
                             f"and {x.shape[1]}; cross-attention is not causal: causal=False")
        if key_padding_mask is not None:
            _check_padding("Attention", key_padding_mask, source.shape[:2])

    def extra_repr(self) -> str:
        return (f"{self.width}, heads={self.heads}, query_key={self.query_key!r}, value={self.projects_value}, "
                f"read_out={self.read_out!r}, causal={self.causal!r}")


def _check_sizes(layer, query_key, value, key_size, value_size, layout, causal, positions) -> None:
    """ValueError for switches that contradict each other."""
    if query_key == "none" and key_size not in (None, layer.width):
        raise ValueError(f"Attention: query_key='none' takes the tokens as keys, so key_size={key_size} cannot be; leave "
                         "it out, or choose query_key='separate'")
    if query_key == "shared" and layer.context_width != layer.width:
        raise ValueError(f"Attention: query_key='shared' projects x and the context alike, so context_width must be the "
                         f"width {layer.width}, got {layer.context_width}; choose query_key='separate'")
    if query_key == "none" and layer.context_width != layer.width:
        raise ValueError(f"Attention: query_key='none' multiplies x with the context, so context_width must be the width "
                         f"{layer.width}, got {layer.context_width}; choose query_key='separate'")
    if not value and value_size not in (None, layer.context_width):
        raise ValueError(f"Attention: value=False takes the tokens as values, so value_size={value_size} cannot be; leave "
                         "it out, or choose value=True")
    if layout == "columns" and causal:
        raise ValueError(f"Attention: layout='columns' has weights (keys, queries), whose lower triangle is the future: "
                         f"causal={causal!r} would mask queries instead of keys; choose layout='rows' and pass x.mT")
    if positions == "rotary" and query_key == "none":
        raise ValueError("Attention: positions='rotary' turns projected queries and keys, and query_key='none' has none; "
                         "choose query_key='separate', or a PositionEncoding before the layer")
    for name, size in (("key_size", key_size), ("value_size", value_size)):
        if size is not None:
            positive_int("Attention", name, size)


def _check_padding(layer: str, mask: Tensor, shape: tuple[int, int]) -> None:
    """ValueError for a key_padding_mask that does not fit or hides all keys of a sequence."""
    if mask.shape != shape or mask.dtype != bool:
        raise ValueError(f"{layer}: key_padding_mask must be boolean, of shape {shape}, got {mask.dtype} {mask.shape}")
    compute(_check_some_key_is_seen, layer, mask)


def _check_some_key_is_seen(layer: str, mask: np.ndarray) -> np.ndarray:
    hidden = mask.all(axis=1)
    if hidden.any():
        raise ValueError(f"{layer}: key_padding_mask hides all keys of sequence {hidden.argmax()}, so that its queries "
                         "have nothing to attend to; leave such sequences out, or let one key be seen")
    return hidden


class AdditiveAttention(Module):
    """Additive attention (Bahdanau et al., arXiv:1409.0473) of states s (B, Tq, D) to h (B, Tk, context_width).

        scores[t, j] = w . tanh(W_s s_t + W_h h_j),    weights = softmax over j,    c_t = sum of weights[t, j] h_j

    W_s s + W_h h is one matrix times [h, s]. Returns (c (B, Tq, context_width), weights (B, Tq, Tk)).

    >>> import nn
    >>> c, weights = nn.AdditiveAttention(4, 6, hidden=5)(mg.randn(2, 3, 4), mg.randn(2, 7, 6))
    >>> c.shape, weights.shape
    ((2, 3, 6), (2, 3, 7))
    """

    def __init__(self, width: int, context_width: int, hidden: int):
        super().__init__()
        self.state = Linear(width, hidden)
        self.context = Linear(context_width, hidden, bias=False)
        self.score = Linear(hidden, 1, bias=False)

    def forward(self, s: Tensor, h: Tensor, key_padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if key_padding_mask is not None:
            _check_padding("AdditiveAttention", key_padding_mask, h.shape[:2])
        together = self.state(s)[:, :, None] + self.context(h)[:, None]
        scores = self.score(together.tanh()).squeeze(-1)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None], -math.inf)
        weights = scores.softmax(-1)
        return weights @ h, weights
