"""`minigrad exercises train`: somebody's backwards train a transformer as the library's do, or fail to."""
import itertools
import pathlib

import numpy as np
import pytest
from student_answers import NO_SUM, SOFTMAX
from tables import each

import minigrad as mg
from study.exercises.answer import Direct
from study.exercises.course import COURSE
from study.exercises.training.answers import CannotTrain, with_backward
from study.exercises.training.ops import LIBRARY
from study.exercises.training.run import ops_used, train
from study.exercises.training.transformer import Transformer, draw_words

CLOSE = dict(rtol=1e-9, atol=1e-12)
HEADS = {"linear", "layer_norm", "gelu", "embedding", "cross_entropy"}
MODELS = [  # (answered, the ops that the model then uses)
    ((), HEADS | {"attention", "causal_attention"}),
    (("softmax",), HEADS | {"scores", "softmax", "matmul", "causal_attention"}),
    (("masked_softmax",), HEADS | {"scores", "masked_softmax", "matmul", "attention"}),
    (("matmul",), HEADS | {"scores", "softmax", "masked_softmax", "matmul"}),
    (("scores", "attention"), HEADS | {"attention", "scores", "masked_softmax", "matmul"}),
    (("multi_head", "blockwise_attention"), HEADS | {"multi_head", "blockwise_attention"}),
    (("rms_norm", "tanh"), (HEADS | {"rms_norm", "tanh", "attention", "causal_attention"}) - {"layer_norm", "gelu"}),
    (("gelu_tanh", "log_softmax"), (HEADS | {"gelu_tanh", "log_softmax", "attention", "causal_attention"})
     - {"gelu", "cross_entropy"}),
]


def solution(name: str, change=lambda found: found):
    """The op with the course's solution as its backward."""
    return with_backward(LIBRARY[name], COURSE[name], Direct(lambda *inputs: change(COURSE[name].solution(*inputs))))


def gradients(op, exercise, inputs: dict) -> tuple[np.ndarray, list[np.ndarray]]:
    """What an op gives for the inputs of an exercise, and the gradients of those that get one."""
    tensors = {name: mg.tensor(value, requires_grad=value.dtype.kind == "f" and f"d{name}" in exercise.routine.results)
               if isinstance(value, np.ndarray) else value for name, value in inputs.items() if name != "dout"}
    out = op(*tensors.values())
    out.backward(mg.tensor(inputs["dout"]))
    return out.detach().numpy(), [tensors[name.removeprefix("d")].grad.numpy() for name in exercise.routine.results]


def test_each_op_is_the_one_that_the_exercise_asks_for():
    def is_it(name):
        exercise = COURSE[name]
        for inputs in itertools.islice(exercise.inputs(seed=1), 7):
            if "mask" in inputs:
                inputs["mask"][:, 0] = True  # in the model, each row sees something
            out, found = gradients(LIBRARY[name], exercise, inputs)
            np.testing.assert_allclose(out, exercise.forward(*list(inputs.values())[1:]), **CLOSE)
            for given, right in zip(found, exercise.right(inputs).values(), strict=True):
                np.testing.assert_allclose(given, right, **CLOSE)

    each(list(LIBRARY), is_it)


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_an_answer_for_matrices_gets_stacks_one_by_one(axes):
    generator = np.random.default_rng(0)
    shape = (2, 3, 5, 4)[4 - axes:]
    inputs = {name: generator.normal(size=shape) for name in ("dout", "q", "k", "v")}
    asked = []

    def for_matrices(dout, q, k, v):
        asked.append(q.ndim)
        return COURSE["attention"].solution(dout, q, k, v) if q.ndim == 2 else (q, k, v)

    op = with_backward(LIBRARY["attention"], COURSE["attention"], Direct(for_matrices))
    for _ in range(2):
        _, found = gradients(op, COURSE["attention"], inputs)
        for given, right in zip(found, COURSE["attention"].right(inputs).values(), strict=True):
            np.testing.assert_allclose(given, right, **CLOSE)
    assert asked.count(axes) == (2 if axes == 2 else 1)  # the whole stack is tried once


def test_an_answer_for_stacks_gets_them_whole():
    asked = []
    op = solution("attention", lambda found: asked.append(found[0].ndim) or found)
    inputs = {name: np.random.default_rng(0).normal(size=(2, 3, 5, 4)) for name in ("dout", "q", "k", "v")}
    for _ in range(3):
        gradients(op, COURSE["attention"], inputs)
    assert asked == [2] * 6 + [4] * 3


def divided(found):
    return 1 / 0  # a message quotes this line


@pytest.mark.parametrize("change, says", [
    (lambda found: found[:2], "backward returned 2 gradients, and there are 3 to return: dx, dweight, dbias"),
    (lambda found: (*found[:2], np.ones((3, 4))), r"linear_backward: dbias has shape \(3, 4\), and bias has shape \(4,\)"),
    (divided, "linear_backward: ZeroDivisionError: division by zero"),
])
def test_an_answer_without_gradients_says_why(change, says):
    x, weight, bias = (mg.tensor(np.ones(shape), requires_grad=True) for shape in ((3, 2), (4, 2), (4,)))
    with pytest.raises(CannotTrain, match=says):
        solution("linear", change)(x, weight, bias).backward(mg.tensor(np.ones((3, 4))))


@pytest.mark.parametrize("answered, used", MODELS)
def test_the_model_uses_what_is_answered(answered, used):
    assert ops_used(answered) == used


@pytest.mark.parametrize("answered", [answered for answered, _ in MODELS[1:]])
def test_all_models_compute_the_same_but_for_their_norm_and_activation(answered):
    words = draw_words(np.random.default_rng(0), 3)
    plain, other = (Transformer(LIBRARY, np.random.default_rng(1), names).loss(*words).item() for names in ((), answered))
    differs = {"rms_norm", "tanh"} & {*answered}
    assert plain == pytest.approx(other, rel=1e-3 if "gelu_tanh" in answered else 1e-12) or differs


def test_no_letter_sees_those_after_it():
    model, (words, answers) = Transformer(LIBRARY, np.random.default_rng(1)), draw_words(np.random.default_rng(0), 1)
    changed = answers.copy()
    changed[0, 3] = changed[0, 3] % 10 + 1
    same = np.isclose(*(model.logits(words, given).detach().numpy() for given in (answers, changed))).all(axis=1)
    assert same.tolist() == [True] * 4 + [False] * 2


@pytest.mark.parametrize("answered", [used for _, used in MODELS])
def test_right_answers_train_as_the_library_does(answered):
    right = train({**LIBRARY, **{name: solution(name) for name in answered}}, 3, answered, steps=8)
    np.testing.assert_allclose(right.losses, train(LIBRARY, 3, answered, steps=8).losses, atol=1e-4)
    assert right.losses[-1] < right.losses[0] and not right.failed


@pytest.mark.parametrize("factor, says", [(np.nan, "the loss is nan at step 1"), (1e300, "the loss is")])
def test_a_loss_that_is_no_number_ends_training(factor, says):
    run = train({**LIBRARY, "gelu": solution("gelu", lambda dx: dx * factor)}, 0, steps=20)
    assert says in run.failed and len(run.losses) < 20


def test_training_ends_in_time():
    assert len(train(LIBRARY, 0, steps=50, seconds=0).losses) == 1


# the command

@pytest.fixture
def run(exercises, in_this_process):
    """A function that writes files and trains with them."""
    def call(contents: dict[str, str], *flags: str) -> tuple[int, str, str]:
        for name, content in contents.items():
            pathlib.Path(name).write_text(content, encoding="utf-8")
        return exercises("train", *contents, *flags)

    return call


TANH = "import numpy as np\ndef tanh_backward(dout, x): return dout * (1 - np.tanh(x) ** 2)\n"


@pytest.mark.parametrize("contents, code, says", [
    ({"hand_in.py": SOFTMAX + TANH}, 0, [
        "softmax: right\ntanh: right\n", "Your backwards in it: softmax, tanh.", "your backward trains a model.\n"]),
    ({"softmax.py": NO_SUM}, 1, [
        "softmax: wrong: the sum over the row is missing", "It is used all the same", "At the end your loss is"]),
    ({"softmax.py": SOFTMAX.replace("return", "return dout.ravel() #")}, 1, ["dx has shape (36,), and x has shape (6, 6).\n"]),
    ({"tanh.py": TANH.replace("** 2", "")}, 1, ["tanh: wrong: the power is missing: out replaces out**2"]),
    ({"softmax.py": SOFTMAX, "tanh.py": TANH.replace("return", "x.oh; return")}, 1, [
        "softmax: right", "tanh: error: ", "The library's is used instead.", "Your backwards in it: softmax.\n"]),
    ({"tanh.py": "def tanh_backward(dout, x): return x.oh"}, 1, ["There is nothing to train with."]),
    ({"softmax.py": NO_SUM, "attention.py": "import numpy as np\n" + COURSE["attention"].source.replace("attention(dout, q, k,"
      " v, may_look=True)", "attention(dout, q, k, v, may_look=True)")}, 1, [
        "It is not used: another of your answers computes this, too.", "your backward trains a model.\n"]),
])
def test_the_command_checks_trains_and_compares(run, contents, code, says):
    given, out, err = run(contents, "--steps", "12")
    assert (given, err) == (code, "")
    for sentence in says:
        assert sentence in out


def test_the_losses_are_drawn(run):
    assert run({"a.py": TANH}, "--steps", "2", "--plot", "p.png")[1].endswith("p.png\n")
    assert pathlib.Path("p.png").read_bytes().startswith(b"\x89PNG")


def test_answers_run_in_a_process_of_their_own(exercises):
    path = pathlib.Path("tanh.py")
    path.write_text(TANH.replace("return", "import minigrad; return"), encoding="utf-8")
    code, out, _ = exercises("train", path, "--steps", "2")
    assert code == 1 and "only NumPy is available in exercises, not minigrad" in out
