"""Each exercise of the course: what it says is so, its solution is right, and its mistakes are told apart."""
import inspect
import pathlib
import re

import numpy as np
import pytest

from study.exercises import COURSE
from study.mistakes.doctor import Evidence, diagnose_numbers

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
    ("matmul", "a not transposed", "a reshaped"),  # on squares, and what is not transposed runs on no others
    ("matmul", "b not transposed", "b reshaped"),
    ("product", "no keepdims", "no keepdims, one by one"),  # where at most one axis has size 1
    ("product", "no keepdims in da", "no keepdims, one by one in da"),
    ("product", "no keepdims in db", "no keepdims, one by one in db"),
}
GRADIENTS = [exercise for exercise in COURSE.values() if exercise.forward]
VALUES = {"logsumexp": lambda x: np.logaddexp.reduce(x, axis=-1)}
TORCH = {  # PyTorch's own forward, from which it finds the gradients
    "cross_entropy": lambda torch, logits, targets: torch.nn.functional.cross_entropy(logits, targets),
    "dropout": lambda torch, x, mask, p: x * mask / (1 - p),
    "embedding": lambda torch, ids, weight: torch.nn.functional.embedding(ids, weight),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "linear": lambda torch, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "log_softmax": lambda torch, x: torch.log_softmax(x, -1),
    "matmul": lambda torch, a, b: a @ b,
    "product": lambda torch, a, b: a * b,
    "softmax": lambda torch, x: torch.softmax(x, -1),
    "tanh": lambda torch, x: torch.tanh(x),
}
SEEDS = range(2)


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


@pytest.mark.parametrize("exercise", GRADIENTS, ids=lambda exercise: exercise.name)
def test_the_solution_is_what_differences_say(exercise):
    for inputs in inputs_of(exercise, [0]):
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for name, gradient in found.items():
            measured = differences(exercise, inputs, name.removeprefix("d"))
            scale = max(1.0, *(np.abs(a).max(initial=0) for a in inputs.values() if np.asarray(a).dtype.kind == "f"))
            np.testing.assert_allclose(gradient, measured, rtol=1e-5, atol=1e-8 * scale**2)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_what_another_way_gives(name):
    for inputs in inputs_of(COURSE[name]):
        np.testing.assert_allclose(COURSE[name].solution(*copies(inputs)), VALUES[name](*inputs.values()), rtol=1e-12)


@pytest.mark.parametrize("name", TORCH)
def test_the_solution_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    exercise = COURSE[name]
    for inputs in inputs_of(exercise):
        tensors = {key: torch.tensor(value) if isinstance(value, np.ndarray) else value for key, value in inputs.items()}
        learned = [tensors[result.removeprefix("d")].requires_grad_() for result in exercise.routine.results]
        dout = torch.as_tensor(tensors.pop("dout"))
        gradients = torch.autograd.grad(TORCH[name](torch, *tensors.values()), learned, dout)
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for gradient, expected in zip(found.values(), gradients):
            np.testing.assert_allclose(gradient, expected.numpy(), rtol=1e-9, atol=1e-10)


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
