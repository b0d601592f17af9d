"""Attention with kernels that never hold a (Tq, Tk) array.

They save out and, for each row, its largest score and sum of exponentials, recompute the weights block by block, and use
rowsum(dout * out) in place of rowsum(dweights * weights). Packed heads are read and written in place. A NaN or infinity in
a value that a query cannot see does not reach its row; in the textbook it does, as 0 * NaN.
"""
import numpy as np

from ..ops import attention
from ..ops.attention import default_scale, split_heads
from ..implementations import implements
from .kernels import attention as kernels, dropout
from .pool import empty_like
from .matmul import RoundsOperands


@implements(attention.WeightsDropout)
class WeightsDropout(attention.WeightsDropout):
    factors = staticmethod(dropout.factors)


@implements(attention.ScaledDotProductAttention)
class ScaledDotProductAttention(RoundsOperands, attention.ScaledDotProductAttention):
    by_kernels = True

    def forward(self, q, k, v, mask=None, rotation=None, *, is_causal=False, scale=None, dropout_p=0.0, key=None):
        self.is_causal, self.dropout = is_causal, (dropout_p, key)
        self.scale = default_scale(q) if scale is None else scale
        out, normalisers = kernels.attention_forward(
            *in_four_axes(q, k, v), mask, is_causal, self.scale, rotation, self.dropout, product=self.product())
        self.save(q, k, v, mask, rotation, out, normalisers)
        return out[(0,) * (4 - q.ndim)]

    def backward(self, dout, q, k, v, mask, rotation, out, normalisers):
        gradients = empty_like(q), empty_like(k), empty_like(v)
        kernels.attention_backward(
            *in_four_axes(q, k, v), mask, self.is_causal, self.scale, (out, normalisers), *in_four_axes(dout),
            in_four_axes(*gradients), rotation, self.dropout, product=self.product())
        return *gradients, None, None


def in_four_axes(*arrays):
    """(..., T, D) as views (B, H, T, D), with B and H of 1 where they are missing."""
    return [x[(None,) * (4 - x.ndim)] for x in arrays]


@implements(attention.PackedAttention)
class PackedAttention(attention.PackedAttention, ScaledDotProductAttention):
    def backward(self, dout, packed, rotation, out, normalisers):
        dpacked = empty_like(packed)
        batch, time, width = dout.shape
        dout = np.swapaxes(dout.reshape(batch, time, self.num_heads, width // self.num_heads), 1, 2)
        kernels.attention_backward(
            *split_heads(packed, self.num_heads), None, self.is_causal, self.scale, (out, normalisers), dout,
            split_heads(dpacked, self.num_heads), rotation, self.dropout, product=self.product(),
        )
        return dpacked, None
