"""Every wrong backward is caught, and described truthfully."""
import numpy as np
import pytest
from tables import each, one_in

from minigrad.gradcheck import gradcheck, gradcheck_report
from study.mistakes import FUNCTIONS, MUTANTS, diagnose, grade_checker

PROMISES = "square", "sum_of_products"  # most of their mistakes only break what a backward promises
SHARE = 80  # two in this many are tried each time, and all of them with --long


def is_caught(name, mutant):  # tests/gradcheck_power.py draws more inputs for each
    assert gradcheck_report(mutant, mutant.draw(seed=0)).verdict == "fail"


@pytest.mark.parametrize("chosen", [
    *(pytest.param(chosen, marks=pytest.mark.short) for chosen in (
        lambda place, mutant: mutant.right.name in PROMISES,
        lambda place, mutant: place % SHARE == 0, lambda place, mutant: place % SHARE == SHARE // 2)),
    *(pytest.param(lambda place, mutant, name=name: mutant.right.name == name, marks=pytest.mark.long, id=name)
      for name in FUNCTIONS)])
def test_mutants_are_caught(chosen):
    each({name: mutant for place, (name, mutant) in enumerate(MUTANTS.items()) if chosen(place, mutant)}, is_caught)


@pytest.mark.parametrize("seed", one_in(3, range(3)))
def test_right_functions_pass(seed):
    def passes(name, function):
        assert gradcheck(function, function.draw(seed), seed=seed)

    each(FUNCTIONS, passes)


def test_there_are_enough_and_each_is_described():
    assert len(MUTANTS) >= 1151 and all(mutant.mistake for mutant in MUTANTS.values())
    assert all(title == mutant.name and title.startswith(f"{mutant.right.name}: ") for title, mutant in MUTANTS.items())


def test_mutants_give_other_numbers_or_raise_unless_they_break_a_promise():
    def gradients(function, dout, arrays):
        try:
            with np.errstate(all="ignore"):
                return function.gradients(dout.copy(), *(a.copy() for a in arrays))
        except Exception:  # noqa: BLE001  shapes that do not fit
            return ()

    def gives_other_numbers(name, mutant):
        for seed in range(3):  # in each draw: where the numbers are right, no check can notice
            arrays = mutant.inputs(np.random.default_rng(seed))
            dout = np.random.default_rng(seed + 5).normal(size=np.shape(mutant.forward(*arrays)))
            found, right = gradients(mutant, dout, arrays), gradients(mutant.right, dout, arrays)
            is_other = len(found) != len(right) or not all(
                a is b or np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-9, 1e-12) for a, b in zip(found, right))
            assert is_other

    each({name: mutant for name, mutant in MUTANTS.items() if mutant.right.name not in PROMISES}, gives_other_numbers)


def raises_on_some(dout, x):
    if x[0, 0] > 0:
        raise ValueError("not today")
    return dout


LINE = raises_on_some.__code__.co_firstlineno + 2
HANDED_IN = {  # a backward of softmax, and part of what is said about it
    "nothing": (lambda dout, x: None, "dx is None"),
    "a text": (lambda dout, x: "dx", "dx is not an array of numbers"),
    "a ragged list": (lambda dout, x: [[1.0], [2.0, 3.0]], "dx is not an array of numbers"),
    "another shape": (lambda dout, x: dout[:1], "dx has shape (1, 4) instead of (4, 4)"),
    "two gradients": (lambda dout, x: (dout, x), "it returns 2 gradients; expected dx"),
    "an error": (lambda dout, x: dout @ x[:1], "it raises ValueError: matmul"),
    "too few arguments": (lambda dout: dout, "it raises TypeError"),
    "an error at times": (raises_on_some, f'in line {LINE} of test_mutants.py: raise ValueError("not today")'),
    "two mistakes": (lambda dout, x: -np.exp(x) / np.exp(x).sum(-1, keepdims=True) * dout, "dx has the wrong sign"),
    "nonsense": (lambda dout, x: np.sin(dout + x), "each row of dx should sum to 0"),
}


def test_whatever_is_handed_in_is_described():
    def is_described(name, row):
        backward, said = row
        found = diagnose("softmax", backward)
        assert said in found.sentence and not found.is_right

    each(HANDED_IN, is_described)


def differences(forward, backward, inputs, h=1e-5):
    """A checker as a student might write it, for NumPy arrays: one random upstream, all elements, central differences."""
    dout = np.random.default_rng(99).normal(size=np.shape(forward(*inputs)))
    gradients = backward(dout, *inputs)
    if len(gradients) != len(inputs):
        return False
    for x, gradient in zip(inputs, gradients):
        if x.dtype.kind != "f":
            continue
        numeric = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            before = x[place]
            x[place] = before + h
            up = np.sum(forward(*inputs) * dout)
            x[place] = before - h
            numeric[place] = (up - np.sum(forward(*inputs) * dout)) / (2 * h)
            x[place] = before
        if gradient is None or gradient.shape != x.shape or not np.allclose(gradient, numeric, 1e-3, 1e-4):
            return False
    return True


def test_a_checker_is_graded_and_raising_counts_as_noticing():
    def insisting(forward, backward, inputs):
        if not differences(forward, backward, inputs):
            raise ValueError("a wrong gradient")
        return True

    grades = grade_checker(differences, seeds=[0])
    assert grades["false alarms"] == grades["errors"] == [] and "square: relative error 1e-6" in grades["missed"]
    assert len(grades["missed"]) < 0.1 * len(MUTANTS)
    assert not {"softmax: sigmoid", "attention: no scale in dq", "linear: dbias not summed"} & set(grades["missed"])
    assert grade_checker(insisting, seeds=[0]) == grades
    grades = grade_checker(lambda function, inputs, tolerance=1e-3: "dbias" not in str(function.name), seeds=[0])
    assert "attention: no scale in dq" in grades["missed"] and grades["false alarms"] == grades["errors"] == []


def test_a_checker_is_graded_on_each_seed():
    unlucky = FUNCTIONS["tanh"].inputs(np.random.default_rng(1))[0]

    def checker(forward, backward, inputs):
        return not np.array_equal(inputs[0], unlucky)

    assert "tanh" in grade_checker(checker, seeds=[0, 1])["false alarms"]
    assert grade_checker(checker, seeds=[0, 2])["false alarms"] == []
    missed = grade_checker(lambda forward, backward, inputs: True, seeds=[0, 1])["missed"]
    assert len(missed) == len(set(missed)) > 1000  # each once


def test_each_call_of_a_checker_has_new_inputs():
    def careless(forward, backward, inputs):
        unchanged = all(np.array_equal(a, b) for a, b in zip(inputs, drawn.pop(0)))
        for x in inputs:
            x[...] = 0
        return unchanged

    drawn = [function.inputs(np.random.default_rng(5)) for function in (*MUTANTS.values(), *FUNCTIONS.values())]
    assert grade_checker(careless, seeds=[5])["false alarms"] == [] == drawn


ANSWERS = {  # a checker with an invalid answer, and what is said about it
    "None": (lambda function, inputs: None, "it returns None; expected True or False"),
    "an array": (lambda forward, backward, inputs: np.array([True]), "it returns a ndarray; expected True or False"),
    "a number": (lambda function, inputs: 1e-9, "it returns a float; expected True or False"),
    "an error": (lambda function, inputs: inputs.shape, "AttributeError: 'list' object has no attribute 'shape', in line"),
}


def test_an_invalid_answer_is_reported_in_one_line():
    def is_reported(name, row):
        checker, said = row
        grades = grade_checker(checker, seeds=[0])
        lines = [line for line in grades["errors"] if line.split(",")[0] in FUNCTIONS]
        assert grades["missed"] == grades["false alarms"] == [] and len(lines) == len(FUNCTIONS)
        assert all(said in line and "\n" not in line for line in grades["errors"])

    each(ANSWERS, is_reported)
    with pytest.raises(TypeError, match=r"takes \(function, inputs\), or .* this one takes \(x\)"):
        grade_checker(lambda x: True)
