"""Every wrong backward is caught, and what is known of it is true."""
import numpy as np
import pytest

import minigrad as mg
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


BATCHED = {  # inputs of other shapes, with leading axes: what is generic in shape
    **dict.fromkeys(["square", "permute", "transpose", "reshape", "flip", "roll", "slice", "take", "repeat", "tril",
                     "used_twice"], ((3, 2, 4, 5),)),
    **dict.fromkeys(["mul", "add", "sum_of_products"], ((2, 3, 5), (2, 3, 5))),
    "cat": ((2, 3, 1), (2, 3, 4)),
}

KEEP_THE_NUMBERS = (  # where no upstream is extreme, and nothing is looked at but the gradients
    "clipped", "clipped far out", "small flushed", "tiny flushed", "needs order", "needs memory", "clips the input",
    "writes to the upstream", "shared gradients", "writes to the input",
)


@pytest.mark.parametrize("name", BATCHED)
def test_functions_and_mistakes_are_generic_in_shape(name):
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=shape) for shape in BATCHED[name]]
    right = FUNCTIONS[name]
    inputs = [mg.tensor(a, requires_grad=True) for a in arrays]
    assert gradcheck_report(right, inputs)
    dout = generator.normal(size=np.shape(right.forward(*arrays)))
    expected = right.gradients(dout, *arrays)
    for mutant in [m for m in MUTANTS.values() if m.right is right]:
        with np.errstate(all="ignore"):
            found = mutant.gradients(dout.copy(), *[a.copy() for a in arrays])
        is_same = len(found) == len(expected) and all(
            g is not None and g.shape == e.shape and g.dtype == e.dtype and np.allclose(g, e, 0, 1e-13)
            for g, e in zip(found, expected))
        assert is_same == mutant.name.endswith(KEEP_THE_NUMBERS), mutant.name
