"""Scaled dot-product attention: fused, or spelled out where no fused op serves."""
import math
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, ops
from minigrad.extend import apply, definition
from nn.checks import check_same_dtype, probability
from nn.functional.layers import key_of


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, rotation: Tensor | None = None, *, enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value, for (..., Tq, D), (..., Tk, D), (..., Tk, Dv); scale is 1/sqrt(D).

    A boolean mask is True where a key takes part; a float mask is added to the scores. Masks broadcast to (..., Tq, Tk),
    and leading axes broadcast, too. With is_causal, query i sees the keys 0 to i. A query that sees no key gives zeros.
    Each weight is dropped with probability dropout_p. A rotation (at least Tq and Tk, D), alternating cosines and sines,
    rotates queries and keys first, as `nn.position.rotate` does. With enable_gqa, groups of heads, along axis -3 of the
    query, share a head of key and value. More than four axes, a Dv other than D, and masks and rotations that need a
    gradient go through `attention_weights`.

    NaN or infinity in a value reaches the queries that see it. Without kernels, and through `attention_weights`, it reaches
    all queries of its head, as 0 * NaN, as in PyTorch; backward, so does NaN in a key.
    """
    dropout_p = probability("scaled_dot_product_attention", "dropout_p", dropout_p)
    q, k, v = query, key, value
    if enable_gqa:
        if q.ndim < 3 or any(x.ndim < 3 or not x.shape[-3] or q.shape[-3] % x.shape[-3] for x in (k, v)):
            raise ValueError("scaled_dot_product_attention: with enable_gqa, axis -3 of query must be a multiple of those "
                             f"of key and value, got {q.shape}, {k.shape} and {v.shape}")
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    check_same_dtype("scaled_dot_product_attention", q, k, v)
    leading = _broadcast_shape(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if leading is None or min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("scaled_dot_product_attention: expected query (..., Tq, D), key (..., Tk, D) and value "
                         f"(..., Tk, Dv) with leading axes that broadcast, got {q.shape}, {k.shape} and {v.shape}")
    q, k, v = (x if x.shape[:-2] == leading else x.expand(leading + x.shape[-2:]) for x in (q, k, v))
    mask = None
    if attn_mask is not None:
        if is_causal:
            raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
        mask = _mask_to_add(attn_mask, q, q.shape[:-1] + k.shape[-2:-1])
    _check_rotation("scaled_dot_product_attention", rotation, q, max(q.shape[-2], k.shape[-2]), q.shape[-1])
    if q.ndim > 4 or k.shape != v.shape or any(x is not None and x.requires_grad for x in (mask, rotation)):
        if rotation is not None:
            q, k = (ops.attention.turned(x, rotation) for x in (q, k))
        return drop_weights(attention_weights(q, k, mask, is_causal, scale), dropout_p) @ v
    return apply(ops.attention.ScaledDotProductAttention, q, k, v, mask, rotation, is_causal=is_causal, scale=scale,
                 **_dropping(q.shape[:-1] + k.shape[-2:-1], dropout_p))


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(query @ key^T * scale + mask), (..., Tq, Tk): the weights of scaled_dot_product_attention, spelled out.

    The mask is added to the scores. A row that sees no key gets zeros.

    >>> q, k = mg.tensor([[1.0, 0.0], [0.0, 2.0]]), mg.tensor([[1.0, 1.0], [0.0, 1.0]])
    >>> attention_weights(q, k, is_causal=True)
    tensor([[1. , 0. ],
            [0.5, 0.5]])
    """
    scores = query @ key.mT * (1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale)
    if is_causal:
        past = mg.tensor(np.tri(*scores.shape[-2:], dtype=bool))
        scores = mg.where(past, scores, -math.inf)
        mask = None if mask is None else mg.where(past, mask, -math.inf)
    if mask is None:
        return scores.softmax(-1)
    blind = (mask == -math.inf).all(-1, keepdim=True)  # sees no key: its softmax would be 0 / 0
    return (scores + mask.masked_fill(blind, 0.0)).softmax(-1).masked_fill(blind, 0.0)


def drop_weights(weights: Tensor, p: float) -> Tensor:
    """`dropout` of the weights (..., Tq, Tk) of attention; it drops the same ones as scaled_dot_product_attention.

    >>> q, v = mg.randn(2, 3, 5, 4, dtype=mg.float64), mg.eye(5, dtype=mg.float64)[:, :4].expand(2, 3, 5, 4)
    >>> _ = mg.manual_seed(0)
    >>> out = scaled_dot_product_attention(q, q, v, dropout_p=0.5)
    >>> _ = mg.manual_seed(0)
    >>> mg.allclose(drop_weights(attention_weights(q, q), 0.5) @ v, out)
    True
    """
    p = probability("drop_weights", "p", p)
    if p == 0.0:
        return weights
    op = ops.attention.WeightsDropout
    return apply(op, weights, key=key_of(op, weights.shape), p=p)


def packed_attention(packed: Tensor, num_heads: int, is_causal: bool = False, dropout_p: float = 0.0,
                     rotation: Tensor | None = None) -> Tensor:
    """Self-attention on the output of one projection, packed = [q | k | v] (B, T, 3C): (B, T, C), with the heads merged.

    dropout_p and rotation (at least T, D) are those of `scaled_dot_product_attention`.
    """
    dropout_p = probability("packed_attention", "dropout_p", dropout_p)
    if packed.ndim != 3 or num_heads < 1 or packed.shape[-1] % (3 * num_heads):
        raise ValueError(f"packed_attention: expected (B, T, 3C) with C a multiple of {num_heads} heads, got "
                         f"{packed.shape}")
    _check_rotation("packed_attention", rotation, packed, packed.shape[1], packed.shape[-1] // 3 // num_heads)
    attention, options = ops.attention.PackedAttention, dict(num_heads=num_heads, is_causal=is_causal)
    options |= _dropping((packed.shape[0], num_heads, packed.shape[1], packed.shape[1]), dropout_p)
    if rotation is not None and rotation.requires_grad:
        return definition(attention, packed, rotation, **options)
    return apply(attention, packed, rotation, **options)


def _check_rotation(name: str, rotation: Tensor | None, x: Tensor, T: int, D: int) -> None:
    """An error if a rotation has fewer than T rows, or not D columns, or another dtype than x."""
    if rotation is None:
        return
    check_same_dtype(name, x, rotation)
    if D % 2 or rotation.ndim != 2 or rotation.shape[1] != D or len(rotation) < T:
        raise ValueError(f"{name}: expected a rotation (at least {T}, {D}), for an even number of features, got "
                         f"{rotation.shape}")


def _dropping(shape: tuple[int, ...], p: float) -> dict[str, Any]:
    """The options with which fused ops drop weights of this shape; none if p is 0."""
    return {} if p == 0.0 else {"dropout_p": p, "key": key_of(ops.attention.WeightsDropout, shape)}


def _mask_to_add(mask: Tensor, q: Tensor, scores_shape: tuple[int, ...]) -> Tensor:
    """The mask as floats to add to the scores, with -inf where a boolean one is False."""
    mask = mask if isinstance(mask, Tensor) else Tensor(mask)
    if mask.dtype.kind == "i":
        raise TypeError(f"scaled_dot_product_attention: expected a mask of booleans or floats, got {mask.dtype}; "
                        "mask.bool() says which keys take part")
    if _broadcast_shape(mask.shape, scores_shape) != scores_shape:
        raise ValueError(f"scaled_dot_product_attention: a mask of shape {mask.shape} does not broadcast to {scores_shape}")
    if mask.dtype == bool:
        mask = mg.where(mask, Tensor(0.0, dtype=q.dtype), -math.inf)
    return mask.to(q.dtype)


def _broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that these broadcast to, or None."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
