"""The pages: a trace of a head or of a block, and the words, switches and mistakes around its numbers."""
import bisect
import dataclasses
from collections.abc import Callable, Container
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.tracing import Trace
from minigrad.tracing.page import MOST_NUMBERS
from minigrad.tracing.rerun import Backward
from study.page import block, formulas, model, shares, stations
from study.page.attention import FROM_Q_K_V, Head, Inputs, attention
from study.page.mistakes import MISTAKES, checker, with_row_sum


@dataclasses.dataclass(frozen=True)
class Page:
    """What `minigrad.tracing.page.write` takes."""

    trace: Trace
    extras: dict[str, Any]
    backwards: dict[str, dict[str, Backward]]


def page_of_head(head: Head, title: str = "", *introduction: str) -> Page:
    """The page of a head, with its switches, mistakes and shares; ValueError if it has too many numbers."""
    check_size(head, attention)
    trace = trace_of(attention, head)
    mistakes, check = [mistake for mistake in MISTAKES if mistake.fits(head, trace)], checker(head)
    return page_of(head, trace, head.product, {mistake.name: mistake.of(head) for mistake in mistakes}, {
        "title": title or "Backpropagation through " + (
            "one head of attention" if head.heads == 1 else f"attention with {head.heads} heads"),
        "introduction": WHY if head.words else [*introduction, STORY],
        "aloud": ALOUD if head.labels else {},
        "labels": labels(head),
        "switches": [causal_switch(head.causal, head.mask), scale_switch(head), row_sum_switch(head.product)],
        "mistakes": [
            {"name": mistake.name, "title": mistake.title, "steps": [*mistake.of(head)],
             "sentence": mistake.sentence.format(**formulas.operands(trace)), "check": check(mistake)}
            for mistake in mistakes
        ],
        "shares": tables(shares.paths_to_x()) if head.starts_from_x else [],
        "about_shares": [shares.IN_WORDS],
        **({"stations": stations.stations(head), "trains": {"text": TRAINS, "model": model.expressions(mistakes)}}
           if stations.fits(head) else {"stations": stations.of_heads(head)}),
    })


def page_of_block(numbers: block.BlockInputs) -> Page:
    """The page of a block, with the shares of its inputs' gradients."""
    check_size(numbers, block.block)
    trace = trace_of(block.block, numbers)
    return page_of(numbers, trace, "attended_heads" if numbers.heads > 1 else "attended", {}, {
        "title": "Backpropagation through a block of a transformer",
        "introduction": [formulas.placement_in_words(numbers.placement), STORY],
        "switches": [causal_switch(numbers.causal, numbers.mask),
                     row_sum_switch("attended_heads" if numbers.heads > 1 else "attended")],
        "shares": tables(shares.paths_in_block(trace, numbers.placement)),
        "about_shares": shares.in_words(numbers.placement),
        "stations": stations.of_norms(trace),
    })


def page_of(numbers: Inputs, trace: Trace, product: str, backwards: dict[str, dict[str, Backward]], extras: dict[str, Any]
            ) -> Page:
    """A page with the words for its steps, and what else depends on the tensors that it has; `product` is weights @ v."""
    words = formulas.of_trace(trace)
    names = {tensor.name for tensor in trace.tensors}
    return Page(trace, extras | {
        "layout": layout(names.union(*(step["derives"].values() for step in words.values()))),
        "hidden": [name for name in HIDDEN if name in names],
        "symbols": formulas.SYMBOLS,
        "axes": axes({*names, "row_sum"}),
        "bars": {"weights": "weights", "mean": "row_sum", "scores": "scores"},
        "editable": [*numbers.inputs, *(name for name in ("upstream", "expected", "keep") if name in names)],
        "steps": words,
    }, {ROW_SUM: {"weights": from_output(product)}, **backwards})  # so that a mistake holds for either row sum


AXES = {  # what the last two axes of a tensor run over, by what its name is, or begins with
    **dict.fromkeys(("q", "output", "attended", "upstream", "row_sum"), ("query", None)),
    **dict.fromkeys(("k", "v"), ("key", None)), "k_transposed": (None, "key"),
    **dict.fromkeys(("scores", "weights", "dropped", "keep", "bias"), ("query", "key")),
}


def axes(names: Container[str]) -> dict[str, tuple[str | None, ...]]:
    """What the axes run over of tensors that have queries or keys."""
    return {name: AXES[known] for name in names for known in AXES if name == known or name.startswith(f"{known}_")}


HIDDEN = ("masked_scores", "losses", "tokens_first",  # what is shown with a later step
          *(f"{name}_{part}" for name in FROM_Q_K_V for part in ("cut", "swapped", "kept", "crossed")))
STORY = ("Forward goes from left to right, to the loss L. Below each matrix is its gradient: dS says how fast L changes "
         "with each number of S.")

WHY = ["*cat sees fish, it* ... *purrs* or *swims*? Each word guesses the next. Below each matrix: how fast the loss `L` "
       "of these guesses rises with it."]
TRAINS = [f"A head of attention, {model.C} wide, learns to write a word of {model.LETTERS} letters from its end. It trains "
          f"here, in {model.STEPS} steps, on this page's own trees of numbers. Choose a mistake above, "
          "or write `dS` yourself:"]
ALOUD = {"scores": {"negative": "To lower the loss, *{row}* should look more at *{column}*.",
                    "positive": "To lower the loss, *{row}* should look less at *{column}*."}}


def trace_of(function: Callable, numbers: Head | block.BlockInputs) -> Trace:
    """The trace of a loss, forward and backward."""
    inputs = numbers.tensors()
    with mg.textbook(), mg.trace() as trace:
        loss = function(numbers, inputs)
        loss.backward(retain_graph=True)
    return trace


ATTENTION = {  # its boxes, of which the second is open
    "Queries and keys": ("w_q", "w_k", "q", "k", "q_heads", "k_groups", "cos", "sin", "q_rotated", "k_rotated", "k_heads"),
    "Who looks at whom": ("scores", "row_sum", "weights", "keep", "dropped"),
    "Weighted values": ("w_v", "v", "v_groups", "v_heads", "attended_heads", "attended", "w_o", "attention")}
MLP = {"MLP": ("w_in", "hidden", "activated", "w_out", "mlp")}
LOSS = "output", "upstream", "w_u", "logits", "expected", "probabilities", "loss"
NORM = "mean", "mean_square", "rstd", "x_hat", "gain"


def layout(names: Container[str]) -> list[dict[str, Any]]:
    """The matrices that there are, in the order of the computation, in boxes; from q, k and v of one head all in a row."""
    boxes = [("Input", ("x",))]
    for sublayer, inside in zip(block.SUBLAYERS, (ATTENTION, MLP)):
        norm = "Norm", (*(f"{part}_{sublayer}" for part in NORM), f"{sublayer}_input", f"{sublayer}_output")
        added = [*inside.items(), ("Add", (f"{sublayer}_sum",))]
        boxes += [norm, *added] if f"{sublayer}_input" in names else [*added, norm]
    boxes.append(("Loss", LOSS))
    if "x" not in names and "q_heads" not in names:
        boxes = [("", [name for _, box in boxes for name in box])]
    there = [(title, found) for title, box in boxes if (found := [name for name in box if name in names])]
    return [{"title": title, "names": found, "open": "scores" in found} for title, found in there]


def labels(head: Head) -> dict[str, dict[str, list[str]]]:
    """The tokens as labels of rows, and of columns where these are tokens too."""
    if not head.labels:
        return {}
    rows = {"rows": list(head.labels)}
    both = {**rows, "columns": list(head.labels)}
    of_tokens = ("x q k v q_heads k_groups v_groups q_rotated k_rotated k_heads v_heads row_sum attended_heads attended "
                 "output upstream logits probabilities").split()
    guesses = {**rows, "columns": list(head.words)} if head.words else rows
    of_words = dict.fromkeys(("v", "output", "expected", "probabilities"), guesses)
    return {name: rows for name in of_tokens} | of_words | dict.fromkeys(
        ("scores", "bias", "weights", "keep", "dropped"), both)


def causal_switch(causal: bool, mask: np.ndarray) -> dict[str, Any]:
    """A switch for the causal mask."""
    choices = [("itself and earlier tokens", np.tri(*mask.shape, dtype=bool)), ("all tokens", np.ones_like(mask))]
    (first, _), (second, other) = choices if causal else choices[::-1]
    return {"name": "causal", "label": "Each token attends to", "choices": [
        {"label": first, "sets": []},
        {"label": second, "sets": [{"step": "masked_scores", "option": "condition", "value": other.tolist()}]},
    ]}


def scale_switch(head: Head) -> dict[str, Any]:
    """A field for the scale."""
    step = "scores" if head.bias is None else "scaled_products"
    return {"name": "scale", "label": "scale", "number": {"step": step, "input": 1, "value": head.factor}}


ROW_SUM = "row sum from the output"


def row_sum_switch(out: str) -> dict[str, Any]:
    """A switch between the two sums that give softmax's row sum; `out` is weights @ v."""
    symbol = formulas.SYMBOLS[out]
    return {"name": "row_sum", "label": "Row sum", "choices": [
        {"label": "from dP and P", "sets": []}, {"label": f"from d{symbol} and {symbol}", "sets": [{"choice": ROW_SUM}]}]}


def from_output(out: str) -> Backward:
    """Softmax's backward, with the row sum of dO and O."""
    return with_row_sum(lambda at, dout, p: np.sum(at.gradients[out] * at.values[out], axis=-1, keepdims=True))


def tables(paths_to: dict[str, shares.Paths]) -> list[dict[str, Any]]:
    """A table of the paths to each tensor that has more than one."""
    return [{"tensor": name, "through": [{"label": label, "tensor": step, "input": taken}
                                         for (step, taken), label in paths.items()]}
            for name, paths in paths_to.items() if len(paths) > 1]


def check_size(numbers: Inputs, loss: Callable) -> None:
    """ValueError that says which part would fit, if there are more numbers than a page can show."""
    if is_small(numbers, loss):
        return
    most = bisect.bisect_left(range(1, max(numbers.tokens)), True,
                              key=lambda tokens: not is_small(numbers.cut(T=tokens, S=tokens), loss))
    names = "x" if "x" in numbers.inputs else "q, k, v"
    part = f"{most} tokens" if getattr(numbers, "labels", ()) else f"the first {most} rows of {names} and upstream"
    raise ValueError(f"there are more than the {MOST_NUMBERS:,} numbers, values and gradients together, that a page "
                     f"can show; keep {part if most else 'a few columns of each matrix'}")


def is_small(numbers: Inputs, loss: Callable) -> bool:
    """Do its values and gradients fit on a page? Large ones are not traced to find out."""
    queries, keys = numbers.tokens
    return numbers.heads * queries * keys <= MOST_NUMBERS and numbers_in(numbers, loss) <= MOST_NUMBERS


def numbers_in(numbers: Inputs, loss: Callable) -> int:
    """The count of values and gradients on its page."""
    return sum(tensor.value.size * (1 + (tensor.gradient is not None)) for tensor in trace_of(loss, numbers).tensors)
