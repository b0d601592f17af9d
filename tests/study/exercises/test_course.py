"""Each exercise of the course: what it says is so, its solution is right, and its mistakes are told apart."""
import inspect
import pathlib
import re

import numpy as np
import pytest

from minigrad.gradcheck.doctor import Evidence, diagnose_numbers
from study.exercises import COURSE

DOCS = pathlib.Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "backprop_through_attention.md").read_text()
SIGNATURES = {  # those that others rely on, and a few more
    "product": "product_backward(dout, a, b)",
    "matmul": "matmul_backward(dout, a, b)",
    "linear": "linear_backward(dout, x, weight, bias)",
    "tanh": "tanh_backward(dout, x)",
    "gelu": "gelu_backward(dout, x)",
    "gelu_tanh": "gelu_tanh_backward(dout, x)",
    "softmax": "softmax_backward(dout, x)",
    "log_softmax": "log_softmax_backward(dout, x)",
    "cross_entropy": "cross_entropy_backward(dout, logits, targets)",
    "embedding": "embedding_backward(dout, ids, weight)",
    "layer_norm": "layer_norm_backward(dout, x, weight, bias, eps)",
    "rms_norm": "rms_norm_backward(dout, x, weight, eps)",
    "dropout": "dropout_backward(dout, x, mask, p)",
    "scores": "scores_backward(dout, q, k)",
    "masked_softmax": "masked_softmax_backward(dout, scores, mask)",
    "attention": "attention_backward(dout, q, k, v)",
    "causal_attention": "causal_attention_backward(dout, q, k, v)",
    "multi_head": "multi_head_backward(dout, q, k, v, heads)",
    "rotary": "rotary_backward(dout, x, angles)",
    "residual_norm": "residual_norm_backward(dout, x, weight, bias, eps)",
    "tied_embedding": "tied_embedding_backward(dout, ids, weight)",
    "block": "block_backward(dout, x, wq, wk, wv, w1, w2)",
    "clip_by_global_norm": "clip_by_global_norm(da, db, dc, max_norm)",
}
TWINS = {  # mistakes that give the same numbers on all inputs: (exercise, one, the other)
    ("embedding", "overwrites", "adds once"),  # onto zeros
}
SEEDS = range(5)


def inputs_of(exercise, seeds=SEEDS):
    return [inputs for seed in seeds for inputs in exercise.inputs(seed)]


def copies(inputs):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in inputs.values()]


def as_dict(exercise, found):
    found = found if isinstance(found, tuple) else (found,)
    return dict(zip(exercise.routine.results, found, strict=True))


def differences(exercise, inputs, name):
    """The gradient of sum(dout * forward) by one argument, a float array, by differences in the middle."""
    arguments = {key: value for key, value in inputs.items() if key != "dout"}
    gradient = np.zeros(np.shape(inputs[name]))
    for index in np.ndindex(gradient.shape):
        h = 1e-5 * max(1.0, abs(inputs[name][index]))
        moved = []
        for step in (h, -h):
            changed = {**arguments, name: inputs[name].copy()}
            changed[name][index] += step
            moved.append(exercise.forward(*changed.values()))
        gradient[index] = (inputs["dout"] * (moved[0] - moved[1])).sum() / (2 * h)
    return gradient


def runs(exercise, inputs):
    """What each known mistake gives on each input; None where it raises."""
    def outcome(known, one):
        try:
            return exercise.routine.run(one, known.changes)
        except Exception:  # noqa: BLE001  a missing transpose does not fit on all shapes
            return None

    return {known.name: [outcome(known, one) for one in inputs] for known in exercise.routine.mistakes}


def same(one, other):
    def same_array(a, b):
        if a is None or b is None:
            return a is b
        return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)

    return all(same_array(one[name], other[name]) for name in one)


def are_twins(exercise, one, other):
    return (exercise.name, one, other) in TWINS or (exercise.name, other, one) in TWINS


@pytest.fixture(params=COURSE.values(), ids=list(COURSE))
def exercise(request):
    return request.param


def test_it_is_described(exercise):
    assert exercise.signature == SIGNATURES.get(exercise.name, exercise.signature) and 1 <= exercise.difficulty <= 5
    assert len(exercise.statement.split()) >= 30 and exercise.title and exercise.formula
    assert len(set(exercise.hints)) == 3 and all(len(hint.split()) >= 8 for hint in exercise.hints)
    assert all(argument.about for argument in exercise.arguments.values())
    assert f"### {exercise.guide}\n" in GUIDE or (DOCS / exercise.guide).is_file()


def test_its_arguments_are_those_of_the_solution(exercise):
    upstream = ["dout"] if exercise.forward else []
    assert list(inspect.signature(exercise.solution).parameters) == [*upstream, *exercise.arguments]
    assert exercise.routine.arguments == (*upstream, *exercise.arguments)
    for inputs in inputs_of(exercise, [0]):
        assert list(inputs) == [*upstream, *exercise.arguments]


def test_the_solution_is_right(exercise):
    for inputs in inputs_of(exercise, range(20)):
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for name, right in exercise.right(inputs).items():
            assert np.shape(found[name]) == np.shape(right)
            np.testing.assert_allclose(found[name], right, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(right).max(initial=0)))


def test_the_solution_is_what_differences_say(exercise):
    if exercise.forward is None:
        pytest.skip("not a gradient")
    for inputs in inputs_of(exercise, [0]):
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for name, gradient in found.items():
            measured = differences(exercise, inputs, name.removeprefix("d"))
            scale = max(1.0, *(np.abs(a).max(initial=0) for a in inputs.values() if np.asarray(a).dtype.kind == "f"))
            np.testing.assert_allclose(gradient, measured, rtol=1e-5, atol=1e-8 * scale**2)


def test_its_mistakes_have_names_and_sentences_of_their_own(exercise):
    mistakes = exercise.routine.mistakes
    for words in ([known.name for known in mistakes], [known.sentence for known in mistakes]):
        assert len(set(words)) == len(words) and all(words)
    assert not [known.sentence for known in mistakes if re.search(r"[.{}]$|\s\s|\n", known.sentence)]


@pytest.mark.parametrize("seed", SEEDS)
def test_its_mistakes_are_told_apart(exercise, seed):
    inputs = inputs_of(exercise, [seed])
    right = [exercise.right(one) for one in inputs]
    outcomes = runs(exercise, inputs)
    for name, given in outcomes.items():
        seen = [i for i in range(len(inputs)) if given[i] is not None]
        assert any(not same(given[i], right[i]) for i in seen), f"{name} is right, on all inputs"
        for other, there in outcomes.items():
            told_apart = any(there[i] is None or not same(given[i], there[i]) for i in seen)
            assert told_apart or other == name or are_twins(exercise, name, other), f"{name} and {other} are the same"
        evidence = [Evidence(inputs[i], right[i], given[i]) for i in seen]
        (found, *more) = diagnose_numbers(evidence, exercise.routine).names
        assert not more and (found == name or are_twins(exercise, name, found))
