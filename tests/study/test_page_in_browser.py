"""The pages of `minigrad study` in a browser. That all their numbers are right is tested in test_page_numbers_in_browser.py."""
import dataclasses
import functools
import itertools
import time
from unittest import mock

import numpy as np
import pytest

from head_in_numpy import run
from minigrad.tracing import page
from minigrad.tracing import shares as shares_of
from models.config import PLACEMENTS
from study.page import block, pages, shares
from study.page.attention import (
    DEFAULT, FROM_Q_K_V, FROM_X, Head, attention, dropout, heads_of, with_cross_entropy, next_words)

def drawn(from_x: bool, T: int, D: int, seed: int, **changes) -> Head:
    generator = np.random.default_rng(seed)
    shapes = {name: (D, D) for name in FROM_X} | {"x": (T, D)} if from_x else {name: (T, D) for name in FROM_Q_K_V}
    arrays = {name: generator.normal(size=shapes[name]) for name in (FROM_X if from_x else FROM_Q_K_V)}
    return Head(arrays, generator.normal(size=(T, D)), **changes)


HEADS = {
    "default": DEFAULT,
    "words": next_words(),
    "square": drawn(False, 4, 4, seed=1),
    "not causal": drawn(False, 3, 3, seed=2, causal=False, scale=-0.7),
    "bias": drawn(False, 3, 4, seed=3, bias=np.random.default_rng(0).normal(size=(3, 3))),
    "x": drawn(True, 4, 3, seed=4),
    "heads": heads_of(2, rotary=True, keep=dropout(0.3, 2, 3)),
    "heads of q": dataclasses.replace(drawn(False, 4, 4, seed=6), heads=2),
}


@functools.cache
def page_of(name: str) -> pages.Page:
    """Without the gradient checks of its mistakes, which take a second."""
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        return pages.page_of_head(HEADS[name])


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a page."""
    def call(made: pages.Page) -> None:
        browser.open(page.write(made.trace, tmp_path / "page.html", extras=made.extras, backwards=made.backwards))
    return call


def roles(browser) -> tuple[set, set]:
    """The tensors that the step shown reads and writes."""
    found = browser.run("""return ["read", "written"].map(role => [...document.querySelectorAll(`[data-role=${role}]`)].map(
        one => [one.dataset.name, one.dataset.of]))""")
    return tuple({tuple(one) for one in role} for role in found)


def go_to(browser, title: str) -> None:
    browser.run("goTo(steps.findIndex(step => step.isBackward && step.title.startsWith(arguments[0])) + 1)", title)


@pytest.mark.parametrize("name", ["default", "x", "heads"])
def test_the_row_sum_has_two_spellings_and_a_step_of_its_own(browser, opened, name):
    head = HEADS[name]
    opened(page_of(name))
    out, index = head.product, "0,2,0" if head.heads > 1 else "2,0"
    for spelling, read in ((0, {("weights", "value"), ("weights", "gradient")}), (1, {(out, "value"), (out, "gradient")})):
        browser.run("goTo(0)")
        browser.choose("#switch-row_sum", spelling)
        browser.type(next(iter(head.inputs)), "1,0", "0.75")  # after which nothing is veiled
        symbol = {"output": "O", "attended": "A", "attended_heads": "A_h"}[out] if spelling else "P"
        terms = {f"d{symbol}[{index}] · {symbol}[{index}]", f"{symbol}[{index}] · d{symbol}[{index}]"}
        assert any(term in browser.focus("row_sum", index, "gradient") for term in terms)
        go_to(browser, "Row sum")
        assert roles(browser) == (read, {("row_sum", "gradient")})
        go_to(browser, "Softmax")
        assert roles(browser) == ({("weights", "value"), ("weights", "gradient"), ("row_sum", "gradient")},
                                  {("scores", "gradient")})


def test_a_step_with_a_mistake_does_not_derive_the_right_rule(browser, opened):
    opened(page_of("default"))
    go_to(browser, "Softmax")
    said = "return [document.querySelector('.formula').className, document.getElementById('formulas').textContent]"
    titles = [one["title"] for one in page_of("default").extras["mistakes"]]
    for mistake, is_replaced in [(titles.index("no row sum"), True), (titles.index("no scale"), False), (-1, False)]:
        browser.choose("#mistakes", mistake)
        style, text = browser.run(said)
        struck = browser.run("return [...document.querySelectorAll('.replaced .made')].map(one => one.textContent)")
        assert struck == ["= P⋅(dP−r)"] * is_replaced + ["= sdSK", "= sdSTQ"] * (mistake == titles.index("no scale"))
        assert ("replaced" in style, "The mistake replaces this rule." in text, "sums to 0" in text) == (is_replaced, is_replaced, not is_replaced)


def test_the_mask_belongs_to_the_softmax(browser, opened):
    """What it hides is hatched in S, P, dP and dS, has no matrix of its own, and dS is written in P and dP."""
    opened(page_of("default"))
    masked = """return [...document.querySelectorAll("td.masked")].map(box => {
        const {tensor, index, kind} = (box.querySelector("input") || box).dataset; return [tensor, index, kind]})"""
    assert browser.run(masked) == [[name, f"{i},{j}", kind] for name in ("scores", "weights") for kind in ("value", "gradient")
                                   for i in range(4) for j in range(i + 1, 4)]
    assert not any(tensor == "masked_scores" for tensor, _ in browser.cells())
    browser.choose("#switch-causal", 1)
    assert browser.run(masked) == []
    browser.choose("#switch-causal", 0)
    lines = [line.strip() for line in browser.focus("scores", "1,0", "gradient").splitlines() if line.strip()]
    assert "= P[1,0] · (dP[1,0] − r[1,0])" in lines
    assert lines[-1] == "= -0.311" == f"= {browser.cells()['scores', 'gradient']['1,0']['text']}"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_shares_in_a_block(browser, opened, placement):
    numbers = block.draw(placement)
    opened(pages.page_of_block(numbers))
    trace = pages.trace_of(block.block, numbers)
    assert browser.run("return computation.steps.map(step => step.problem).filter(Boolean)") == []
    found = browser.run("""
        return extras.shares.map(({tensor, through}) =>
          [tensor, computation.shares(pass, tensor, through).map(share => [share.label, [...share.data]])])""")
    expected = {name: ways for name, ways in shares.paths_in_block(trace, placement).items() if len(ways) > 1}
    assert [name for name, _ in found] == list(expected)
    for name, rows in found:
        of_engine = shares_of(trace, name, list(expected[name]))
        assert [label for label, _ in rows] == list(expected[name].values())
        for (_, data), share in zip(rows, of_engine.values()):
            assert data == pytest.approx(share.ravel(), abs=1e-12)


def test_a_gradient_is_read_aloud(browser, opened):
    opened(page_of("words"))
    for index, said in (("3,0", "To lower the loss, it should look more at cat."), ("3,2", "To lower the loss, it should look less at fish."),
                        ("0,0", ""), ("1,2", "")):
        assert ("To lower" in browser.focus("scores", index, "gradient")) == bool(said) and said in browser.text("#number")
    assert "To lower" not in browser.focus("scores", "3,0") + browser.focus("weights", "3,0", "gradient")
    go_to(browser, "Softmax")
    assert "it should look less at fish" in browser.text(".worked")
    opened(page_of("default"))
    assert "To lower" not in browser.focus("scores", "3,0", "gradient")


def test_all_of_the_words_is_on_one_screen(browser, opened):
    opened(page_of("words"))
    bottoms = browser.run("return [...document.querySelectorAll('.row:not(.box *) figure')].map(one => one.getBoundingClientRect().bottom)")
    assert max(bottoms) <= browser.run("return byId('panel').getBoundingClientRect().top") and browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert len(set(browser.run("return [...document.querySelectorAll('td[data-index=\"3,0\"][data-kind=value], td:has([data-index=\"3,0\"])')]"
                               ".filter(one => !one.closest('.box')).map(one => Math.round(one.getBoundingClientRect().top))"))) == 1
    browser.type("expected", "3,1", "1")
    browser.type("expected", "3,0", "0")
    assert browser.arrays()["output", "gradient"][3].tolist() == pytest.approx((next_words().upstream[3] + [1, -1, 0]).tolist(), abs=1e-9)


def test_a_step_works_out_one_number_unless_a_question_is_open(browser, opened):
    opened(page_of("default"))
    go_to(browser, "Softmax")
    worked = "return [...document.querySelectorAll('.worked .line')].map(line => line.textContent)"
    cells = """return [...document.querySelectorAll("td.example")].map(box => {
        const {tensor, index, kind} = (box.querySelector("input") || box).dataset; return `${kind} ${tensor} ${index}`})"""
    assert browser.run(worked) == ["dS[3,3]", "= P[3,3] · (dP[3,3] − r[3,0])", "= 0.308 · (3.000 − (-0.081))", "= 0.948"]
    assert set(browser.run(cells)) == {"gradient scores 3,3", "value weights 3,3", "gradient weights 3,3", "gradient row_sum 3,0"}
    browser.run("goTo(0)")
    assert (browser.run(worked), browser.run(cells)) == ([], [])
    browser.run("openStation(1)")
    assert (browser.run(worked), browser.run(cells)) == ([], [])
    browser.run("openStation(6); answer('zero')")  # its terms are outlined, and written below the verdict
    assert browser.run(worked) == [] and "gradient scores 0,0" in browser.run(cells) and "value weights 0,0" in browser.run(cells)
    opened(page_of("x"))
    browser.run("goTo(steps.findLastIndex(step => step.isBackward) + 1)")  # the last that adds to dX
    total = browser.run("return document.querySelector('td.example[data-tensor=x][data-kind=gradient]').textContent")
    assert browser.run(worked)[-1].startswith("This step, through Q: ") and browser.run(worked)[-1].endswith(f" = {total}")


def test_a_symbol_in_the_text_lights_its_matrix(browser, opened):
    opened(page_of("x"))
    go_to(browser, "Queries")
    said = browser.run("""
        const lit = node => {
          node.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
          return [...document.querySelectorAll(".named")].map(one => one.dataset.name ? one.dataset.of + " " + one.dataset.name : one.localName);
        };
        const find = (selector, text) => [...document.querySelectorAll(`#formulas ${selector}`)].find(one => one.textContent === text);
        return [find(".formula mi", "dQ"), find(".formula mi", "W"), find(".touches span", "W_q"), find("h2", find("h2 span", "Backward").parentNode.textContent)].map(lit)""")
    assert said == [["g", "gradient q", "mi"], ["g", "value w_q", "mi"], ["g", "value w_q", "span"], []]


VARIANTS = {
    "grouped heads": (attention, heads_of(4, 2, causal=False)),
    "cross-entropy": (attention, with_cross_entropy(heads_of(), attention)),
    "all": (block.block, with_cross_entropy(block.draw("pre", 2, key_value_heads=1, rotary=True, keep=dropout(0.3, 2, 3)),
                                            block.block)),
}


def page_of_variant(name: str) -> pages.Page:
    loss, numbers = VARIANTS[name]
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        return pages.page_of_block(numbers) if loss is block.block else pages.page_of_head(numbers)


def test_the_address_leads_to_the_step_and_a_number_goes_with_it(browser, opened):
    opened(page_of("default"))
    browser.run("goTo(5)")
    browser.focus("q", "1,0")
    browser.click("next")
    assert browser.run("return document.getElementById('number').hidden") and not browser.driver.find_elements("css selector", ".pointed, .source")
    assert browser.driver.current_url.endswith("#step=6")
    browser.driver.refresh()
    assert browser.run("return document.querySelector('[data-step]').dataset.step") == "6"
    browser.run("goTo(0)")
    assert browser.driver.current_url.endswith("#")


WIDE = dataclasses.replace(drawn(False, 12, 16, seed=5), labels=tuple(f"token {i}" for i in range(12)))  # as of a trained model
PAGES = {name: functools.partial(page_of, name) for name in HEADS} | {
    "16 columns": lambda: pages.page_of_head(WIDE),
    **{name: lambda name=name: page_of_variant(name) for name in VARIANTS},
    **{name: lambda name=name: pages.page_of_block(block.draw(name)) for name in PLACEMENTS},
    "rms norm": lambda: pages.page_of_block(block.draw("pre", norm="rms_norm")),
}


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("name", PAGES)
def test_all_that_a_step_reads_and_writes_is_on_the_screen_at_once(browser, opened, name, size):
    """Below the controls and not under the panel, what is read before what is written; on a narrow screen, in one column."""
    browser.resize(size)
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        opened(PAGES[name]())
    found = browser.run("""
        const box = node => { const {left, right, top, bottom} = node.getBoundingClientRect(); return [left, right, top, bottom]; };
        return steps.map((_, i) => {
          goTo(i + 1);
          const figures = [...document.querySelectorAll("figure")].filter(figure => figure.getClientRects().length);
          return [figures.map(one => [one.dataset.role, one.dataset.of + one.dataset.name, box(one)]),
            ...["controls", "map", "panel"].map(id => box(document.getElementById(id))), [innerWidth, innerHeight]];
        })""")
    for step, (figures, bar, map_box, panel, screen) in enumerate(found, 1):
        assert {role for role, *_ in figures} == {"read", "written"}, step  # the others are not shown
        is_mapped = map_box[3] > 0  # the map is left out where the matrices need its room
        assert is_mapped or size == "narrow", step
        assert not is_mapped or map_box[2] >= bar[3] - 1, step
        for role, of, (left, right, top, bottom) in figures:
            assert 0 <= left < right <= screen[0] and (map_box if is_mapped else bar)[3] <= top + 1 < bottom <= screen[1], (step, role, of)
            assert bottom - top > 28 and (right <= panel[0] or bottom <= panel[2]), (step, role, of)
        order = sorted(figures, key=lambda one: one[2][2])
        assert [role for role, *_ in order] == sorted(role for role, *_ in figures), step
        if size == "narrow":
            assert all(below[2][2] >= above[2][3] for above, below in itertools.pairwise(order)), step


ROLES = {  # of the default page: {what the step is: (what it reads, what it writes)}; a gradient begins with d
    "forward: Scores": ("q k", "scores"),
    "forward: Softmax": ("scores", "weights"),
    "forward: Output": ("weights v", "output"),
    "forward: Loss": ("output upstream", "loss"),
    "backward: Loss": ("dloss upstream", "doutput"),
    "backward: Output": ("doutput weights v", "dweights dv"),
    "backward: Row sum": ("weights dweights", "drow_sum"),
    "backward: Softmax": ("weights dweights drow_sum", "dscores"),
    "backward: Scores": ("dscores q k", "dq dk"),
}


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_inputs_that_a_step_does_not_read_can_be_edited_in_it(browser, opened, size):
    """A button below its formulas opens one, or a click on the map; what changes with it is marked on the map too."""
    head, inputs = HEADS["heads"], {name: array.copy() for name, array in HEADS["heads"].inputs.items()}
    browser.resize(size)
    opened(page_of("heads"))
    go_to(browser, "Softmax")
    before, step = roles(browser), browser.run("return state.step")
    offered = "return [...document.querySelectorAll('[data-opens]')].map(one => one.textContent)"
    assert browser.run(offered) == ["X", "W_q", "W_k", "keep", "W_v", "W_o", "U"]
    browser.run("document.querySelector('[data-opens=w_v]').click()")
    assert browser.run("return document.activeElement.dataset.tensor") == "w_v"
    fits = "const box = document.querySelector('.opened .scroll'); return box.scrollHeight <= box.clientHeight"
    assert size == "narrow" or browser.run(fits)
    browser.run("halves.get('value x').dispatchEvent(new MouseEvent('click'))")
    for name, place, number in (("w_v", (1, 2), -0.5), ("x", (0, 1), 1.75)):
        inputs[name][place] = number
        browser.type(name, ",".join(map(str, place)), str(number))
    values, gradients = run(head, inputs, head.upstream, {})
    found = browser.arrays()
    for kind, arrays in (("value", values), ("gradient", gradients)):
        for name, array in arrays.items():
            if name != "masked_scores":
                assert found[name, kind] == pytest.approx(array, abs=1e-9), (name, kind)
    assert roles(browser) == before and browser.run("return state.step") == step
    figures = browser.run("""return [...document.querySelectorAll("figure")].filter(figure => figure.getClientRects().length).map(
        figure => [figure.dataset.name, figure.dataset.role || "", figure.getBoundingClientRect().bottom])""")
    assert sorted(name for name, role, _ in figures if not role) == ["w_v", "x"]
    assert size == "narrow" or all(bottom <= 800 for *_, bottom in figures)
    on_map = "return [...halves].filter(([, half]) => half.classList.contains('changed')).map(([key]) => key)"
    browser.run("goTo(state.step - 1)")  # it stays open
    assert browser.run("return document.querySelectorAll('.opened').length") == 2
    browser.run("document.querySelector('[data-opens=x]').click()")
    assert browser.run("return document.activeElement.dataset.opens") == "x"
    assert browser.accessibility() == []
    browser.click("all")
    assert browser.run("return document.querySelectorAll('.opened').length") == 0
    while browser.run("return state.edits.size") > 1:
        browser.click("undo")
    assert {"value w_v", "value v", "gradient scores", "gradient q"} <= {*browser.run(on_map)}
    assert not {"value weights", "value w_q", "value upstream", "gradient output"} & {*browser.run(on_map)}


def test_roles_are_those_of_the_step(browser, opened):
    opened(page_of("default"))
    for number, (title, (reads, writes)) in enumerate(ROLES.items(), 1):
        browser.click("next")
        assert f"{number} of {len(ROLES)}, {title}:" in browser.text("#step-name") + ":"
        found = browser.run("""return ["read", "written"].map(role => [...document.querySelectorAll(`[data-role=${role}]`)].map(
            one => (one.dataset.of === "gradient" ? "d" : "") + one.dataset.name))""")
        lit = browser.run("""return ["read", "written"].map(role => [...halves].filter(([, half]) => half.classList.contains(role)).map(
            ([key]) => key.replace("value ", "").replace("gradient ", "d")))""")
        for names, here, on_map in zip((reads, writes), found, lit):
            assert sorted(here) == sorted(on_map) == sorted(names.split()), title
    browser.click("all")
    assert browser.run("""return [document.querySelectorAll("[data-role]").length, document.querySelectorAll(".half.read, .half.written").length,
        document.querySelector("[data-step]").dataset.step]""") == [0, 0, "0"]


def test_gradients_that_several_steps_add_to(browser, opened):
    """The first of them is =, the others +=."""
    signs = {"R1": ["=", "+="], "N1": ["=", "+=", "+="], "X": ["=", "+="], "F": ["="]}
    opened(pages.page_of_block(block.draw("pre")))
    lines = browser.run("""return steps.flatMap((step, i) => {
        if (!step.isBackward) return [];
        goTo(i + 1);
        return [...document.querySelectorAll("#formulas .formula")].map(one => one.textContent);
      })""")
    assert signs == {name: [sign for line in lines for sign in ("=", "+=") if line.startswith(f"d{name}{sign}")] for name in signs}


def test_on_paper_nothing_is_cut(browser, opened):
    cut = """return [...document.querySelectorAll("[data-role], [data-role] .scroll")].filter(
        box => box.scrollHeight > box.clientHeight + 1).length"""
    browser.resize("narrow")
    opened(page_of("default"))
    browser.run("goTo(steps.length)")
    browser.run("document.getElementById('stage').style.setProperty('--most', '60px')")
    assert browser.run(cut)
    try:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert not browser.run(cut) and not browser.run("return byId('switches').checkVisibility()")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_low_screen_scrolls_and_cuts_no_matrix(browser, opened):
    """As at 200%."""
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 640, "height": 400, "deviceScaleFactor": 2, "mobile": False})
    opened(page_of("default"))
    browser.run("goTo(6)")
    assert not browser.run("""return [...document.querySelectorAll("[data-role], [data-role] .scroll")].filter(
        box => box.scrollHeight > box.clientHeight + 1).length""")


def test_captions_say_how_a_matrix_is_made(browser, opened):
    """By its step's first formula, if it is no wider than the numbers; else by its name, where that is not its symbol."""
    captions = """
        return Object.fromEntries([...grids.values()].map(({t, kind, figure}) => [`${kind} ${t.name}`,
          [...figure.querySelectorAll(".caption span")].filter(one => one.checkVisibility()).map(one => one.textContent.trim()).join()]))"""
    opened(page_of("x"))
    browser.run("boxes.forEach(({node}) => openBox(node))")
    names = "x", "q", "scores", "weights", "row_sum", "upstream"
    assert {name: text for name, text in browser.run(captions).items() if name.split()[1] in names} == {
        "value x": "", "gradient x": "", "value upstream": "upstream", "value q": "= XWq", "gradient q": "= sdSK",
        "value scores": "= sQKT", "gradient scores": "= P⋅(dP−r)", "value weights": "= softmax(S)", "gradient weights": "= dAVT",
        "gradient row_sum": ""}


def test_partial_sums_at_a_number_that_several_steps_add_to(browser, opened):
    """In backward's order, with what was there before each of them; steps that are shown as one add once."""
    head = HEADS["heads"]
    opened(page_of("heads"))
    gradients = run(head, head.inputs, head.upstream, {})[1]
    sent = [(gradients[name] @ head.inputs[f"w_{name}"].T)[1, 2] for name in "vkq"]
    for here in "vkq":
        browser.run("document.activeElement.blur(); goTo(steps.findIndex(step => step.isBackward && step.name === arguments[0]) + 1)", here)
        lines = [line for line in browser.focus("x", "1,2", "gradient").splitlines() if ", through " in line]
        assert [line.partition(":")[0].partition(", ")[2] for line in lines] == ["through V", "through K", "through Q"]
        assert ["This step" in line for line in lines] == [here == name for name in "vkq"]
        assert lines[0].endswith(", the first")
        for i, line in enumerate(lines[1:], 1):
            terms, total = line.partition(": ")[2].split(" = ")
            found = [float(term.strip("()")) for term in (*terms.split(" + "), total)]
            assert found == pytest.approx([sum(sent[:i]), sent[i], sum(sent[:i + 1])], abs=0.0006), line
    browser.run("goTo(0)")
    assert "contributions" not in browser.focus("q_heads", "0,1,0", "gradient")


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("name", ["default", "x", *VARIANTS, *PLACEMENTS, "rms norm"])
def test_formulas_are_no_wider_than_their_box(browser, opened, name, size):
    browser.resize(size)
    opened(PAGES[name]())
    wide = browser.run("""return steps.flatMap((step, i) => {
        goTo(i + 1);
        const box = document.getElementById("formulas").getBoundingClientRect();
        return [...document.querySelectorAll("#formulas math")].filter(made => made.getBoundingClientRect().right > box.right + 1)
          .map(made => `${step.title}: ${made.textContent}`);
      })""")
    assert wide == []


def test_an_edit_leaves_scroll_boxes_where_they_are(browser, opened):
    browser.resize("narrow")
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        opened(pages.page_of_head(WIDE))
    browser.run("goTo(1)")
    box = "gridOf({name: 'k', kind: 'value'}).figure.querySelector('.scroll')"
    browser.run(f"{box}.scrollTop = 60")
    browser.type("q", "1,0", "0.5")
    assert browser.arrays()["q", "value"][1, 0] == 0.5
    assert browser.run(f"return {box}.scrollTop") == 60


ROW_IN_BARS = """return {said: document.querySelector("#bars svg").getAttribute("aria-label"),
    titles: [...document.querySelectorAll("#bars .title")].map(one => one.textContent),
    lines: [...document.querySelectorAll("#bars line.mean, #bars .axis")].map(one => [one.getAttribute("class"), Number(one.getAttribute("y1"))]),
    bars: [...document.querySelectorAll("#bars rect")].map(one => [one.dataset.sign, ...["x", "width", "y", "height"].map(name => Number(one.getAttribute(name)))])}"""


@pytest.mark.parametrize("change", [
    lambda browser, inputs: None,
    lambda browser, inputs: typed(browser, inputs, "k", (1, 0), -2.25),
    lambda browser, inputs: dragged(browser, inputs, "v", (2, 1), 17, 0.2),
    lambda browser, inputs: dragged(browser, inputs, "upstream", (3, 0), -8, -0.1),
], ids=["as it is", "typed", "dragged", "dragged back"])
@pytest.mark.parametrize("row", [1, 2, 3])
def test_the_picture_of_a_row_has_areas_that_are_its_gradient(browser, opened, change, row):
    """Bars as high as P, as wide as P and from r to dP, and as high as dS; on the right side of the line."""
    head = HEADS["default"]
    inputs = {name: array.copy() for name, array in {**head.inputs, "upstream": head.upstream}.items()}
    opened(page_of("default"))
    change(browser, inputs)
    go_to(browser, "Softmax")
    browser.focus("scores", f"{row},0", "gradient")
    upstream = inputs.pop("upstream")
    values, gradients = run(head, inputs, upstream, {})
    p, dp, ds = values["weights"][row, :row + 1], gradients["weights"][row, :row + 1], gradients["scores"][row, :row + 1]
    r, found = (p * dp).sum(), browser.run(ROW_IN_BARS)
    n = row + 1
    heights, areas, of_ds = (np.array([bar[1:] for bar in part]) for part in (found["bars"][:n], found["bars"][n:2 * n], found["bars"][2 * n:]))
    signs = ["negative" if x < 0 else "positive" for x in ds]
    assert [bar[0] for bar in found["bars"]] == ["positive"] * n + signs * 2
    assert heights[:, 3] / heights[:, 3].max() == pytest.approx(p / p.max(), abs=1e-6)
    area = (areas[:, 1] + 1) * areas[:, 3] * np.sign(dp - r)  # a gap of a pixel between bars
    assert area / abs(area).max() == pytest.approx(ds / abs(ds).max(), abs=0.02)
    assert of_ds[:, 3] * np.sign(ds) / of_ds[:, 3].max() == pytest.approx(ds / abs(ds).max(), abs=1e-6)
    (line,) = [y for name, y in found["lines"] if name == "mean"]
    for bar, sign in zip(areas, signs):
        assert bar[2 if sign == "negative" else 3] == pytest.approx(line if sign == "negative" else line - bar[2]), sign
    assert f"key {row}: P {browser.run('return shown(arguments[0])', p[row])}" in found["said"]


def typed(browser, inputs, name: str, place: tuple, number: float) -> None:
    inputs[name][place] = number
    browser.type(name, ",".join(map(str, place)), str(number))


def dragged(browser, inputs, name: str, place: tuple, pixels: int, by: float) -> None:
    """A tenth for each 8 pixels; one edit for undo."""
    inputs[name][place] += by
    cell = browser.cell(name, ",".join(map(str, place)))
    browser.run("""
        const [cell, pixels] = arguments, {x, y} = cell.getBoundingClientRect();
        const send = (type, at) => cell.dispatchEvent(new PointerEvent(type, {clientX: x + at, clientY: y, bubbles: true, cancelable: true}));
        send("pointerdown", 5);
        for (const part of [0.3, 0.7, 1]) send("pointermove", 5 + part * pixels);
        send("pointerup", 5 + pixels);
        send("pointermove", 400);""", cell, pixels)
    assert browser.run("return state.past.length") == 1
    assert browser.arrays()[name, "value"][place] == pytest.approx(inputs[name][place], abs=1e-12)


def test_the_picture_keeps_what_a_question_asks_for(browser, opened):
    opened(page_of("default"))
    for number, answer, title in ((4, "3,0", "dS = ?"), (5, "3,1", "dS: the areas")):
        browser.run("visit(arguments[0])", number)
        veiled = browser.run(ROW_IN_BARS)
        assert {sign for sign, *_ in veiled["bars"]} == {"positive", "open"} and "dS = ?" in veiled["titles"]
        assert not any("mean" == name for name, _ in veiled["lines"]) or number == 5
        assert "dS" not in veiled["said"] and ("r " in veiled["said"].split("key")[0]) == (number == 5)
        browser.run("answer(arguments[0])", answer)
        assert title in browser.run(ROW_IN_BARS)["titles"] and "mean" in [name for name, _ in browser.run(ROW_IN_BARS)["lines"]]
    browser.run("goTo(1)")
    assert not browser.run("return document.getElementById('bars').checkVisibility()")


MOTION = "return [isPlaying, state.step, document.querySelectorAll('.awaited').length, document.querySelectorAll('[data-arrives]').length]"


def still(browser, features: list[dict]) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def seen(browser, ends: str) -> list:
    """The states of a motion until this is true, or for a minute."""
    found, start = [], time.monotonic()
    while time.monotonic() < start + 60 and not browser.run(f"return {ends}"):
        found.append(browser.run(MOTION))
    return found


def test_a_step_fills_its_cells_and_added_terms_arrive_one_by_one(browser, opened):
    """Numbers stay as they are for whoever reads them; a veiled one is not filled."""
    opened(page_of("default"))
    browser.run("goTo(5)")
    before = browser.arrays()
    browser.click("next")
    states = seen(browser, "document.querySelectorAll('.awaited, .lit').length === 0")
    awaited = [state[2] for state in states]
    assert awaited[0] > 12 and awaited == sorted(awaited, reverse=True) and len(set(awaited)) > 3
    assert any(arriving for *_, arriving in states) and browser.run("return document.querySelectorAll('[data-arrives]').length") == 0
    assert all((array == before[key]).all() for key, array in browser.arrays().items())
    arrivals = browser.run("return listArrivals(steps[5]).filter(({cell}) => cell.grid.t.name === 'v' && cell.place === 3).map(one => [one.says, one.isLast])")
    head = HEADS["default"]
    p = run(head, head.inputs, head.upstream, {})[0]["weights"]
    sums = np.cumsum(p[:, 1] * head.upstream[:, 1])
    assert [float(says) for says, _ in arrivals] == pytest.approx(sums.tolist(), abs=0.0006) and [last for _, last in arrivals] == [False] * 3 + [True]


def test_play_goes_forward_and_back_once(browser, opened):
    """And still if the reader wants no motion; going on by hand ends it."""
    opened(page_of("default"))
    still(browser, [{"name": "prefers-reduced-motion", "value": "reduce"}])
    try:
        browser.click("next")
        assert browser.run(MOTION) == [False, 1, 0, 0]
        browser.run("goTo(0)")
        browser.click("play")
        states = seen(browser, "!isPlaying")
        assert {step for _, step, *_ in states} - {0} == {*range(1, 10)} and all(state[2:] == [0, 0] for state in states)
        assert browser.run("return [state.step, byId('play').textContent]") == [0, "Play"]
        browser.click("play")
        browser.click("next")
        assert browser.run(MOTION)[:2] == [False, 2]
    finally:
        still(browser, [])


@pytest.mark.parametrize("name", ["heads", "heads of q", *PLACEMENTS])
def test_boxes_say_how_large_their_results_are_and_open(browser, opened, name):
    """All of several heads or of a block is on two screens, with S and P; a number or an edit in a closed box opens it."""
    opened(PAGES[name]())
    visible = "return [...new Set([...document.querySelectorAll('.box figure')].filter(one => one.checkVisibility()).map(one => one.dataset.name))]"
    results = browser.run("return boxes.flatMap(({results, sizes}) => results.length ? [[results, sizes.textContent]] : [])")
    assert browser.run("return document.documentElement.scrollHeight") <= 1600
    assert {*browser.run(visible)} - {"keep", "dropped"} == {"scores", "weights", "row_sum"} and ["loss"] in [names for names, _ in results]
    arrays = browser.arrays()
    for names, text in results:
        sizes = [arrays[name, kind] for name in names for kind in ("value", "gradient") if (name, kind) in arrays]
        assert [float(size) for size in text.replace("‖", " ").split()[1::2]] == pytest.approx([np.linalg.norm(one) for one in sizes], rel=0.006, abs=6e-4)
    first = next(iter(PAGES[name]().extras["editable"]))
    browser.type(first, "1,0", "7")
    assert first in browser.run(visible) and browser.run("return boxes.filter(({node}) => node.matches('.has-changed')).length > 3")
    browser.run("boxes.forEach(({node}) => openBox(node, false))")
    multiplied = {"heads": "dropped"}.get(name, "weights")  # by the values
    browser.focus(multiplied, "0,1,0" if name in HEADS else "1,0", "gradient")
    assert browser.run(visible) == ["scores", "row_sum", "weights"] + ["keep", "dropped"] * (name == "heads")
    browser.run("[...document.querySelectorAll('#number .ref')].find(one => one.textContent.startsWith('V')).click()")
    assert {"v", "v_heads"} & {*browser.run(visible)} and browser.text("#number h2").startswith("V")
    browser.run("goTo(1)")
    assert not browser.run("return [...document.querySelectorAll('.box > h2, .sizes')].some(one => one.checkVisibility())")
    browser.click("all")
    browser.run("boxes[0].node.querySelector('button').click()")
    assert browser.run("return boxes[0].node.querySelector('button').ariaExpanded") == "true" and first in browser.run(visible)
    assert browser.accessibility() == []
