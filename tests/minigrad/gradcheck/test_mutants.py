"""Every wrong backward is caught, and what is known of it is true."""
import numpy as np
import pytest

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.mutants import FUNCTIONS, MUTANTS, diagnose, grade_checker, with_backward


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught_unless_equivalent(name):
    mutant = MUTANTS[name]
    for seed in range(2):
        verdict = gradcheck_report(mutant, mutant.draw(seed), seed=seed).verdict
        assert verdict == ("pass" if mutant.equivalent else "fail")


def test_there_are_enough_and_each_is_described():
    assert len(MUTANTS) >= 60 and all(mutant.mistake for mutant in MUTANTS.values())
    assert len({(m.right.name, m.mistake) for m in MUTANTS.values()}) == len(MUTANTS)
    assert sum(bool(mutant.equivalent) for mutant in MUTANTS.values()) == 4


def test_a_mistake_is_diagnosed():
    def backward(dout, x):
        out = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        return out * dout

    assert diagnose("softmax", backward) is MUTANTS["softmax: no rowsum"]
    handed_in = with_backward("softmax", backward)
    assert not gradcheck_report(handed_in, handed_in.draw(0))
    assert diagnose("softmax", FUNCTIONS["softmax"].gradients) is None


def test_a_checker_is_graded():
    grades = grade_checker(lambda function, inputs: "weight" not in str(function.name), seeds=[0])
    assert "attention: no rowsum" in grades["missed"] and grades["false alarms"] == []
