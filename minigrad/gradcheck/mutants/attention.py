"""Mistakes in attention, in all its parts."""
import math

import numpy as np

from .base import family, last, normal, turned

B, H, T, D = 2, 2, 4, 4  # T = D: a missing transpose still has the right shape
CAUSAL = np.tril(np.ones((T, T), bool))


def weights_of(q, k, scale, mask):
    scores = np.where(mask, q @ turned(k) * scale, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / last(e)


def attention(q, k, v):
    return weights_of(q, k, 1 / math.sqrt(D), CAUSAL) @ v


def attention_backward(
    dout, q, k, v, *, scale_q=1 / math.sqrt(D), scale_k=1 / math.sqrt(D), total=last, mask=CAUSAL, sign=1.0,
    keep=lambda dscores: dscores, turn_k=turned, turn_v=turned, to_dweights=lambda dout, v: dout @ turned(v),
    for_v=lambda p, q, k: p, order=lambda dq, dk, dv: (dq, dk, dv), outer=lambda p: p, keys=lambda q, k: k,
    forward_scale=1 / math.sqrt(D),
):
    p = weights_of(q, k, forward_scale, mask)
    dweights = to_dweights(dout, v)
    dscores = sign * keep(outer(p) * (dweights - total(p * dweights)))
    dq = dscores @ keys(q, k) * scale_q
    dk = turn_k(dscores) @ q * scale_k
    dv = turn_v(for_v(p, q, k)) @ dout
    return order(dq, dk, dv)


def heads_first(r):
    return [r.normal(size=(B, H, T, D)) for _ in range(3)]


family("attention", attention, attention_backward, heads_first, {
    "no scale": ("1 / sqrt(D) is missing in dq and dk", dict(scale_q=1.0, scale_k=1.0)),
    "no scale in dq": ("1 / sqrt(D) is missing in dq", dict(scale_q=1.0)),
    "no scale in dk": ("1 / sqrt(D) is missing in dk", dict(scale_k=1.0)),
    "scale twice": ("1 / D", dict(scale_q=1 / D, scale_k=1 / D)),
    "scale of the width": ("1 / sqrt(H D) for 1 / sqrt(D)",
                           dict(scale_q=1 / math.sqrt(H * D), scale_k=1 / math.sqrt(H * D))),
    "scale inverted": ("sqrt(D)", dict(scale_q=math.sqrt(D), scale_k=math.sqrt(D))),
    "no scale in the weights": ("backward recomputes the weights without the scale", dict(forward_scale=1.0)),
    "dk without transpose": ("dscores @ q", dict(turn_k=lambda a: a)),
    "dv without transpose": ("weights @ dout", dict(turn_v=lambda a: a)),
    "dweights without transpose": ("dout @ v", dict(to_dweights=lambda dout, v: dout @ v)),
    "no rowsum": ("softmax's sum over the row is missing", dict(total=np.zeros_like)),
    "diagonal only": ("weights (1 - weights) dweights", dict(total=lambda a: a)),
    "rowsum over queries": ("softmax's sum runs over the wrong axis", dict(total=lambda a: a.sum(-2, keepdims=True))),
    "rowsum averaged": ("the mean for the sum over the row", dict(total=lambda a: a.mean(-1, keepdims=True))),
    "no weights in dscores": ("dweights - rowsum, not multiplied by the weights",
                              dict(outer=lambda p: np.where(CAUSAL, 1.0, 0.0))),
    "sign": ("dscores has the wrong sign", dict(sign=-1.0)),
    "no mask": ("backward recomputes the weights without the mask", dict(mask=np.ones((T, T), bool))),
    "mask off by one": ("backward's causal mask hides the token itself, except the first",
                        dict(mask=np.tril(np.ones((T, T), bool), -1) | (np.eye(T) * (np.arange(T) == 0) > 0))),
    "mask sees one ahead": ("backward's causal mask shows one token too many",
                            dict(mask=np.tril(np.ones((T, T), bool), 1))),
    "mask transposed": ("backward's mask hides the past", dict(mask=CAUSAL.T)),
    "dv from scores": ("the scores for the weights in dv",
                       dict(for_v=lambda p, q, k: np.where(CAUSAL, q @ turned(k) / math.sqrt(D), 0))),
    "dq and dk exchanged": ("dq for k and dk for q", dict(order=lambda dq, dk, dv: (dk, dq, dv))),
    "dk and dv exchanged": ("dk for v and dv for k", dict(order=lambda dq, dk, dv: (dq, dv, dk))),
    "dq from q": ("dscores @ q for dscores @ k", dict(keys=lambda q, k: q)),
    "k has no gradient": ("only q and v get one", dict(order=lambda dq, dk, dv: (dq, 0 * dk, dv))),
    "weights constant": ("the gradient through the weights is missing",
                         dict(order=lambda dq, dk, dv: (0 * dq, 0 * dk, dv))),
    "batch summed": ("dv is averaged over the batch", dict(order=lambda dq, dk, dv: (dq, dk, 0 * dv + dv.mean(0)))),
    "heads summed": ("dq is averaged over heads",
                     dict(order=lambda dq, dk, dv: (0 * dq + dq.mean(1, keepdims=True), dk, dv))),
}, {
    "mask skipped": ("dscores is not masked, or masked again",
                     dict(keep=lambda dscores: np.where(CAUSAL, dscores, 0.0)),
                     "dscores = weights * (...), and the weights of masked positions are exactly zero"),
})


def split(x):
    """(T, H D) -> (H, T, D)"""
    return x.reshape(T, H, D).transpose(1, 0, 2)


def merge(x):
    """(H, T, D) -> (T, H D)"""
    return x.transpose(1, 0, 2).reshape(T, H * D)


def self_attention(x):
    heads = split(x)
    return x + merge(attention(heads, heads, heads))


def self_attention_backward(
    dout, x, *, split_dout=split, merge_dx=merge, add=lambda dq, dk, dv: dq + dk + dv, residual=1.0,
):
    heads = split(x)
    return residual * dout + merge_dx(add(*attention_backward(split_dout(dout), heads, heads, heads)))


family("self_attention", self_attention, self_attention_backward, normal((T, H * D)), {
    "residual dropped": ("x + attention(x) without the gradient of x itself", dict(residual=0.0)),
    "residual twice": ("the residual's gradient is added twice", dict(residual=2.0)),
    "branch dropped": ("only the residual gets a gradient", dict(add=lambda dq, dk, dv: 0 * dq)),
    "overwritten": ("only the last of the three paths is kept", dict(add=lambda dq, dk, dv: dv)),
    "query's path dropped": ("dk + dv", dict(add=lambda dq, dk, dv: dk + dv)),
    "averaged": ("the mean of the three paths for their sum", dict(add=lambda dq, dk, dv: (dq + dk + dv) / 3)),
    "heads split by a reshape": ("reshape(H, T, D) without the transpose",
                                 dict(split_dout=lambda x: x.reshape(H, T, D))),
    "heads merged by a reshape": ("reshape(T, H D) without the transpose",
                                  dict(merge_dx=lambda x: x.reshape(T, H * D))),
    "heads in reverse": ("the heads are merged in the wrong order", dict(merge_dx=lambda x: merge(x[::-1]))),
})
