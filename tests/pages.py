"""Traces of attention, and extras for their pages."""
import math

import numpy as np

import minigrad as mg
from minigrad.tracing import Trace

INPUTS = "q", "k", "v", "upstream"
# numbers of a user
Q_K_V = {"q": [[1, 0.5], [0, 2]], "k": [[1, 1], [-1, 0.5]], "v": [[1, 2], [3, 4]], "upstream": [[1, 0], [0.5, -1]]}
X = {"x": [[1, 0.5], [0, 2]], "w_q": [[1], [2]], "w_k": [[1], [-1]], "w_v": [[1, 0, 1], [2, 1, 0]],
     "w_o": [[1, 2], [0, 1], [1, 1]], "upstream": [[1, 0], [0.5, -1]]}
CLASSES = {"w_u": [[0.5, -1, 2], [1, 0, -0.5]], "targets": [2, 0]}


def draw(random, t: int, d: int) -> dict[str, np.ndarray]:
    return {name: random.standard_normal((t, d)) for name in INPUTS}


def trace_of(inputs: dict[str, np.ndarray], causal: bool = True, scale: float | None = None) -> Trace:
    q, k, v, upstream = (mg.tensor(inputs[name], dtype=mg.float64, requires_grad=True) for name in INPUTS)
    t, d = q.shape
    scale = 1 / math.sqrt(d) if scale is None else scale
    mask = np.tri(t, dtype=bool) if causal else np.ones((t, t), bool)
    with mg.trace() as trace:
        k_transposed = k.T
        products = q @ k_transposed
        scores = products * scale
        masked_scores = mg.where(mask, scores, -np.inf)
        weights = masked_scores.softmax(-1)
        output = weights @ v
        read_out = output * upstream
        loss = read_out.sum()
        loss.backward()
    return trace


def extras_of(t: int, d: int) -> dict:
    """Switches, mistakes and words for the page of such a trace."""
    return {
        "title": "Attention",
        "introduction": "One head.",
        "layout": [{"names": names} for names in (["q", "k", "v", "upstream"], ["scores", "masked_scores", "weights"], ["output", "loss"])],
        "labels": {"q": {"rows": [f"token {i}" for i in range(t)]}},
        "symbols": {"weights": "P", "masked_scores": "S"},
        "steps": {
            "scores": {"title": "Scores", "joins": ["k_transposed", "products"],
                       "forward": {"formula": "S_ij = sum_d q_id k_jd / sqrt(D)", "derivation": ["Queries meet keys."]}},
            "weights": {"backward": {"formula": "dS", "derivation": ["One line.", "Another, of `dS_ij / <b>`."]}},
        },
        "switches": [
            {"name": "causal", "label": "Mask", "choices": [
                {"label": "as it was", "sets": []}, {"label": "none", "sets": [mask_set(np.ones((t, t), bool))]}]},
            {"name": "scale", "label": "Scale", "number": {"step": "scores", "input": 1, "value": 1 / math.sqrt(d)}},
        ],
        "mistakes": [{"name": name, "title": name, "sentence": "It is wrong.", "check": "FAIL\n  of it", "steps": [*wrong]}
                     for name, wrong in backwards(t, d).items()],
        "shares": [{"tensor": "scores", "through": [{"label": "all", "tensor": "masked_scores"}]}],
    }


def mask_set(mask: np.ndarray) -> dict:
    return {"step": "masked_scores", "option": "condition", "value": mask}


def backwards(t: int, d: int) -> dict[str, dict]:
    """Mistakes of the page: one of each kind."""
    def ahead(at):
        e = np.exp(np.where(np.tri(t, k=1, dtype=bool), at.values["scores"], -np.inf))
        return e / np.sum(e, axis=-1, keepdims=True)

    def of_weights(at, dout, p):
        p = ahead(at)
        return p * (dout - np.sum(dout * p, axis=-1, keepdims=True))

    return {
        "no scale in dq": {"products": lambda at, dout, q, k: (at.right[0] * math.sqrt(d), at.right[1])},
        "no rowsum": {"weights": lambda at, dout, p: p * dout},
        "rowsum averaged": {"weights": lambda at, dout, p: p * (dout - np.mean(dout * p, axis=-1, keepdims=True))},
        "dv without transpose": {"output": lambda at, dout, p, v: (at.right[0], p @ dout)},
        "mask sees one ahead": {"weights": of_weights, "output": lambda at, dout, p, v: (at.right[0], ahead(at).T @ dout)},
        "dq and dk exchanged": {"products": lambda at, dout, q, k: (at.right[1].T, at.right[0].T)},
    }
