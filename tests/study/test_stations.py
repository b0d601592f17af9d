"""The guided path: in a browser, each question is answered right, by NumPy, and wrong, on the default page and on others."""
import dataclasses
from unittest import mock

import numpy as np
import pytest

from minigrad.tracing import page
from study.page import pages
from study.page.attention import DEFAULT, Head, dropout, heads_of

PATH = "#path"
LAST, BEFORE, LAST_KEY = 3, 2, 3  # on the default page: the queries and the key that the stations ask about


def page_of(head: Head, folder):
    with mock.patch.object(pages, "check", lambda head, mistake: []):
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
    """What the stations ask for, in NumPy."""
    q, k, v = (head.inputs[name] for name in ("q", "k", "v"))
    S = np.where(head.mask, q @ k.T * head.factor, -np.inf)
    P = np.exp(S) / np.exp(S).sum(axis=1, keepdims=True)
    dP = head.upstream @ v.T
    r = (dP * P).sum(axis=1)
    dS = P * (dP - r[:, None])
    return {"weights": P, "dP": dP, "r": r, "dS": dS, "dK": dS.T @ q * head.factor, "v": P.T @ head.upstream}


def raised(head: Head, name: str, index: tuple[int, int], by: float) -> Head:
    array = (head.upstream if name == "upstream" else head.inputs[name]).copy()
    array[index] += by
    if name == "upstream":
        return dataclasses.replace(head, upstream=array)
    return dataclasses.replace(head, inputs={**head.inputs, name: array})


def before_and_after(head: Head, name: str, row: int) -> list[np.ndarray]:
    """What is asked for without and with the edit that the answer makes."""
    return [gradients(one)[name] for one in (head, raised(head, {"weights": "k", "v": "upstream"}[name], (row, 0), 1))]


def changed(head: Head, name: str, row: int) -> list[str]:
    """The indices of the numbers that an edit changes."""
    before, after = before_and_after(head, name, row)
    return [f"{i},{j}" for i, j in np.argwhere(abs(after - before) > 1e-12)]


def right_answers(head: Head, last: int = LAST, before: int = BEFORE, last_key: int = LAST_KEY) -> list:
    """A number, the value of a choice, or a list of cells."""
    made = gradients(head)
    dS = made["dS"]
    return [
        dS[last, 1] * head.factor * head.inputs["k"][1, 0],
        made["dP"][before, 1],
        changed(head, "weights", last_key),
        made["r"][1],
        f"{last},{dS[last].argmin()}",
        {1: "positive", -1: "negative", 0: "zero"}[int(np.sign(dS[0, 0].round(12)))],
        made["dK"][last_key, 0],
        changed(head, "v", before),
        made["r"][last],
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
        asked = browser.run("return station().question.changes")
        for index in answer:
            browser.run("arguments[0].click()", browser.cell(asked["tensor"], index, asked["kind"]))
    elif isinstance(answer, str):
        browser.run("document.querySelector(`#path input[value='${arguments[0]}']`).click()", answer)
    else:
        browser.run("document.querySelector('#path input').value = arguments[0]", f"{answer:.5g}")
    browser.run("document.querySelector('#path form button').click()")


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


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_question_is_answered_by_the_numbers_that_the_page_shows(browser, visited, situation):
    change, head = SITUATIONS[situation]
    visited(1)
    change(browser)
    for number, answer in enumerate(right_answers(head), 1):
        browser.run("visit(arguments[0])", number)
        give(browser, wrong(answer))
        assert verdict(browser) == "Not quite.", number
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right.", number
        if isinstance(answer, float):
            assert f"It is {browser.run('return shown(arguments[0])', answer)}," in browser.text(f"{PATH} .verdict")
        if isinstance(answer, list):
            moved = browser.run("return [...document.querySelectorAll('.moved')].map(cell => cell.dataset.index)")
            assert moved == answer
            before, after = (browser.run("return shown(arguments[0])", array[3, 0] if number == 3 else array[0, 0])
                             for array in before_and_after(head, *(("weights", 3) if number == 3 else ("v", 2))))
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
        give(browser, wrong(answer))
        assert verdict(browser) == "Not quite."
        press(browser, "Ask again")
        give(browser, answer)
        assert verdict(browser) == "Right."
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Next
    assert browser.errors() == []


def test_small_numbers_are_asked_for_as_precisely(browser, tmp_path):
    head = dataclasses.replace(DEFAULT, upstream=DEFAULT.upstream / 1000)
    browser.driver.get(f"{page_of(head, tmp_path).as_uri()}#station=2")
    dP = gradients(head)["dP"]
    size = float(f"{abs(dP).max() / 10:.0e}")
    assert f"Right if within {size:g}, or within 5%." in browser.text(PATH)
    for times, expected in ((1.1, "Not quite."), (0.9, "Right.")):
        give(browser, float(dP[2, 1] + times * max(size, 0.05 * abs(dP[2, 1]))))
        assert verdict(browser) == expected
        press(browser, "Ask again")


@pytest.mark.parametrize("head", [
    own(0, 1, 2, 2, 2), own(0, 2, 1, 2, 2), heads_of(), heads_of(2), dataclasses.replace(DEFAULT, rotary=True),
    dataclasses.replace(DEFAULT, keep=dropout(0.5, 1, 4)), dataclasses.replace(DEFAULT, bias=np.zeros((4, 4)))],
    ids=["one query", "one key", "x", "heads", "rotary", "dropout", "bias"])
def test_the_path_is_left_out_where_it_does_not_fit(head):
    with mock.patch.object(pages, "check", lambda head, mistake: []):
        assert pages.page_of_head(head).extras["stations"] == []


VEILED = [["q 3,0"], ["weights 2,1"], [], ["row_sum 1,0"], [f"scores 3,{j}" for j in range(4)], ["scores 0,0"], ["k 3,0"], [],
          ["row_sum 3,0"]]  # gradients


def test_what_is_asked_is_veiled(browser, visited):
    visited(1)
    before = browser.arrays()
    for expected in VEILED:
        cells = {f"{tensor} {index}": (tensor, index, kind) for (tensor, kind), of in browser.cells().items()
                 for index, cell in of.items() if cell["text"] == "?"}
        assert list(cells) == expected
        for cell in cells.values():
            assert browser.focus(*cell).splitlines()[-1] == "Veiled until you answer."
            assert browser.run("return getComputedStyle(arguments[0]).backgroundColor", browser.cell(*cell)) == "rgba(0, 0, 0, 0)"
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Skip
    assert browser.text(PATH) == ""
    assert all((array == before[key]).all() for key, array in browser.arrays().items())
    assert "?" not in browser.text("#numbers")


def test_no_term_and_no_difference_shows_what_is_veiled(browser, visited):
    visited(2)
    browser.run("goTo(0)")
    assert "· ?" in browser.focus("row_sum", "2,0", "gradient") or "? ·" in browser.text("#number")
    visited(7)
    browser.run("goTo(0)")
    browser.focus("k", "3,0")
    assert browser.run("return document.getElementById('difference').hidden")
    browser.focus("k", "3,1")
    assert not browser.run("return document.getElementById('difference').hidden")


def test_the_address_keeps_station_and_answers(browser, visited, path):
    visited(1)
    answers = right_answers(DEFAULT)
    for i, answer in enumerate(answers):
        give(browser, wrong(answer) if i % 3 == 1 else answer)
        if i < len(answers) - 1:
            press(browser, "Next")
    press(browser, "Back")
    before = browser.text(PATH), browser.driver.current_url, browser.arrays()["v", "gradient"]
    browser.driver.get("about:blank")
    browser.driver.get(before[1])
    assert (browser.text(PATH), browser.driver.current_url) == before[:2]
    assert (browser.arrays()["v", "gradient"] == before[2]).all()
    marks = browser.run("return [...document.querySelectorAll('.stations button')].map(one => one.dataset.answer)")
    assert marks == ["wrong" if i % 3 == 1 else "right" for i in range(len(answers))]
    press(browser, "Next")
    press(browser, "Finish")
    assert browser.run("return state.step") == 0  # where a mistake shows all that it spoils
    assert "All 9 stations of the guided path are answered, 6 right." in browser.text("#invitation")


def test_a_path_that_was_left_stays_left(browser, tmp_path):
    made = pages.page_of_head(DEFAULT)
    own = page.write(made.trace, tmp_path / "page.html", extras=made.extras | {"station": 1}, backwards=made.backwards)
    browser.driver.get(own.as_uri())
    assert browser.run("return state.station") == 1
    browser.run("visit(0)")
    browser.driver.refresh()
    assert browser.run("return state.station") == 0


def test_a_verdict_on_other_numbers_says_so(browser, visited):
    """After a reset, and after a reload, which forgets edits; no field shows what the page has forgotten."""
    visited(1)
    browser.type("q", "3,0", "-2")
    give(browser, right_answers(raised(DEFAULT, "q", (3, 0), -2.5))[0])
    assert verdict(browser) == "Right."
    browser.run("reset()")
    assert verdict(browser) == "Right, for other numbers than these."
    browser.run("undo()")
    assert verdict(browser) == "Right."
    browser.choose("#mistakes", 1)
    browser.choose("#switch-causal", 1)
    browser.driver.refresh()
    assert verdict(browser) == "Right, for other numbers than these."
    assert browser.run("return [Number(document.querySelector('#mistakes').value), switchFields.map(field => Number(field.value))]") == [
        -1, browser.run("return state.switches.map(x => Number(numberText(x)))")]
    assert browser.run("return [...document.querySelectorAll('input, select')].every(field => field.autocomplete === 'off')")


@pytest.mark.parametrize("address, answered", [
    ("station=99", 0), ("station=-1", 0), ("station=1.5&1=right", 0), ("1=right+abc&2=maybe+1&6=right+blue", 0),
    ("3=right+<b>&6=wrong+zero&10=right+1", 1), ("1=right+-0.21&3=wrong+", 2),
])
def test_what_makes_no_sense_in_an_address_is_left_out(browser, path, address, answered):
    browser.driver.get("about:blank")
    browser.driver.get(f"{path.as_uri()}#{address}")
    assert browser.errors() == []
    assert browser.run("return [state.station, state.answers.size]") == [0, answered]


def test_the_edit_of_an_answer_lasts_as_long_as_its_station(browser, visited):
    visited(3)
    before = browser.arrays()
    give(browser, [])
    assert browser.arrays()["k", "value"][3, 0] == before["k", "value"][3, 0] + 1
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
    give(browser, 0.0)
    assert "= dO[3,0] · O[3,0] + dO[3,1] · O[3,1]" in browser.text(f"{PATH} .verdict")
    press(browser, "Finish")
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
    visited(1)
    assert browser.run(shown) == ["path"]
    browser.focus("scores", "3,1", "gradient")
    assert browser.run(shown) == ["number"]
    browser.run("document.querySelector('.close').click()")
    assert browser.run(shown) == ["path"]
    browser.run("visit(3)")
    browser.run("arguments[0].focus(); arguments[0].click()", browser.cell("weights", "3,0"))
    assert browser.run(shown) == ["path"] and browser.text(f"{PATH} .count") == "1 cell chosen."
    give(browser, [])
    assert browser.run(shown) == ["path"]


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "dark")])
def test_stations_are_accessible_and_fit(browser, visited, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    visited(1)
    for number, answer in enumerate(right_answers(DEFAULT), 1):
        assert number != 5 or browser.accessibility() == []  # veiled cells and choices
        give(browser, answer)
        assert number != 8 or browser.accessibility() == []  # chosen cells and a verdict
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.run("document.querySelector('#path .onward :last-child').click()")  # Next
