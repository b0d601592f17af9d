"""Heads of attention in plain NumPy, with their gradients and known mistakes: what pages are held against."""
import dataclasses
import math
from types import SimpleNamespace as Values
from typing import Any

import numpy as np

from study.page.attention import FROM_Q_K_V, FROM_X, Head

Arrays = dict[str, np.ndarray]


def softmax(scores):
    """Zeros for a row of -inf."""
    largest = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(largest == -np.inf, 0.0, largest))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def turned(a):
    return np.swapaxes(a, -1, -2)


def factor_of(h):
    return 1 / math.sqrt(h.q.shape[-1]) if h.factor is None else h.factor


def attention_values(
    dout, q, k, v, *, see, normalise, for_weights, weights, factor=None, bias=0.0, weigh=lambda h: h.p * h.dp,
    total=lambda h: h.weighed.sum(-1, keepdims=True), outer=lambda h: h.p, inner=lambda h: h.outer * (h.dp - h.rowsum),
    keep=lambda h: h.ds, sign=1.0, turn_k=turned, turn_v=turned, keys=lambda h: h.k, scale_q=factor_of, scale_k=factor_of,
    order=lambda dq, dk, dv: (dq, dk, dv),
):
    """Attention's backward, as all that it computes: scores and weights p again, and every gradient."""
    h = Values(q=q, k=k, v=v, dout=dout, factor=factor)
    h.scores = q @ turned(k) * factor_of(h) + bias
    h.seen = see(h)
    h.hidden = np.where(h.seen, h.scores, -np.inf)
    h.p = normalise(h)
    h.dp = for_weights(h)
    h.weighed = weigh(h)
    h.rowsum = total(h)
    h.outer = outer(h)
    h.ds = inner(h)
    h.ds = sign * keep(h)
    h.dq, h.dk = h.ds @ keys(h) * scale_q(h), turn_k(h.ds) @ q * scale_k(h)
    h.dq, h.dk, h.dv = order(h.dq, h.dk, turn_v(weights(h)) @ dout)
    return h


def scaled(by):
    return dict.fromkeys(("scale_q", "scale_k"), by)


def seen_below(k):
    return lambda h: np.tri(*h.scores.shape[-2:], k, dtype=bool)


def but_the_first(h):
    return seen_below(-1)(h) | (np.add.outer(*map(np.arange, h.scores.shape[-2:])) == 0)


CHANGES: dict[str, dict[str, Any]] = {  # the parts of `attention_values`, or `add`, that a mistake of the page replaces
    "attention: no rowsum": dict(inner=lambda h: h.outer * h.dp),
    "attention: diagonal only": dict(inner=lambda h: h.p * (h.dp - h.p * h.dp)),
    "attention: rowsum over queries": dict(total=lambda h: h.weighed.sum(-2, keepdims=True)),
    "attention: rowsum averaged": dict(total=lambda h: h.weighed.mean(-1, keepdims=True)),
    "attention: no weights in dscores": dict(outer=lambda h: np.where(h.seen, 1.0, 0.0)),
    "attention: rowsum without weights": dict(weigh=lambda h: h.dp),
    "attention: rowsum of the weights": dict(weigh=lambda h: h.p),
    "attention: rowsum added": dict(inner=lambda h: h.outer * (h.dp + h.rowsum)),
    "attention: sign": dict(sign=-1.0),
    "attention: no mask": dict(see=lambda h: np.ones(h.scores.shape[-2:], bool)),
    "attention: mask sees one ahead": dict(see=seen_below(1)),
    "attention: mask off by one": dict(see=but_the_first),
    "attention: mask transposed": dict(see=lambda h: turned(np.tri(*h.scores.shape[:-3:-1], dtype=bool))),
    "attention: mask skipped": dict(keep=lambda h: np.where(h.seen, h.ds, 0.0)),
    "attention: no scale": scaled(lambda h: 1.0), "attention: scale twice": scaled(lambda h: factor_of(h) ** 2),
    "attention: scale inverted": scaled(lambda h: 1 / factor_of(h)),
    "attention: dk without transpose": dict(turn_k=lambda a: a), "attention: dq from q": dict(keys=lambda h: h.q),
    "attention: k has no gradient": dict(order=lambda dq, dk, dv: (dq, 0 * dk, dv)),
    "attention: dq and dk exchanged": dict(order=lambda dq, dk, dv: (dk, dq, dv)),
    "attention: dv without transpose": dict(turn_v=lambda a: a),
    "attention: dweights without transpose": dict(for_weights=lambda h: h.dout @ h.v),
    "attention: dv from scores": dict(weights=lambda h: np.where(h.seen, h.scores, 0.0)),
    "attention: weights constant": dict(for_weights=lambda h: 0 * h.p),
    "self_attention: overwritten": dict(add=lambda dq, dk, dv: dv),
    "self_attention: query's path dropped": dict(add=lambda dq, dk, dv: dk + dv),
    "self_attention: averaged": dict(add=lambda dq, dk, dv: (dq + dk + dv) / 3),
}


def run(head: Head, inputs: Arrays, upstream: np.ndarray, changes: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """A head's values and gradients by the names of its tensors; `changes` replaces parts of the backward.

    The scores and the weights are those that backward recomputes; what follows from them is forward's.
    """
    if head.expected is not None:
        guessed = softmax(run(dataclasses.replace(head, expected=None), inputs, upstream, {})[0]["output"])
        upstream = guessed * head.expected.sum(-1, keepdims=True) - head.expected
    is_wrong, changes = bool(changes), {"add": lambda dq, dk, dv: dq + dk + dv, **changes}
    add = changes.pop("add")
    if head.starts_from_x:
        x, w_q, w_k, w_v, w_o = (inputs[name] for name in FROM_X)
        q, k, v, dattended = x @ w_q, x @ w_k, x @ w_v, upstream @ w_o.T
    else:
        (q, k, v), dattended = (inputs[name] for name in FROM_Q_K_V), upstream
    keep = 1.0 if head.keep is None else head.keep
    right = {"see": lambda h: head.mask, "normalise": lambda h: softmax(h.hidden), "factor": head.factor,
             "bias": 0.0 if head.bias is None else head.bias, "for_weights": lambda h: h.dout @ turned(h.v),
             "weights": lambda h: h.p * keep}
    parts = right | changes
    parts |= {"for_weights": lambda h, dropped=parts["for_weights"]: dropped(h) * keep}
    H, G = head.heads, head.groups
    heads = [into_heads(head, *a) for a in ((dattended, H), (q, H, True), (k, G, True), (v, G))]
    h = attention_values(*heads, **parts)
    attended = out_of_heads(head, (attention_values(*heads, **right).p * keep) @ heads[3], H)
    dq, dk, dv = (out_of_heads(head, *a) for a in ((h.dq, H, True), (h.dk, G, True), (h.dv, G)))
    values = dict(q=q, k=k, v=v, scores=h.scores, masked_scores=h.hidden, weights=h.p, output=attended)
    gradients = dict(output=upstream, weights=h.dp, masked_scores=h.ds, scores=h.ds, q=dq, k=dk, v=dv)
    if is_wrong:  # what the page shows as r
        gradients["row_sum"] = h.rowsum if h.rowsum.shape[-1] == 1 else (h.p * h.dp).sum(-1, keepdims=True)
    if head.starts_from_x:
        values |= dict(attended=attended, output=attended @ w_o)
        gradients |= dict(attended=dattended, w_o=attended.T @ upstream, w_q=x.T @ dq, w_k=x.T @ dk, w_v=x.T @ dv,
                          x=add(dq @ w_q.T, dk @ w_k.T, dv @ w_v.T))
    if head.targets:
        logits = values["logits"] = values["output"] @ inputs["w_u"]
        wrong = (softmax(logits) - np.eye(logits.shape[1])[list(head.targets)]) / len(logits)
        gradients |= dict(logits=wrong, w_u=values["output"].T @ wrong)
    return values, gradients


def into_heads(head: Head, a: np.ndarray, count: int, is_rotated: bool = False) -> np.ndarray:
    """(T, count D) as (H, T, D), or as it is for one head: cut, rotated by its positions, and shared in groups."""
    if head.heads == 1:
        return rotate(head, a, 1.0) if is_rotated else a
    a = a.reshape(len(a), count, -1).swapaxes(0, 1)
    return np.repeat(rotate(head, a, 1.0) if is_rotated else a, head.heads // count, axis=0)


def out_of_heads(head: Head, a: np.ndarray, count: int, is_rotated: bool = False) -> np.ndarray:
    """The transpose of `into_heads`."""
    if head.heads == 1:
        return rotate(head, a, -1.0) if is_rotated else a
    a = a.reshape(count, -1, *a.shape[1:]).sum(1)
    return (rotate(head, a, -1.0) if is_rotated else a).swapaxes(0, 1).reshape(a.shape[1], -1)


def rotate(head: Head, a: np.ndarray, direction: float) -> np.ndarray:
    """Rotary positions (..., T, D) as complex numbers, if the head has them."""
    if not head.rotary:
        return a
    angles = np.arange(a.shape[-2])[:, None] * 10_000.0 ** (-np.arange(0, a.shape[-1], 2) / a.shape[-1])
    pairs = (a[..., ::2] + 1j * a[..., 1::2]) * np.exp(1j * direction * angles)
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(a.shape)
