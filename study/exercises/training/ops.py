"""The ops of a small transformer, each by the name of the exercise that asks for its backward.

They take what the exercise's forward takes, as Tensors, and run the library's own forward and backward.
"""
import math
from collections.abc import Callable, Mapping

import minigrad as mg
import nn.functional as F
from minigrad import Tensor

Ops = Mapping[str, Callable[..., Tensor]]


def multi_head(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Attention of (..., T, C), cut into heads (..., H, T, D), which are put side by side again."""
    def split(x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-3, -2)

    return F.scaled_dot_product_attention(split(q), split(k), split(v)).transpose(-3, -2).reshape(*q.shape[:-1], -1)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


LIBRARY: Ops = {
    "embedding": F.embedding,
    "linear": F.linear,
    "matmul": mg.matmul,
    "layer_norm": lambda x, weight, bias, eps: F.layer_norm(x, x.shape[-1], weight, bias, eps),
    "rms_norm": lambda x, weight, eps: F.rms_norm(x, x.shape[-1], weight, eps),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "tanh": mg.tanh,
    "softmax": lambda x: x.softmax(-1),
    "masked_softmax": lambda scores, mask: scores.masked_fill(mg.logical_not(mask), -math.inf).softmax(-1),
    "scores": lambda q, k: q @ k.mT / math.sqrt(q.shape[-1]),
    "attention": F.scaled_dot_product_attention,
    "multi_head": multi_head,
    "causal_attention": causal_attention,
    "blockwise_attention": lambda q, k, v, block: causal_attention(q, k, v),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cross_entropy": F.cross_entropy,
}
