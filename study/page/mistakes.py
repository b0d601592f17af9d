"""Known wrong backwards of attention, and what a gradient check says of them.

A mistake is one of `study.mistakes.MUTANTS`: the parts of attention's backward that it replaces there are replaced here
too, in a head of any size and scale.
"""
import dataclasses
import textwrap
from typing import Any

import numpy as np

from minigrad.gradcheck import gradcheck_report
from nn.position import rotary_frequencies
from study.mistakes import MUTANTS, Differentiable
from study.mistakes.attention import attention_values, safe_softmax, turned
from study.mistakes.base import softmax
from study.page.attention import FROM_Q_K_V, FROM_X, Head

WIDTH = 38  # characters of a line next to the matrices
CHECKED = 4  # rows and columns of each matrix that gradcheck sees
Arrays = dict[str, np.ndarray]


def run(head: Head, inputs: Arrays, upstream: np.ndarray, changes: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """A head's values and gradients by the names of its tensors; `changes` replaces parts of the backward.

    The scores and the weights are those that backward recomputes; what follows from them is forward's.
    """
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


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One of MUTANTS, and how the page makes the same mistake."""

    name: str  # in study.mistakes.MUTANTS
    title: str
    sentence: str  # with {Q}, {K}, {P}, {V} and {O} for the symbols of `formulas.operands`
    steps: dict[str, dict] = dataclasses.field(default_factory=dict)  # {step: its rule in tracing/page/mistakes.js}
    exchanges: dict[str, str] = dataclasses.field(default_factory=dict)  # which input gets whose gradient in the end

    @property
    def changes(self) -> dict[str, Any]:
        return MUTANTS[self.name].changes

    @property
    def equivalent(self) -> str:
        """Why it is right after all, if it is."""
        return MUTANTS[self.name].equivalent

    def gradients(self, head: Head, inputs: Arrays, upstream: np.ndarray) -> Arrays:
        """What this backward gives for each tensor. ValueError if the shapes do not fit together."""
        with np.errstate(all="ignore"):
            return run(head, inputs, upstream, self.changes)[1]

    def fits(self, head: Head) -> bool:
        """Could this go unnoticed with these shapes? If not, it raises, and is no mistake to look for."""
        if self.exchanges and (head.starts_from_x or head.inputs["q"].shape != head.inputs["k"].shape):
            return False
        if "add" in self.changes and not head.starts_from_x:
            return False
        right = run(head, head.inputs, head.upstream, {})[1]
        try:
            values, wrong = run(head, head.inputs, head.upstream, self.changes)
        except ValueError:
            return False
        sees = np.isfinite(values["masked_scores"]).any(-1)  # a row that sees nothing is NaN
        return sees.all() and all(wrong[name].shape == right[name].shape for name in right)

    def on_page(self, head: Head) -> dict:
        """What the page asks for; see `minigrad.tracing.page`."""
        called = {"weights @ v": head.product,
                  "times scale": "scores" if head.bias is None else "scaled_products"}
        asked: dict[str, Any] = {"steps": {called.get(step, step): rule for step, rule in self.steps.items()}}
        if self.changes.keys() & {"see", "hide"}:  # backward recomputes the weights with another mask
            values, _ = run(head, head.inputs, head.upstream, self.changes)
            seen = np.isfinite(values["masked_scores"])
            asked["recomputes"] = [{"step": "masked_scores", "option": "condition", "value": seen.tolist()}]
            asked["through"] = "weights" if head.keep is None else "dropped"
        return asked | ({"exchanges": self.exchanges} if self.exchanges else {})


def at(step: str, rule: str, **asked: Any) -> dict[str, dict]:
    return {step: {"rule": rule, **asked}}


NOTHING = {"rule": "zero", "input": 0}  # what a step sends to its first input
MISTAKES = [
    # ---- softmax ----
    Mistake("attention: no rowsum", "no row sum",
            "`dS_ij = P_ij dP_ij`: the row sum is missing, as if the weights of a row did not compete.",
            at("weights", "softmax: no rowsum")),
    Mistake("attention: diagonal only", "only the diagonal",
            "`dS_ij = P_ij (1 - P_ij) dP_ij`: each weight is taken to depend on its own score alone, which is the "
            "diagonal of softmax's Jacobian.",
            at("weights", "softmax: diagonal only")),
    Mistake("attention: rowsum over queries", "sum over the column",
            "The sum of `dP_ij P_ij` runs down the column, over the queries.", at("weights", "softmax: wrong axis")),
    Mistake("attention: rowsum averaged", "mean for the sum",
            "`r_i` is the mean of `dP_ik P_ik` over the row instead of the sum.", at("weights", "softmax: mean")),
    Mistake("attention: no weights in dscores", "not times the weights",
            "`dS_ij = dP_ij - r_i`: the difference is not multiplied by `P_ij`.", at("weights", "softmax: no weights")),
    Mistake("attention: rowsum without weights", "unweighted sum",
            "`r_i = sum_k dP_ik`: the row sum leaves out the weights.", at("weights", "softmax: no p in the sum")),
    Mistake("attention: rowsum of the weights", "sum of the weights",
            "`r_i = sum_k P_ik`: the row sum leaves out `dP`, so it is 1.",
            at("weights", "softmax: no upstream in the sum")),
    Mistake("attention: rowsum added", "sum is added",
            "`dS_ij = P_ij (dP_ij + r_i)`: the row sum is added instead of subtracted.",
            at("weights", "softmax: sum is added")),
    Mistake("attention: sign", "wrong sign",
            "`dS` has the wrong sign.", at("weights", "sign")),
    # ---- the mask ----
    Mistake("attention: no mask", "mask forgotten",
            "Backward recomputes `P` without the mask."),
    Mistake("attention: mask sees one ahead", "mask sees one ahead",
            "Backward recomputes `P` with a mask that shows one token too many."),
    Mistake("attention: mask off by one", "mask hides the token itself",
            "Backward recomputes `P` with a mask that hides each token from itself, except the first."),
    Mistake("attention: mask transposed", "mask transposed",
            "Backward recomputes `P` with a mask that hides the past instead of the future."),
    Mistake("attention: mask skipped", "not masked again",
            "`dS` is not masked once more. This is no mistake: where a score is masked, `P_ij` is exactly 0, and "
            "`dS_ij` is a multiple of it.",
            at("masked_scores", "not transposed", input=0)),
    # ---- the scale ----
    Mistake("attention: no scale", "no scale",
            "The scale `s` is missing in `d{Q}` and `d{K}`.", at("times scale", "not transposed", input=0)),
    Mistake("attention: scale twice", "scale twice",
            "`d{Q}` and `d{K}` are multiplied by the scale `s` twice.", at("times scale", "twice the factor", input=0)),
    Mistake("attention: scale inverted", "divided by the scale",
            "`d{Q}` and `d{K}` are divided by the scale `s` instead of multiplied.",
            at("times scale", "divided by the factor", input=0)),
    # ---- q @ k^T ----
    Mistake("attention: dk without transpose", "dk not transposed",
            "`d{K} = s dS {Q}`: it should be `s dS^T {Q}`.", at("products", "upstream transposed", input=1)),
    Mistake("attention: dq from q", "dq from q",
            "`d{Q} = s dS {Q}`: it should be `s dS {K}`.", at("products", "matmul: a for b", input=0)),
    Mistake("attention: k has no gradient", "k is constant",
            "`d{K}` is 0, as if `{K}` were constant.", at("products", "zero", input=1)),
    Mistake("attention: dq and dk exchanged", "dq and dk exchanged",
            "`Q` gets the gradient of `K`, and `K` that of `Q`.", exchanges={"q": "k", "k": "q"}),
    # ---- weights @ v ----
    Mistake("attention: dv without transpose", "dv not transposed",
            "`d{V} = {P} d{O}`: it should be `{P}^T d{O}`.", at("weights @ v", "matmul: a not transposed", input=1)),
    Mistake("attention: dweights without transpose", "dweights not transposed",
            "`d{P} = d{O} {V}`: it should be `d{O} {V}^T`.", at("weights @ v", "matmul: b not transposed", input=0)),
    Mistake("attention: dv from scores", "dv from scores",
            "`d{V} = S^T d{O}`: it should be `{P}^T d{O}`.",
            at("weights @ v", "matmul: another factor", input=1, tensor="masked_scores")),
    Mistake("attention: weights constant", "weights are constant",
            "`d{P}` is 0, as if the weights were constant: only `{V}` gets a gradient.",
            at("weights @ v", "zero", input=0)),
    # ---- x, which is used three times ----
    Mistake("self_attention: overwritten", "only the last path",
            "`X` is used three times, and its gradient is overwritten instead of added to: only what arrives "
            "through `V` is left.",
            {"q": NOTHING, "k": NOTHING}),
    Mistake("self_attention: query's path dropped", "no path through q",
            "`dX` lacks what arrives through `Q`.", {"q": NOTHING}),
    Mistake("self_attention: averaged", "mean of the paths",
            "`dX` is the mean of the three paths instead of their sum.",
            {name: {"rule": "times", "factor": 1 / 3, "input": 0} for name in FROM_Q_K_V}),
]


def check(head: Head, mistake: Mistake) -> list[str]:
    """What gradcheck says of attention with this backward: its verdict on each input, and why; a line each.

    Of large matrices it sees a corner, or a page would take a minute.
    """
    is_large = max(n for array in head.inputs.values() for n in array.shape) > CHECKED
    if is_large:
        features = max(2, CHECKED // head.heads)
        head = head.cut(T=CHECKED, S=CHECKED, C=CHECKED, O=CHECKED, D=features, V=features)
    names = [name for name in head.inputs if name != "w_u"]  # which is behind the output

    def forward(*arrays: np.ndarray) -> np.ndarray:
        return run(head, head.inputs | dict(zip(names, arrays)), head.upstream, {})[0]["output"]

    def backward(dout: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        found = mistake.gradients(head, head.inputs | dict(zip(names, arrays)), dout)
        return tuple(found[name] for name in names)

    function = Differentiable(mistake.title, forward, backward, lambda generator: [], names=tuple(names))
    tensors = head.tensors()
    report = gradcheck_report(function, [tensors[name] for name in names])
    where = f" of {CHECKED} x {CHECKED} parts" if is_large else ""
    lines = [f"gradcheck{where}: {report.verdict.upper()}"]
    for entry in report.inputs:
        lines += [f"{entry.name}: {entry.verdict}", *(f"  {line}" for line in entry.explain())]
    if report.diagnosis:
        lines.append(f"diagnosis: {report.diagnosis.mistake}")
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]
