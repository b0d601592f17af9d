"""Heads of attention in plain NumPy, with their gradients and known mistakes: what pages are held against."""
import dataclasses
from typing import Any

import numpy as np

from nn.position import rotary_frequencies
from study.mistakes.attention import attention_values, safe_softmax, turned
from study.mistakes.base import softmax
from study.page.attention import FROM_Q_K_V, FROM_X, Head

Arrays = dict[str, np.ndarray]


def run(head: Head, inputs: Arrays, upstream: np.ndarray, changes: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """A head's values and gradients by the names of its tensors; `changes` replaces parts of the backward.

    The scores and the weights are those that backward recomputes; what follows from them is forward's.
    """
    if head.expected is not None:
        upstream = softmax(run(dataclasses.replace(head, expected=None), inputs, upstream, {})[0]["output"]) - head.expected
    changes = {"add": lambda dq, dk, dv: dq + dk + dv, **changes}
    add = changes.pop("add")
    if head.starts_from_x:
        x, w_q, w_k, w_v, w_o = (inputs[name] for name in FROM_X)
        q, k, v, dattended = x @ w_q, x @ w_k, x @ w_v, upstream @ w_o.T
    else:
        (q, k, v), dattended = (inputs[name] for name in FROM_Q_K_V), upstream
    keep = 1.0 if head.keep is None else head.keep
    right = {"see": lambda h: head.mask, "normalise": lambda h: safe_softmax(h.hidden), "factor": head.factor,
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
    angles = np.arange(a.shape[-2])[:, None] * rotary_frequencies(a.shape[-1])
    pairs = (a[..., ::2] + 1j * a[..., 1::2]) * np.exp(1j * direction * angles)
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(a.shape)
