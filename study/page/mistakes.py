"""Known wrong backwards of attention, and what a gradient check says of them.

BACKWARD has the right one, in NumPy: a rule for each gradient, in the order in which they are computed. A mistake is data:
the rules that stand there instead. They are named as in `minigrad.gradcheck.mutants`, where the same mistakes are made
in a function of fixed sizes.
"""
import dataclasses
import math
import types
from collections.abc import Callable

import numpy as np

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.mutants import Differentiable
from study.page.attention import Head

Known = types.SimpleNamespace  # what a rule may use: inputs, values and mask of a head, and gradients computed before
Rule = Callable[[Known], np.ndarray]


def rows(a: np.ndarray) -> np.ndarray:
    """The sum of each row."""
    return a.sum(-1, keepdims=True)


def softmax(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Of each row, where the mask is True; zeros in a row without any."""
    masked = np.where(mask, scores, -np.inf)
    largest = masked.max(-1, keepdims=True)
    e = np.exp(masked - np.where(largest == -np.inf, 0.0, largest))
    total = rows(e)
    return e / np.where(total == 0.0, 1.0, total)


def forward(head: Head, inputs: dict[str, np.ndarray]) -> Known:
    """All values of a head."""
    h = Known(**inputs, mask=head.mask, scale=head.factor)
    if head.starts_from_x:
        h.q, h.k, h.v = h.x @ h.w_q, h.x @ h.w_k, h.x @ h.w_v
    h.bias = 0.0 if head.bias is None else head.bias
    h.scores = h.q @ h.k.T * h.scale + h.bias
    h.weights = softmax(h.scores, h.mask)
    h.output = h.weights @ h.v
    if head.starts_from_x:
        h.attended = h.output
        h.output = h.attended @ h.w_o
    return h


BACKWARD: dict[str, Rule] = {  # of each gradient; `dattended` is that of weights @ v
    "v": lambda h: h.weights.T @ h.dattended,
    "weights": lambda h: h.dattended @ h.v.T,
    "masked_scores": lambda h: h.weights * (h.dweights - rows(h.dweights * h.weights)),
    "scores": lambda h: np.where(h.mask, h.dmasked_scores, 0.0),
    "products": lambda h: h.dscores * h.scale,
    "q": lambda h: h.dproducts @ h.k,
    "k": lambda h: h.dproducts.T @ h.q,
}
TO_X: dict[str, Rule] = {
    "w_q": lambda h: h.x.T @ h.dq,
    "w_k": lambda h: h.x.T @ h.dk,
    "w_v": lambda h: h.x.T @ h.dv,
    "x": lambda h: h.dq @ h.w_q.T + h.dk @ h.w_k.T + h.dv @ h.w_v.T,
}


def backward(head: Head, h: Known, upstream: np.ndarray, changes: dict[str, Rule]) -> dict[str, np.ndarray]:
    """The gradient of each tensor, by the rules of BACKWARD or, where there are, those of a mistake."""
    found, rules = {"output": upstream}, dict(BACKWARD)
    h.dattended = upstream
    if head.starts_from_x:
        h.dattended = found["attended"] = upstream @ h.w_o.T
        found["w_o"] = h.attended.T @ upstream
        rules |= TO_X
    for name, rule in rules.items():
        found[name] = changes.get(name, rule)(h)
        setattr(h, f"d{name}", found[name])
    return found


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A backward with other rules for some gradients."""

    name: str  # in minigrad.gradcheck.mutants.MUTANTS
    title: str
    sentence: str
    step: str  # whose backward is wrong: the tensor that the step makes
    changes: dict[str, Rule]
    equivalent: str = ""  # why it is right after all, if it is

    def gradients(self, head: Head) -> dict[str, np.ndarray]:
        """What this backward gives for each tensor of a head. ValueError if the shapes do not fit: such a mistake would
        be an error."""
        h = forward(head, head.inputs)
        with np.errstate(all="ignore"):
            wrong = backward(head, h, head.upstream, self.changes)
        right = backward(head, h, head.upstream, {})
        for name, gradient in wrong.items():
            if gradient.shape != right[name].shape:
                raise ValueError(f"{self.name}: a gradient {gradient.shape} for {name} {right[name].shape}")
        return wrong

    def fits(self, head: Head) -> bool:
        """Can it be made without an error, with these shapes?"""
        try:
            self.gradients(head)
        except (ValueError, AttributeError):
            return False
        return True


def recomputed(weights: Rule) -> dict[str, Rule]:
    """Backward with other weights than forward had."""
    def dscores(h: Known) -> np.ndarray:
        wrong = weights(h)
        return wrong * (h.dweights - rows(h.dweights * wrong))

    return {"v": lambda h: weights(h).T @ h.dattended, "masked_scores": dscores,
            "scores": lambda h: h.dmasked_scores}


def diagonal(size: int, offset: int = 0) -> np.ndarray:
    return np.tri(size, k=offset, dtype=bool)


MISTAKES = [
    # ---- softmax: weights ----
    Mistake("attention: no rowsum", "no row sum", "The sum over the row is missing, as if the weights of a row did not "
            "compete.", "weights", {"masked_scores": lambda h: h.weights * h.dweights}),
    Mistake("attention: diagonal only", "only the diagonal", "Each weight is taken to depend on its own score only: "
            "p (1 - p), the diagonal of softmax's Jacobian.", "weights",
            {"masked_scores": lambda h: h.weights * (1 - h.weights) * h.dweights}),
    Mistake("attention: rowsum over queries", "sum over columns", "Softmax's sum runs down the columns, over the queries.",
            "weights",
            {"masked_scores": lambda h: h.weights * (h.dweights - (h.dweights * h.weights).sum(-2, keepdims=True))}),
    Mistake("attention: rowsum averaged", "mean for the sum", "The mean over the row stands for its sum.", "weights",
            {"masked_scores": lambda h: h.weights * (h.dweights - (h.dweights * h.weights).mean(-1, keepdims=True))}),
    Mistake("attention: no weights in dscores", "not times the weights", "The difference is not multiplied by the weights.",
            "weights", {"masked_scores": lambda h: np.where(h.mask, h.dweights - rows(h.dweights * h.weights), 0.0)}),
    Mistake("softmax: no p in the sum", "unweighted sum", "The row's sum of dweights, without the weights.", "weights",
            {"masked_scores": lambda h: h.weights * (h.dweights - rows(h.dweights))}),
    Mistake("softmax: sum is added", "sum is added", "The row sum is added instead of subtracted.", "weights",
            {"masked_scores": lambda h: h.weights * (h.dweights + rows(h.dweights * h.weights))}),
    Mistake("attention: sign", "wrong sign", "The gradient of the scores has the wrong sign.", "weights",
            {"masked_scores": lambda h: -h.weights * (h.dweights - rows(h.dweights * h.weights))}),
    # ---- the mask ----
    Mistake("attention: no mask", "mask forgotten", "Backward recomputes the weights without the mask.", "weights",
            recomputed(lambda h: softmax(h.scores, np.ones_like(h.mask)))),
    Mistake("attention: mask sees one ahead", "mask sees one ahead", "Backward's causal mask shows one token too many.",
            "weights", recomputed(lambda h: softmax(h.scores, np.tri(*h.mask.shape, k=1, dtype=bool)))),
    Mistake("attention: mask transposed", "mask transposed", "Backward's mask hides the past instead of the future.",
            "weights", recomputed(lambda h: softmax(h.scores, h.mask.T))),
    Mistake("attention: mask skipped", "mask not applied again", "The gradient of the scores is not masked once more.",
            "masked_scores", {"scores": lambda h: h.dmasked_scores},
            "dscores = weights * (...), and the weights of masked positions are exactly zero"),
    # ---- the scale: scores ----
    Mistake("attention: no scale", "no scale", "The scale is missing in dq and dk.", "scores",
            {"products": lambda h: h.dscores}),
    Mistake("attention: scale twice", "scale twice", "The scale is applied twice.", "scores",
            {"products": lambda h: h.dscores * h.scale**2}),
    Mistake("attention: scale inverted", "divided by the scale", "Divided by the scale instead of multiplied.", "scores",
            {"products": lambda h: h.dscores / h.scale}),
    Mistake("attention: no scale in the weights", "scores recomputed without scale", "Backward recomputes the weights "
            "without the scale.", "scores", recomputed(lambda h: softmax((h.scores - h.bias) / h.scale + h.bias, h.mask))),
    # ---- the products ----
    Mistake("attention: no scale in dq", "no scale in dq", "The scale is missing in dq only.", "products",
            {"q": lambda h: h.dscores @ h.k}),
    Mistake("attention: no scale in dk", "no scale in dk", "The scale is missing in dk only.", "products",
            {"k": lambda h: h.dscores.T @ h.q}),
    Mistake("attention: dk without transpose", "dk not transposed", "dscores @ q for dscores^T @ q.", "products",
            {"k": lambda h: h.dproducts @ h.q}),
    Mistake("attention: dq from q", "dq from q", "dscores @ q for dscores @ k.", "products",
            {"q": lambda h: h.dproducts @ h.q}),
    Mistake("attention: dq and dk exchanged", "dq and dk exchanged", "The gradient of q is given to k, and that of k to q.",
            "products", {"q": lambda h: h.dproducts.T @ h.q, "k": lambda h: h.dproducts @ h.k}),
    Mistake("attention: k has no gradient", "k is constant", "Only q and v get a gradient.", "products",
            {"k": lambda h: 0 * h.k}),
    # ---- weights @ v ----
    Mistake("attention: dv without transpose", "dv not transposed", "weights @ dout for weights^T @ dout.", "output",
            {"v": lambda h: h.weights @ h.dattended}),
    Mistake("attention: dweights without transpose", "dweights not transposed", "dout @ v for dout @ v^T.", "output",
            {"weights": lambda h: h.dattended @ h.v}),
    Mistake("attention: dv from scores", "dv from scores", "The scores stand for the weights in dv.", "output",
            {"v": lambda h: np.where(h.mask, h.scores, 0.0).T @ h.dattended}),
    Mistake("attention: weights constant", "weights are constant", "Only v gets a gradient: that through the weights is "
            "missing.", "output", {"weights": lambda h: 0 * h.weights}),
    # ---- x, which is used three times ----
    Mistake("self_attention: overwritten", "only the last path", "x is used three times, and its gradient is overwritten "
            "instead of added to.", "v", {"x": lambda h: h.dv @ h.w_v.T}),
    Mistake("self_attention: query's path dropped", "no path through q", "What arrives at x through q is missing.", "q",
            {"x": lambda h: h.dk @ h.w_k.T + h.dv @ h.w_v.T}),
    Mistake("self_attention: averaged", "mean of the paths", "The mean of the three paths stands for their sum.", "x",
            {"x": lambda h: (h.dq @ h.w_q.T + h.dk @ h.w_k.T + h.dv @ h.w_v.T) / 3}),
]


def check(head: Head, changes: dict[str, Rule], title: str = "attention") -> list[str]:
    """What gradcheck says of attention with a backward of these changes; its report, line by line."""
    def run(*arrays: np.ndarray) -> np.ndarray:
        return forward(head, dict(zip(head.inputs, arrays))).output

    def run_back(dout: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        found = backward(head, forward(head, dict(zip(head.inputs, arrays))), dout, changes)
        return tuple(found[name] for name in head.inputs)

    function = Differentiable(title, run, run_back, lambda generator: [])
    report = gradcheck_report(function, list(head.tensors().values()))
    return str(report).splitlines()
