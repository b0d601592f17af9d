"""The guided path: in a browser, each question is answered right, by NumPy, and wrong, on the default page and on others."""
import dataclasses
from unittest import mock

import numpy as np
import pytest

from minigrad.tracing import page
from head_in_numpy import CHANGES, run
from study.page import block, pages
from study.page.attention import DEFAULT, Head, dropout, heads_of, next_words

PATH = "#path"
LAST, BEFORE, LAST_KEY = 3, 2, 3  # on the default page: the queries and the key that the stations ask about


def page_of(head: Head, folder):
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        made = pages.page_of_head(head)
    return page.write(made.trace, folder / "page.html", extras=made.extras, backwards=made.backwards)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return page_of(DEFAULT, tmp_path_factory.mktemp("path"))


@pytest.fixture
def visited(browser, path):
    """A function that opens a station by the page's address."""
    def call(station: int) -> None:
        browser.driver.get("about:blank")
        browser.driver.get(f"{path.as_uri()}#station={station}")
        assert browser.errors() == browser.requests() == []
    return call


def gradients(head: Head) -> dict[str, np.ndarray]:
    """What the stations ask for, in NumPy: values of scores and weights, and gradients."""
    values, found = run(head, head.inputs, head.upstream, {})
    row_sum = (values["weights"] * found["weights"]).sum(axis=1, keepdims=True)
    return values | {"dP": found["weights"], "row_sum": row_sum, "dS": found["scores"], "q": found["q"], "v": found["v"]}


def raised(head: Head, name: str, index: tuple[int, int], by: float) -> Head:
    array = (head.inputs[name] if name in head.inputs else getattr(head, name)).copy()
    array[index] += by
    if name not in head.inputs:
        return dataclasses.replace(head, **{name: array})
    return dataclasses.replace(head, inputs={**head.inputs, name: array})


def edits(head: Head, last: int, before: int, last_key: int) -> dict[int, tuple[str, str, tuple[int, int]]]:
    """By station: which numbers it asks about, and the edit that the answer makes."""
    source = "upstream" if head.expected is None else "expected"
    return {1: ("scores", "q", (last, 0)), 3: ("weights", "k", (last_key, 0)), 7: ("q", source, (before, 0)),
            8: ("v", source, (before, 0)), 9: ("row_sum", "k", (0, 0))}


def before_and_after(head: Head, name: str, source: str, index: tuple[int, int]) -> list[np.ndarray]:
    """What is asked for without and with the edit."""
    return [gradients(one)[name] for one in (head, raised(head, source, index, 1))]


def changed(head: Head, *edit) -> list[str]:
    """The indices of the numbers that an edit changes."""
    before, after = before_and_after(head, *edit)
    return [f"{i},{j}" for i, j in np.argwhere(abs(after - before) > 1e-12)]


def right_answers(head: Head, last: int = LAST, before: int = BEFORE, last_key: int = LAST_KEY) -> list:
    """The value of a choice, or a list of cells."""
    made, asked = gradients(head), {number: changed(head, *edit) for number, edit in edits(head, last, before, last_key).items()}
    row = last if head.expected is None else before
    return [
        asked[1],
        f"{before},{made['dP'][before].argmin()}",
        asked[3],
        f"{last},{abs(made['dP'][last] - made['row_sum'][last]).argmin()}",
        f"{row},{made['dS'][row].argmin()}",
        {1: "positive", -1: "negative", 0: "zero"}[int(np.sign(made["dS"][0, 0].round(12)))],
        asked[7], asked[8], asked[9],
    ]


def wrong(answer):
    if isinstance(answer, float):
        return answer + 0.06 * max(1, abs(answer))
    if isinstance(answer, list):
        return answer[1:] or ["0,0"]
    if "," in answer:  # a number of a row
        row, column = answer.split(",")
        return f"{row},{int(column == '0')}"
    return "positive" if answer == "zero" else "zero"


def give(browser, answer) -> None:
    """Answer the question of the station that is open."""
    if isinstance(answer, list):
        asked = browser.run("state.chosen.clear(); return station().question.changes")
        for index in answer:
            browser.run("arguments[0].click()", browser.cell(asked["tensor"], index, asked["kind"]))
    elif isinstance(answer, str):
        browser.run("document.querySelector(`#path input[value='${arguments[0]}']`).click()", answer)
    else:
        browser.run("document.querySelector('#path input').value = arguments[0]", f"{answer:.5g}")
    browser.run("document.querySelector('#path form button').click()")


def give_twice(browser, answer) -> None:
    """A wrong answer: the first is not yet the last."""
    give(browser, answer)
    assert "Not yet. Try once more." in browser.text(".again") and not browser.driver.find_elements("css selector", ".verdict")
    give(browser, answer)


def press(browser, text: str) -> None:
    """Press a button of the path."""
    (button,) = [one for one in browser.driver.find_elements("css selector", f"{PATH} button, #invitation button")
                 if one.text == text]
    browser.run("arguments[0].click()", button)


def verdict(browser) -> str:
    return browser.text(f"{PATH} .verdict b").strip()


# How the page is changed, and the head that it then shows:
SITUATIONS = {
    "as it is": (lambda browser: None, DEFAULT),
    "all tokens": (lambda browser: browser.choose("#switch-causal", 1), dataclasses.replace(DEFAULT, causal=False)),
    "another number": (lambda browser: browser.type("q", "3,0", "-2"), raised(DEFAULT, "q", (3, 0), -2.5)),
    "another scale": (lambda browser: browser.choose("#switch-scale", 0.2), dataclasses.replace(DEFAULT, scale=0.2)),
    "a mistake": (lambda browser: browser.choose("#mistakes", 1), DEFAULT),
}


def test_the_path_of_words_begins_with_why(browser, tmp_path):
    """Whom the ambiguous word should ask; then the same stations."""
    head = next_words()
    browser.driver.get(f"{page_of(head, tmp_path).as_uri()}#station=why")
    assert "Whom should it ask?" in browser.text(PATH)
    give_twice(browser, "3,2")
    assert verdict(browser) == "Not quite." and "cat" in browser.text(f"{PATH} .verdict")
    for number, answer in enumerate(right_answers(head), 1):
        press(browser, "Next")
        assert browser.text(f"{PATH} h2").startswith(f"Station {number} ")
        give_twice(browser, wrong(answer))
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right.", number
    assert browser.errors() == []


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_question_is_answered_by_the_numbers_that_the_page_shows(browser, visited, situation):
    change, head = SITUATIONS[situation]
    visited(1)
    change(browser)
    for number, answer in enumerate(right_answers(head), 1):
        browser.run("visit(arguments[0])", number)
        give_twice(browser, wrong(answer))
        assert verdict(browser) == "Not quite.", number
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right.", number
        if isinstance(answer, list):
            moved = browser.run("return [...document.querySelectorAll('.moved')].map(cell => cell.dataset.index)")
            assert moved == answer
            place = tuple(map(int, answer[0].split(",")))
            before, after = (browser.run("return shown(arguments[0])", array[place])
                             for array in before_and_after(head, *edits(head, LAST, BEFORE, LAST_KEY)[number]))
            assert f": {before} → {after}" in browser.text(f"{PATH} .verdict")


def own(seed: int, queries: int, keys: int, size: int, value_size: int, **options) -> Head:
    q, k, v, upstream = (np.random.default_rng(seed + i).normal(size=shape).round(2) for i, shape in enumerate(
        [(queries, size), (keys, size), (keys, value_size), (queries, value_size)]))
    return Head({"q": q, "k": k, "v": v}, upstream, **options)


OWN = {  # a head; the queries and the key that are asked about; what station 1 says
    "two tokens": (own(0, 2, 2, 1, 1, labels=("hot", "d`g")), (1, 1, 1), "Query 1 (d'g) says what token 1 (d'g) looks for"),
    "twelve keys": (own(1, 13, 12, 5, 3), (3, 2, 3), "is the score S31=s∑dQ3dK1d, where s"),
    "more keys": (own(2, 3, 5, 3, 4, causal=False), (2, 1, 2), "is the score S21=s(Q20K10+Q21K11+Q22K12), where s"),
}


@pytest.mark.parametrize("name", OWN)
def test_the_path_asks_about_the_users_numbers(browser, tmp_path, name):
    head, places, words = OWN[name]
    browser.driver.get(f"{page_of(head, tmp_path).as_uri()}#station=1")
    assert words in "".join(browser.run("return document.querySelector('#path p').textContent").replace("\u2009", "").split("\u00a0"))
    for answer in right_answers(head, *places):
        give_twice(browser, wrong(answer))
        assert verdict(browser) == "Not quite."
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right."
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Next
    assert browser.errors() == []


def test_a_usual_wrong_answer_is_named(browser, visited):
    visited(6)
    wrong_dS = run(DEFAULT, DEFAULT.inputs, DEFAULT.upstream, CHANGES["attention: no rowsum"])[1]["scores"]
    give(browser, "positive" if wrong_dS[0, 0] > 0 else "negative")
    assert "This would be right with a mistake, no row sum:" in browser.text(".again")


def test_what_becomes_of_training_is_foretold(browser, visited):
    visited(10)
    give_twice(browser, "It stalls")
    assert verdict(browser) == "Not quite." and "Nothing happens" in browser.text(f"{PATH} .verdict")
    press(browser, "Ask again")
    give(browser, "Nothing happens: it learns as well")
    assert verdict(browser) == "Right." and browser.text("#training h2") == "Break it, train it"
    press(browser, "Back")
    assert not browser.run("return document.getElementById('training').offsetHeight")


@pytest.mark.parametrize("head", [
    own(0, 1, 2, 2, 2), own(0, 2, 1, 2, 2), heads_of(), heads_of(2, rotary=True), dataclasses.replace(DEFAULT, rotary=True),
    dataclasses.replace(DEFAULT, keep=dropout(0.5, 1, 4)), dataclasses.replace(DEFAULT, bias=np.zeros((4, 4)))],
    ids=["one query", "one key", "x", "heads", "rotary", "dropout", "bias"])
def test_the_path_is_left_out_where_it_does_not_fit(head):
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        assert pages.page_of_head(head).extras["stations"] == []


VEILED = ["weights 2,0", "weights 2,1", "weights 2,2", "weights 2,3", "row_sum 3,0", *(f"scores 3,{j}" for j in range(4)),
          *(f"scores 0,{j}" for j in range(4))]  # gradients, in the order in which they are asked for
GONE = [0, 0, 4, 4, 5, 9, 13, 13, 13, 13]  # of them, at each station


def test_what_is_asked_is_veiled(browser, visited):
    """At earlier stations, too; but not once it was skipped."""
    visited(1)
    before = browser.arrays()
    for gone in GONE:
        cells = {f"{tensor} {index}": (tensor, index, kind) for (tensor, kind), of in browser.cells().items()
                 for index, cell in of.items() if cell["text"] == "?"}
        assert sorted(cells) == sorted(VEILED[gone:])
        browser.run("goTo(0)")
        for cell in list(cells.values())[:3]:
            assert browser.focus(*cell).splitlines()[-1] == "Veiled until you answer."
            assert browser.run("return getComputedStyle(arguments[0]).backgroundColor", browser.cell(*cell)) == "rgba(0, 0, 0, 0)"
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Skip
    assert browser.text(PATH) == ""
    assert all((array == before[key]).all() for key, array in browser.arrays().items())
    assert "?" not in browser.text("#numbers")


def test_no_term_shows_what_is_veiled(browser, visited):
    visited(2)
    browser.run("goTo(0)")
    assert "· ?" in browser.focus("row_sum", "2,0", "gradient") or "? ·" in browser.text("#number")


def test_the_address_keeps_station_and_answers(browser, visited, path):
    visited(1)
    answers = right_answers(DEFAULT)
    for i, answer in enumerate(answers):
        (give_twice if i % 3 == 1 else give)(browser, wrong(answer) if i % 3 == 1 else answer)
        if i < len(answers) - 1:
            press(browser, "Next")
    press(browser, "Next")
    give(browser, "Nothing happens: it learns as well")
    for _ in range(2):
        press(browser, "Back")
    before = browser.text(PATH), browser.driver.current_url, browser.arrays()["v", "gradient"]
    browser.driver.get("about:blank")
    browser.driver.get(before[1])
    assert (browser.text(PATH), browser.driver.current_url) == before[:2]
    assert (browser.arrays()["v", "gradient"] == before[2]).all()
    marks = browser.run("return [...document.querySelectorAll('.stations button')].map(one => one.dataset.answer)")
    assert marks == ["wrong" if i % 3 == 1 else "right" for i in range(len(answers))] + ["right"]
    press(browser, "Next")
    press(browser, "Next")
    press(browser, "Finish")
    assert browser.run("return state.step") == 0  # where a mistake shows all that it spoils
    assert "All 10 questions of the guided path are answered, 7 right." in browser.text("#invitation")


def test_a_path_that_was_left_stays_left(browser, tmp_path):
    made = pages.page_of_head(DEFAULT)
    own = page.write(made.trace, tmp_path / "page.html", extras=made.extras | {"station": 1}, backwards=made.backwards)
    browser.driver.get(own.as_uri())
    assert browser.run("return state.station") == 1
    browser.run("visit(0)")
    browser.driver.refresh()
    assert browser.run("return state.station") == 0


def test_a_verdict_follows_the_numbers(browser, visited):
    """After a reset it says that it was about others; a reload brings edits, switches and the mistake back."""
    visited(5)
    browser.run("goTo(0)")
    browser.type("q", "3,0", "-2")
    browser.choose("#mistakes", 1)
    browser.choose("#switch-scale", "0.5")
    head = dataclasses.replace(raised(DEFAULT, "q", (3, 0), -2.5), scale=0.5)
    give(browser, right_answers(head)[4])
    assert verdict(browser) == "Right."
    before, address = browser.arrays(), browser.driver.current_url
    for _ in range(2):
        browser.driver.refresh()
        assert verdict(browser) == "Right." and browser.driver.current_url == address
        assert all((array == before[key]).all() for key, array in browser.arrays().items())
    assert browser.run("return [Number(document.querySelector('#mistakes').value), switchFields[1].value]") == [1, "0.5"]
    assert browser.run("return [...document.querySelectorAll('input, select')].every(field => field.autocomplete === 'off')")
    give_up = right_answers(DEFAULT)[4] != right_answers(head)[4]
    browser.run("reset()")
    assert verdict(browser) == ("Right, for other numbers than these." if give_up else "Right.")
    browser.run("undo()")
    assert verdict(browser) == "Right."


def test_an_address_cannot_contradict_its_numbers(browser, path):
    """Not even one that was written by hand."""
    for said, expected in (("right+3,3", "Not quite."), ("wrong+3,1", "Right.")):
        browser.driver.get("about:blank")
        browser.driver.get(f"{path.as_uri()}#station=5&5={said}")
        assert verdict(browser) == expected


def test_back_goes_back(browser, visited):
    """To the station and the step before, with the numbers of that time."""
    browser.driver.execute_cdp_cmd("Page.resetNavigationHistory", {})
    visited(2)
    press(browser, "Skip")
    browser.run("visit(4); goTo(1)")
    browser.type("q", "0,0", "7")
    at = "return [state.station, state.step, pass.values.get('q').data[0]]"
    from selenium.webdriver.support.wait import WebDriverWait

    places = [4, 1, 7], [4, 7, 1], [3, 2, 1], [2, 6, 1]
    for way, expected in [*((-1, place) for place in places[1:]), *((1, place) for place in places[2::-1])]:
        browser.run("history.go(arguments[0])", way)
        WebDriverWait(browser.driver, 10).until(lambda driver, expected=expected: browser.run(at) == expected)


def test_the_question_has_the_focus(browser, visited):
    """So that the answer is a key or two away, however the station was opened."""
    focused = "const one = document.activeElement; return [one.localName, Boolean(one.closest('form.question'))]"
    visited(5)
    assert browser.run(focused) == ["input", True]
    press(browser, "Skip")
    assert browser.run(focused) == ["input", True]
    press(browser, "Skip")
    assert browser.run(focused) == ["form", True]


@pytest.mark.parametrize("address, answered", [
    ("station=99", 0), ("station=-1", 0), ("station=1.5&1=right", 0), ("1=right+abc&2=maybe+1&6=right+blue", 0),
    ("3=right+<b>&6=wrong+zero&10=right+1", 1), ("1=right+12&3=wrong+", 2),
    ("edits=q.9.0*1+zz.0*1+q.0*1+q.0.0*x+scores.0.0*1&mistake=none&switch.causal=7&switch.scale=x", 0),
])
def test_what_makes_no_sense_in_an_address_is_left_out(browser, path, address, answered):
    browser.driver.get("about:blank")
    browser.driver.get(f"{path.as_uri()}#{address}")
    assert browser.errors() == []
    assert browser.run("return [state.station, state.answers.size]") == [0, answered]
    assert browser.run("return [isEdited(), state.mistake]") == [False, -1]


def test_the_edit_of_an_answer_lasts_as_long_as_its_station(browser, visited):
    visited(3)
    before = browser.arrays()
    give_twice(browser, [])
    assert browser.arrays()["k", "value"][3, 0] == before["k", "value"][3, 0] + 1
    assert "edits" not in browser.driver.current_url
    press(browser, "Next")
    assert all((array == before[key]).all() for key, array in browser.arrays().items())
    assert browser.run("return document.getElementById('undo').disabled")
    press(browser, "Back")
    browser.run("goTo(0)")
    browser.type("q", "0,0", "7")  # who goes on from there keeps it
    press(browser, "Next")
    assert browser.arrays()["q", "value"][0, 0] == 7
    assert browser.arrays()["k", "value"][3, 0] == before["k", "value"][3, 0] + 1


def test_a_switch_is_turned_as_long_as_its_station_is_open(browser, visited):
    visited(9)
    chosen = "return document.getElementById('switch-row_sum').value"
    assert browser.run(chosen) == "1"
    assert browser.run("return document.querySelectorAll('.changed').length") == 0  # only the sum's rounding does
    give(browser, right_answers(DEFAULT)[8])
    press(browser, "Next")
    assert browser.run(chosen) == "0"


def test_cells_are_chosen_by_keys(browser, visited):
    visited(3)
    browser.focus("weights", "3,0")
    browser.cell("weights", "3,0").send_keys("\ue007", "\ue014", " ", "\ue014", " ", " ")
    assert browser.run("return [...state.chosen]") == [12, 13]
    assert browser.text(f"{PATH} .count") == "2 cells chosen."
    assert browser.cell("weights", "3,1").get_attribute("aria-selected") == "true"


def test_a_phone_shows_the_station_or_the_number_pointed_at(browser, visited):
    browser.resize("narrow")
    shown = "return ['path', 'number'].filter(id => document.getElementById(id).offsetHeight > 0)"
    visited(7)
    browser.run("visit(6)")
    assert browser.run(shown) == ["path"]
    browser.focus("weights", "3,1", "gradient")
    assert browser.run(shown) == ["number"]
    browser.run("document.querySelector('.close').click()")
    assert browser.run(shown) == ["path"]
    browser.run("visit(3)")
    browser.run("arguments[0].focus(); arguments[0].click()", browser.cell("weights", "3,0"))
    assert browser.run(shown) == ["path"] and browser.text(f"{PATH} .count") == "1 cell chosen."
    give_twice(browser, [])
    assert browser.run(shown) == ["path"]


IN_SIGHT = """
    const {question} = station(), asked = question.changes ? gridAsked().cells : kindOf(question).veils(question).map(toCell);
    const [top, bottom] = ["top", "bottom"].map(edge => [...asked.map(cell => cell.box), byId("path").querySelector("form")].map(
      node => node.getBoundingClientRect()[edge]));
    return Math.min(...top) >= barOnScreen() - 1 && Math.max(...bottom.slice(0, -1)) <= top.at(-1) + 1 && bottom.at(-1) <= innerHeight + 1"""


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "dark")])
def test_stations_are_accessible_and_fit(browser, visited, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    visited(1)
    for number, answer in enumerate(right_answers(DEFAULT), 1):
        assert size == "wide" or browser.run(IN_SIGHT), number  # the question below the row asked for
        assert number != 5 or browser.accessibility() == []  # veiled cells and choices
        give(browser, answer)
        assert number != 8 or browser.accessibility() == []  # chosen cells and a verdict
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Next


def weights_of_heads() -> list[str]:
    """The weights of two heads that change when a number of head 0's projection does."""
    head = heads_of(2)
    moved = {**head.inputs, "w_q": head.inputs["w_q"].copy()}
    moved["w_q"][0, 0] += 1
    before, after = (run(head, inputs, head.upstream, {})[0]["weights"] for inputs in (head.inputs, moved))
    return [",".join(map(str, index)) for index in np.argwhere(abs(after - before) > 1e-12)]


@pytest.mark.parametrize("made, answers", [
    (lambda: pages.page_of_block(block.draw("pre")), lambda: [[], ["2,0"], []]),
    (lambda: pages.page_of_head(heads_of(2)), lambda: [weights_of_heads()]),
], ids=["layer norm", "heads"])
def test_norms_and_heads_have_stations(browser, tmp_path, made, answers):
    """A shift changes nothing behind a norm, a stretch its deviation only; a head's projection only that head."""
    with mock.patch.object(pages, "checker", lambda head: lambda mistake: ""):
        made = made()
    own = page.write(made.trace, tmp_path / "page.html", extras=made.extras, backwards=made.backwards)
    browser.driver.get(f"{own.as_uri()}#station=1")
    for answer in answers():
        give_twice(browser, wrong(answer))
        assert verdict(browser) == "Not quite."
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right."
        browser.run("document.querySelector('#path .onward :last-child').click()")
    assert len(made.extras["stations"]) == len(answers()) and browser.errors() == []
