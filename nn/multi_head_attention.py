"""Multi-head attention (Vaswani et al., arXiv:1706.03762), for self- and cross-attention.

    q       = query Wqᵀ + bq                                   cut into H heads of size D
    k, v    = key Wkᵀ + bk, value Wvᵀ + bv                     cut into G heads of size D, each for H / G queries
    q, k    = rotated by their positions, or not               positions=
    scores  = q @ kᵀ / sqrt(D) + bias                          (B, H, Tq, Tk), masked
    weights = softmax(scores)                                  row by row
    output  = (weights @ v, heads side by side) Woᵀ + bo       (B, Tq, C)

There are three ways to compute it, with the same result: from the packed projection (self-attention without masks), by
fused attention, or spelled out as here with `F.attention_weights`, if the weights are needed.
"""
import math
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from nn import functional as F
from nn import init
from nn.checks import check_causal_mask, one_of, positive_int, probability
from nn.linear import Linear
from nn.module import Module, Parameter
from nn.position import BASE, rotary_frequencies, rotate, rotation


class MultiHeadAttention(Module):
    """Attention of `query` (B, Tq, C) to `key` (B, Tk, kdim) and `value` (B, Tk, vdim), with H heads -> (B, Tq, C).

    - key_value_heads: G, the heads of keys and values, each shared by H / G consecutive heads of queries (grouped-query
      attention, Ainslie et al., arXiv:2305.13245); 1 is multi-query attention. By default H.
    - head_size: D, by default C / H.
    - window: with is_causal, each query sees the last `window` keys only, including its own; by default all.
    - positions: "none"; "rotary" rotates queries and keys, for rotary_base and rotary_scaling see
      `nn.position.rotary_frequencies`; "relative" adds a learned number to the scores for each head and t - s, constant
      beyond max_distance.

    Parameters have the names and shapes of torch.nn.MultiheadAttention's, so its state dicts load: in_proj_weight
    ((H + 2 G) D, C), which is (3C, C) by default, or q_proj_weight (H D, C), k_proj_weight (G D, kdim) and v_proj_weight
    (G D, vdim) if the widths differ; in_proj_bias; out_proj, from H D to C. The batch always comes first;
    `MultiheadAttention` has PyTorch's arguments.

    >>> attention = MultiHeadAttention(embed_dim=8, num_heads=2)
    >>> x = mg.randn(1, 5, 8)
    >>> attention(x, is_causal=True).shape
    (1, 5, 8)
    >>> output, weights = attention(x, need_weights=True, average_attn_weights=False)
    >>> weights.shape
    (1, 2, 5, 5)
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 kdim: int | None = None, vdim: int | None = None, *, key_value_heads: int | None = None,
                 head_size: int | None = None, window: int | None = None, positions: str = "none",
                 max_distance: int = 32, rotary_base: float = BASE, rotary_scaling: str = "none"):
        super().__init__()

        def size(name: str, value: int | None, default: int) -> int:
            return default if value is None else positive_int("MultiHeadAttention", name, value)

        self.embed_dim: int = positive_int("MultiHeadAttention", "embed_dim", embed_dim)
        self.num_heads: int = positive_int("MultiHeadAttention", "num_heads", num_heads)
        self.kdim: int = size("kdim", kdim, embed_dim)
        self.vdim: int = size("vdim", vdim, embed_dim)
        self.dropout: float = probability("MultiHeadAttention", "dropout", dropout)
        if head_size is None and embed_dim % num_heads:
            raise ValueError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}; change one of "
                             "them, or give head_size")
        self.head_size: int = size("head_size", head_size, embed_dim // num_heads)
        self.key_value_heads: int = size("key_value_heads", key_value_heads, num_heads)
        if num_heads % self.key_value_heads:
            raise ValueError(f"MultiHeadAttention: key_value_heads must divide num_heads, got {key_value_heads} and "
                             f"{num_heads}; change one of them")
        self.window: int | None = None if window is None else positive_int("MultiHeadAttention", "window", window)
        self.positions: str = one_of("MultiHeadAttention", "positions", positions, ("none", "rotary", "relative"))
        self.max_distance: int = positive_int("MultiHeadAttention", "max_distance", max_distance)
        if positions == "rotary":
            rotary_frequencies(self.head_size, rotary_base, rotary_scaling)
        elif (rotary_base, rotary_scaling) != (BASE, "none"):
            raise ValueError("MultiHeadAttention: rotary_base and rotary_scaling need positions='rotary', got "
                             f"positions={positions!r}; leave them out")
        self.rotary_base = rotary_base
        self.rotary_scaling = rotary_scaling
        if positions == "relative":
            self.relative_bias: Parameter = Parameter(mg.zeros(num_heads, 2 * max_distance + 1))
        if self.is_packed:
            self.in_proj_weight: Parameter = Parameter(mg.zeros(sum(self._sizes), embed_dim))
        else:
            for name, rows, width in zip("qkv", self._sizes, (embed_dim, self.kdim, self.vdim)):
                self.register_parameter(f"{name}_proj_weight", Parameter(mg.zeros(rows, width)))
        self.in_proj_bias: Parameter | None = Parameter(mg.zeros(sum(self._sizes))) if bias else None
        self.out_proj: Linear = Linear(self._sizes[0], embed_dim, bias)
        self.reset_parameters()

    @property
    def is_packed(self) -> bool:
        """True if query, key and value have the same width, and so one in_proj_weight."""
        return self.kdim == self.vdim == self.embed_dim

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """The widths of all queries, keys and values of a token."""
        shared = self.key_value_heads * self.head_size
        return self.num_heads * self.head_size, shared, shared

    def reset_parameters(self) -> None:
        """Projections are xavier-uniform, biases zero, and out_proj.weight as in a Linear, as in PyTorch."""
        self.out_proj.reset_parameters()
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                init.zeros_(parameter)
            elif name != "out_proj.weight":
                init.xavier_uniform_(parameter)

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
                key_padding_mask: Tensor | None = None, need_weights: bool = False, attn_mask: Tensor | None = None,
                average_attn_weights: bool = True, is_causal: bool = False) -> Tensor | Any:
        """The output (B, Tq, C), or (output, weights) if the weights are needed.

        - `key` defaults to `query`, and `value` to `key`.
        - Masks are True where attention is FORBIDDEN, as in torch.nn.MultiheadAttention, or floats that are added to the
          scores: `attn_mask` (Tq, Tk) or (B * H, Tq, Tk), `key_padding_mask` (B, Tk). In F.scaled_dot_product_attention
          True means the opposite: the key takes part.
        - `is_causal`: query i sees the keys 0 to i, in addition to other masks.
        - A query that sees no key has zero weights, and gives zeros to out_proj.
        - Weights are (B, Tq, Tk), the mean over the heads, or (B, H, Tq, Tk) with average_attn_weights=False. The output
          is computed from them, so they have a gradient after `weights.retain_grad()`. That of the mean is the sum of the
          heads' gradients: the effect of adding the same to the weights of every head.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check_shapes(query, key, value)
        dropout = self.dropout if self.training else 0.0
        mask = self._mask(attn_mask, key_padding_mask, is_causal, query, key)
        is_causal = is_causal and mask is None
        is_plain = self.is_packed and self.key_value_heads == self.num_heads
        if is_plain and key is query and value is query and mask is None and not need_weights:
            packed = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            return self.out_proj(F.packed_attention(packed, self.num_heads, is_causal, dropout, self._rotation(query)))

        q, k, v = self.project(query, key, value)
        k, v = self.for_each_query(k), self.for_each_query(v)
        if need_weights:
            q, k = self.rotated(q), self.rotated(k)
            shown = weights = F.drop_weights(F.attention_weights(q, k, mask, is_causal), dropout)
            if average_attn_weights:
                shown, weights = average_of_heads(weights)
            out = weights @ v
        else:
            longer = query if query.shape[1] > key.shape[1] else key
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, rotation=self._rotation(longer))
        return (self.merge(out), shown) if need_weights else self.merge(out)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q (B, H, Tq, D), k and v (B, G, Tk, D); q and k are still to be `rotated`, k and v to be repeated
        `for_each_query`."""
        if self.is_packed:
            weights = self.in_proj_weight.split(self._sizes)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.split(self._sizes)
        return [F.linear(x, weight, bias).reshape(*x.shape[:2], -1, self.head_size).transpose(1, 2)
                for x, weight, bias in zip((query, key, value), weights, biases)]

    def rotated(self, x: Tensor, start: int = 0) -> Tensor:
        """Queries or keys (B, heads, T, D) with rotary positions from `start` on, or as they are."""
        return rotate(x, start, self.rotary_base, self.rotary_scaling) if self.positions == "rotary" else x

    def _rotation(self, x: Tensor) -> Tensor | None:
        """The rotation of queries and keys made of x (B, T, C), if there is one."""
        if self.positions != "rotary":
            return None
        return rotation(x.shape[1], self.head_size, self.rotary_base, self.rotary_scaling, dtype=x.dtype)

    def for_each_query(self, x: Tensor) -> Tensor:
        """Keys or values (B, G, T, D) -> (B, H, T, D): each head repeated for the heads of queries that share it."""
        B, G, T, D = x.shape
        H = self.num_heads
        return x if G == H else x[:, :, None].expand(B, G, H // G, T, D).reshape(B, H, T, D)

    def position_bias(self, queries: int, keys: int, start: int = 0) -> Tensor:
        """What positions="relative" adds to the scores (H, Tq, Tk) of queries whose positions begin at `start`."""
        distance = np.arange(start, start + queries)[:, None] - np.arange(keys)
        return self.relative_bias[:, distance.clip(-self.max_distance, self.max_distance) + self.max_distance]

    def merge(self, heads: Tensor) -> Tensor:
        """The output (B, T, C) of heads (B, H, T, D)."""
        B, H, T, D = heads.shape
        return self.out_proj(heads.transpose(1, 2).reshape(B, T, H * D))

    def _mask(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool, query: Tensor,
              key: Tensor) -> Tensor | None:
        """All that is added to the scores, as one, with -inf where attention is forbidden; None for is_causal alone."""
        B, queries, keys, H = query.shape[0], query.shape[1], key.shape[1], self.num_heads
        parts = [self.position_bias(queries, keys)[None]] if self.positions == "relative" else []
        allowed: Any
        for name, mask, allowed in (
            ("attn_mask", attn_mask, {(queries, keys): (1, 1, queries, keys),
                                      (B * H, queries, keys): (B, H, queries, keys)}),
            ("key_padding_mask", key_padding_mask, {(B, keys): (B, 1, 1, keys)}),
        ):
            if mask is None:
                continue
            if mask.shape not in allowed:
                raise ValueError(f"MultiHeadAttention: {name} must have shape {' or '.join(map(str, allowed))}, got "
                                 f"{mask.shape}")
            if mask.dtype != mg.bool and mask.dtype.kind != "f":
                raise TypeError(f"MultiHeadAttention: {name} must be boolean or floating point, got {mask.dtype}")
            added = mg.zeros(mask.shape).masked_fill(mask, -math.inf) if mask.dtype == mg.bool else mask
            parts.append(added.to(query.dtype).reshape(allowed[mask.shape]))
        window = queries if self.window is None else self.window
        if is_causal and (parts or queries > window):
            seen = np.tri(queries, keys, dtype=bool) & ~np.tri(queries, keys, -window, dtype=bool)
            parts.append(mg.tensor(np.where(seen, 0.0, -np.inf), dtype=query.dtype)[None, None])
        return sum(parts[1:], parts[0]) if parts else None

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, x, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if x.ndim != 3 or x.shape[2] != width:
                raise ValueError(f"MultiHeadAttention: {name} must have shape (B, T, {width}), got {x.shape}")
        if key.shape[0] != query.shape[0] or value.shape[:2] != key.shape[:2]:
            raise ValueError("MultiHeadAttention: query, key and value must have the same B, and key and value the "
                             f"same T, got {query.shape}, {key.shape} and {value.shape}")

    def extra_repr(self) -> str:
        usual = {"key_value_heads": self.num_heads, "head_size": self.embed_dim // self.num_heads, "window": None,
                 "positions": "none"}
        others = (f", {name}={getattr(self, name)!r}" for name in usual if getattr(self, name) != usual[name])
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}{''.join(others)}"


class MultiheadAttention(MultiHeadAttention):
    """`MultiHeadAttention` as PyTorch has it: arguments, defaults and results are those of torch.nn.MultiheadAttention.

    query (T, B, C), key (S, B, kdim) and value (S, B, vdim), or with batch_first (B, T, C), (B, S, kdim) and (B, S, vdim),
    or unbatched (T, C), (S, kdim) and (S, vdim) -> the output, in the form of the query, and the weights: (B, T, S), or
    (B, H, T, S) with average_attn_weights=False, without B if unbatched; None with need_weights=False.

    Masks are those of `MultiHeadAttention`; an unbatched key_padding_mask is (S,). is_causal is a hint, as in PyTorch: it
    says that attn_mask, which must be given, is the causal mask. A ValueError says if it is not; PyTorch then follows the
    mask or the hint, depending on need_weights. A query that sees no key gives zeros to out_proj, and in PyTorch NaN if
    need_weights.

    >>> x = mg.randn(5, 1, 8)
    >>> output, weights = MultiheadAttention(embed_dim=8, num_heads=2)(x, x, x)
    >>> output.shape, weights.shape
    ((5, 1, 8), (1, 5, 5))
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None):
        super().__init__(embed_dim, num_heads, dropout, bias, kdim, vdim)
        if add_bias_kv or add_zero_attn:
            raise ValueError("MultiheadAttention: add_bias_kv and add_zero_attn are left out; leave them False")
        self.batch_first = batch_first
        self.to(device, dtype)

    def forward(  # type: ignore[override]
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | Any]:
        is_batched = query.ndim == 3
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            form = "(B, T, C)" if self.batch_first else "(T, B, C)"
            raise ValueError(f"MultiheadAttention: expected query, key and value {form} with "
                             f"batch_first={self.batch_first}, or (T, C), got {query.shape}, {key.shape} and {value.shape}")
        if is_causal:
            check_causal_mask("MultiheadAttention", attn_mask)
            attn_mask = None
        if not is_batched and key_padding_mask is not None:
            key_padding_mask = key_padding_mask[None]
        rows = {x: self._rows(x) for x in (query, key, value)}  # equal inputs stay equal: it may be self-attention
        q, k, v = rows[query], rows[key], rows[value]
        out = super().forward(q, k, v, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        out, weights = out if need_weights else (out, None)
        if not is_batched:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.transpose(0, 1), weights

    def _rows(self, x: Tensor) -> Tensor:
        """The input as (B, T, C)."""
        return x[None] if x.ndim == 2 else x if self.batch_first else x.transpose(0, 1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, batch_first={self.batch_first}"


def average_of_heads(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (B, Tq, Tk) of weights (B, H, Tq, Tk), and the same weights computed from it: adding the mean and
    subtracting it again changes no value, but puts it on the tape between weights and output."""
    average = weights.mean(1)
    return average, weights + (average - weights.mean(1))[:, None]
