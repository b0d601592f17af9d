"""Mistakes in attention of several heads: how they are split and merged, and self-attention with a residual."""
import math

import numpy as np

from .attention import D, H, T, attention_backward, causal_attention, full_attention, full_attention_backward
from .base import family, normal, replaced, same, softmax, turned


def split(x, heads):
    """(..., T, heads * d) -> (..., heads, T, d)"""
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -3, -2)


def merge(x):
    """(..., heads, T, d) -> (..., T, heads * d)"""
    x = np.swapaxes(x, -3, -2)
    return x.reshape(*x.shape[:-2], -1)


def split_only(x, heads):
    """(..., T, heads, d), not transposed."""
    return x.reshape(*x.shape[:-1], heads, -1)


def split_by_reshape(x, heads):
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)


def merge_by_reshape(x):
    return x.reshape(*x.shape[:-3], x.shape[-2], -1)


def split_interleaved(x, heads):
    """Each head takes every heads-th column."""
    return np.moveaxis(x.reshape(*x.shape[:-1], -1, heads), -1, -3)


def merge_interleaved(x):
    x = np.moveaxis(x, -3, -1)
    return x.reshape(*x.shape[:-2], -1)


def merge_transposed(x):
    """The heads side by side, each transposed before it is written row by row."""
    return merge_by_reshape(turned(x))


def one_head(which):
    def merged(x):
        kept = np.zeros_like(x)
        kept[..., which, :, :] = x[..., which, :, :]
        return merge(kept)
    return merged


def without_head(which):
    """Merges the heads with one of them set to zero."""
    return lambda x: merge(np.where((np.arange(x.shape[-3]) == which % x.shape[-3])[:, None, None], 0.0, x))


def multi_head(q, k, v, heads=2):
    return merge(full_attention(split(q, heads), split(k, heads), split(v, heads)))


def multi_head_backward(dout, q, k, v, *, heads=2, count=lambda heads, width: heads, split_inputs=split, split_dout=split,
                        merge_gradients=merge, **parts):
    n = count(heads, q.shape[-1])
    gradients = full_attention_backward(
        split_dout(dout, n), split_inputs(q, n), split_inputs(k, n), split_inputs(v, n), **parts)
    return tuple(merge_gradients(g) for g in gradients)


MULTI_HEAD = {
    "heads ignored": ("all of the width is taken for one head", dict(count=lambda heads, width: 1)),
    "heads for their size": ("there are as many heads as one should have columns, and the other way round",
                             dict(count=lambda heads, width: width // heads)),
    "split and merged by a reshape": (
        "heads are split and merged by a reshape alone: (T, heads, d) should be transposed to (heads, T, d), and back",
        dict(split_inputs=split_by_reshape, split_dout=split_by_reshape, merge_gradients=merge_by_reshape)),
    "attention over heads": (
        "each token's heads look at one another: (T, heads, d) should be transposed to (heads, T, d) first",
        dict(split_inputs=split_only, split_dout=split_only, merge_gradients=lambda x: x.reshape(*x.shape[:-2], -1))),
    "split by a reshape": ("heads are split by a reshape alone: (T, heads, d) should be transposed to (heads, T, d)",
                           dict(split_inputs=split_by_reshape, split_dout=split_by_reshape)),
    "inputs split by a reshape": ("q, k and v are split by a reshape alone: (T, heads, d) should be transposed",
                                  dict(split_inputs=split_by_reshape)),
    "dout split by a reshape": ("dout is split by a reshape alone: (T, heads, d) should be transposed to (heads, T, d)",
                                dict(split_dout=split_by_reshape)),
    "merged by a reshape": ("the heads' gradients are merged by a reshape alone: (heads, T, d) should be transposed first",
                            dict(merge_gradients=merge_by_reshape)),
    "not merged": ("the heads' gradients are not merged: they are (heads, T, d), and should be (T, heads * d)",
                   dict(merge_gradients=lambda x: x)),
    "merged transposed": ("the heads' gradients are merged with their axes in the wrong order",
                          dict(merge_gradients=merge_transposed)),
    "interleaved": ("each head takes every H-th column: it has neighbouring columns, reshape to (T, heads, d)",
                    dict(split_inputs=split_interleaved, split_dout=split_interleaved, merge_gradients=merge_interleaved)),
    "dout interleaved": ("each head takes every H-th column of dout: it has neighbouring columns",
                         dict(split_dout=split_interleaved)),
    "merged interleaved": ("the columns of the heads' gradients are interleaved: each head's are neighbours",
                           dict(merge_gradients=merge_interleaved)),
    "heads in reverse": ("the heads' gradients are merged in reverse order",
                         dict(merge_gradients=lambda x: merge(x[..., ::-1, :, :]))),
    "dout's heads in reverse": ("the heads of dout are in reverse order",
                                dict(split_dout=lambda x, heads: split(x, heads)[..., ::-1, :, :])),
    "only the last head": ("only the last head's gradients are kept: those of the others are overwritten, or lost",
                           dict(merge_gradients=one_head(-1))),
    "only the first head": ("only the first head's gradients are kept", dict(merge_gradients=one_head(0))),
    "heads averaged": ("each head gets the mean of all heads' gradients: each has columns of its own",
                       dict(merge_gradients=lambda x: merge(np.broadcast_to(x.mean(-3, keepdims=True), x.shape)))),
    "heads added": ("each head gets the sum of all heads' gradients: each has columns of its own",
                    dict(merge_gradients=lambda x: merge(np.broadcast_to(x.sum(-3, keepdims=True), x.shape)))),
    "scale of the heads": ("1 / sqrt(heads) for 1 / sqrt(d) everywhere: a score is the sum of d products",
                           dict.fromkeys(("scale", "scale_q", "scale_k"), lambda h: 1 / math.sqrt(h.q.shape[-3]))),
    "last head left out": ("the last head is left out: its columns are zero, as if a loop ended too early",
                           dict(merge_gradients=without_head(-1))),
    "first head left out": ("the first head is left out: its columns are zero, as if a loop started at 1",
                            dict(merge_gradients=without_head(0))),
    "softmax over heads": ("the softmax runs over the heads, and should over the keys",
                           dict(normalise=lambda h: softmax(h.hidden, -3),
                                total=lambda h: h.weighed.sum(-3, keepdims=True))),
}
family("multi_head", multi_head, multi_head_backward, normal(*[(4, 8)] * 3), MULTI_HEAD)


def shared_heads_backward(dout, x, *, gather=lambda g: g.sum(-3), finish=same):
    return finish(gather(dout.reshape(*x.shape[:-2], 2, *x.shape[-2:])))


family("shared_heads", lambda x: np.repeat(x, 2, -3), shared_heads_backward, normal((2, 4, 4)),
       replaced("gather", {
    "first head": ("keys and values get the gradient of the first of the heads that share them: the gradients of all add",
                   lambda g: g[..., 0, :, :]),
    "last head": ("keys and values get the gradient of the last of the heads that share them: = overwrites where += adds",
                  lambda g: g[..., -1, :, :]),
    "averaged": ("the gradients of the heads that share keys and values are averaged: they add", lambda g: g.mean(-3)),
    "tiled": ("keys and values are taken to be shared by every H-th head (tile): they are shared by neighbours (repeat)",
              dict(gather=same, finish=lambda g: np.swapaxes(g.reshape(*g.shape[:-4], g.shape[-3], g.shape[-4],
                                                                       *g.shape[-2:]), -4, -3).sum(-3))),
}))


def self_attention(x):
    heads = split(x, H)
    return x + merge(causal_attention(heads, heads, heads))


def self_attention_backward(
    dout, x, *, split_dout=split, merge_dx=merge, add=lambda dq, dk, dv: dq + dk + dv, residual=1.0,
):
    heads = split(x, H)
    return residual * dout + merge_dx(add(*attention_backward(split_dout(dout, H), heads, heads, heads)))


family("self_attention", self_attention, self_attention_backward, normal((T, H * D)), {
    "residual dropped": ("the residual's own path is missing: x goes to the output unchanged too, so dout is added to dx",
                         dict(residual=0.0)),
    "residual twice": ("the residual's gradient dout is added twice", dict(residual=2.0)),
    "branch dropped": ("only the residual gets a gradient: x reaches the output through attention as well",
                       dict(add=lambda dq, dk, dv: 0 * dq)),
    "overwritten": ("only the last of the three paths is kept: x serves as q, k and v, so their gradients add",
                    dict(add=lambda dq, dk, dv: dv)),
    "query's path dropped": ("the path through q is missing: dk + dv", dict(add=lambda dq, dk, dv: dk + dv)),
    "key's path dropped": ("the path through k is missing: dq + dv", dict(add=lambda dq, dk, dv: dq + dv)),
    "value's path dropped": ("the path through v is missing: dq + dk", dict(add=lambda dq, dk, dv: dq + dk)),
    "averaged": ("the mean of the three paths replaces their sum", dict(add=lambda dq, dk, dv: (dq + dk + dv) / 3)),
    "heads split by a reshape": ("dout's heads are split by a reshape alone: (T, heads, d) should be transposed",
                                 dict(split_dout=split_by_reshape)),
    "heads merged by a reshape": ("the heads' gradients are merged by a reshape alone: (heads, T, d) should be transposed "
                                  "first", dict(merge_dx=merge_by_reshape)),
    "heads in reverse": ("the heads' gradients are merged in reverse order", dict(merge_dx=lambda x: merge(x[::-1]))),
})
