"""The page of a trace: in a browser its numbers are the engine's, and it explains them.

A random walk through the pages of attention is in tests/study: edits, switches, undo, mistakes.
"""
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
from cases import CASES, Case
from minigrad.ops.dtypes import Cast
from minigrad.tracing import Trace, page
from minigrad.tracing.expressed import Expressed
from minigrad.tracing.expressions import ELEMENTWISE, REDUCED
from minigrad.tracing.steps import plain
from pages import backwards, draw, extras_of, trace_of
from minigrad.ops.operands import call

RECOMPUTE = "state.isForced = true; update();"  # all numbers, by the page's own interpreter


@pytest.fixture
def random():
    return np.random.default_rng(13)


def assert_shown(text: str, value: float) -> None:
    """The text is the value, rounded to the digits that it shows."""
    if not math.isfinite(value):
        assert text == {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
        return
    digits, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    assert abs(float(text) - value) <= 0.5000001 * unit if value else text == "0", (text, value)
    assert value == 0 or float(text) != 0, f"{value} looks like 0"


def assert_is_engine(browser, trace: Trace) -> None:
    """Each number of the trace is on the page, with all digits in its data, and rounded in its text."""
    expected = {(t.name, "value"): t.value for t in trace.tensors}
    expected |= {(t.name, "gradient"): t.gradient for t in trace.tensors if t.gradient is not None}
    found = browser.arrays()
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].shape == array.shape, key
        assert all(map(is_close, found[key].flat, array.flat)), (key, found[key], array)
    for cells in browser.cells().values():
        for cell in cells.values():
            if not cell["is_input"]:  # with the focus, an input shows all digits
                assert_shown(cell["text"], float(cell["value"]))


def is_close(a: float, b: float) -> bool:
    return a == b or a != a and b != b or abs(a - b) <= 1e-9 * max(1, abs(b))


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a trace's page in the browser."""
    def call(trace, extras=None):
        wrong = backwards(*trace["q"].shape) if extras and "mistakes" in extras else None
        browser.open(page.write(trace, tmp_path / "page.html", extras=extras, backwards=wrong))
    return call


# ------------------------------------------------------------------------------------------------ without a browser


def elements_of(text: str) -> list[tuple[str, dict]]:
    """(tag, attributes) of a page's elements."""
    found = []
    reader = html.parser.HTMLParser()
    reader.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    reader.feed(text)
    return found


def data_in(text: str) -> dict:
    return json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def test_a_page_is_one_file_that_requests_nothing(random):
    trace = trace_of(draw(random, 8, 8))
    text = page.html(trace, extras_of(8, 8), backwards(8, 8))
    elements = elements_of(text)
    assert len(text.encode()) < 240_000
    assert not [a for _, a in elements if a.keys() & {"src", "srcset", "action", "data"}]
    assert all(a["href"].startswith("#") for _, a in elements if "href" in a)
    assert not re.findall(r"@import|url\(|\bimport\b|fetch\(|XMLHttpRequest|innerHTML|\beval\b", text)
    links = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert links <= {"http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"}  # names, not addresses
    (policy,) = [a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert data_in(text)["trace"]["tensors"] == json.loads(json.dumps(trace.as_dict()))["tensors"]


HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror=document.title="taken"> \u2028 {{data}} <!--'


def test_what_users_write_cannot_end_the_data(random):
    trace = trace_of(draw(random, 2, 2))
    trace.title = HOSTILE
    extras = {"title": HOSTILE, "introduction": HOSTILE, "labels": {"q": {"rows": [HOSTILE, "b"]}}}
    text = page.html(trace, extras)
    tags = [tag for tag, _ in elements_of(text)]
    assert tags.count("script") == 3 and "img" not in tags
    assert data_in(text)["extras"] == extras


def test_only_a_page_is_overwritten(random, tmp_path):
    trace = trace_of(draw(random, 2, 2))
    path = page.write(trace, tmp_path / "page.html")
    first = path.read_bytes()
    trace.title = "Another"
    assert page.write(trace, path) == path and path.read_bytes() != first

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
    trace.title = "Through a link"
    page.write(trace, link)
    assert link.is_symlink() and "Through a link" in path.read_text()

    with pytest.raises(OSError):
        page.write(trace, tmp_path)
    with pytest.raises(OSError):
        page.write(trace, tmp_path / "no folder" / "page.html")
    with pytest.raises(ValueError):
        page.write(trace, path, extras={"layout": [{"names": ["gone"]}]})
    assert sorted(os.listdir(tmp_path)) == ["link.html", "notes.html", "page.html"]  # nothing half-written
    assert page.is_page(path)


# ------------------------------------------------------------------------------------------------ op by op


NAMED = {case.op.__name__: case.op for case in CASES}
X = np.round(3 * np.random.default_rng(1).normal(size=(3, 4, 2))).clip(max=2)  # the largest are several
MORE_CASES = [Case(NAMED["Softmax"], [300 * X], None, {"dim": -1}), Case(NAMED["Maximum"], [X, X[::-1].copy()], None),
              Case(Cast, [X], None, {"dtype": np.dtype(np.float64)})] + [Case(NAMED[name], [X], None, options) for name, options in [
    *(("Index", {"index": index}) for index in [
        (slice(-2, None), None, slice(None, None, -1)), (1, slice(-9, -1, 2), -1), (Ellipsis, np.array([1, -2, 0])),
        (slice(None), np.array([3, 0, -4])), (slice(None), np.array([3, 0]), None, np.array([0, 1])),  # apart
        (slice(None), np.array([[0, 1], [-1, 2]]), np.array([0, 1])), (slice(None, None, -2), slice(3, 0, -2)),
    ]),
    *((name, {"axis": (0, 2), "keepdims": keepdims}) for name in ("Sum", "Mean", "Max") for keepdims in (False, True)),
    ("Permute", {"axes": (2, 0, 1)}), ("Softmax", {"dim": 0}), ("Softmax", {"dim": -2}), ("Erf", {}), ("Erfc", {}), ("Gelu", {"approximate": "none"}),
]]


def traced_case(random, case) -> Trace:
    """The trace of one op, back from a random gradient."""
    inputs = [mg.tensor(np.array(x), requires_grad=type(x).__name__ != "Constant")
              if isinstance(x, (np.ndarray, np.floating)) else x for x in case.inputs]
    with mg.trace() as t:
        out = call(case.op, *inputs, **case.options)
        if out.requires_grad:
            out.backward(mg.tensor(random.standard_normal(out.shape)))
    return t


def test_every_op_of_the_page_computes_as_the_engine(browser, random, opened):
    """Rows of cases.py and MORE_CASES: values, gradients, and terms. (Large inputs take long.)"""
    opened(trace_of(draw(random, 2, 2)))
    assert set(browser.run("return Object.keys({...OF_NODES, ...REDUCED})")) == ELEMENTWISE | REDUCED
    cases = [case for case in CASES if all(np.size(x) <= 400 for x in case.inputs)] + MORE_CASES
    assert {case.op for case in cases} == {case.op for case in CASES + MORE_CASES}
    for part in np.array_split(np.array(cases, object), len(cases) // 3):
        traces = [traced_case(random, case) for case in part]
        given = [[page._without_repetitions(t.as_dict()), Expressed(t.steps, t.tensors).as_dict({})] for t in traces]
        results = browser.run("""
            return arguments[0].map(([trace, expressions]) => {
              const c = new Computation(trace, expressions), pass = c.run(), all = map => Object.fromEntries(
                [...map].map(([name, t]) => [name, [...t.data].map(String)]));
              const explained = [...c.tensors.values()].flatMap(t => ["value", "gradient"].flatMap(kind => {
                if (kind === "value" ? !t.step : !t.uses.length) return [];
                return [...t.value].slice(0, 40).map((_, place) => [kind, t.name, place, String(c.explain(pass, t.name,
                  unravel(t.shape, place), kind).parts.reduce((sum, part) => sum + (part.term ? part.term.value : NaN), 0))]);
              }));
              return {problems: c.steps.map(s => s.problem).filter(Boolean), values: all(pass.values),
                gradients: all(pass.gradients), explained};
            })""", plain(given))
        for case, trace, result in zip(part, traces, results):
            assert result["problems"] == [], (str(case), trace.steps)
            expected = {(kind, t.name): getattr(t, kind).ravel() for t in trace.tensors for kind in ("value", "gradient")
                        if getattr(t, kind) is not None}
            for (kind, name), numbers in expected.items():
                assert_same(result[f"{kind}s"][name], numbers, f"{case} {kind} {name}")
            for kind, name, place, value in result["explained"]:
                assert_same([value], [expected[kind, name][place]], f"terms of {case} {kind} {name}")


def assert_same(found: list[str], expected: list[float], where: str) -> None:
    assert len(found) == len(expected), where
    for a, b in zip(map(float, found), expected):
        assert is_close(a, b), (where, a, b)


# ------------------------------------------------------------------------------------------------ mistakes


def choose_mistake(browser, name: str) -> None:
    browser.choose("#mistakes", list(backwards(1, 1)).index(name))


def test_a_wrong_cell_says_so_without_colour(browser, random, opened):
    opened(trace_of(draw(random, 3, 3)), extras_of(3, 3))
    choose_mistake(browser, "no rowsum")
    cell = browser.cell("q", "1,0", "gradient")
    assert re.fullmatch(r"\S+, wrong; it should be \S+", cell.get_attribute("aria-label"))
    sign, outline = browser.run("""const style = getComputedStyle(arguments[0], "::after");
        return [style.content, getComputedStyle(arguments[0]).outlineStyle];""", cell)
    assert "≠" in sign and outline == "dashed"
    assert "it should be" in browser.focus("q", "1,0", "gradient")


# ------------------------------------------------------------------------------------------------ using it


def test_an_edit_that_is_not_a_number_is_refused(browser, random, opened):
    trace = trace_of(draw(random, 3, 2))
    opened(trace, extras_of(3, 2))
    browser.choose("#switch-scale", "a quarter")
    assert "a quarter” is not a finite number; still 0.7" in browser.text("#message")
    for text in ("abc", "1e999", "NaN", "Infinity", "1,5", "0x10", "--1", "1 2"):
        browser.type("q", "1,0", text)
        assert f"“{text}” is not a finite number; still" in browser.text("#message")
        cell = browser.cell("q", "1,0")
        assert cell.get_attribute("value") == cell.get_attribute("data-value") == repr(float(trace["q"].value[1, 0]))
        assert_is_engine(browser, trace)
    cell.send_keys("\ue009a\ue000", "x", "\ue004")  # leaving it is the same
    assert browser.cells()["q", "value"]["1,0"]["value"] == repr(float(trace["q"].value[1, 0]))
    assert browser.run("return document.getElementById('message').getAttribute('aria-live')") == "polite"
    assert browser.run("return state.edits.size") == 0
    browser.type("q", "1,0", "-2.5e-1")
    assert browser.arrays()["q", "value"][1, 0] == -0.25
    assert browser.text("#message") == ""


def test_clearing_an_input_and_typing_is_an_edit(browser, random, opened):
    inputs = draw(random, 3, 2)
    opened(trace_of(inputs))
    cell = browser.cell("v", "2,1")
    cell.clear()
    cell.send_keys("0.75")
    inputs["v"][2, 1] = 0.75
    assert_is_engine(browser, trace_of(inputs))  # at once, before Enter
    cell.send_keys("\ue004")
    assert_is_engine(browser, trace_of(inputs))


def test_an_edit_may_change_which_branch_is_taken(browser, opened):
    """The trees hold both sides of a maximum, a mask and a tie."""
    def trace(x):
        with mg.trace() as t:
            x = mg.tensor(x, dtype=mg.float64, requires_grad=True)
            largest = (x.relu() + x.clamp(-2.0, 2.0)).amax()
            largest.backward()
        return t

    opened(trace([1.0, 2.5, -1.0]))
    for place, number, now in ((0, 3.0, [3.0, 2.5, -1.0]), (1, 3.0, [3.0, 3.0, -1.0]), (2, 7.5, [3.0, 3.0, 7.5])):
        browser.type("x", str(place), repr(number))
        assert_is_engine(browser, trace(now))


def test_undo_and_reset(browser, random, opened):
    """More of it is in the random walks of tests/study."""
    first = trace_of(draw(random, 3, 2))
    opened(first, extras_of(3, 2))
    assert not any(browser.driver.find_element("id", name).is_enabled() for name in ("undo", "reset"))
    browser.choose("#switch-causal", 1)
    browser.click("undo")
    assert browser.run("return document.getElementById('switch-causal').value") == "0"
    browser.type("v", "0,0", "9")
    browser.click("reset")
    found = browser.arrays()
    assert all(np.array_equal(found[t.name, "gradient"], t.gradient) for t in first.tensors)  # bit by bit
    browser.click("undo")  # a reset can be undone
    assert browser.arrays()["v", "value"][0, 0] == 9


def lit(browser) -> set[tuple[str, str, str]]:
    """The cells that are marked as sources of a number."""
    return {tuple(cell.get_attribute(f"data-{name}") for name in ("tensor", "index", "kind"))
            for cell in browser.driver.find_elements("css selector", ".source[data-tensor], .source > [data-tensor]")}


def test_pointing_writes_out_the_terms_and_marks_their_sources(browser, random, opened):
    trace = trace_of(draw(random, 2, 2))
    opened(trace)
    cells = browser.cells()
    text = browser.focus("masked_scores", "1,0", "gradient")
    assert "dmasked_scores[1,0]" in text and repr(float(trace["masked_scores"].gradient[1, 0])) in text
    assert "= weights[1,0] · (dweights[1,0] − total[1,0])" in text
    assert "total[1,0] = dweights[1,0] · weights[1,0] + dweights[1,1] · weights[1,1] = " in text
    p, dp = ([cells["weights", kind][index]["text"] for index in ("1,0", "1,1")] for kind in ("value", "gradient"))
    a, b = (f"({text})" if text.startswith("-") else text for text in dp)
    assert f"= {a} · {p[0]} + {b} · {p[1]} = " in text
    assert lit(browser) == {("weights", "1,0", "value"), ("weights", "1,1", "value"), ("weights", "1,0", "gradient"),
                            ("weights", "1,1", "gradient")}
    assert len(browser.driver.find_elements("css selector", ".pointed")) == 1
    spoken = browser.run("return document.getElementById('spoken').textContent")
    assert spoken.startswith("= weights[1,0] · (")


def test_joined_steps_are_written_out(browser, random, opened):
    """dq is written in dscores and k, not in the products and the transpose, which are joined to that step."""
    opened(trace_of(draw(random, 2, 2)), extras_of(2, 2))
    text = browser.focus("q", "1,0", "gradient")
    assert "= dscores[1,0] · 0.707 · k[0,0] + dscores[1,1] · 0.707 · k[1,0]\n" in text
    assert f"\n= {browser.cells()['q', 'gradient']['1,0']['text']}" in text
    assert lit(browser) == {("scores", "1,0", "gradient"), ("scores", "1,1", "gradient"), ("k", "0,0", "value"),
                            ("k", "1,0", "value")}
    assert "= (q[1,0] · k[0,0] + q[1,1] · k[0,1]) · 0.707\n" in browser.focus("scores", "1,0")


def test_a_gradient_of_several_contributions_shows_them_all(browser, opened):
    x = mg.tensor([[1.0, 2.0]], dtype=mg.float64, requires_grad=True)
    with mg.trace() as t:
        first = x * 3.0
        second = x * x
        loss = (first + second).sum()
        loss.backward()
    opened(t, {"about_shares": ["Of `x`, one line.", "Another line."]})
    text = browser.focus("x", "0,1", "gradient")
    assert "= 4.000 + 3.000 = 7.000, the sum of 2 contributions, in the order in which they arrive\n" in text
    assert "Step 7, through second: 4.000, the first\n" in text and "Step 8, through first: 4.000 + 3.000 = 7.000\n" in text
    assert browser.arrays()["x", "gradient"][0, 1] == 7
    shares = browser.text("#shares")
    assert "dx comes from" in shares and "first" in shares and "second" in shares and "total" in shares
    assert shares.endswith("one line.\n\nAnother line.") and "`" not in shares


def test_the_finite_difference_is_shown_next_to_the_gradient(browser, random, opened):
    inputs = draw(random, 3, 2)
    opened(trace_of(inputs), extras_of(3, 2))

    def loss(x):
        return float(trace_of({**inputs, "q": np.where(np.arange(6).reshape(3, 2) == 2, x, inputs["q"])})["loss"].value)

    browser.focus("q", "1,0")
    for exponent in (-1, -3.5, -7, -12):
        browser.run("""const slider = document.querySelector("#difference input");
            slider.value = arguments[0]; slider.dispatchEvent(new Event("input"));""", exponent)
        found, gradient = (float(browser.text(f"#difference .{name}")) for name in ("of-differences", "of-backward"))
        h, x = 10**exponent, inputs["q"][1, 0]
        expected = (loss(x + h) - loss(x - h)) / (2 * h)
        assert abs(found - expected) <= 1e-11 + 4 * np.finfo(float).eps * abs(loss(x)) / h, exponent
        assert gradient == pytest.approx(float(trace_of(inputs)["q"].gradient[1, 0]), abs=1e-11)
    browser.wait_for("#difference svg .curve")
    assert browser.run("return document.querySelectorAll('#difference svg .curve').length") == 1
    label = browser.run("return document.querySelector('#difference svg').getAttribute('aria-label')")
    assert "rounding" in label and "truncation" in label
    # With a mistake, no h makes the error small.
    choose_mistake(browser, "no rowsum")
    errors = [browser.run("return Math.abs(differenceAt('q', 2, arguments[0]) - pass.gradients.get('q').data[2])", h)
              for h in (1e-2, 1e-5, 1e-7)]
    assert min(errors) > 1e-3


def test_the_cell_with_the_focus_stays_chosen_on_the_way_to_the_panel(browser, random, opened):
    from selenium.webdriver import ActionChains  # an extra

    opened(trace_of(draw(random, 3, 2)))
    chosen, other = browser.cell("q", "0,0"), browser.cell("v", "1,1")
    browser.run("arguments[0].focus()", chosen)
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", other)
    mouse = ActionChains(browser.driver, duration=50)
    mouse.move_to_element(other).perform()
    assert browser.text("#number").startswith("v[1,1]")
    mouse.move_to_element(browser.driver.find_element("css selector", "#panel h2")).perform()
    assert browser.text("#number").startswith("q[0,0]")
    assert "by finite differences" in browser.text("#difference")


def test_keys_go_to_the_next_step_and_back(browser, random, opened):
    opened(trace_of(draw(random, 3, 2)), extras_of(3, 2))
    body = browser.driver.find_element("tag name", "body")
    body.send_keys("]" * 13)
    assert browser.text("#step-name").startswith("12 of 12, backward")
    browser.run("goTo(10)")
    text = browser.text("#formulas")
    assert "One line.\nAnother, of" in text.replace("\n\n", "\n") and "`" not in text
    assert browser.run("return [...document.querySelectorAll('#formulas math')].map(m => m.querySelectorAll('mfrac').length)") == [0, 1]
    body.send_keys("[")
    assert browser.text("#step-name").startswith("9 of 12")
    browser.click("next")
    browser.driver.find_element("id", "step").send_keys("\ue012")  # the left arrow
    assert browser.text("#step-name").startswith("9 of 12")
    assert browser.run("return [...document.querySelectorAll('[data-step]')].map(one => one.dataset.step)") == ["9"]


def test_the_keyboard_does_it_all(browser, random, opened):
    """Tab reaches each matrix once, arrows reach every cell of it, and the cell with the focus can be edited."""
    trace = trace_of(draw(random, 3, 2))
    opened(trace)
    active = "const {tensor, kind, index} = document.activeElement.dataset; return [tensor, kind, index];"
    stops = []
    for _ in range(60):
        browser.driver.switch_to.active_element.send_keys("\ue004")
        tensor, kind, index = browser.run(active)
        if tensor:
            stops.append((tensor, kind))
    tables = sorted((t.name, kind) for t in trace.tensors for kind in ("value", "gradient"))
    assert sorted(stops[:len(tables)]) == tables
    browser.focus("q", "0,0")
    for key, index in (("\ue015", "1,0"), ("\ue014", "1,1"), ("\ue015", "2,1"), ("\ue015", "2,1"), ("\ue014", "2,1"),
                       ("\ue013", "1,1"), ("\ue012", "1,0")):  # down, right, down, down, right, up, left
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.run(active)[2] == index
    browser.driver.switch_to.active_element.send_keys("4.5", "\ue007")
    assert browser.arrays()["q", "value"][1, 0] == 4.5
    browser.focus("weights", "0,0", "gradient")
    browser.driver.switch_to.active_element.send_keys("\ue014\ue015\ue010")
    assert browser.run(active) == ["weights", "gradient", "1,2"]


# ------------------------------------------------------------------------------------------------ special traces


def test_nan_and_infinity_are_shown_and_do_not_disagree(browser, opened):
    """Neither NaN, nor what overflows in float32 but not on the page."""
    x = mg.tensor([1.0, -1.0, 0.0], dtype=mg.float64, requires_grad=True)
    with mg.trace() as t, np.errstate(all="ignore"):
        y = x.log()
        loss = (y * 2.0).sum()
        loss.backward()
    opened(t)
    cells = browser.cells()["y", "value"]
    assert [(cells[i]["text"], cells[i]["value"]) for i in "012"] == [("0", "0"), ("NaN", "NaN"), ("-inf", "-Infinity")]
    browser.run(RECOMPUTE)
    assert_is_engine(browser, t)
    x = mg.tensor([1.0, math.nan, -2.0, math.inf, 0.0], requires_grad=True)
    trace = mg.trace(lambda x: ((x * 1e30 * 1e30) * (x - x)).sum() + (x * 1e30).square().mean(), x)
    opened(trace)
    assert browser.run("return computation.steps.map(step => step.problem)") == [None] * len(trace.steps)
    assert browser.cells()["x", "value"]["0"]["is_input"]


class Unheard(mg.Function):
    """A user's own op."""

    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, dout):
        return mg.full((3,), dout.item(), dtype=dout.dtype)


def test_what_an_unknown_op_depends_on_cannot_be_edited(browser, opened):
    x, w = (mg.tensor(np.arange(3.0) + i, requires_grad=True) for i in range(2))
    with mg.trace() as t:
        y = Unheard.apply(x)
        aside = w * 2.0  # noqa: F841  named for the trace
        loss = y * 3.0
        loss.backward()
    opened(t)
    assert_is_engine(browser, t)
    assert not browser.arrays("is_input")["x", "value"].any() and browser.arrays("is_input")["w", "value"].all()
    assert "y: the page does not know the op Unheard. Its numbers are the trace's, and x cannot be edited." in browser.text("header")
    text = browser.focus("y", "")
    assert "does not know the op Unheard" in text and "It reads x" in text
    browser.type("w", "0", "5")
    assert browser.arrays()["aside", "value"][0] == 10


def test_a_rule_that_disagrees_with_the_trace_is_not_used(browser, random, opened):
    trace = trace_of(draw(random, 2, 2))
    trace["weights"].value[1, 0] += 1e-6
    opened(trace)
    assert "the page computes a different Softmax" in browser.text("header")
    assert not browser.arrays("is_input")["q", "value"].any()
    assert browser.arrays()["weights", "value"][1, 0] == trace["weights"].value[1, 0]


def test_rounding_of_terms_that_cancel_does_not_disagree(browser, random, opened):
    norm = nn.LayerNorm(5)
    for function in (lambda x: x.softmax(-1).square().sum(), lambda x: (x + norm(x)).square().sum(), lambda x: norm(x).sum()):
        for spelled_out in (False, True):
            x = mg.tensor(random.normal(size=(4, 5)), dtype=mg.float32, requires_grad=True)
            opened(mg.trace(function, x, spelled_out=spelled_out))
            assert browser.arrays("is_input")["x", "value"].all(), browser.text("header")


def test_before_an_edit_the_numbers_are_the_traces(browser, random, opened):
    """Even where the page's own differ by rounding."""
    trace = trace_of(draw(random, 2, 2))
    for name in ("weights", "scores"):
        trace[name].value[1, 0] *= 1 + 1e-12
        trace[name].gradient[1, 1] *= 1 + 1e-12
    opened(trace, extras_of(2, 2))
    choose_mistake(browser, "dv without transpose")
    found = browser.arrays()
    for name in ("weights", "scores"):
        assert found[name, "value"][1, 0] == trace[name].value[1, 0] and found[name, "gradient"][1, 1] == trace[name].gradient[1, 1]
    browser.run(RECOMPUTE)
    assert browser.arrays()["weights", "value"][1, 0] != trace["weights"].value[1, 0]


def test_text_is_text(browser, random, opened):
    extras = extras_of(2, 2) | {"title": HOSTILE, "introduction": HOSTILE, "labels": {"q": {"rows": [HOSTILE, "<b>"]}},
                                "symbols": {"weights": "<i>P</i>"}}
    extras["steps"] = {"weights": {"title": HOSTILE, "forward": {"formula": HOSTILE, "derivation": [HOSTILE]}}}
    trace = trace_of(draw(random, 2, 2))
    trace.title = HOSTILE
    opened(trace, extras)
    for step in range(13):
        browser.run("goTo(arguments[0])", step)
    browser.focus("weights", "1,0", "value")
    assert browser.run("return document.title").startswith("</script><script>")
    assert browser.run("return document.querySelectorAll('img, b:not(.caption b, caption b, p b), i, math script').length") == 0


def test_a_trace_without_backward_and_one_of_more_axes(browser, random, opened):
    x = mg.tensor(random.standard_normal((2, 2, 3, 2)), requires_grad=True)
    with mg.trace() as t:
        y = x.mT @ x  # noqa: F841  named for the trace
    opened(t)
    assert "Backward has not run" in browser.text("#hint")
    assert_is_engine(browser, t)
    browser.type("x", "1,0,2,1", "2")
    assert browser.arrays()["y", "value"][1, 0, 1, 1] == pytest.approx(
        (x.detach().numpy()[1, 0, :2, 1] ** 2).sum() + 4, rel=1e-12)


# ------------------------------------------------------------------------------------------------ how it looks


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "dark")])
def test_accessible_and_no_wider_than_the_screen(browser, random, opened, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    opened(trace_of(draw(random, 3, 7)), extras_of(3, 7))
    browser.run("document.querySelector('details').open = true; goTo(9);")
    assert browser.accessibility() == []
    browser.focus("q", "1,0")
    choose_mistake(browser, "no rowsum")
    time.sleep(0.2)
    assert browser.accessibility() == []
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(overflow) <= 0
    assert browser.run(f"document.documentElement.style.fontSize = '200%'; {overflow}") <= 0
    browser.run("document.documentElement.style.fontSize = ''")
    wide = browser.run("""return [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth)
        .map(box => getComputedStyle(box).overflowX)""")
    assert set(wide) == ({"auto"} if size == "narrow" else set())  # which scroll in their own box
