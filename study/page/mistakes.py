"""Known wrong backwards of attention, and what a gradient check says of them.

BACKWARD has the right one, in NumPy: a rule for each gradient, in the order in which they are computed. A mistake is data:
the rules that stand there instead. They are named as in `study.mistakes`, where the same mistakes are made in
a function of fixed sizes.
"""
import dataclasses
import textwrap
import types
from collections.abc import Callable

import numpy as np

from minigrad.gradcheck import gradcheck_report
from study.mistakes import Differentiable
from study.page.attention import FROM_Q_K_V, Head

WIDTH = 38  # characters of a line beside the matrices
CHECKED = 4  # rows and columns of each matrix that gradcheck sees
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


def softmax_backward(weights: np.ndarray, dweights: np.ndarray) -> np.ndarray:
    return weights * (dweights - rows(dweights * weights))


def but_the_first(mask: np.ndarray) -> np.ndarray:
    """A causal mask in which only the first query sees its own token."""
    hides_itself = np.tri(*mask.shape, k=-1, dtype=bool)
    hides_itself[0, 0] = True
    return hides_itself


FROM_OUTPUT: dict[str, Rule] = {
    "w_o": lambda h: h.attended.T @ h.doutput,
    "attended": lambda h: h.doutput @ h.w_o.T,
}
BACKWARD: dict[str, Rule] = {  # of each gradient; `dattended` is that of weights @ v
    "v": lambda h: h.weights.T @ h.dattended,
    "weights": lambda h: h.dattended @ h.v.T,
    "masked_scores": lambda h: softmax_backward(h.weights, h.dweights),
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
    h.doutput = h.dattended = upstream
    if head.starts_from_x:
        rules = FROM_OUTPUT | BACKWARD | TO_X
    for name, rule in rules.items():
        found[name] = changes.get(name, rule)(h)
        setattr(h, f"d{name}", found[name])
    return found


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A backward with other rules for some gradients, and how the page makes the same mistake."""

    name: str  # in study.mistakes.MUTANTS
    title: str
    sentence: str
    changes: dict[str, Rule]
    steps: dict[str, dict]  # which of the page's rules (`minigrad/tracing/page/mistakes.js`) stands at which step
    equivalent: str = ""  # why it is right after all, if it is
    mask: Callable[[np.ndarray], np.ndarray] | None = None  # with which backward recomputes the weights, if it does
    exchanges: dict[str, str] = dataclasses.field(default_factory=dict)  # what is given to whom in the end

    def gradients(self, head: Head, inputs: dict[str, np.ndarray], upstream: np.ndarray) -> dict[str, np.ndarray]:
        """What this backward gives for each tensor. ValueError if the shapes do not fit together."""
        with np.errstate(all="ignore"):
            return backward(head, forward(head, inputs), upstream, self.changes)

    def fits(self, head: Head) -> bool:
        """Could this go unnoticed, with these shapes? Else it is an error, and no mistake."""
        right = backward(head, forward(head, head.inputs), head.upstream, {})
        if not self.changes.keys() & right.keys() or self.exchanges and head.starts_from_x:
            return False
        try:
            wrong = self.gradients(head, head.inputs, head.upstream)
        except ValueError:
            return False
        return all(wrong[name].shape == right[name].shape for name in right)

    def on_page(self, head: Head) -> dict:
        """What the page asks for; see `minigrad.tracing.page`."""
        called = {"weights @ v": "attended" if head.starts_from_x else "output",
                  "times scale": "scores" if head.bias is None else "scaled_products"}
        asked = {"steps": {called.get(step, step): rule for step, rule in self.steps.items()}}
        if self.mask is not None:
            value = self.mask(head.mask).tolist()
            asked["recomputes"] = [{"step": "masked_scores", "option": "condition", "value": value}]
        return asked | ({"exchanges": self.exchanges} if self.exchanges else {})


def corner(head: Head) -> Head:
    """The first rows and columns of each matrix, which fit together too."""
    def cut(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else array[:CHECKED, :CHECKED]

    inputs = {name: cut(array) for name, array in head.inputs.items()}
    return dataclasses.replace(head, inputs=inputs, upstream=cut(head.upstream), bias=cut(head.bias))


def in_softmax(name: str, title: str, sentence: str, dmasked: Rule, rule: str) -> Mistake:
    return Mistake(name, title, sentence, {"masked_scores": dmasked}, {"weights": {"rule": rule}})


def in_mask(name: str, title: str, sentence: str, mask: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    """Backward recomputes the weights with another mask than forward had."""
    def weights(h: Known) -> np.ndarray:
        return softmax(h.scores, mask(h.mask))

    return Mistake(name, title, sentence, {
        "w_o": lambda h: (weights(h) @ h.v).T @ h.doutput,
        "v": lambda h: weights(h).T @ h.dattended,
        "masked_scores": lambda h: softmax_backward(weights(h), h.dweights),
        "scores": lambda h: np.where(mask(h.mask), h.dmasked_scores, 0.0),
    }, {}, mask=mask)


def in_product(name: str, title: str, sentence: str, changes: dict[str, Rule], step: str, place: int, rule: str,
               **asked: str) -> Mistake:
    return Mistake(name, title, sentence, changes, {step: {"rule": rule, "input": place, **asked}})


NOTHING = {"rule": "zero", "input": 0}  # of what a step sends to its first input
MISTAKES = [
    # ---- softmax ----
    in_softmax("attention: no rowsum", "no row sum", "The sum over the row is missing, as if the weights of a row did not "
               "compete.", lambda h: h.weights * h.dweights, "softmax: no rowsum"),
    in_softmax("attention: diagonal only", "only the diagonal", "Each weight is taken to depend on its own score alone: "
               "p (1 - p), the diagonal of softmax's Jacobian.",
               lambda h: h.weights * (1 - h.weights) * h.dweights, "softmax: diagonal only"),
    in_softmax("attention: rowsum over queries", "sum over the column", "The sum runs down the column, over the queries.",
               lambda h: h.weights * (h.dweights - (h.dweights * h.weights).sum(-2, keepdims=True)), "softmax: wrong axis"),
    in_softmax("attention: rowsum averaged", "mean for the sum", "The mean over the row stands for its sum.",
               lambda h: h.weights * (h.dweights - (h.dweights * h.weights).mean(-1, keepdims=True)), "softmax: mean"),
    in_softmax("attention: no weights in dscores", "not times the weights", "The difference from the row's sum is not "
               "multiplied by the weights.",
               lambda h: np.where(h.weights == 0, 0.0, h.dweights - rows(h.dweights * h.weights)), "softmax: no weights"),
    in_softmax("softmax: no p in the sum", "unweighted sum", "The row's sum of dweights, without the weights.",
               lambda h: h.weights * (h.dweights - rows(h.dweights)), "softmax: no p in the sum"),
    in_softmax("softmax: no upstream in the sum", "sum of the weights", "The row's sum of the weights, without dweights: "
               "it is 1.", lambda h: h.weights * (h.dweights - rows(h.weights)), "softmax: no upstream in the sum"),
    in_softmax("softmax: sum is added", "sum is added", "The row's sum is added instead of subtracted.",
               lambda h: h.weights * (h.dweights + rows(h.dweights * h.weights)), "softmax: sum is added"),
    in_softmax("attention: sign", "wrong sign", "The gradient of the scores has the wrong sign.",
               lambda h: -softmax_backward(h.weights, h.dweights), "sign"),
    # ---- the mask ----
    in_mask("attention: no mask", "mask forgotten", "Backward recomputes the weights without the mask.", np.ones_like),
    in_mask("attention: mask sees one ahead", "mask sees one ahead", "Backward recomputes the weights with a mask that "
            "shows one token too many.", lambda mask: np.tri(*mask.shape, k=1, dtype=bool)),
    in_mask("attention: mask off by one", "mask hides the token itself", "Backward recomputes the weights with a mask "
            "that hides the token itself, but for the first.", but_the_first),
    in_mask("attention: mask transposed", "mask transposed", "Backward recomputes the weights with a mask that hides "
            "the past instead of the future.", lambda mask: np.tri(*mask.shape[::-1], dtype=bool).T),
    Mistake("attention: mask skipped", "not masked again", "The gradient of the scores is not masked once more. This is no "
            "mistake: the weights of masked positions are exactly 0, and dscores is a multiple of them.",
            {"scores": lambda h: h.dmasked_scores}, {"masked_scores": {"rule": "not transposed", "input": 0}},
            equivalent="dscores = weights * (...), and the weights of masked positions are exactly zero"),
    # ---- the scale ----
    in_product("attention: no scale", "no scale", "The scale is missing in dq and dk.", {"products": lambda h: h.dscores},
               "times scale", 0, "not transposed"),
    in_product("attention: scale twice", "scale twice", "The scale is applied twice.",
               {"products": lambda h: h.dscores * h.scale**2}, "times scale", 0, "twice the factor"),
    in_product("attention: scale inverted", "divided by the scale", "Divided by the scale instead of multiplied.",
               {"products": lambda h: h.dscores / h.scale}, "times scale", 0, "divided by the factor"),
    # ---- q @ k^T ----
    in_product("attention: dk without transpose", "dk not transposed", "dscores @ q for dscores^T @ q.",
               {"k": lambda h: h.dproducts @ h.q}, "products", 1, "upstream transposed"),
    in_product("attention: dq from q", "dq from q", "dscores @ q for dscores @ k.", {"q": lambda h: h.dproducts @ h.q},
               "products", 0, "matmul: a for b"),
    in_product("attention: k has no gradient", "k is constant", "Only q and v get a gradient.", {"k": lambda h: 0 * h.k},
               "products", 1, "zero"),
    Mistake("attention: dq and dk exchanged", "dq and dk exchanged", "The gradient of q is given to k, and that of k to q.",
            {"q": lambda h: h.dproducts.T @ h.q, "k": lambda h: h.dproducts @ h.k}, {}, exchanges={"q": "k", "k": "q"}),
    # ---- weights @ v ----
    in_product("attention: dv without transpose", "dv not transposed", "weights @ dout for weights^T @ dout.",
               {"v": lambda h: h.weights @ h.dattended}, "weights @ v", 1, "matmul: a not transposed"),
    in_product("attention: dweights without transpose", "dweights not transposed", "dout @ v for dout @ v^T.",
               {"weights": lambda h: h.dattended @ h.v}, "weights @ v", 0, "matmul: b not transposed"),
    in_product("attention: dv from scores", "dv from scores", "The scores stand for the weights in dv.",
               {"v": lambda h: np.where(h.mask, h.scores, 0.0).T @ h.dattended}, "weights @ v", 1, "matmul: another factor",
               tensor="masked_scores"),
    in_product("attention: weights constant", "weights are constant", "The gradient through the weights is missing: only v "
               "gets one.", {"weights": lambda h: 0 * h.weights}, "weights @ v", 0, "zero"),
    # ---- x, which is used three times ----
    Mistake("self_attention: overwritten", "only the last path", "x is used three times, and its gradient is overwritten "
            "instead of added to.", {"x": lambda h: h.dv @ h.w_v.T}, {"q": NOTHING, "k": NOTHING}),
    Mistake("self_attention: query's path dropped", "no path through q", "What arrives at x through q is missing.",
            {"x": lambda h: h.dk @ h.w_k.T + h.dv @ h.w_v.T}, {"q": NOTHING}),
    Mistake("self_attention: averaged", "mean of the paths", "The mean of the three paths stands for their sum.",
            {"x": lambda h: (h.dq @ h.w_q.T + h.dk @ h.w_k.T + h.dv @ h.w_v.T) / 3},
            {name: {"rule": "times", "factor": 1 / 3, "input": 0} for name in FROM_Q_K_V}),
]


def check(head: Head, mistake: Mistake) -> list[str]:
    """What gradcheck says of attention with this backward: its verdict on each input, and why; a line each.

    Of large matrices it sees a corner, or a page would take a minute.
    """
    is_large = max(n for array in head.inputs.values() for n in array.shape) > CHECKED
    head = corner(head) if is_large else head

    def run(*arrays: np.ndarray) -> np.ndarray:
        return forward(head, dict(zip(head.inputs, arrays))).output

    def run_back(dout: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        found = mistake.gradients(head, dict(zip(head.inputs, arrays)), dout)
        return tuple(found[name] for name in head.inputs)

    function = Differentiable(mistake.title, run, run_back, lambda generator: [])
    report = gradcheck_report(function, list(head.tensors().values()))
    where = f" of {CHECKED} x {CHECKED} parts" if is_large else ""
    lines = [f"gradcheck{where}: {report.verdict.upper()}"]
    for entry in report.inputs:
        lines += [f"{entry.name}: {entry.verdict}", *(f"  {line}" for line in entry.explain())]
    if report.diagnosis:
        lines.append(f"diagnosis: {report.diagnosis.mistake}")
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]
