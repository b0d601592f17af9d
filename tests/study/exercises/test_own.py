"""A teacher's own exercise: what a file needs, the exercise that it makes, and what its document says. Errors are in sessions/."""
import pathlib
import re

import numpy as np
import pytest
from student_answers import FILE
from tables import each

from study.exercises import COURSE, text
from study.exercises.answer import Direct
from study.exercises.judge import judge
from study.exercises.own import NEEDED, OPTIONAL, Derivatives, load, new

def write(folder, source, name="own"):
    path = folder / f"{name}_exercise.py"
    path.write_text(source, encoding="utf-8")
    return path


@pytest.fixture
def exercise_of(tmp_path):
    return lambda source, name="own": load(write(tmp_path, source, name))


def right(dout, x, scale):
    return dout * scale * (1 - np.tanh(x)**2), (dout * np.tanh(x)).sum(0)


def is_right(exercise, function, seeds=3):
    verdicts = {judge(exercise, Direct(function), seed).verdict for seed in range(seeds)}
    assert len(verdicts) == 1, verdicts
    return verdicts == {"right"}


def test_a_forward_shapes_and_a_statement_are_enough(exercise_of):
    exercise = exercise_of(FILE)
    assert (exercise.name, exercise.function_name) == ("own", "own_backward")
    assert exercise.signature == "own_backward(dout, x, scale)"
    assert exercise.routine.results == ("dx", "dscale") and exercise.routine.mistakes == ()
    assert is_right(exercise, right)
    assert "def forward(x, scale):" in text.statement(exercise)
    drawn = [[inputs["x"] for inputs in exercise.inputs(seed)] for seed in (0, 0, 1)]
    assert all(map(np.array_equal, *drawn[:2])) and not any(map(np.array_equal, *drawn[1:]))


WRONG = {
    "not summed": lambda dout, x, scale: (right(dout, x, scale)[0], dout * np.tanh(x)),
    "no square": lambda dout, x, scale: (dout * scale * (1 - np.tanh(x)), right(dout, x, scale)[1]),
    "in float32 on the way": lambda *inputs: tuple(g.astype(np.float32).astype(float) for g in right(*inputs)),
    "off by 1e-8": lambda *inputs: tuple(g * (1 + 1e-8) for g in right(*inputs)),
    "one gradient": lambda *inputs: right(*inputs)[0],
    "exchanged": lambda *inputs: right(*inputs)[::-1],
}


@pytest.mark.parametrize("name", WRONG)
def test_differences_alone_find_wrong_answers(exercise_of, name):
    assert judge(exercise_of(FILE), Direct(WRONG[name]), 0).verdict == "wrong"


def test_differences_are_much_more_exact_than_answers_need_to_be():
    """For every exercise of the course that has a forward: its routine against differences of the forward."""
    generator = np.random.default_rng(0)
    for exercise in COURSE.values():
        if exercise.forward is None:
            continue
        names = list(exercise.arguments)
        derivatives = Derivatives(exercise.forward, [names.index(name[1:]) for name in exercise.routine.results])
        inputs = exercise.draw(generator, lambda r, count: [2 + k % 2 for k in range(count)])
        known = derivatives.known(*inputs.values())
        for gradient, bound, wanted in zip(known.gradients, known.bounds, exercise.right(inputs).values()):
            error = np.max(np.abs(gradient - wanted), initial=0.0)
            assert error <= np.max(bound, initial=0.0) + 1e-15, exercise.name
            if known.is_certain:
                assert error <= 1e-9 * np.max(np.abs(wanted), initial=0.0) + 1e-12, exercise.name


def test_derivatives_at_a_kink_or_with_noise_are_not_certain():
    noise = np.random.default_rng(0)
    for forward, is_certain in (
            (np.abs, False), (lambda x: np.maximum(x, 0), False), (np.sign, False), (lambda x: x**3, True),
            (lambda x: x + 1e-7 * noise.normal(), False), (lambda x: np.round(x, 6), False), (lambda x: 1e6 + x**2, False),
            (np.zeros_like, True), (lambda x: 0 * x + 0.7, True)):
        known = Derivatives(forward, [0]).known(np.ones(3), np.array([0.7, 0.0, -1.3]))
        assert known.is_certain == is_certain


def test_the_cache_of_derivatives_knows_upstream_and_shape():
    derivatives = Derivatives(np.sum, [0])
    x = np.arange(6.0)
    for dout, shape in ((1.0, (2, 3)), (2.0, (2, 3)), (2.0, (3, 2))):
        (gradient,) = derivatives(np.array(dout), x.reshape(shape))
        np.testing.assert_allclose(gradient, np.full(shape, dout), rtol=1e-10)


def test_inputs_next_to_kinks_are_drawn_again(exercise_of):
    """relu, whose inputs are often 0, where no gradient is right: any answer that is right elsewhere is right."""
    exercise = exercise_of('''
import numpy as np
statement = "relu"
shapes = {"x": "M"}
draw = {"x": lambda generator, shape: generator.normal(size=shape) * (generator.random(shape) < 0.9)}
def forward(x):
    return np.maximum(x, 0)
''', "relu")
    drawn = [inputs["x"] for seed in range(4) for inputs in exercise.inputs(seed)]
    assert len(drawn) > 14 and all(np.all(x != 0) for x in drawn)
    for at_zero in (0.0, 0.5, 1.0):
        assert is_right(exercise, lambda dout, x, at_zero=at_zero: dout * np.where(x == 0, at_zero, x > 0))


def test_the_template_is_an_exercise(tmp_path):
    path = new("gate", tmp_path)
    exercise = load(path)
    assert is_right(exercise, exercise.solution)
    report = judge(exercise, Direct(lambda dout, x, gate: (dout / (1 + np.exp(-gate)), (
        dout * x * np.exp(-gate) / (1 + np.exp(-gate))**2))), 0)
    assert report.mistake == "gate is used in each row: sum its gradient over the rows"
    assert exercise.source.startswith("def gate_backward(dout, x, gate):")


def test_the_starter_file_runs(exercise_of, tmp_path, capsys):
    exercise = exercise_of(FILE)
    exec(compile(text.starter(exercise), "own.py", "exec"), {"__name__": "__main__"})
    assert "array([[0." in capsys.readouterr().out
    assert f"minigrad exercises check own.py --exercise {tmp_path / 'own_exercise.py'}" in text.starter(exercise)


def test_a_function_of_the_library_brings_its_mistakes(exercise_of):
    exercise = exercise_of('''
import numpy as np
statement = "A softmax by another name."
shapes = {"scores": "A B"}
def forward(scores):
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)
''')

    def no_sum(dout, scores):
        e = np.exp(scores)
        return e / e.sum(-1, keepdims=True) * dout

    known = judge(COURSE["softmax"], Direct(no_sum), 0).mistake
    assert known is not None and judge(exercise, Direct(no_sum), 0).mistake == known


GATE = """
import numpy as np
statement = "Find the gradient of a function that the library does not have."
shapes = {"x": "M N"}
def forward(x):
    return np.sin(x) * x ** 3
"""
BACKWARDS = {  # of a teacher's, and what is said of an answer in which the slope of x^3 lacks its 3
    "def backward(dout, x):\n    slope = 3 * x ** 2  # the slope: of x^3\n    return dout * (np.cos(x) * x ** 3 + np.sin(x) * slope)\n":
    "the factor 3 is missing: x**2 replaces 3 * x**2",
    "backward = lambda dout, x: dout * (np.cos(x) * x ** 3 + np.sin(x) * 3 * x ** 2)\n": "",
    "backward = dict(it=(\n    lambda dout, x: dout * (np.cos(x) * x ** 3 + np.sin(x) * 3 * x ** 2)))['it']\n": "",
}


def test_a_mistake_in_the_teachers_own_backward_is_named(exercise_of):
    def is_named(backward, said):
        report = judge(exercise_of(GATE + backward), Direct(
            lambda dout, x: dout * (np.cos(x) * x**3 + np.sin(x) * x**2)), 0)
        assert report.verdict == "wrong" and (report.mistake or "").startswith(said) and bool(report.mistake) >= bool(said), report

    each(BACKWARDS, is_named)


def test_ids_masks_numbers_and_constants_get_no_gradient(exercise_of):
    exercise = exercise_of('''
import numpy as np
statement = "All kinds of arguments."
shapes = {"table": "V C", "ids": "T", "keep": "T C", "angles": "C", "rate": "", "eps": "", "w": "2 C"}
draw = {"ids": "below V", "keep": "mask", "rate": "positive", "eps": 1e-3}
constants = ["angles"]
def forward(table, ids, keep, angles, rate, eps, w):
    assert type(rate) is float and 0.3 < rate < 2 and eps == 1e-3
    return table[ids] * keep * np.cos(angles) / (rate + eps) * w[0] + w[1]
''')
    assert exercise.routine.results == ("dtable", "dw")

    def backward(dout, table, ids, keep, angles, rate, eps, w):
        factor = keep * np.cos(angles) / (rate + eps)
        dtable = np.zeros_like(table)
        np.add.at(dtable, ids, dout * factor * w[0])
        return dtable, np.array([(dout * factor * table[ids]).sum(0), dout.sum(0)])

    assert is_right(exercise, backward)
    for inputs in exercise.inputs(0):
        assert inputs["keep"].dtype == bool and np.all(inputs["ids"] < len(inputs["table"])) and inputs["w"].shape[0] == 2


def test_sizes_have_limits_special_inputs_are_drawn_and_a_loss_is_a_number(exercise_of):
    exercise = exercise_of(FILE + '''
limits = {"M": 2}
special = [lambda generator: {"x": np.full((1, 4), 3.0), "scale": generator.normal(size=4)}]
''')
    drawn = [inputs["x"] for inputs in exercise.inputs(0)]
    assert max(len(x) for x in drawn) == 2 and np.array_equal(drawn[-1], np.full((1, 4), 3.0))
    loss = exercise_of(FILE.replace("return np.tanh(x) * scale", "return (np.tanh(x) * scale).sum() ** 2"))
    assert is_right(loss, lambda dout, x, scale: right(2 * dout * (np.tanh(x) * scale).sum() * np.ones_like(x), x, scale))


DOCUMENT = (pathlib.Path(__file__).parents[3] / "docs" / "exercises.md").read_text(encoding="utf-8")
SECTION = DOCUMENT.split("\n## Your own exercise\n")[1].split("\n## ")[0]


def test_the_example_in_the_document_is_an_exercise(exercise_of):
    exercise = exercise_of(SECTION.split("```python\n")[1].split("```")[0], "smooth_abs")
    assert exercise.signature in SECTION and ", ".join(exercise.routine.results) in SECTION

    def smooth_abs_backward(dout, x, width):
        root = np.sqrt(x * x + width)
        return dout * x / root, (dout / (2 * root)).sum(0)

    assert is_right(exercise, smooth_abs_backward)
    assert not is_right(exercise, lambda *inputs: (smooth_abs_backward(*inputs)[0], 2 * smooth_abs_backward(*inputs)[1]))


def test_the_document_describes_all_parts_of_a_file():
    rows = [line.split("|")[1] for line in SECTION.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {*NEEDED, *OPTIONAL}


def test_the_document_shows_the_real_messages(tmp_path):
    said = [line.strip() for line in SECTION.splitlines() if line.startswith("    smooth_abs_exercise.py: ")]
    source = SECTION.split("```python\n")[1].split("```")[0]
    with pytest.raises(ValueError) as caught:
        load(write(tmp_path, source.replace(', "width": "N"', ""), "smooth_abs"))
    assert said == [str(caught.value).removeprefix(f"{tmp_path}/")]
    with pytest.raises(ValueError) as caught:
        load(write(tmp_path, source + "\ndef backward(dout, x, width):\n    return 0.5 * x, width", "smooth_abs"))
    assert "smooth_abs_exercise.py: backward is not the derivative of forward: dx[" in str(caught.value)
