"""Known wrong backwards of attention: what replaces the backward of which step, and what a gradient check says of it."""
import dataclasses
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.gradcheck import gradcheck_report
from minigrad.tracing import Trace
from minigrad.tracing.rerun import Applied, Backward, Rerun
from study.mistakes import Differentiable
from study.page.attention import FROM_Q_K_V, Head, attention

WIDTH = 38  # characters of a line next to the matrices
CHECKED = 4  # rows and columns of each matrix that gradcheck sees


@dataclasses.dataclass(frozen=True)
class Mistake:
    """What replaces the backward of steps. `PRODUCT` and `SCALED` stand for the steps that are weights @ v, and products
    times the scale."""

    name: str
    title: str
    sentence: str  # with {Q}, {K}, {P}, {V} and {O} for the symbols of `formulas.operands`
    backwards: Mapping[str, Backward] = dataclasses.field(default_factory=dict)
    sees: Callable[[np.ndarray], np.ndarray] | None = None  # the mask with which backward computes the weights again
    is_right: bool = False

    def of(self, head: Head) -> dict[str, Backward]:
        """The backwards by the steps of this head."""
        called = {PRODUCT: head.product, SCALED: "scores" if head.bias is None else "scaled_products"}
        backwards = self.backwards if self.sees is None else recomputing(self.sees(head.mask))
        return {called.get(step, step): backward for step, backward in backwards.items()}

    def fits(self, head: Head, trace: Trace) -> bool:
        """Could this go unnoticed with these shapes? If not, it raises, and is no mistake to look for."""
        steps = {step.output.name for step in trace.steps}
        try:
            rerun = Rerun(trace.steps, trace.tensors, backwards=self.of(head))
        except (RuntimeError, ValueError):
            return False
        return self.of(head).keys() <= steps and all(np.isfinite(gradient).all() for gradient in rerun.gradients.values())


class Forward(Rerun):
    """Values alone."""

    def backward(self) -> None:
        return


def checker(head: Head) -> Callable[[Mistake], str]:
    """What gradcheck says of attention with a mistake: its verdict on each input, and why; a line each.

    Of large matrices it sees a corner, or a page would take a minute. Mistakes have the same forward, so each value is
    computed once.
    """
    is_large = max(n for array in head.inputs.values() for n in array.shape) > CHECKED
    if is_large:
        features = max(2, CHECKED // head.heads)
        head = head.cut(T=CHECKED, S=CHECKED, C=CHECKED, O=CHECKED, D=features, V=features)
    inputs = {name: array for name, array in head.inputs.items() if name != "w_u"}  # which is behind the output
    head = dataclasses.replace(head, inputs=inputs, targets=(), expected=None)
    with mg.textbook(), mg.trace() as trace:
        attention(head, head.tensors()).backward()
    values: dict[bytes, np.ndarray] = {}

    def forward(*arrays: np.ndarray) -> np.ndarray:
        key = b"".join(array.tobytes() for array in arrays)
        if key not in values:
            values[key] = Forward(trace.steps, trace.tensors, dict(zip(inputs, arrays))).values["output"]
        return values[key].copy()

    def check(mistake: Mistake) -> str:
        def backward(dout: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
            given = dict(zip(inputs, arrays), upstream=dout)
            found = Rerun(trace.steps, trace.tensors, given, backwards=mistake.of(head)).gradients
            return tuple(found[name] for name in inputs)

        function = Differentiable(mistake.title, forward, backward, lambda generator: [], names=tuple(inputs))
        report = gradcheck_report(function, list(head.tensors().values()))
        lines = [f"gradcheck{f' of {CHECKED} x {CHECKED} parts' * is_large}: {report.verdict.upper()}"]
        for entry in report.inputs:
            lines += [f"{entry.name}: {entry.verdict}", *(f"  {line}" for line in entry.explain())]
        return "\n".join(part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    "))

    return check


# ---- wrong backwards ----

PRODUCT, SCALED = "weights @ v", "times scale"


def row_sum(x: Any) -> Any:
    return np.sum(x, axis=-1, keepdims=True)


def softmax(scores: Any) -> Any:
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / row_sum(e)


def swapped(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def recomputing(mask: np.ndarray) -> dict[str, Backward]:
    """The backward of weights that it computes again with this mask."""
    def weights(at: Applied) -> Any:
        return softmax(np.where(mask, at.values["scores"], -np.inf))

    def of_weights(at: Applied, dout: Any, right: Any) -> Any:
        p = weights(at)
        total = row_sum(dout * p)
        return p * (dout - total)

    return {"masked_scores": lambda at, dout: (np.where(mask, dout, 0.0), None), "weights": of_weights,
            PRODUCT: lambda at, dout, p, v: (at.right[0], swapped(weights(at) * at.values.get("keep", 1.0)) @ dout)}


def with_row_sum(of: Callable[[Applied, Any, Any], Any]) -> Backward:
    """Softmax's backward with another row sum, `of` what it is applied to, dout and p."""
    def backward(at: Applied, dout: Any, p: Any) -> Any:
        total = of(at, dout, p)
        return p * (dout - total)

    return backward


def no_path(i: int) -> Backward:
    """Nothing arrives at input i."""
    return lambda at, dout, *saved: [gradient * 0.0 if k == i else gradient for k, gradient in enumerate(at.right)]


def at_x(factor: float) -> Backward:
    """What arrives at x, times a factor."""
    return lambda at, dout, *saved: (at.right[0] * factor, at.right[1])


def exchanged(at: Applied, dout: Any, q: Any, k: Any) -> Any:
    dq, dk = at.right
    return swapped(dk), swapped(dq)


MISTAKES = [
    # ---- softmax ----
    Mistake("attention: no rowsum", "no row sum",
            "`dS_ij = P_ij dP_ij`: the row sum is missing, as if the weights of a row did not compete.",
            {"weights": lambda at, dout, p: p * dout}),
    Mistake("attention: diagonal only", "only the diagonal",
            "`dS_ij = P_ij (1 - P_ij) dP_ij`: each weight is taken to depend on its own score alone, which is the "
            "diagonal of softmax's Jacobian.",
            {"weights": lambda at, dout, p: p * (dout - dout * p)}),
    Mistake("attention: rowsum over queries", "sum over the column",
            "The sum of `dP_ij P_ij` runs down the column, over the queries.",
            {"weights": lambda at, dout, p: p * (dout - np.sum(dout * p, axis=-2, keepdims=True))}),
    Mistake("attention: rowsum averaged", "mean for the sum",
            "`r_i` is the mean of `dP_ik P_ik` over the row instead of the sum.",
            {"weights": with_row_sum(lambda at, dout, p: np.mean(dout * p, axis=-1, keepdims=True))}),
    Mistake("attention: no weights in dscores", "not times the weights",
            "`dS_ij = dP_ij - r_i`: the difference is not multiplied by `P_ij`.",
            {"weights": lambda at, dout, p: np.where(p == 0, 0.0, dout - row_sum(dout * p))}),
    Mistake("attention: rowsum without weights", "unweighted sum",
            "`r_i = sum_k dP_ik`: the row sum leaves out the weights.",
            {"weights": with_row_sum(lambda at, dout, p: row_sum(dout))}),
    Mistake("attention: rowsum of the weights", "sum of the weights",
            "`r_i = sum_k P_ik`: the row sum leaves out `dP`, so it is 1.",
            {"weights": with_row_sum(lambda at, dout, p: row_sum(p))}),
    Mistake("attention: rowsum added", "sum is added",
            "`dS_ij = P_ij (dP_ij + r_i)`: the row sum is added instead of subtracted.",
            {"weights": lambda at, dout, p: p * (dout + row_sum(dout * p))}),
    Mistake("attention: sign", "wrong sign",
            "`dS` has the wrong sign.", {"weights": lambda at, dout, p: -at.right[0]}),
    # ---- the mask ----
    Mistake("attention: no mask", "mask forgotten",
            "Backward recomputes `P` without the mask.", sees=np.ones_like),
    Mistake("attention: mask sees one ahead", "mask sees one ahead",
            "Backward recomputes `P` with a mask that shows one token too many.",
            sees=lambda mask: np.tri(*mask.shape, k=1, dtype=bool)),
    Mistake("attention: mask off by one", "mask hides the token itself",
            "Backward recomputes `P` with a mask that hides each token from itself, except the first.",
            sees=lambda mask: np.tri(*mask.shape, k=-1, dtype=bool) | (np.add.outer(*map(np.arange, mask.shape)) == 0)),
    Mistake("attention: mask transposed", "mask transposed",
            "Backward recomputes `P` with a mask that hides the past instead of the future.",
            sees=lambda mask: np.tri(*mask.shape[::-1], dtype=bool).T),
    Mistake("attention: mask skipped", "not masked again",
            "`dS` is not masked once more. This is no mistake: where a score is masked, `P_ij` is exactly 0, and "
            "`dS_ij` is a multiple of it.",
            {"masked_scores": lambda at, dout: (dout, None)}, is_right=True),
    # ---- the scale ----
    Mistake("attention: no scale", "no scale",
            "The scale `s` is missing in `d{Q}` and `d{K}`.", {SCALED: lambda at, dout, x, s: (dout, None)}),
    Mistake("attention: scale twice", "scale twice",
            "`d{Q}` and `d{K}` are multiplied by the scale `s` twice.",
            {SCALED: lambda at, dout, x, s: (dout * s * s, None)}),
    Mistake("attention: scale inverted", "divided by the scale",
            "`d{Q}` and `d{K}` are divided by the scale `s` instead of multiplied.",
            {SCALED: lambda at, dout, x, s: (dout / s, None)}),
    # ---- q @ k^T ----
    Mistake("attention: dk without transpose", "dk not transposed",
            "`d{K} = s dS {Q}`: it should be `s dS^T {Q}`.",
            {"products": lambda at, dout, q, k: (at.right[0], swapped(q) @ swapped(dout))}),
    Mistake("attention: dq from q", "dq from q",
            "`d{Q} = s dS {Q}`: it should be `s dS {K}`.", {"products": lambda at, dout, q, k: (dout @ q, at.right[1])}),
    Mistake("attention: k has no gradient", "k is constant",
            "`d{K}` is 0, as if `{K}` were constant.", {"products": no_path(1)}),
    Mistake("attention: dq and dk exchanged", "dq and dk exchanged",
            "`Q` gets the gradient of `K`, and `K` that of `Q`.", {"products": exchanged}),
    # ---- weights @ v ----
    Mistake("attention: dv without transpose", "dv not transposed",
            "`d{V} = {P} d{O}`: it should be `{P}^T d{O}`.", {PRODUCT: lambda at, dout, p, v: (at.right[0], p @ dout)}),
    Mistake("attention: dweights without transpose", "dweights not transposed",
            "`d{P} = d{O} {V}`: it should be `d{O} {V}^T`.", {PRODUCT: lambda at, dout, p, v: (dout @ v, at.right[1])}),
    Mistake("attention: dv from scores", "dv from scores",
            "`d{V} = S^T d{O}`: it should be `{P}^T d{O}`.",
            {PRODUCT: lambda at, dout, p, v: (at.right[0], swapped(
                np.where(at.values["masked_scores"] == -np.inf, 0.0, at.values["masked_scores"])) @ dout)}),
    Mistake("attention: weights constant", "weights are constant",
            "`d{P}` is 0, as if the weights were constant: only `{V}` gets a gradient.",
            {PRODUCT: no_path(0)}),
    # ---- x, which is used three times ----
    Mistake("self_attention: overwritten", "only the last path",
            "`X` is used three times, and its gradient is overwritten instead of added to: only what arrives "
            "through `V` is left.",
            {"q": no_path(0), "k": no_path(0)}),
    Mistake("self_attention: query's path dropped", "no path through q",
            "`dX` lacks what arrives through `Q`.", {"q": no_path(0)}),
    Mistake("self_attention: averaged", "mean of the paths",
            "`dX` is the mean of the three paths instead of their sum.",
            {name: at_x(1 / 3) for name in FROM_Q_K_V}),
]
