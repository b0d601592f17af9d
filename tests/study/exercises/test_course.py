"""Each exercise of the course: it is described, its solution is right, and its mistakes are told apart."""
import inspect
import math
import pathlib
import re
import types

import numpy as np
import pytest
from tables import each, shares

import minigrad as mg
import nn
from models.generate import draw
from study.exercises import COURSE, check
from study.mistakes.doctor import Evidence, diagnose_numbers

GUIDE = (pathlib.Path(__file__).parents[3] / "study/guide/backprop_through_attention.md").read_text()
TWINS = {  # mistakes that give the same numbers on all inputs: (exercise, one, the other)
    *((exercise, f"scale of the number of queries{where}", f"scale of the number of keys{where}")  # there are as many
      for exercise in ("causal_attention", "multi_head") for where in ("", " in backward")),
}
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


def slope(exercise, inputs, directions):
    """How sum(dout * forward) changes along a direction of some of the arguments, by central differences."""
    arguments = {name: value for name, value in inputs.items() if name != "dout"}
    up, down = (exercise.forward(*(arguments | {name: arguments[name] + h * v for name, v in directions.items()}).values())
                for h in (1e-5, -1e-5))
    return (inputs["dout"] * (up - down)).sum() / 2e-5


def results_of(known, exercise, one):
    """What a known mistake gives on an input; None where it raises."""
    try:
        return exercise.routine.run(one, known.changes)
    except Exception:  # noqa: BLE001  a missing transpose does not fit on all shapes
        return None


def same(one, other):
    def same_array(a, b):
        if a is None or b is None:
            return a is b
        return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)

    return all(same_array(one[name], other[name]) for name in one)


def sketch(found):
    """A number that is the same for the same results, so that most pairs need no closer look; NaN where it says nothing."""
    if found is None:
        return np.nan
    weights = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        return sum(np.sum(np.asarray(a, float) * weights.random(np.shape(a))) for a in found.values() if a is not None)


def are_twins(exercise, one, other):
    return (exercise.name, one, other) in TWINS or (exercise.name, other, one) in TWINS


def is_described(name, exercise):
    assert 1 <= exercise.difficulty <= 5
    assert len(exercise.statement.split()) >= 30 and exercise.title and exercise.formula
    assert len(set(exercise.hints)) == 3 and all(len(hint.split()) >= 8 for hint in exercise.hints)
    assert all(argument.about for argument in exercise.arguments.values())
    section = GUIDE.partition(f"### {exercise.guide}\n")[2].partition("\n#")[0]
    assert not exercise.guide or f"`{name}`" in section.rpartition("**Exercise")[2], "the section ends with what it explains"


def has_the_arguments_of_its_solution(name, exercise):
    names = ["dout"] * bool(exercise.forward) + list(exercise.arguments)
    assert list(inspect.signature(exercise.solution).parameters) == list(exercise.routine.arguments) == names
    assert all(list(inputs) == names for inputs in inputs_of(exercise, [0]))


def has_a_right_solution(name, exercise):
    for inputs in inputs_of(exercise, range(4)):
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for result, right in exercise.right(inputs).items():
            assert np.shape(found[result]) == np.shape(right)
            scale = max(1.0, np.abs(right).max(initial=0))
            np.testing.assert_allclose(found[result], right, rtol=1e-9, atol=1e-11 * scale)


def has_names_and_sentences_of_their_own(name, exercise):
    mistakes = exercise.routine.mistakes
    for words in ([known.name for known in mistakes], [known.sentence for known in mistakes]):
        assert len(set(words)) == len(words) and all(words)
    assert not [known.sentence for known in mistakes if re.search(r"[.{}]$|\s\s|\n", known.sentence)]


def has_mistakes_that_are_none_of_them_right(name, exercise):
    inputs = inputs_of(exercise, [0])
    right = [exercise.right(one) for one in inputs]

    def is_wrong(known):
        found = (results_of(known, exercise, one) for one in inputs)
        assert any(given is not None and not same(given, wanted) for given, wanted in zip(found, right))

    each(exercise.routine.mistakes, is_wrong)


def is_shown_whole(name, exercise):
    names = {"np": np, "math": math}
    exec(exercise.source, names)
    for inputs in inputs_of(exercise, [0])[:1]:
        found = as_dict(exercise, names[exercise.function_name](*copies(inputs)))
        assert same(found, as_dict(exercise, exercise.solution(*copies(inputs))))


def is_what_differences_say(name, exercise):
    r = np.random.default_rng(0)
    for inputs in inputs_of(exercise, [0]) if exercise.forward else ():
        found = as_dict(exercise, exercise.solution(*copies(inputs)))
        for result, gradient in found.items():
            x = inputs[result.removeprefix("d")]
            v = r.normal(size=np.shape(x)) * np.maximum(1.0, np.abs(x))
            scale = max(1.0, *(np.abs(a).max(initial=0) for a in inputs.values() if np.asarray(a).dtype.kind == "f"))
            along = slope(exercise, inputs, {result.removeprefix("d"): v})
            np.testing.assert_allclose((gradient * v).sum(), along, rtol=1e-5, atol=1e-7 * scale**2)


@pytest.mark.parametrize("check", [is_described, has_the_arguments_of_its_solution, has_a_right_solution,
                                   has_names_and_sentences_of_their_own, has_mistakes_that_are_none_of_them_right,
                                   is_shown_whole, is_what_differences_say])
def test_each_exercise(check):
    each(COURSE, check)


IN_A_BLOCK = {  # what is wrong with attention in a block: what replaces what in the solution
    "a transpose is missing": {"np.swapaxes(dscores, -1, -2) @ q": "dscores @ q"},
    "the sum over the row runs along the wrong axis": {
        "(dweights * weights).sum(axis=-1, keepdims=True)": "(dweights * weights).sum(axis=-2, keepdims=True)"},
}


def test_a_block_knows_attentions_mistakes():
    block = COURSE["block"]

    def is_named(name, replaced):
        source, names = block.source, {"np": np}
        for old, new in replaced.items():
            assert old in source
            source = source.replace(old, new)
        exec(source, names)
        assert check(names["block_backward"], "block", seed=0).names == (name,)

    each(IN_A_BLOCK, is_named)


def clipped(*arguments):
    """As one long vector."""
    *gradients, max_norm = arguments
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    return tuple(g * (max_norm / norm if norm > max_norm else 1) for g in gradients)


def layer_norm(x, weight, bias, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def dweight(x, weight, targets):
    e = np.exp(x @ weight.T - (x @ weight.T).max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) - np.eye(len(weight))[targets]).T @ x / len(x)


def as_drawn(logits, temperature, top_p, draws=20_000):
    """How often `minigrad sample` draws each token."""
    evenly = types.SimpleNamespace(random=lambda count: (np.arange(count) + 0.5) / count)
    tokens = draw(np.tile(logits, (draws, 1)), temperature, None, top_p, evenly)
    return np.bincount(tokens, minlength=len(logits)) / draws


def slope_at_0(function):
    return (function(1e-5) - function(-1e-5)) / 2e-5


OTHER_WAYS = {  # {exercise without upstream gradient: (another way to its results, how close it comes)}
    "logsumexp": (lambda x: np.logaddexp.reduce(x, axis=-1), 1e-12),
    "clip_by_global_norm": (clipped, 1e-12),
    "layer_norm_jvp": (lambda x, weight, bias, eps, vx, vweight, vbias: slope_at_0(
        lambda h: layer_norm(x + h * vx, weight + h * vweight, bias + h * vbias, eps)), 1e-6),
    "next_token": (as_drawn, 1e-4),
    "cross_entropy_hvp": (lambda x, weight, targets, v: slope_at_0(lambda h: dweight(x, weight + h * v, targets)), 1e-6),
}


def test_results_that_are_not_gradients_match_another_method():
    def comes_out(name, row):
        other_way, tolerance = row
        for inputs in inputs_of(COURSE[name]):
            for found, wanted in zip(*(as_dict(COURSE[name], function(*copies(inputs))).values()
                                       for function in (COURSE[name].solution, other_way))):
                np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)

    each(OTHER_WAYS, comes_out)


def test_steps_of_adam_match_the_library():
    r = np.random.default_rng(0)
    parameter, gradients = r.normal(size=(2, 3)), r.normal(size=(4, 2, 3))
    m = v = np.zeros((2, 3))
    theirs = nn.Parameter(mg.tensor(parameter))
    optimizer = nn.optim.Adam([theirs], lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    for t, gradient in enumerate(gradients, 1):
        parameter, m, v = COURSE["adam_step"].solution(parameter, gradient, m, v, t, 0.1, 0.8, 0.95, 1e-3)
        theirs.grad = mg.tensor(gradient)
        optimizer.step()
        np.testing.assert_allclose(parameter, theirs.detach().numpy(), rtol=1e-12)


def test_solutions_match_pytorch():
    torch = pytest.importorskip("torch")

    def is_pytorchs(name, forward):
        exercise = COURSE[name]
        for inputs in inputs_of(exercise):
            tensors = {key: torch.tensor(a) if isinstance(a, np.ndarray) else a for key, a in inputs.items()}
            learned = [tensors[result.removeprefix("d")].requires_grad_() for result in exercise.routine.results]
            dout = torch.as_tensor(tensors.pop("dout"))
            gradients = torch.autograd.grad(forward(torch, *tensors.values()), learned, dout)
            found = as_dict(exercise, exercise.solution(*copies(inputs)))
            for gradient, expected in zip(found.values(), gradients):
                np.testing.assert_allclose(gradient, expected.numpy(), rtol=1e-9, atol=1e-10)

    each(TORCH, is_pytorchs)


@pytest.mark.parametrize("share", shares(12))
@pytest.mark.parametrize("name", [name for name, exercise in COURSE.items() if exercise.routine.mistakes])
def test_its_mistakes_are_told_apart(name, share):
    exercise = COURSE[name]
    inputs = inputs_of(exercise, [0])
    right = [exercise.right(one) for one in inputs]
    outcomes = {known.name: [results_of(known, exercise, one) for one in inputs] for known in exercise.routine.mistakes}
    sketches = np.array([[sketch(found) for found in given] for given in outcomes.values()])

    def is_told_apart(place, title):
        given = outcomes[title]
        seen = [i for i in range(len(inputs)) if given[i] is not None]
        assert any(not same(given[i], right[i]) for i in seen), "it is right, on all inputs"
        with np.errstate(invalid="ignore"):
            off = np.abs(sketches - sketches[place]) > 1e-6 * np.abs(sketches[place]) + 1e-6
        for k, (other, there) in enumerate(outcomes.items()):
            told_apart = off[k, seen].any() or any(there[i] is None or not same(given[i], there[i]) for i in seen)
            assert told_apart or other == title or are_twins(exercise, title, other), f"{other} gives the same"
        (found, *more) = diagnose_numbers([Evidence(inputs[i], right[i], given[i]) for i in seen], exercise.routine).names
        assert not more and (found == title or are_twins(exercise, title, found))

    each(dict(list(enumerate(outcomes))[::share]), is_told_apart)
