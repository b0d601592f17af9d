"""The page of a trace: in a browser its numbers are the engine's, before an edit and after, and it says what they come from."""
import html.parser
import json
import math
import os
import re
import time

import numpy as np
import pytest

import minigrad as mg
import nn
from cases import CASES
from minigrad.gradcheck.mutants import MUTANTS
from minigrad.ops.attention import PackedAttention
from minigrad.tracing import Trace, page
from minigrad.tracing.plain import plain
from pages import INPUTS, draw, extras_of, mistakes, trace_of

PINNED = "state.isForced = true; update();"  # all numbers by the page's own interpreter


@pytest.fixture
def random():
    return np.random.default_rng(13)


def index_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def parse(value: str) -> float:
    return float(value.replace("Infinity", "inf"))


def assert_shown(text: str, value: float) -> None:
    """The text is the value, to the digits that it has."""
    if not math.isfinite(value):
        assert text == {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
        return
    digits, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    assert abs(float(text) - value) <= 0.5000001 * unit if value else text == "0", (text, value)
    assert value == 0 or float(text) != 0, f"{value} looks like 0"


def assert_is_engine(cells: dict, trace: Trace) -> None:
    """Each number of the trace stands on the page, as it is shown and with all digits."""
    expected = {(t.name, "value"): t.value for t in trace.tensors}
    expected |= {(t.name, "gradient"): t.gradient for t in trace.tensors if t.gradient is not None}
    assert cells.keys() == expected.keys()
    for key, array in expected.items():
        assert len(cells[key]) == array.size, key
        for text, cell in cells[key].items():
            value = float(array[index_of(text)])
            found = parse(cell["value"])
            assert found == value or abs(found - value) <= 1e-9 * max(1, abs(value)) or found != found and value != value, (
                key, text, found, value)
            if not cell["is_input"]:  # one that has the focus shows all digits
                assert_shown(cell["text"], found)


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a trace's page in the browser; no page may end with an error."""
    def call(trace, extras=None):
        trace = trace.as_dict() if isinstance(trace, Trace) else trace
        browser.open(page.write(trace, tmp_path / "page.html", extras=extras))

    yield call
    assert browser.errors() == []


# ------------------------------------------------------------------------------------------------ without a browser


class Reader(html.parser.HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.data, self._script = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._script = dict(attributes).get("type", "code") if tag == "script" else None

    def handle_endtag(self, tag):
        self._script = None if tag == "script" else self._script

    def handle_data(self, data):
        if self._script:
            self.data[self._script] = self.data.get(self._script, "") + data


def test_a_page_is_one_file_that_asks_for_nothing(random):
    trace = trace_of(draw(random, 8, 8))
    text = page.html(trace.as_dict(), extras_of(8, 8))
    reader = Reader(text)
    assert len(text.encode()) < 400_000
    assert not [a for _, a in reader.elements if a.keys() & {"src", "srcset", "action", "data"}]
    assert all(a["href"].startswith("#") for _, a in reader.elements if "href" in a)
    assert not re.findall(r"@import|url\(|\bimport\b|fetch\(|XMLHttpRequest|innerHTML|\beval\b", text)
    links = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert links <= {"http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"}  # names, not addresses
    (policy,) = [a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    data = json.loads(reader.data["application/json"])
    assert data["trace"]["tensors"] == json.loads(json.dumps(trace.as_dict()))["tensors"]


HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror=document.title="taken"> \u2028 {{data}} <!--'


def test_what_users_write_cannot_end_the_data(random):
    trace = trace_of(draw(random, 2, 2)).as_dict()
    extras = {"title": HOSTILE, "introduction": HOSTILE, "labels": {"q": {"rows": [HOSTILE, "b"]}}}
    reader = Reader(page.html({**trace, "title": HOSTILE}, extras))
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert "img" not in dict(reader.elements)
    assert json.loads(reader.data["application/json"])["extras"] == extras


def test_a_page_has_a_limit_and_says_it():
    x = mg.randn(60, 60, requires_grad=True)
    trace = mg.trace(lambda x: (x * x).sum(), x)
    with pytest.raises(ValueError, match=r"the trace has 14,402 numbers.* at most 6,000; trace a part") as caught:
        page.html(trace.as_dict())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("extras, message", [
    ({"colour": 1}, r"extras: unknown \['colour'\]"),
    ({"layout": [["q", "w"]]}, r"tensors that are not in the trace: \['w'\]"),
    ({"steps": {"weights": {"joins": ["gone"]}}}, r"\['gone'\]"),
    ({"mistakes": [{"name": "m", "steps": {"dscores": {"rule": "sign"}}}]}, r"\['dscores'\]"),
    ({"switches": [{"name": "s", "label": "s", "number": {"step": "gone", "input": 1, "value": 2}}]}, r"\['gone'\]"),
    ({"shares": [{"tensor": "q", "through": [{"label": "x", "tensor": "gone"}]}]}, r"\['gone'\]"),
    ({"steps": {"weights": {"forward": {"formula": "<math><mi>a</math>"}}}}, "the forward formula of 'weights' is not valid MathML"),
])
def test_extras_that_name_what_is_not_there(random, extras, message):
    with pytest.raises(ValueError, match=message):
        page.html(trace_of(draw(random, 2, 2)).as_dict(), extras)


def test_only_a_page_is_overwritten_unasked(random, tmp_path):
    trace = trace_of(draw(random, 2, 2)).as_dict()
    path = page.write(trace, tmp_path / "page.html")
    first = path.read_bytes()
    assert page.write({**trace, "title": "Another"}, path) == path and path.read_bytes() != first

    other = tmp_path / "notes.html"
    other.write_text("my notes")
    with pytest.raises(FileExistsError, match="is not a page of minigrad's"):
        page.write(trace, other)
    assert other.read_text() == "my notes"
    page.write(trace, other, overwrite=True)
    assert page.is_page(other)

    for content in (path.read_text() + "my notes", f'my notes on <meta name="generator" content="{page.GENERATOR}">'):
        other.write_text(content)
        with pytest.raises(FileExistsError, match="is not a page of minigrad's"):
            page.write(trace, other)
        assert other.read_text() == content
    page.write(trace, other, overwrite=True)

    link = tmp_path / "link.html"
    link.symlink_to(path)
    page.write({**trace, "title": "Through a link"}, link)
    assert link.is_symlink() and "Through a link" in path.read_text()

    with pytest.raises(OSError):
        page.write(trace, tmp_path)
    with pytest.raises(OSError):
        page.write(trace, tmp_path / "no folder" / "page.html")
    with pytest.raises(ValueError):
        page.write(trace, path, extras={"layout": [["gone"]]})
    assert sorted(os.listdir(tmp_path)) == ["link.html", "notes.html", "page.html"]  # and nothing half-written
    assert page.is_page(path)


# ------------------------------------------------------------------------------------------------ the numbers


def test_every_number_is_the_engines(browser, random, opened):
    for i in range(15):
        inputs, causal = draw(random, *random.integers(1, 7, 2)), bool(random.random() < 0.5)
        if i % 5 == 0:  # small and large ones
            inputs = {name: x * 10.0 ** random.integers(-6, 3, x.shape) for name, x in inputs.items()}
        trace = trace_of(inputs, causal)
        opened(trace)
        assert_is_engine(browser.cells(), trace)
        before = browser.run("const found = state.isForced; " + PINNED + " return found;")
        assert before is False
        assert_is_engine(browser.cells(), trace)
        assert browser.requests() == []


def test_after_edits_every_number_is_the_engines(browser, random, opened):
    inputs = draw(random, 5, 3)
    opened(trace_of(inputs))
    for _ in range(15):
        name, place = random.choice(INPUTS), (int(random.integers(5)), int(random.integers(3)))
        value = float(f"{random.standard_normal() * 10.0 ** random.integers(-3, 3):.{random.integers(1, 17)}g}")
        inputs[name][place] = value
        browser.type(name, f"{place[0]},{place[1]}", repr(value))
        assert_is_engine(browser.cells(), trace_of(inputs))


def shown(x: float) -> str:
    size = abs(x)
    if size >= 1000 or size < 0.001:
        digits, exponent = f"{x:.1e}".split("e")
        return f"{digits}e{int(exponent)}"
    return f"{x:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"


def test_switches_give_the_engines_numbers(browser, random, opened):
    inputs = draw(random, 4, 3)
    opened(trace_of(inputs), extras_of(4, 3))
    browser.choose("#switch-causal", 1)
    assert_is_engine(browser.cells(), trace_of(inputs, causal=False))
    browser.choose("#switch-scale", "0.25")
    assert_is_engine(browser.cells(), trace_of(inputs, causal=False, scale=0.25))
    browser.choose("#switch-scale", "a quarter")
    assert "a quarter” is no finite number; it stays 0.25" in browser.text("#message")
    assert_is_engine(browser.cells(), trace_of(inputs, causal=False, scale=0.25))
    browser.choose("#switch-causal", 0)
    browser.run("document.getElementById('reset').click()")
    assert_is_engine(browser.cells(), trace_of(inputs))


@pytest.mark.parametrize("build", ["attention", "block"])
def test_every_explanation_adds_up_to_its_number(browser, random, opened, build):
    """What is written out for a number, computed, is that number; and it reads what it is said to read."""
    trace = trace_of(draw(random, 3, 2)) if build == "attention" else block_trace(spelled_out=True)
    opened(trace)
    wrong = browser.run("""
        const wrong = [];
        for (const {t, kind} of grids.values()) {
          if (kind === "value" && !t.step) continue;
          for (let place = 0; place < product(t.shape); place++) {
            const {parts, isSeed} = computation.explain(pass, t.name, unravel(t.shape, place), kind);
            const expected = (kind === "value" ? t.value : t.gradient)[place];
            const found = parts.reduce((sum, part) => sum + part.term.value, isSeed ? 1 : 0);
            const isSame = found === expected || Math.abs(found - expected) <= 1e-9 * Math.max(1, Math.abs(expected));
            if (!isSame) wrong.push([kind, t.name, place, found, expected]);
          }
        }
        return wrong;""")
    assert wrong == []
    for cell in browser.driver.find_elements("css selector", "[data-tensor]")[::7]:  # and all can be drawn
        browser.run("point(arguments[0])", cell)


def block_trace(spelled_out: bool) -> Trace:
    """GPT-2's block on three characters, and the loss: fused ops, or their definitions."""
    mg.manual_seed(0)
    width = 4
    table = nn.Embedding(5, width).to(mg.float64)
    norms = [nn.LayerNorm(width).to(mg.float64) for _ in range(2)]
    sizes = (width, 3 * width), (width, width), (width, 6), (6, width)
    packed, project, expand, contract = [nn.Linear(i, o).to(mg.float64) for i, o in sizes]
    with mg.trace(spelled_out=spelled_out) as trace:
        x = table(mg.tensor([[1, 4, 1]]))
        h = x + project(PackedAttention.call(packed(norms[0](x)), None, num_heads=2, is_causal=True))
        y = h + contract(expand(norms[1](h)).gelu())
        loss = nn.functional.cross_entropy(y.reshape(3, width), mg.tensor([1, 0, 3]))
        loss.backward()
    return trace


def test_a_block_is_computed_where_it_is_spelled_out(browser, opened):
    """Of fused ops the page shows the trace's numbers."""
    problems = "return computation.steps.map(step => step.problem).filter(Boolean)"
    for spelled_out, unknown in ((True, []), (False, ["Embedding", "PackedAttention", "CrossEntropy"])):
        trace = block_trace(spelled_out)
        opened(trace)
        assert browser.run(problems) == [f"the page does not know the op {name}" for name in unknown]
        assert_is_engine(browser.cells(), trace)
        browser.run(PINNED)
        assert_is_engine(browser.cells(), trace)
        assert browser.errors() == []


# ------------------------------------------------------------------------------------------------ op by op


def random_index(random, shape):
    """A slice, an integer, a new axis, or arrays of positions (also several, and apart) for some of the axes."""
    parts = []
    for n in shape:
        kind = random.integers(5)
        parts.append([slice(None), int(random.integers(-n, n)), slice(None, None, -1), slice(1, None, 2),
                      random.integers(-n, n, 3)][kind])
    if any(isinstance(p, np.ndarray) for p in parts):  # integers beside arrays are picked first, in the engine
        parts = [slice(None) if isinstance(p, int) else p for p in parts]
    return tuple(parts[: random.integers(1, len(parts) + 1)])


def random_shapes(random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast."""
    full = tuple(random.integers(1, 4, random.integers(0, 4)).tolist())
    return tuple(tuple(1 if random.random() < 0.3 else n for n in full[random.integers(0, len(full) + 1):]) for _ in range(2))


def random_case(random, case) -> tuple[list, dict]:
    """New inputs for a row of cases.py: of random shapes where the op allows that, else of its own."""
    name, options = case.op.__name__, dict(case.options)
    draw = random.standard_normal
    (a, b), shape = random_shapes(random), tuple(random.integers(1, 5, 3).tolist())
    match name:
        case "Add" | "Sub" | "Mul" | "Div" | "Maximum":
            return [draw(a) * 2, np.sign(draw(b)) * (0.5 + np.abs(draw(b)))], options
        case "Pow":
            return [random.uniform(0.2, 0.8, a), random.uniform(0.2, 0.8, b)], options
        case "Where":
            return [draw(a), draw(b)], {"condition": random.random(np.broadcast_shapes(a, b)) > 0.5}
        case "MatMul":
            m, k, n = shape
            return [draw((*a, m, k)), draw((*b, k, n))], options
        case "Sum" | "Mean" | "Max":
            axes = tuple(sorted(random.choice(3, random.integers(1, 4), replace=False).tolist()))
            return [draw(shape)], {"axis": [None, axes, int(axes[0])][random.integers(3)] if name != "Max" else axes,
                                   "keepdims": bool(random.random() < 0.5)}
        case "Softmax":
            return [random.choice([3, 800]) * draw(shape)], {"dim": int(random.integers(-3, 3))}
        case "Erf" | "Gelu":
            return [3 * draw(shape)], options
        case "Permute":
            return [draw(shape)], {"axes": tuple(random.permutation(3).tolist())}
        case "Index":
            return [draw(shape)], {"index": random_index(random, shape)}
    return [x * (1 + 0.1 * draw(x.shape)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all() else x
            for x in case.inputs], options


def traced_case(random, case) -> dict:
    """The trace of one op on new inputs, back from a random gradient."""
    inputs, options = random_case(random, case)
    is_constant = [type(x).__name__ == "Constant" for x in case.inputs] + [False] * len(inputs)
    tensors = [mg.tensor(np.array(x), requires_grad=not is_constant[i]) if isinstance(x, (np.ndarray, np.floating)) else x
               for i, x in enumerate(inputs)]
    with mg.trace() as t:
        out = case.op.call(*tensors, **options)
        if out.requires_grad:
            out.backward(mg.tensor(random.standard_normal(out.shape)))
    return t.as_dict()


def is_known(case, ops: set[str]) -> bool:
    """Is a row of cases.py one of the page's? Masks as an index are not, and large ones take long."""
    index = case.options.get("index", ())
    is_mask = any(np.asarray(part).dtype == bool for part in (index if isinstance(index, tuple) else (index,)))
    return case.op.__name__ in ops and not is_mask and all(np.size(x) <= 400 for x in case.inputs)


def test_every_op_of_the_page_computes_as_the_engine(browser, random, opened):
    """Its rows of cases.py five times, on new numbers and, where the op allows it, shapes: values, gradients, and terms."""
    opened(trace_of(draw(random, 2, 2)))
    known = set(browser.run("return Object.keys(OPS)"))
    cases = [case for case in CASES if is_known(case, known)]
    assert known == {case.op.__name__ for case in cases}
    for case in cases:
        traces = [traced_case(random, case) for _ in range(5)]
        results = browser.run("""
            return arguments[0].map(trace => {
              const c = new Computation(trace), pass = c.backward(c.forward()), all = map => Object.fromEntries(
                [...map].map(([name, t]) => [name, [...t.data].map(String)]));
              const explained = [...c.tensors.values()].flatMap(t => ["value", "gradient"].flatMap(kind => {
                if (kind === "value" ? !t.step : !t.uses.length) return [];
                return [...t.value].map((_, place) => [kind, t.name, place, String(c.explain(pass, t.name,
                  unravel(t.shape, place), kind).parts.reduce((sum, part) => sum + (part.term ? part.term.value : NaN), 0))]);
              }));
              return {problems: c.steps.map(s => s.problem).filter(Boolean), values: all(pass.values),
                gradients: all(pass.gradients), explained};
            })""", plain(traces))
        for trace, result in zip(traces, results):
            assert result["problems"] == [], (str(case), trace["steps"])
            expected = {(kind, t["name"]): flat(t[kind]) for t in trace["tensors"] for kind in ("value", "gradient")
                        if t[kind] is not None}
            for (kind, name), numbers in expected.items():
                assert_same(result[f"{kind}s"][name], numbers, f"{case} {kind} {name}")
            for kind, name, place, value in result["explained"]:
                assert_same([value], [expected[kind, name][place]], f"terms of {case} {kind} {name}")


def flat(nested) -> list:
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [parse(str(nested))]


def assert_same(found: list[str], expected: list[float], where: str) -> None:
    assert len(found) == len(expected), where
    for a, b in zip(map(parse, found), expected):
        assert a == b or a != a and b != b or abs(a - b) <= 1e-9 * max(1, abs(b)), (where, a, b)


# ------------------------------------------------------------------------------------------------ mistakes


def test_each_mistake_marks_the_cells_that_it_makes_wrong(browser, random, opened):
    """The wrong gradients of q, k and v are those of the NumPy mutant of that name; no other cell of them is marked."""
    inputs = draw(random, 4, 4)
    opened(trace_of(inputs), extras_of(4, 4))
    inputs["k"][2, 1] = 1.5
    browser.type("k", "2,1", "1.5")
    arrays = [inputs[name][None] for name in "qkv"]
    right = MUTANTS["attention: no rowsum"].right.gradients(inputs["upstream"][None], *arrays)
    forward = values_of(browser.cells())
    for i, name in enumerate(mistakes(4, 4)):
        browser.choose("#mistakes", i)
        cells = browser.cells()
        wrong = MUTANTS[f"attention: {name}"].gradients(inputs["upstream"][None], *arrays)
        marked = 0
        for tensor, expected, true in zip("qkv", wrong, right):
            expected, true = expected[0], true[0]
            for text, cell in cells[tensor, "gradient"].items():
                at = index_of(text)
                assert abs(parse(cell["value"]) - expected[at]) <= 1e-9 * max(1, abs(expected[at])), (name, tensor, text)
                assert cell["wrong"] == (abs(expected[at] - true[at]) > 1e-9 * np.abs([expected, true]).max()), (name, text)
                marked += cell["wrong"]
        assert marked, name
        assert values_of(cells) == forward, name  # forward is as it was
        for tensor in "qkv":
            count = sum(cell["wrong"] for cell in cells[tensor, "gradient"].values())
            assert (f"{count} of 16 in d{tensor}" in browser.text("#mistake")) == bool(count), name
        assert "What the gradient check says\nFAIL\n  of it" in browser.text("#mistake")
    browser.choose("#mistakes", -1)
    assert_is_engine(browser.cells(), trace_of(inputs))
    assert not browser.driver.find_elements("css selector", ".wrong")


def values_of(cells: dict) -> dict[tuple, tuple[str, bool]]:
    """Of each cell of forward: its number, and whether it is marked as wrong."""
    return {(name, index): (cell["value"], cell["wrong"]) for (name, kind), row in cells.items() if kind == "value"
            for index, cell in row.items()}


def test_a_wrong_cell_says_so_without_colour(browser, random, opened):
    opened(trace_of(draw(random, 3, 3)), extras_of(3, 3))
    browser.choose("#mistakes", list(mistakes(3, 3)).index("no rowsum"))
    cell = browser.cell("q", "1,0", "gradient")
    assert re.fullmatch(r"\S+, wrong: \S+ is right", cell.get_attribute("aria-label"))
    sign, outline = browser.run("""const style = getComputedStyle(arguments[0], "::after");
        return [style.content, getComputedStyle(arguments[0]).outlineStyle];""", cell)
    assert "≠" in sign and outline == "dashed"
    browser.run("arguments[0].focus()", cell)
    assert "is right." in browser.text("#number")


# ------------------------------------------------------------------------------------------------ touching it


def test_an_edit_that_is_no_number_is_refused_in_place(browser, random, opened):
    trace = trace_of(draw(random, 3, 2))
    opened(trace)
    for text in ("abc", "1e999", "NaN", "Infinity", "1,5", "0x10", "--1", "1 2"):
        browser.type("q", "1,0", text)
        assert f"“{text}” is no finite number; it stays" in browser.text("#message")
        cell = browser.cell("q", "1,0")
        assert cell.get_attribute("value") == cell.get_attribute("data-value") == repr(float(trace["q"].value[1, 0]))
        assert_is_engine(browser.cells(), trace)
    cell.send_keys("\ue009a\ue000", "x", "\ue004")  # leaving it is the same
    assert browser.cells()["q", "value"]["1,0"]["value"] == repr(float(trace["q"].value[1, 0]))
    assert browser.run("return document.getElementById('message').getAttribute('aria-live')") == "polite"
    assert browser.run("return state.edits.size") == 0
    browser.type("q", "1,0", "-2.5e-1")
    assert parse(browser.cells()["q", "value"]["1,0"]["value"]) == -0.25
    assert browser.text("#message") == ""


def test_clearing_an_input_and_typing_is_an_edit(browser, random, opened):
    inputs = draw(random, 3, 2)
    opened(trace_of(inputs))
    cell = browser.cell("v", "2,1")
    cell.clear()
    cell.send_keys("0.75")
    inputs["v"][2, 1] = 0.75
    assert_is_engine(browser.cells(), trace_of(inputs))  # at once, before Enter
    cell.send_keys("\ue004")
    assert_is_engine(browser.cells(), trace_of(inputs))


def test_undo_and_reset(browser, random, opened):
    inputs = draw(random, 3, 2)
    first = trace_of(inputs)
    opened(first, extras_of(3, 2))
    undo, reset = (browser.driver.find_element("id", name) for name in ("undo", "reset"))
    assert not undo.is_enabled() and not reset.is_enabled()
    browser.type("q", "0,0", "1.25")
    browser.type("k", "1,1", "-3")
    inputs["q"][0, 0] = 1.25
    browser.run("arguments[0].click()", undo)
    assert_is_engine(browser.cells(), trace_of(inputs))
    browser.choose("#switch-causal", 1)
    browser.run("arguments[0].click()", undo)
    assert browser.run("return document.getElementById('switch-causal').value") == "0"
    browser.type("v", "0,0", "9")
    browser.run("arguments[0].click()", reset)
    cells = browser.cells()
    assert_is_engine(cells, first)
    for t in first.tensors:  # the trace's own bits
        assert all(parse(cells[t.name, "gradient"][i]["value"]) == t.gradient[index_of(i)] for i in cells[t.name, "gradient"])
    browser.run("arguments[0].click()", undo)  # a reset can be taken back
    assert parse(browser.cells()["v", "value"]["0,0"]["value"]) == 9


def test_pointing_writes_out_the_terms_and_lights_their_sources(browser, random, opened):
    trace = trace_of(draw(random, 2, 2))
    opened(trace)
    browser.run("arguments[0].focus()", browser.cell("masked_scores", "1,0", "gradient"))
    p, dp = trace["weights"].value, trace["weights"].gradient
    text = browser.text("#number")
    assert "dmasked_scores[1,0]" in text and repr(float(trace["masked_scores"].gradient[1, 0])) in text
    assert ("= weights[1,0] · (dweights[1,0] − (dweights[1,0] · weights[1,0] + dweights[1,1] · weights[1,1]))") in text
    numbers = [shown(x) if x >= 0 else f"({shown(x)})" for x in (dp[1, 0], p[1, 0], dp[1, 1], p[1, 1])]
    assert f"= {numbers[1]} · ({shown(dp[1, 0])} − ({numbers[0]} · {numbers[1]} + {numbers[2]} · {numbers[3]}))" in text
    lit = {(c.get_attribute("data-tensor"), c.get_attribute("data-index"), c.get_attribute("data-kind"))
           for c in browser.driver.find_elements("css selector", ".source[data-tensor], .source > [data-tensor]")}
    assert lit == {("weights", "1,0", "value"), ("weights", "1,1", "value"), ("weights", "1,0", "gradient"),
                   ("weights", "1,1", "gradient")}
    assert len(browser.driver.find_elements("css selector", ".pointed")) == 1
    spoken = browser.run("return document.getElementById('spoken').textContent")
    assert spoken.startswith("= weights[1,0] · (")


def test_what_is_joined_to_a_step_is_written_out(browser, random, opened):
    """dq is told by dscores and k, not by the product before the scale and the transpose, which belong to that step."""
    trace = trace_of(draw(random, 2, 2))
    opened(trace, extras_of(2, 2))
    browser.run("arguments[0].focus()", browser.cell("q", "1,0", "gradient"))
    assert "= dscores[1,0] · 0.707 · k[0,0] + dscores[1,1] · 0.707 · k[1,0]\n" in browser.text("#number")
    assert f"\n= {shown(trace['q'].gradient[1, 0])}" in browser.text("#number")
    lit = {(c.get_attribute("data-tensor"), c.get_attribute("data-index"), c.get_attribute("data-kind"))
           for c in browser.driver.find_elements("css selector", ".source[data-tensor], .source > [data-tensor]")}
    assert lit == {("scores", "1,0", "gradient"), ("scores", "1,1", "gradient"), ("k", "0,0", "value"), ("k", "1,0", "value")}
    browser.run("arguments[0].focus()", browser.cell("scores", "1,0", "value"))
    assert "= (q[1,0] · k[0,0] + q[1,1] · k[0,1]) · 0.707\n" in browser.text("#number")


def test_a_gradient_that_arrives_in_several_ways_shows_them_all(browser, opened):
    x = mg.tensor([[1.0, 2.0]], dtype=mg.float64, requires_grad=True)
    with mg.trace() as t:
        first = x * 3.0
        second = x * x
        loss = (first + second).sum()
        loss.backward()
    opened(t)
    browser.run("arguments[0].focus()", browser.cell("x", "0,1", "gradient"))
    text = browser.text("#number")
    assert "= 3.000 + 2.000 + 2.000 = 7.000, in 3 ways" in text and "through first" in text and "through second" in text
    assert parse(browser.cells()["x", "gradient"]["0,1"]["value"]) == 7
    shares = browser.text("#shares")
    assert "dx comes from" in shares and "first" in shares and "second" in shares and "together" in shares


def test_the_finite_difference_stands_beside_the_gradient(browser, random, opened):
    inputs = draw(random, 3, 2)
    opened(trace_of(inputs), extras_of(3, 2))

    def loss(x):
        return float(trace_of({**inputs, "q": np.where(np.arange(6).reshape(3, 2) == 2, x, inputs["q"])})["loss"].value)

    browser.run("arguments[0].focus()", browser.cell("q", "1,0"))
    for exponent in (-1, -3.5, -7, -12):
        browser.run("""const slider = document.querySelector("#difference input");
            slider.value = arguments[0]; slider.dispatchEvent(new Event("input"));""", exponent)
        found, gradient = (float(browser.text(f"#difference .{name}")) for name in ("of-differences", "of-backward"))
        h, x = 10**exponent, inputs["q"][1, 0]
        expected = (loss(x + h) - loss(x - h)) / (2 * h)
        assert abs(found - expected) <= 1e-11 + 4 * np.finfo(float).eps * abs(loss(x)) / h, exponent
        assert gradient == pytest.approx(float(trace_of(inputs)["q"].gradient[1, 0]), abs=1e-11)
    time.sleep(0.3)
    assert browser.run("return document.querySelectorAll('#difference svg .curve').length") == 1
    label = browser.run("return document.querySelector('#difference svg').getAttribute('aria-label')")
    assert "rounding" in label and "truncation" in label
    # A mistake is an error that no h mends.
    browser.choose("#mistakes", list(mistakes(3, 2)).index("no rowsum"))
    errors = [browser.run("return Math.abs(differenceAt('q', 2, arguments[0]) - pass.gradients.get('q').data[2])", h)
              for h in (1e-2, 1e-5, 1e-7)]
    assert min(errors) > 1e-3


def test_the_number_chosen_stays_chosen_on_the_way_to_the_panel(browser, random, opened):
    from selenium.webdriver import ActionChains  # there is a browser, so it is there

    opened(trace_of(draw(random, 3, 2)))
    chosen, other = browser.cell("q", "0,0"), browser.cell("v", "1,1")
    browser.run("arguments[0].focus()", chosen)
    mouse = ActionChains(browser.driver, duration=50)
    mouse.move_to_element(other).perform()
    assert browser.text("#number").startswith("v[1,1]")
    mouse.move_to_element(browser.driver.find_element("css selector", "#panel h2")).perform()
    assert browser.text("#number").startswith("q[0,0]")
    assert "by differences" in browser.text("#difference")


def test_steps_go_forward_and_then_backward(browser, random, opened):
    opened(trace_of(draw(random, 3, 2)), extras_of(3, 2))
    body = browser.driver.find_element("tag name", "body")
    seen = []
    for _ in range(20):
        body.send_keys("]")
        seen.append((browser.text("#step-name"), *(
            sorted(f.get_attribute("data-of")[0] + " " + f.get_attribute("data-name")
                   for f in browser.driver.find_elements("css selector", selector)) for selector in (".reads", ".writes"))))
    names = list(dict.fromkeys(row[0] for row in seen))
    assert len(names) == 12 and seen[-1] == seen[11]
    assert seen[0] == ("1 of 12, forward: Scores", ["v k", "v q"], ["v k_transposed", "v products", "v scores"])
    weights = next(row for row in seen if row[0].startswith("9 of 12, backward"))
    assert weights[1:] == (["g output", "v v", "v weights"], ["g v", "g weights"])
    softmax = next(row for row in seen if row[0].startswith("10 of 12, backward"))
    assert softmax[1:] == (["g weights", "v weights"], ["g masked_scores"])
    browser.run("goTo(10)")
    text = browser.text("#formulas")
    assert "One line.\nAnother, of" in text.replace("\n\n", "\n") and "`" not in text
    assert browser.run("return [...document.querySelectorAll('#formulas math')].map(m => m.querySelectorAll('mfrac').length)") == [0, 1]
    body.send_keys("[")
    assert browser.text("#step-name").startswith("9 of 12")
    browser.run("document.getElementById('next').click()")
    browser.driver.find_element("id", "step").send_keys("\ue012")  # the left arrow
    assert browser.text("#step-name").startswith("9 of 12")


def test_all_of_it_by_keyboard(browser, random, opened):
    """Tab reaches each matrix once, and arrows every cell in it; the one with the focus can be edited."""
    trace = trace_of(draw(random, 3, 2))
    opened(trace)
    active = "return [document.activeElement.dataset.tensor, document.activeElement.dataset.kind, document.activeElement.dataset.index]"
    stops = []
    for _ in range(60):
        browser.driver.switch_to.active_element.send_keys("\ue004")
        tensor, kind, index = browser.run(active)
        if tensor:
            stops.append((tensor, kind))
    tables = {(t.name, "value") for t in trace.tensors} | {(t.name, "gradient") for t in trace.tensors}
    assert set(stops[:len(tables)]) == tables and len(set(stops)) == len(stops[:len(tables)])
    browser.run("arguments[0].focus()", browser.cell("q", "0,0"))
    for key, index in (("\ue015", "1,0"), ("\ue014", "1,1"), ("\ue015", "2,1"), ("\ue015", "2,1"), ("\ue014", "2,1"),
                       ("\ue013", "1,1"), ("\ue012", "1,0")):  # down, right, down, down, right, up, left
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.run(active)[2] == index
    browser.driver.switch_to.active_element.send_keys("4.5", "\ue007")
    assert parse(browser.cells()["q", "value"]["1,0"]["value"]) == 4.5
    browser.run("arguments[0].focus()", browser.cell("weights", "0,0", "gradient"))
    browser.driver.switch_to.active_element.send_keys("\ue014\ue015\ue010")
    assert browser.run(active) == ["weights", "gradient", "1,2"]


# ------------------------------------------------------------------------------------------------ what may come


def test_what_is_not_finite_is_shown_as_such(browser, opened):
    x = mg.tensor([1.0, -1.0, 0.0], dtype=mg.float64, requires_grad=True)
    with mg.trace() as t, np.errstate(all="ignore"):
        y = x.log()
        loss = (y * 2.0).sum()
        loss.backward()
    opened(t)
    cells = browser.cells()
    assert [cells["y", "value"][i]["text"] for i in "012"] == ["0", "NaN", "-inf"]
    assert [cells["y", "value"][i]["value"] for i in "012"] == ["0", "NaN", "-Infinity"]
    assert cells["x", "gradient"]["2"]["value"] == "Infinity"
    browser.run(PINNED)
    assert_is_engine(browser.cells(), t)


class Unheard(mg.Function):
    """An op of a user's."""

    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, dout):
        return mg.full((3,), dout.item(), dtype=dout.dtype)


def test_an_op_that_the_page_does_not_know_stops_what_leads_through_it(browser, opened):
    x, w = (mg.tensor(np.arange(3.0) + i, requires_grad=True) for i in range(2))
    with mg.trace() as t:
        y = Unheard.apply(x)
        aside = w * 2.0  # noqa: F841  named for the trace
        loss = y * 3.0
        loss.backward()
    opened(t)
    cells = browser.cells()
    assert_is_engine(cells, t)
    assert not cells["x", "value"]["0"]["is_input"] and cells["w", "value"]["0"]["is_input"]
    assert "y: the page does not know the op Unheard. Its numbers are the trace's, and x cannot be edited." in browser.text("header")
    browser.run("arguments[0].focus()", browser.cell("y", "", "value"))
    assert "does not know the op Unheard" in browser.text("#number") and "It reads x" in browser.text("#number")
    browser.type("w", "0", "5")
    assert parse(browser.cells()["aside", "value"]["0"]["value"]) == 10


def test_a_rule_that_gives_other_numbers_than_the_trace_is_not_used(browser, random, opened):
    trace = trace_of(draw(random, 2, 2)).as_dict()
    (weights,) = (t for t in trace["tensors"] if t["name"] == "weights")
    weights["value"][1][0] += 1e-6
    opened(trace)
    assert "the page computes another Softmax" in browser.text("header")
    assert not browser.cells()["q", "value"]["0,0"]["is_input"]
    assert parse(browser.cells()["weights", "value"]["1,0"]["value"]) == weights["value"][1][0]


def test_what_is_not_finite_is_no_sign_of_another_rule(browser, opened):
    """Neither NaN nor what is infinite in float32, but not on the page."""
    x = mg.tensor([1.0, math.nan, -2.0, math.inf, 0.0], requires_grad=True)
    trace = mg.trace(lambda x: ((x * 1e30 * 1e30) * (x - x)).sum() + (x * 1e30).square().mean(), x)
    opened(trace)
    assert browser.run("return computation.steps.map(step => step.problem)") == [None] * len(trace.steps)
    assert browser.cells()["x", "value"]["0"]["is_input"]


def test_what_cancels_in_float32_can_be_edited(browser, random, opened):
    """Rounding is all that is left of a sum that is zero: it is no sign of another rule."""
    norm = nn.LayerNorm(5)
    for function in (lambda x: x.softmax(-1).square().sum(), lambda x: (x + norm(x)).square().sum(), lambda x: norm(x).sum()):
        for spelled_out in (False, True):
            trace = mg.trace(function, mg.tensor(random.normal(size=(4, 5)), dtype=mg.float32, requires_grad=True),
                             spelled_out=spelled_out)
            opened(trace)
            assert browser.cells()["x", "value"]["0,0"]["is_input"], browser.text("header")


def test_before_an_edit_the_numbers_are_the_traces_own(browser, random, opened):
    """Also where they differ from the page's, by less than what would be another rule."""
    trace = trace_of(draw(random, 2, 2)).as_dict()
    for t in trace["tensors"]:
        if t["name"] in ("weights", "scores"):
            t["value"][1][0] *= 1 + 1e-12
            t["gradient"][1][1] *= 1 + 1e-12
    own = {t["name"]: (t["value"], t["gradient"]) for t in trace["tensors"]}
    opened(trace, extras_of(2, 2))
    browser.choose("#mistakes", list(mistakes(2, 2)).index("dv without transpose"))
    cells = browser.cells()
    for name in ("weights", "scores"):
        value, gradient = own[name]
        assert parse(cells[name, "value"]["1,0"]["value"]) == value[1][0]
        assert parse(cells[name, "gradient"]["1,1"]["value"]) == gradient[1][1]
    browser.run(PINNED)
    assert parse(browser.cells()["weights", "value"]["1,0"]["value"]) != own["weights"][0][1][0]


def test_text_is_text(browser, random, opened):
    extras = extras_of(2, 2) | {"title": HOSTILE, "introduction": HOSTILE, "notes": [HOSTILE], "labels": {"q": {"rows": [HOSTILE, "<b>"]}},
                                "symbols": {"weights": "<i>P</i>"}}
    extras["steps"] = {"weights": {"title": HOSTILE, "forward": {
        "formula": "<math><mi onclick='x'>a</mi><script>document.title='taken'</script><img src='x' onerror='document.title=1'/></math>",
        "derivation": [HOSTILE]}}}
    opened({**trace_of(draw(random, 2, 2)).as_dict(), "title": HOSTILE}, extras)
    for step in range(13):
        browser.run("goTo(arguments[0])", step)
    browser.run("arguments[0].focus()", browser.cell("weights", "1,0", "value"))
    assert browser.run("return document.title").startswith("</script><script>")
    assert browser.run("return document.querySelectorAll('img, b:not(caption b, p b), i, [onclick], math script').length") == 0
    assert browser.requests() == []


def test_a_trace_without_backward_and_one_of_more_axes(browser, random, opened):
    x = mg.tensor(random.standard_normal((2, 2, 3, 2)), requires_grad=True)
    with mg.trace() as t:
        y = x.mT @ x  # noqa: F841  named for the trace
    opened(t)
    assert "Backward has not run" in browser.text("#backward")
    assert_is_engine(browser.cells(), t)
    browser.type("x", "1,0,2,1", "2")
    assert parse(browser.cells()["y", "value"]["1,0,1,1"]["value"]) == pytest.approx(
        (x.detach().numpy()[1, 0, :2, 1] ** 2).sum() + 4, rel=1e-12)


# ------------------------------------------------------------------------------------------------ how it is


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "dark")])
def test_accessible_and_no_wider_than_the_screen(browser, random, opened, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    opened(trace_of(draw(random, 6, 6)), extras_of(6, 6))
    for state in ("goTo(3);", "document.querySelector('details').open = true; goTo(9);"):
        browser.run(state)
        assert browser.accessibility() == []
    browser.run("arguments[0].focus()", browser.cell("q", "1,0"))
    browser.choose("#mistakes", list(mistakes(6, 6)).index("no rowsum"))
    time.sleep(0.2)
    assert browser.accessibility() == []
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(overflow) <= 0
    assert browser.run(f"document.documentElement.style.fontSize = '200%'; {overflow}") <= 0
    browser.run("document.documentElement.style.fontSize = ''")
    wide = browser.run("""return [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth)
        .map(box => getComputedStyle(box).overflowX)""")
    assert set(wide) == ({"auto"} if size == "narrow" else set())  # they scroll inside their own box
