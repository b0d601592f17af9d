"""A traced computation as one interactive HTML page, which works offline: values, gradients, and the terms of each number.

The page shows the trace's own numbers. Each op's own forward and backward have also run on expressions (expressed.py), so
the page has the tree of what each number is made of. Once a number is edited, a switch is turned or a mistake is chosen, it
evaluates these trees. Of an op that expressions cannot follow it shows the trace's numbers, and what they depend on cannot
be edited.

    page.html, page.css       the document and its style
    formulas.js, terms.js     formulas as MathML; the terms of a number, written out
    nodes.js, computation.js  the trees, and what they compute; the trace's tensors and steps, in passes over the trees
    model.js, training.js     a model that trains in a Worker, and a line for its backward; both on the page
    state.js                  what the user can change, and the numbers that follow from it
    picture.js, map.js        where matrices stand: the picture of the whole, what a step touches, and a map of it in small
    matrices.js, steps.js, number.js, difference.js, bars.js, edits.js    draw a part each, and change the state
    motion.js                 a step that opens fills its cells; Play
    stations.js               the guided path: questions that are answered on the page
    page.js                   draws mistakes, shares and the whole, and listens

`write` and `html` take a trace, `backwards` that can be chosen, {choice: {step: function}} (see rerun.py), and `extras`,
a dict of what a trace cannot know. Every key of it is optional. Names are those of the trace's tensors; a step has the name
of its output.

    title           the heading; else the trace's title
    introduction    text, or a list of paragraphs, below the heading
    layout          [{"names": [name, ...], "title": ..., "open": True}, ...]: the rows of the picture, in the order of the
                    computation. With a title it is a box that opens; closed, it says how large its results are. The tensors
                    left out form a row, each input before the first step that reads it, and results of joined steps a box
    hidden          [name, ...]: tensors without a matrix. Join their steps to others, whose terms then write out theirs
    aloud           {name: {"positive": line, "negative": line}}: what the sign of a gradient means, in words; "{row}" and
                    "{column}" are the labels of the number, and what is between asterisks is emphasized
    labels          {name: {"rows": [...], "columns": [...]}}, of the last two axes, such as tokens. Default: 0, 1, 2, ...
    symbols         {name: "P"}: what a tensor is called in formulas and in terms. Default: its name
    editable        [name, ...]: the tensors that can be edited. Default: all inputs
    steps           {name: {"title": ..., "joins": [name, ...], "derives": ..., "forward": WORDS, "backward": WORDS}}
                    joins: earlier steps shown as one with this one; terms write out what they computed
                    derives: {VARIABLE: NAME}: a variable of its op's code becomes a tensor of that name, with a step of
                    its own if `steps` has one of that name; the variable dx of backward is the gradient of x
                    WORDS = {"formula": ... or a list, "derivation": [line, ...]}; in a line, `...` encloses a formula
    axes            {name: ["query", null]}: what a tensor's last axes run over, for its caption
    switches        [{"name": ..., "label": ..., "choices": [{"label": ..., "sets": [SET, ...]}, ...]}]: the first choice is
                    the trace itself, so its sets are empty; or a field for a number,
                    [{"name": ..., "label": ..., "number": SET}], where SET's "value" is the trace's own
                    SET = {"step": name, "option": "condition", "value": any JSON}    an option of a step
                        | {"step": name, "input": 1, "value": any JSON}               a constant input of a step
                        | {"tensor": name, "value": nested list}                      an input or a constant
                        | {"choice": name}                                            a choice of `backwards`
    mistakes        [{"name": a choice of `backwards`, "title": ..., "sentence": a line, or a list of them,
                    "check": what the gradient check says, as text, "steps": [name, ...]}]
    shares          [{"tensor": "x", "through": [{"label": ..., "tensor": step, "input": name}, ...]}]: the paths by which
                    the gradient of x arrives, each with its norm, cosine and share. A path is what a step sends to its
                    input, carried on to x. Default: each tensor that several steps use, with these steps
    about_shares    [line, ...]: what the shares say
    bars            {"weights": name, "mean": name, "scores": name}, softmax, its row sum and its input: a picture of a row
                    beside the steps backward that make the row sum and the gradient of the input
    stations        [{"title": ..., "text": [line, ...], "step": name, "way": "forward" or "backward",
                    "guide": "3. Keys compete", "question": QUESTION}, ...]: a guided path. Each opens a step, asks a
                    question, and names the guide's section on it. The page's address keeps what was answered
                    turns: {name of a switch: choice, ...}, while the station is open. Optional
                    QUESTION = {"text": line, "reason": line, ...} and one of
                        "choices": [line, ...], "right": k    which comes true, once the model trains?
                        "sign": CELL      positive, negative or zero?
                        "smallest": CELL  which of a row is it? the index is the row's
                        "changes": {"tensor": ..., "kind": ...}, "edit": {"tensor": ..., "index": ..., "by": 1, "times": 1}
                                          which numbers of the tensor change by this edit of an input?
                    CELL = {"tensor": ..., "index": [3, 1], "kind": "value" or "gradient"}
                    The page computes the answers. The cells asked for are veiled until then
    station         the number of the station that is open at first. Default: none
    trains          {"text": [line, ...], "model": {...}}: a model that trains with the mistake that is chosen, or with a
                    line that the user writes for the gradient of bars' scores (see study/page/model.py). Needs bars

A formula is text such as `dS_ij = P_ij (dP_ij - sum_k dP_ik P_ik)`, `e^(x_i)`, `a / b`, `sqrt(D)`, `dS^T`, in which the
names of tensors are replaced by their symbols. All other text is shown as it is, never as markup.

Cells carry data-tensor, data-index ("1,0", and "" for a scalar), data-kind ("value" or "gradient") and data-value (all
digits); those that can be edited are `input` elements with the same attributes. In a step, the figure of each matrix that
it reads or writes has data-role "read" or "written"; the others are not shown. The step's name has data-step, 0 for all.
Where later steps will add to a gradient, a step that writes it shows what has been added so far, with all digits in
data-so-far; data-value stays the whole gradient.
"""
import base64
import hashlib
import html as _html
import importlib.resources
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...serialization import replacing
from ..expressed import Expressed
from ..rerun import Backward
from ..steps import plain

GENERATOR = "minigrad.tracing.page"  # in a meta tag, by which `is_page` knows the file
MOST_NUMBERS = 6_000  # that a page shows
MOST_BYTES = 1_000_000  # of a page
IN_WORKERS = "nodes.js", "model.js"  # too. Each of the two scripts is strict, as its first file says
SCRIPTS = (
    "formulas.js", "terms.js", "computation.js", "state.js", "matrices.js", "picture.js", "map.js", "steps.js", "number.js",
    "difference.js", "bars.js", "motion.js", "edits.js", "stations.js", "training.js", "page.js",
)
EXTRAS = {
    "title", "introduction", "layout", "hidden", "labels", "symbols", "editable", "steps", "switches", "mistakes", "shares",
    "about_shares", "stations", "station", "axes", "bars", "aloud", "trains",
}
Backwards = Mapping[str, Mapping[str, Backward]]
QUESTIONS = {"choices", "sign", "smallest", "changes"}


def write(
    trace: Any, path: str | os.PathLike[str], *, extras: Mapping[str, Any] | None = None,
    backwards: Backwards | None = None, overwrite: bool = False,
) -> pathlib.Path:
    """Write the page of a trace to a file atomically, and return its path.

    An existing file is replaced only if it is such a page, or with `overwrite`; else FileExistsError. OSError if the file
    cannot be written, ValueError as from `html`.
    """
    path = pathlib.Path(path)
    content = html(trace, extras, backwards)
    if not overwrite and path.is_file() and not is_page(path):
        raise FileExistsError(f"{path} already exists and is not a page of minigrad's; give another name, or overwrite it")
    with replacing(pathlib.Path(os.path.realpath(path))) as file:  # through a link
        file.write(content.encode())
    return path


def is_page(path: str | os.PathLike[str]) -> bool:
    """Was this file made by `write`, with nothing added before or after the page?"""
    template = _part("page.html").replace("{{generator}}", GENERATOR)
    start, end = template.partition("{{policy}}")[0].encode(), template.rpartition("}}")[2].encode()
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    return content.startswith(start) and content.endswith(end)


def html(trace: Any, extras: Mapping[str, Any] | None = None, backwards: Backwards | None = None) -> str:
    """The page of a trace, as text.

    ValueError for more than 6,000 numbers, or extras that name something unknown.
    """
    extras, numbers = extras or {}, trace.as_dict()
    _check(numbers, extras, backwards or {})
    style = _part("page.css")
    worker, script = ("\n".join(['"use strict";', *map(_part, names)]) for names in (IN_WORKERS, SCRIPTS))
    derives = {part: step.get("derives", {}) for name, step in extras.get("steps", {}).items()
               for part in (name, *step.get("joins", ()))}
    expressed = Expressed(trace.steps, trace.tensors, backwards, _switched(extras)).as_dict(derives)
    data = {"trace": _without_repetitions(numbers), "extras": extras, "expressions": expressed}
    parts = {
        "generator": GENERATOR,
        "policy": (f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(worker)}' '{_digest(script)}'; "
                   "worker-src blob:; base-uri 'none'"),
        "title": _html.escape(str(extras.get("title") or trace.title or "A traced computation")),
        "style": style,
        "worker": worker,
        "script": script,
        "data": as_json(data),
    }
    # In one pass, so that what is filled in is not searched:
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))
    if (size := len(page.encode())) > MOST_BYTES:
        raise ValueError(f"the page would have {size:,} bytes, and the limit is {MOST_BYTES:,}; trace a part of the "
                         "computation, or fewer rows")
    return page


def as_json(value: Any) -> str:
    """JSON for a script element: NaN and infinities as strings, and nothing that could end the element.

    >>> print(as_json({"</script>": [1.5, float("inf"), (slice(None), 2)]}))
    {"\\u003c/script>":[1.5,"Infinity",[{"slice":[null,null,null]},2]]}
    """
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which the page's policy allows its script and its style, and no others."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _without_repetitions(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The trace, with "all" in place of a step's gradient that is the tensor's whole gradient."""
    gradients = {tensor["name"]: tensor["gradient"] for tensor in trace["tensors"]}
    steps = [
        {**step, "gradients": [
            "all" if gradient is not None and gradient == gradients.get(source.get("tensor")) else gradient
            for source, gradient in zip(step["inputs"], step["gradients"])
        ]} for step in trace["steps"]
    ]
    return {**trace, "steps": steps}


def _switched(extras: Mapping[str, Any]) -> set[tuple[str, Any]]:
    """The options and constants that switches change."""
    return {(one["step"], one.get("option", one.get("input"))) for one in _sets(extras) if "step" in one}


def _sets(extras: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for switch in extras.get("switches", ()):
        sets = itertools.chain(*(choice["sets"] for choice in switch.get("choices", ())))
        yield from [switch["number"]] if "number" in switch else sets


def _check(trace: Mapping[str, Any], extras: Mapping[str, Any], backwards: Backwards) -> None:
    numbers = sum(math.prod(tensor["shape"]) * (1 + (tensor["gradient"] is not None)) for tensor in trace["tensors"])
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"the trace has {numbers:,} numbers, values and gradients together, and a page shows at most {MOST_NUMBERS:,}; "
            "trace a part of the computation, such as one head, or fewer tokens"
        )
    if unknown := extras.keys() - EXTRAS:
        raise ValueError(f"extras: unknown {sorted(unknown)}; known are {sorted(EXTRAS)}")
    for i, station in enumerate(extras.get("stations", ()), 1):
        if len(station["question"].keys() & QUESTIONS) != 1:
            raise ValueError(f"extras: the question of station {i} must have one of {sorted(QUESTIONS)}, has "
                             f"{sorted(station['question'])}")
    chosen = {mistake["name"] for mistake in extras.get("mistakes", ())}
    if missing := sorted(chosen.union(*({one["choice"]} for one in _sets(extras) if "choice" in one)) - backwards.keys()):
        raise ValueError(f"extras: there are no backwards called {missing}; there are {sorted(backwards)}")
    names = {tensor["name"] for tensor in trace["tensors"]}
    for step in extras.get("steps", {}).values():
        names.update(step.get("derives", {}).values())
    if missing := sorted(set(_names(extras)) - names):
        raise ValueError(f"extras name tensors that are not in the trace: {missing}; it has {sorted(names)}")


def _names(extras: Mapping[str, Any]) -> Iterator[str]:
    """The tensors and steps that have to be there."""
    for row in extras.get("layout", ()):
        yield from row["names"]
    for part in ("steps", "editable", "hidden"):
        yield from extras.get(part, ())
    for words in extras.get("steps", {}).values():
        yield from words.get("joins", ())
    yield from (one.get("step", one.get("tensor")) for one in _sets(extras) if "choice" not in one)
    for mistake in extras.get("mistakes", ()):
        yield from mistake.get("steps", ())
    for station in extras.get("stations", ()):
        question = station["question"]
        cells = [question[key] for key in ("sign", "smallest", "changes", "edit") if key in question]
        yield from [station["step"], *(cell["tensor"] for cell in cells)]
    yield from extras.get("axes", ())
    yield from extras.get("bars", {}).values()
    for row in extras.get("shares", ()):
        yield row["tensor"]
        for share in row["through"]:
            yield from (share[key] for key in ("tensor", "input") if key in share)
