"""The layers' functions, without their parameters: checks of shapes and values, then one operation.

Errors name the function, what it expected, and what came.
"""
import math
from typing import Sequence

import numpy as np

from minigrad import ops, random
from minigrad.methods import where
from minigrad.methods.operands import floating
from minigrad.tensor import Tensor, apply


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight^T + bias, for x (..., I), weight (O, I), bias (O,); the result is (..., O)."""
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: mat1 and mat2 shapes cannot be multiplied ({x.shape} and {weight.shape} transposed): the last "
            "axis of x must be the weight's in_features"
        )
    if bias is not None and bias.shape != (weight.shape[0],):
        raise ValueError(f"linear: expected a bias of shape {(weight.shape[0],)}, got {bias.shape}")
    _same_dtype("linear", x, weight, bias)
    return apply(ops.Linear, x, weight, bias)


def embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """Rows of weight (V, C), picked by ids (...): (..., C). Ids must lie in 0 to V - 1."""
    ids = _class_ids("embedding: ids", ids, weight.shape[0])
    return apply(ops.Embedding, weight, ids=ids)


def layer_norm(
    x: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axes, which have `normalized_shape`."""
    normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not normalized_shape or x.shape[-len(normalized_shape) :] != normalized_shape:
        raise ValueError(f"layer_norm: expected x of shape (..., {str(normalized_shape)[1:-1]}), got {x.shape}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != normalized_shape:
            raise ValueError(f"layer_norm: expected a {name} of shape {normalized_shape}, got {parameter.shape}")
    _same_dtype("layer_norm", x, weight, bias)
    if len(normalized_shape) == 1:
        return apply(ops.LayerNorm, x, weight, bias, eps=eps)
    flat = [p if p is None else p.reshape(-1) for p in (weight, bias)]
    rows = x.reshape(*x.shape[: -len(normalized_shape)], math.prod(normalized_shape))
    return apply(ops.LayerNorm, rows, *flat, eps=eps).reshape(x.shape)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation of it."""
    return x.gelu(approximate)


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return x.relu()


def tanh(x: Tensor) -> Tensor:
    return x.tanh()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return x.sigmoid()


def softmax(x: Tensor, dim: int) -> Tensor:
    """e^x / sum of e^x along dim."""
    return x.softmax(dim)


def log_softmax(x: Tensor, dim: int) -> Tensor:
    """x - log(sum of e^x along dim)."""
    return x.log_softmax(dim)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each element is set to zero with probability p and multiplied by 1 / (1 - p) otherwise."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: the probability must lie between 0 and 1, got {p}")
    if not training or p == 0.0:
        return x
    keep = random.generator().random(x.shape, np.float32) >= p
    return apply(ops.Dropout, x, keep=keep, p=p)


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """log(sum of e^logits) - logits[target], for logits (N, V), or (N, V, d1, ...) and targets (N, d1, ...).

    Targets equal to ignore_index do not count. reduction is 'mean' (over those that count), 'sum' or 'none'.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    classes_last = logits if logits.ndim <= 2 else logits.permute(0, *range(2, logits.ndim), 1)
    if logits.ndim == 0 or targets.shape != classes_last.shape[:-1]:
        raise ValueError(
            f"cross_entropy: expected logits (N, V) or (N, V, d1, ...) and targets (N, d1, ...), got {logits.shape} "
            f"and {targets.shape}"
        )
    classes = classes_last.shape[-1]
    ids = _class_ids("cross_entropy: targets", targets, classes, ignore_index)
    loss = apply(
        ops.CrossEntropy, floating(classes_last).reshape(ids.size, classes), targets=ids.reshape(-1),
        ignore_index=ignore_index, reduction=reduction,
    )
    return loss.reshape(targets.shape) if reduction == "none" else loss


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value, for (..., Tq, D), (..., Tk, D), (..., Tk, Dv); scale is 1/sqrt(D).

    A boolean mask says which keys take part (True), a float mask is added to the scores; both broadcast to
    (..., Tq, Tk). A causal query i sees the keys 0 to i. A row without any key gives zeros. The fused kernels serve up
    to four axes; dropout, Dv other than D and masks that need a gradient go through the definition.
    """
    q, k, v = query, key, value
    _same_dtype("scaled_dot_product_attention", q, k, v)
    fits = min(q.ndim, k.ndim, v.ndim) >= 2 and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    if not fits or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(
            "scaled_dot_product_attention: expected query (..., Tq, D), key (..., Tk, D) and value (..., Tk, Dv) with "
            f"equal leading axes, got {q.shape}, {k.shape} and {v.shape}"
        )
    mask = None
    if attn_mask is not None:
        if is_causal:
            raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
        mask = attn_mask
        if mask.dtype == bool:
            mask = where(mask, Tensor(0.0, dtype=q.dtype), -math.inf)
        mask = mask.to(q.dtype)
        scores_shape = q.shape[:-1] + k.shape[-2:-1]
        try:
            np.broadcast_to(mask.data, scores_shape)
        except ValueError:
            raise ValueError(
                f"scaled_dot_product_attention: a mask of shape {attn_mask.shape} does not broadcast to {scores_shape}"
            ) from None
    if dropout_p > 0.0 or q.ndim > 4 or k.shape != v.shape or (mask is not None and mask.requires_grad):
        out, weights = ops.spelled_out_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
        return out if dropout_p == 0.0 else dropout(weights, dropout_p) @ v
    lead = (1,) * (4 - q.ndim)
    q4, k4, v4 = (x.reshape(lead + x.shape) if lead else x for x in (q, k, v))
    out = apply(ops.ScaledDotProductAttention, q4, k4, v4, mask, is_causal=is_causal, scale=scale)
    return out.reshape(q.shape[:-1] + v.shape[-1:]) if lead else out


def packed_attention(packed: Tensor, num_heads: int, is_causal: bool = False) -> Tensor:
    """Self-attention on one projection's output, packed = [q | k | v] (B, T, 3C): (B, T, C), heads merged again."""
    if packed.ndim != 3 or num_heads < 1 or packed.shape[-1] % (3 * num_heads):
        raise ValueError(
            f"packed_attention: expected (B, T, 3C) with C a multiple of {num_heads} heads, got {packed.shape}"
        )
    return apply(ops.PackedAttention, packed, num_heads=num_heads, is_causal=is_causal)


def _same_dtype(name: str, x: Tensor, *others: Tensor | None) -> None:
    for other in others:
        if other is not None and other.dtype != x.dtype:
            raise TypeError(f"{name}: expected one dtype, got {x.dtype} and {other.dtype}; convert with .to(dtype)")


def _class_ids(name: str, ids: Tensor, classes: int, ignore_index: int | None = None) -> np.ndarray:
    """The ids as an array, each in 0 to classes - 1 (or ignore_index): a kernel would read other memory."""
    if ids.dtype != np.int64:
        raise TypeError(f"{name} must be integers, got {ids.dtype}")
    array = ids.data
    bad = (array < 0) | (array >= classes)
    if ignore_index is not None:
        bad &= array != ignore_index
    if bad.any():
        raise IndexError(f"{name}: index {array[bad][0]} is out of range; expected 0 to {classes - 1}")
    return array
