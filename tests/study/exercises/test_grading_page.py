"""The page of a class in a browser: it shows what students wrote, and runs none of it."""
import pathlib

import pytest

from study.exercises.grading import page
from study.exercises.grading.rows import Row

REPORT = """softmax: WRONG
  the sum over the row is missing

  wrong on 9 of 9 inputs; the smallest:
    dx, yours = [[-0.8098]]
    dx, right = [[0.]]"""
SOURCE = "import numpy as np\n\ndef softmax_backward(dout, x):\n    return dout * softmax(x)" + "  # a long line" * 20
HOSTILE = [
    "<script>document.title = 'hacked'</script>", '"><img src="https://example.com/x.png" onerror="document.title=1">',
    "</pre></details><h1>hacked</h1>", "'\" onmouseover='document.title=1'", "{{style}}", "<style>*{display:none}</style>",
    "<base href='https://example.com/'>", "<meta http-equiv=refresh content='0;url=https://example.com/'>", "&lt;b&gt;", "<!--",
]


def class_of(size: int) -> list[Row]:
    rows = []
    for i in range(size):
        name = f"Student {i:03}"
        rows.append(Row(name, "softmax", "right", (), "right on all 9 inputs", "", f"{name}/softmax.py", "", 2, 2, 0.5, SOURCE)
                    if i % 3 else
                    Row(name, "softmax", "wrong", ("the sum over the row is missing",), "the sum over the row is missing; wrong on 9 of 9",
                        REPORT, f"{name}/softmax.py", "of 2 files, softmax.py is judged", 0, 2, 0.5, SOURCE, "ab12"))
        rows.append(Row(name, "attention", ("timeout", "error", "inconclusive", "not started")[i % 4], (), "what is seen",
                        most_points=4, source=SOURCE))
    return rows


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of some rows."""
    def call(rows: list[Row], title: str = "Grades: homework 3") -> pathlib.Path:
        path = tmp_path / "page.html"
        path.write_text(page.html(rows, title, 7), encoding="utf-8")
        browser.open(path)
        return path
    return call


def unfold(browser) -> None:
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_accessible(browser, opened, size, scheme):
    browser.resize(size)
    browser.scheme(scheme)
    opened(class_of(8))
    for _ in range(2):
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.accessibility() == []
        unfold(browser)
    assert browser.errors() == [] and browser.requests() == []


def test_what_it_says(browser, opened):
    opened(class_of(8))
    assert browser.text("h1") == "Grades: homework 3"
    assert browser.text(".verdicts").split() == "5 some right 3 none right".split()
    assert browser.text("[aria-labelledby=alike] li").splitlines() == [
        "softmax, Student 000, Student 003, Student 006: the same wrong numbers (the sum over the row is missing)"]
    assert " ".join(browser.text("table:not(.grades) tbody tr").split()) == "3 of 8 the sum over the row is missing"
    assert browser.run("return document.querySelector('rect:not(.all)').getBoundingClientRect().width"
                       " / document.querySelector('rect.all').getBoundingClientRect().width") == pytest.approx(3 / 8, abs=1e-2)
    first = browser.text(".students li summary")
    assert "Student 000" in first and "0 of 6" in first and "softmax: wrong the sum over the row is missing" in first
    assert "yours" not in browser.text(".students li")
    browser.run("document.querySelector('summary').click()")
    for words in ("dx, yours = [[-0.8098]]", "return dout * softmax(x)", "of 2 files, softmax.py is judged"):
        assert words in browser.text(".students li")


def test_the_table_of_students_by_exercises_leads_to_each_answer(browser, opened):
    opened(class_of(8))
    cells = browser.run("return [...document.querySelectorAll('.grades tr')].map(row => [...row.cells].map(cell => cell.innerText))")
    assert cells[0] == ["student", "points", "softmax", "attention"] and cells[-1] == ["right", "", "5", "0"]
    assert cells[1:3] == [["Student 000", "0 of 6", "✗", "…"], ["Student 001", "2 of 6", "✓", "!"]]
    browser.run("document.querySelectorAll('.grades tr:nth-child(2) a')[1].click()")
    browser.wait_for("details[open] section:target")
    assert browser.text("section:target h3") == "attention: error"
    opened([row for row in class_of(8) if row.exercise == "softmax"])
    assert browser.run("return document.querySelector('.grades')") is None


def test_text_of_students_is_inert(browser, opened):
    rows = [Row(text, "softmax", "wrong", (text,), text, text, text, text, source=text) for text in HOSTILE]
    opened(rows, HOSTILE[0])
    unfold(browser)
    assert browser.run("return document.title") == HOSTILE[0] == browser.text("h1")
    assert browser.run("return document.querySelectorAll('script, img, base, [onerror], [onmouseover]').length") == 0
    assert browser.run("return document.querySelectorAll('h1').length") == 1
    assert browser.run("return document.querySelectorAll('style').length") == 1
    names = browser.run("return [...document.querySelectorAll('.name')].map(one => one.textContent)")
    sources = browser.run("return [...document.querySelectorAll('section pre:last-of-type')].map(one => one.textContent)")
    assert names == sources == HOSTILE
    assert browser.errors() == [] and browser.requests() == []


def test_its_policy_blocks_scripts(browser, opened, tmp_path):
    path = opened(class_of(1))
    path.write_text(path.read_text().replace("<main>", "<script>document.title = 'hacked'</script><main>"))
    browser.open(path)
    assert browser.run("return document.title") == "Grades: homework 3"
    assert any("Content Security Policy" in message for message in browser.errors())


def test_a_class_of_200(browser, opened):
    path = opened(class_of(200))
    assert path.stat().st_size < 2_000_000
    assert browser.run("return document.querySelectorAll('.students > li').length") == 200
    assert len(class_of(200)) == browser.run("return document.querySelectorAll('.answer').length")


def test_an_empty_class(browser, opened):
    opened([])
    assert browser.text(".students") == "Nothing was handed in." and browser.accessibility() == []
