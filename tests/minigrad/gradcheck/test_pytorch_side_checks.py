"""What custom functions of PyTorch get wrong although their formulas are right, by the tables in for_pytorch/by_hand.py."""
import pytest
from tables import each

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.torch_checks import CHECKS

torch = pytest.importorskip("torch")
from for_pytorch import by_hand  # noqa: E402


pytestmark = pytest.mark.filterwarnings("ignore")  # some rows do what PyTorch deprecates


def report_of(fn, inputs):
    return gradcheck_report(fn, [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs])


def failed(report):
    return {check.name: f"{check.name}: FAIL: {check.detail}" for check in report.side_checks if check.verdict == "fail"}


def test_every_mistake_has_its_sentence():
    def found(name, row):
        report = report_of(row.fn, row.inputs)
        assert report.verdict == "fail"
        assert any(row.says in said for said in [*failed(report).values(), *report.warnings]), report

    def remarked(name, row):
        report = report_of(row.fn, row.inputs)
        assert report.verdict == "pass" and row.says in str(report), report

    each(by_hand.WRONG, found)
    each(by_hand.REMARKED, remarked)
    assert CHECKS.keys() <= {row.says.split(":")[0] for row in by_hand.WRONG.values()}


@pytest.mark.parametrize("name, checks", [
    # The other checks give copies of the upstream; only an expanded one cannot be written to.
    ("Multiply: product in dout", ["leaves the upstream as it is", "takes an upstream of any layout"]),
    ("Linear: bias forgotten", ["no gradient is None"]),
    ("SiLU: vectors of two", ["sizes of 1 and 0"]),
    ("LayerNorm: WritesToWhatItKept", ["backward twice gives the same"]),
])
def test_what_is_right_apart_from_a_mistake_is_not_accused(name, checks):
    row = by_hand.WRONG[name]
    assert list(failed(report_of(row.fn, row.inputs))) == checks


@pytest.mark.parametrize("fn, inputs, not_run", [
    (torch.tanh, (by_hand.leaf(3),), {"each input alone may need a gradient", "outputs may go unused", "takes inputs of any layout", "sizes of 1 and 0"}),
    (by_hand.LINEAR.function(), by_hand.LINEAR.inputs, {"outputs may go unused"}),
])
def test_what_does_not_apply_is_not_counted(fn, inputs, not_run):
    report = report_of(fn, inputs)
    summary = report.summary()
    assert not_run == set(summary["side_checks_not_run"]) and not_run.isdisjoint(row["name"] for row in summary["side_checks"])
    assert f"side checks: all {len(summary['side_checks'])} that apply pass" in str(report)


def test_what_is_right_is_not_accused():
    def passes(name, row):
        report = report_of(*row)
        assert report.verdict == "pass", report

    each(by_hand.RIGHT, passes)
