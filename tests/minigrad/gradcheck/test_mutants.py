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

    found = diagnose("softmax", backward)
    assert found and found.names == ("no rowsum",) and found.mistake == MUTANTS["softmax: no rowsum"].mistake
    handed_in = with_backward("softmax", backward)
    assert not gradcheck_report(handed_in, handed_in.draw(0))
    assert diagnose("softmax", FUNCTIONS["softmax"].gradients).is_right


def raises_on_some(dout, x):
    if x[0, 0] > 0:
        raise ValueError("not today")
    return dout


def ragged(dout, x):
    return [[1.0], [2.0, 3.0]]


HANDED_IN = {  # a backward of softmax, and a part of what is said about it
    "nothing": (lambda dout, x: None, "dx is None"),
    "a text": (lambda dout, x: "dx", "dx is not an array of numbers"),
    "a ragged list": (ragged, "dx is not an array of numbers"),
    "another shape": (lambda dout, x: dout[:1], "dx has the shape (1, 4) where (4, 4) belongs"),
    "two gradients": (lambda dout, x: (dout, x), "it returns 2 gradients; expected dx"),
    "an error": (lambda dout, x: dout @ x[:1], "it raises ValueError: matmul"),
    "too few arguments": (lambda dout: dout, "it raises TypeError"),
    "an error at times": (raises_on_some, f'(line {raises_on_some.__code__.co_firstlineno + 2}: raise ValueError("not today"))'),
    "two mistakes": (lambda dout, x: -np.exp(x) / np.exp(x).sum(-1, keepdims=True) * dout, "the sign is wrong"),
    "nonsense": (lambda dout, x: np.sin(dout + x), "dx is off by up to"),
}


@pytest.mark.parametrize("name", HANDED_IN)
def test_whatever_is_handed_in_is_described(name):
    backward, said = HANDED_IN[name]
    found = diagnose("softmax", backward)
    assert said in found.sentence and not found.is_right


def test_a_checker_is_graded():
    grades = grade_checker(lambda function, inputs: "weight" not in str(function.name), seeds=[0])
    assert "attention: no rowsum" in grades["missed"] and grades["false alarms"] == []
