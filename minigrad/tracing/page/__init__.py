"""A traced computation as one HTML page, to be touched: forward above, backward below, every number with its terms.

The page is one file that needs no network and no server. It shows the trace's own numbers; once one of them is edited, a
switch is turned or a mistake is made, it computes all of them itself, with a small interpreter of the ops that attention, a
block and fused ops spelled out are made of. Of any other op it shows the trace's numbers, which cannot be edited.

    page.html, page.css       what stands on the page, and how it looks
    ops.js                    the rule of each op, for one number: of its value, and of each input's gradient
    mistakes.js               wrong rules, to be put in place of the right ones
    interpreter.js            runs a trace by these rules: forward, backward, finite differences, shares
    formulas.js               formulas as MathML, and the terms of a number written out
    page.js                   draws all that, and lets it be pointed at, stepped through and edited

`write` and `html` take the dict of `Trace.as_dict()` and `extras`, a dict of what a trace cannot know. All of it may be
left out. Names are those of the trace's tensors; a step goes by the name of its output.

    title           the heading; else the trace's title
    introduction    text, or a list of paragraphs, below the heading
    layout          [[name, ...], ...]: which tensors stand side by side, row by row. What is not in it stands in a last
                    row, "In between". Without it: the inputs and constants, then the results
    labels          {name: {"rows": [...], "columns": [...]}}, of the last two axes: tokens, letters. Else 0, 1, 2, ...
    symbols         {name: "P"}: what a tensor is called in formulas and in terms written out; else its name
    editable        [name, ...]: which tensors can be edited; else all inputs
    steps           {name: {"title": ..., "joins": [name, ...], "forward": WORDS, "backward": WORDS}}
                    joins: earlier steps that are shown as one with this one; in terms, what they made is written out
                    WORDS = {"formula": ..., "derivation": [line, ...]}; in a line, what stands in `...` is a formula
    switches        [{"name": ..., "label": ..., "choices": [{"label": ..., "sets": [SET, ...]}, ...]}]: the first choice is
                    the trace as it is, so its sets are empty; or, for a number to be typed,
                    [{"name": ..., "label": ..., "number": SET}], SET's "value" being the trace's own
                    SET = {"step": name, "option": "condition", "value": any JSON}    an option of a step
                        | {"step": name, "input": 1, "value": any JSON}               a constant input of a step
                        | {"tensor": name, "value": nested list}                      an input or a constant
    mistakes        [{"name": "attention: no rowsum", "title": ..., "sentence": ..., "check": ..., "steps": {name: WRONG},
                    "recomputes": [SET, ...]}]: backward as it would be with that mistake; forward stays
                    WRONG = {"rule": a key of MISTAKES in mistakes.js, and what that rule asks for}
                    recomputes: backward does not take forward's values, but those of the trace after these SETs
                    check: what the gradient check says of it, as text (line breaks are kept)
    shares          [{"tensor": "x", "through": [{"label": ..., "tensor": name}, ...]}]: what arrives in the gradient of x
                    through each of these, with norm and cosine. A result of a step that takes x counts for that step alone;
                    any other for all ways from it to x, or, with "input": name, for what its step sends to that input.
                    Without it: each tensor that several steps take, by these steps
    notes           text, or a list of paragraphs, at the foot of the page

A formula is `<math>...</math>`, or text in this notation: `dS_ij = P_ij (dP_ij - sum_k dP_ik P_ik)`, `e^(x_i)`, `a / b`,
`sqrt(D)`, `dS^T`; names that the trace's tensors have are replaced by their symbols. All other text is text: nothing in
it is markup.

Cells carry data-tensor, data-index ("1,0", and "" for a scalar), data-kind ("value" or "gradient") and data-value (all
digits); those that can be edited are `input` elements with the same attributes.
"""
import base64
import hashlib
import html as _html
import importlib.resources
import json
import math
import os
import pathlib
import re
import xml.etree.ElementTree
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...serialization import replacing
from ..plain import plain

GENERATOR = "minigrad.tracing.page"  # in a meta tag: a file with it may be overwritten
MOST_NUMBERS = 6_000  # that a page shows
MOST_BYTES = 400_000  # of a page
SCRIPTS = "formulas.js", "ops.js", "mistakes.js", "interpreter.js", "page.js"
EXTRAS = {
    "title", "introduction", "layout", "labels", "symbols", "editable", "steps", "switches", "mistakes", "shares", "notes",
}


def write(
    trace: Mapping, path: str | os.PathLike, *, extras: Mapping | None = None, overwrite: bool = False
) -> pathlib.Path:
    """Write the page of a trace (`Trace.as_dict()`) to a file, whole or not at all, and give its path.

    A file that is there is replaced if it is such a page, or with `overwrite`; FileExistsError if not. OSError if the file
    cannot be written, ValueError as from `html`.
    """
    path = pathlib.Path(path)
    content = html(trace, extras)
    if not overwrite and path.is_file() and not is_page(path):
        raise FileExistsError(f"{path} is there, and is no page of minigrad's; give another name, or overwrite it")
    with replacing(pathlib.Path(os.path.realpath(path))) as file:  # a link stays, and leads to the page
        file.write(content.encode())
    return path


def is_page(path: str | os.PathLike) -> bool:
    """Has `write` made this file, and nobody added to it before or behind?"""
    template = _part("page.html").replace("{{generator}}", GENERATOR)
    start, end = template.partition("{{policy}}")[0].encode(), template.rpartition("}}")[2].encode()
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    return content.startswith(start) and content.endswith(end)


def html(trace: Mapping, extras: Mapping | None = None) -> str:
    """The page of a trace (`Trace.as_dict()`), as text.

    ValueError if it has more than 6,000 numbers, or if extras name what is not there.
    """
    extras = extras or {}
    _check(trace, extras)
    style = _part("page.css")
    script = "".join(_part(name) for name in SCRIPTS)
    data = {"trace": _without_repetitions(trace), "extras": extras}
    parts = {
        "generator": GENERATOR,
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'",
        "title": _html.escape(str(extras.get("title") or trace.get("title") or "A traced computation")),
        "style": style,
        "script": script,
        "data": as_json(data),
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))  # none is searched for others
    if (size := len(page.encode())) > MOST_BYTES:
        raise ValueError(f"the page would have {size:,} bytes, and the most is {MOST_BYTES:,}; trace a part of the "
                         "computation, or fewer rows")
    return page


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: NaN and infinities as strings, and nothing that could end the element.

    >>> print(as_json({"</script>": [1.5, float("inf"), (slice(None), 2)]}))
    {"\\u003c/script>":[1.5,"Infinity",[{"slice":[null,null,null]},2]]}
    """
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What the page's policy names its script and its style by: no other may run, whatever stands in the page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _without_repetitions(trace: Mapping) -> dict:
    """The trace; but where a tensor's gradient is all from one step, that is not said twice ("all")."""
    gradients = {tensor["name"]: tensor["gradient"] for tensor in trace["tensors"]}
    steps = [
        {**step, "gradients": [
            "all" if gradient is not None and gradient == gradients.get(source.get("tensor")) else gradient
            for source, gradient in zip(step["inputs"], step["gradients"])
        ]} for step in trace["steps"]
    ]
    return {**trace, "steps": steps}


def _check(trace: Mapping, extras: Mapping) -> None:
    numbers = sum(math.prod(tensor["shape"]) * (1 + (tensor["gradient"] is not None)) for tensor in trace["tensors"])
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"the trace has {numbers:,} numbers, values and gradients together, and a page shows at most {MOST_NUMBERS:,}; "
            "trace a part of the computation, such as one head, or fewer tokens"
        )
    if unknown := extras.keys() - EXTRAS:
        raise ValueError(f"extras: unknown {sorted(unknown)}; known are {sorted(EXTRAS)}")
    names = {tensor["name"] for tensor in trace["tensors"]}
    if missing := sorted(set(_names(extras)) - names):
        raise ValueError(f"extras name tensors that the trace has not: {missing}; it has {sorted(names)}")
    for name, words in extras.get("steps", {}).items():
        for way in ("forward", "backward"):
            _check_formula(words.get(way, {}).get("formula", ""), f"extras: the {way} formula of {name!r}")


def _check_formula(text: str, where: str) -> None:
    if text.lstrip().startswith("<math"):
        try:
            xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError as error:
            raise ValueError(f"{where} is no MathML: {error}; end each element, and write signs, not &names;") from None


def _names(extras: Mapping) -> Iterator[str]:
    """The tensors and steps that extras name."""
    for row in extras.get("layout", ()):
        yield from row
    for part in ("labels", "symbols", "steps", "editable"):
        yield from extras.get(part, ())
    for words in extras.get("steps", {}).values():
        yield from words.get("joins", ())
    for switch in extras.get("switches", ()):
        sets = [one for choice in switch.get("choices", ()) for one in choice["sets"]]
        yield from _set_names(sets + ([switch["number"]] if "number" in switch else []))
    for mistake in extras.get("mistakes", ()):
        yield from mistake.get("steps", ())
        yield from _set_names(mistake.get("recomputes", ()))
    for row in extras.get("shares", ()):
        yield row["tensor"]
        for share in row["through"]:
            yield from (share[key] for key in ("tensor", "input") if key in share)


def _set_names(sets: Iterable[Mapping]) -> Iterator[str]:
    return (one.get("step", one.get("tensor")) for one in sets)
