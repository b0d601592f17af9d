"""How notebooks show tensors and reports."""
import re
import warnings

import numpy as np
import pytest

import minigrad as mg
import nn
from minigrad.drawing import figures, html
from minigrad.gradcheck import gradcheck_report
from notebook_page import Page


def shown(value) -> Page:
    return Page(value._repr_html_())


def test_numbers_on_colours():
    page = shown(mg.tensor([[1.0, -2.0], [0.0, 0.12345678]]))
    assert [text for text, _ in page.cells] == ["1", "-2", "0", "0.1235"]
    one, minus_two, zero, small = (colour for _, colour in page.cells)
    assert minus_two == figures.NEGATIVE and zero == (255, 255, 255)
    assert one[0] > one[2] and small[0] > small[2] and sum(one) < sum(small)  # orange, the stronger the larger
    assert "tensor (2, 2) float32\n" in page.text and "gradient" not in page.text


def test_the_gradient_is_shown_next_to_it():
    x = nn.Parameter(mg.tensor([1.0, 2.0]))
    x.name = "x"
    assert "x (2,) float32, requires_grad\n" in shown(x).text and len(shown(x).cells) == 2
    loss = (x * x).sum()
    loss.backward()
    assert [text for text, _ in shown(x).cells] == ["1", "2", "2", "4"] and "gradient\n" in shown(x).text
    assert "tensor () float32, <Sum>\n" in shown(loss).text and [text for text, _ in shown(loss).cells] == ["5"]


@pytest.mark.parametrize("values, cells", [
    ([1, -2], ["1", "-2"]), ([True, False], ["True", "False"]), (3.5, ["3.5"]), (-0.0, ["0"]), ([np.nan, np.inf, -np.inf], ["nan", "inf", "-inf"]),
    ([1e300, -1e-300], ["1e+300", "-1e-300"]), (np.zeros((2, 1, 2)), ["0"] * 4), (np.arange(16).reshape(2, 2, 2, 2), list(map(str, range(16)))),
])
def test_all_kinds_of_numbers(values, cells):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = shown(mg.tensor(np.array(values)))
    assert [text for text, _ in page.cells] == cells
    for text, colour in page.cells:
        assert (colour == figures.HIDDEN) == (text in ("nan", "inf", "-inf"))


def test_parts_of_more_than_two_axes_are_named():
    text = shown(mg.zeros(2, 2, 1, 1)).text
    assert re.findall(r"\[.*\]", text) == ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]


@pytest.mark.parametrize("shape, is_small", [((20, 20), True), ((21, 20), False), ((401,), False), ((1, 25), False), ((25, 1), True), ((0, 3), False),
                                             ((1000, 1000), False)])
def test_large_tensors_are_summarised(shape, is_small):
    text = mg.ones(*shape)._repr_html_()
    assert ("<td" in text) == is_small and len(text) < 60_000
    if not is_small:
        assert ("no numbers" if 0 in shape else "from 1 to 1, mean 1, standard deviation 0") in text


def test_a_summary_of_huge_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert html.summary(np.array([1e308, 1e308, -1e308])).startswith("from -1e+308 to 1e+308, mean ")
        assert html.summary(np.array([np.nan])) == "no numbers; 1 of 1 not finite"


def test_text_is_escaped():
    x = mg.tensor([1.0], requires_grad=True)
    x.name = "<script>&"
    assert "<script>" not in x._repr_html_() and "<script>& (1,)" in shown(x).text
    report = gradcheck_report(lambda x: x * x, mg.tensor([1.0], dtype="float64", requires_grad=True))
    report.title = "<b>"
    assert "<b>" not in report._repr_html_() and "gradcheck of <b>" in shown(report).text


def test_looking_changes_nothing():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.sum().backward()
    kept = x.node.grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # y has no gradient, and nothing asks for one
        x._repr_html_(), y._repr_html_()
    assert x.node.grad is kept and type(kept) is np.ndarray


def test_a_captured_step_may_look_for_the_method_that_shows_numbers(kernels):
    @mg.compile
    def step(x):
        return x * (2.0 if x._repr_html_ is None else 3.0)

    assert step(mg.ones(2)).tolist() == step(mg.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("verdict, function", [("pass", lambda x: x * x), ("fail", lambda x: x.detach() * x)])
def test_reports(verdict, function):
    x = mg.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    report = gradcheck_report(function, x)
    assert report.verdict == verdict and html.COLOURS[verdict] in report._repr_html_()
    assert shown(report).text.strip() == repr(report) == str(report) and shown(report).tags == {"pre"}
    assert "Report(" not in repr(report) and verdict.upper() in repr(report)


def test_parts_of_reports_are_words():
    x = mg.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    (entry,) = gradcheck_report(lambda x: x.detach() * x, x).inputs
    first, second, *_ = repr(entry).splitlines()
    assert first.startswith("x (2,), ") and ": FAIL, error 5e-01" in first and second.startswith("  d output[")
