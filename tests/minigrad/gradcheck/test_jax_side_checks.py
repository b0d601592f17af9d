"""What a rule for derivatives in JAX gets wrong although its numbers are right: each mistake has its sentence."""
import pytest
from tables import one_in

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.jax_checks import CHECKS

jax = pytest.importorskip("jax")
from for_jax import by_hand  # noqa: E402


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", one_in(4, by_hand.WRONG))
def test_every_mistake_has_its_sentence(name):
    make, sentence = by_hand.WRONG[name]
    report = gradcheck_report(make(), by_hand.inputs())
    assert report.verdict == "fail" and sentence in str(report), report


def test_every_check_has_its_mistake():
    assert CHECKS.keys() <= {sentence.split(":")[0] for _, sentence in by_hand.WRONG.values()}


@pytest.mark.parametrize("name", one_in(3, by_hand.RIGHT))
def test_what_is_right_is_not_accused(name):
    report = gradcheck_report(by_hand.RIGHT[name](), by_hand.inputs())
    assert report.verdict == "pass", report
