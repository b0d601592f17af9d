"""Scaled dot-product attention (Vaswani et al., arXiv:1706.03762), for one head of queries q, keys k, values v:

    scores = q @ k^T * scale + mask        (Tq, Tk), S in papers
    weights = softmax(scores), row by row  (Tq, Tk), P
    out = weights @ v                      (Tq, D),  O

and backwards, from the last line to the first:

    dv = weights^T @ dout,  dweights = dout @ v^T                  (the gradients of a matrix product)
    dscores = weights * (dweights - rowsum(dweights * weights))
    dq = dscores @ k * scale,  dk = dscores^T @ q * scale

dscores: each row of weights is a softmax of its scores, w_j = e^(s_j) / sum_k e^(s_k). By the quotient rule
    dw_j/ds_i = w_j ([i = j] - w_i):  raising s_i raises w_i, at the cost of all in proportion to their weights, so
    dscores_i = sum_j dweights_j dw_j/ds_i = w_i (dweights_i - sum_j dweights_j w_j)
The last sum is one number for each row, and needs no weights if out is kept:
    sum_j dweights_j w_j = sum_j (sum_d dout_d v_jd) w_j = sum_d dout_d (sum_j w_j v_jd) = sum_d dout_d out_d

With dropout, out = (weights * factors) @ v, where factors are keep / (1 - p). Then dv = (weights * factors)^T @ dout and
dweights = (dout @ v^T) * factors, and the rest is as above, rowsum(dout * out) too.

In smaller steps, with numbers: study/guide/backprop_through_attention.md.

With rotary positions, q and k are `turned` first, each token by its own angles. The transpose of a rotation is its inverse,
so the gradients of the turned q and k are turned back.
"""
import math

import numpy as np

from .kinds import Fused
from ..random import LANES, SLOTS, factors
from .dropout import Dropout
from .softmax import shifted
from .operands import call


def default_scale(q) -> float:
    """1 / sqrt(D), which keeps the variance of the scores; 1 for heads without features."""
    return 1 / math.sqrt(max(q.shape[-1], 1))


def turned(x, rotation, back=False):
    """Rotary positions (Su et al., arXiv:2104.09864): each pair of features is rotated by an angle a of the token t.

        (y[2i], y[2i+1]) = (x[2i] cos a - x[2i+1] sin a, x[2i] sin a + x[2i+1] cos a)

    x (..., T, D), rotation (at least T, D): row t has cos a, sin a of the first pair, then of the next. `back` turns by -a,
    which maps dy to dx.
    """
    rotation = rotation[: x.shape[-2]]
    cosine, sine, even, odd = rotation[:, 0::2], rotation[:, 1::2], x[..., 0::2], x[..., 1::2]
    sine = -sine if back else sine
    return np.reshape(np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1), x.shape)


class WeightsDropout(Dropout):
    """out = weights * keep / (1 - p):  dweights = dout * keep / (1 - p), with the same keep

    For weights (..., Tq, Tk). Positions count in an array (heads, strips of 16 queries, groups of 8 keys, 8, 16): the keys
    of a group are the slots of a counter, and the queries of a strip its lanes.
    """

    factors = staticmethod(factors)

    @staticmethod
    def blocks(shape) -> tuple[int, ...]:
        """The shape of that array, with strips and groups rounded up."""
        *leading, queries, keys = shape
        return math.prod(leading), -(-queries // LANES), -(-keys // SLOTS), SLOTS, LANES

    @classmethod
    def positions(cls, shape) -> int:
        return math.prod(cls.blocks(shape))

    def forward(self, weights, *, key, p):
        self.key, self.p = key, p
        heads, strips, groups, *_ = blocks = self.blocks(weights.shape)
        rows = self.factors(blocks, key, p, weights.dtype).transpose(0, 1, 4, 2, 3)
        rows = rows.reshape(heads, strips * LANES, groups * SLOTS)
        return weights * rows[:, : weights.shape[-2], : weights.shape[-1]].reshape(weights.shape)


def attention_weights(q, k, mask, is_causal: bool, scale: float):
    """softmax(q @ k^T * scale + mask). A row that is masked completely gets zero weights, not NaN."""
    scores = masked_scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if is_causal:
        masked_scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        masked_scores = masked_scores + mask
    e = np.exp(shifted(masked_scores, -1))
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def dropped(weights, p: float, key):
    """The weights times keep / (1 - p), which depends on the key."""
    return call(WeightsDropout, weights, key=key, p=p) if p > 0.0 else weights


class ScaledDotProductAttention(Fused):
    """out = weights @ v, weights = softmax(q @ k^T * scale + mask):
    dv = weights^T @ dout,  dweights = dout @ v^T,  dscores = weights * (dweights - rowsum(dweights * weights)),
    dq = dscores @ k * scale,  dk = dscores^T @ q * scale

    q (..., Tq, D), k and v (..., Tk, D), mask broadcasts to (..., Tq, Tk); with a rotation, q and k are `turned` first.
    A causal query i sees the keys 0 to i; yet NaN or infinity in a value reaches all queries, as 0 * NaN. Each weight is
    dropped with probability dropout_p; `key` determines which (random.key_of_batch). Saves its inputs, the turned q and k,
    and weights.
    """

    saves_inputs = True

    def forward(self, q, k, v, mask=None, rotation=None, *, is_causal=False, scale=None, dropout_p=0.0, key=None):
        self.is_causal, self.dropout = is_causal, (dropout_p, key)
        self.scale = default_scale(q) if scale is None else scale
        turned_q, turned_k = (q, k) if rotation is None else (turned(q, rotation), turned(k, rotation))
        weights = attention_weights(turned_q, turned_k, mask, is_causal, self.scale)
        self.save(q, k, v, mask, rotation, turned_q, turned_k, weights)
        return np.matmul(dropped(weights, *self.dropout), v)

    def backward(self, dout, q, k, v, mask, rotation, turned_q, turned_k, weights):
        dv = np.matmul(np.swapaxes(dropped(weights, *self.dropout), -1, -2), dout)
        dweights = dropped(np.matmul(dout, np.swapaxes(v, -1, -2)), *self.dropout)
        dscores = weights * (dweights - np.sum(dweights * weights, axis=-1, keepdims=True))
        dq, dk = np.matmul(dscores, turned_k) * self.scale, np.matmul(np.swapaxes(dscores, -1, -2), turned_q) * self.scale
        if rotation is not None:
            dq, dk = turned(dq, rotation, back=True), turned(dk, rotation, back=True)
        return dq, dk, dv, None, None


def split_heads(packed, num_heads: int):
    """(B, T, 3C) -> q, k, v, each (B, H, T, D): views of the packed array."""
    batch, time, width = packed.shape
    parts = np.reshape(packed, (batch, time, 3, num_heads, width // 3 // num_heads))
    q, k, v = (np.swapaxes(parts[:, :, i], 1, 2) for i in range(3))
    return q, k, v


def merge_heads(out):
    """(B, H, T, D) -> (B, T, C)"""
    batch, heads, time, size = out.shape
    return np.reshape(np.swapaxes(out, 1, 2), (batch, time, heads * size))


class PackedAttention(ScaledDotProductAttention):
    """out = attention of each head of q, k, v, where packed = [q | k | v]:  dpacked = [dq | dk | dv]

    Self-attention on the output of one projection to q, k and v: packed (B, T, 3C) -> out (B, T, C); with a rotation
    (at least T, D), q and k are `turned` first. The same as ScaledDotProductAttention between splitting and merging heads.
    """

    def forward(self, packed, rotation=None, *, num_heads, **options):
        self.num_heads = num_heads
        out = super().forward(*split_heads(packed, num_heads), None, rotation, **options)
        self.save(packed, rotation, *self.saved[5:])
        return merge_heads(out)

    def backward(self, dout, packed, rotation, *made):
        batch, time, width = dout.shape
        dout = np.swapaxes(np.reshape(dout, (batch, time, self.num_heads, width // self.num_heads)), 1, 2)
        dq, dk, dv, *_ = super().backward(dout, *split_heads(packed, self.num_heads), None, rotation, *made)
        return np.concatenate([merge_heads(dx) for dx in (dq, dk, dv)], axis=-1), None
