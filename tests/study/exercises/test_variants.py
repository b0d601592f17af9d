"""Variants of exercises: a student's own, judged by what the file says, and recognised in another's file."""
import json
import math
import pathlib

import numpy as np
import pytest
from tables import each

from study.exercises import COURSE, check, check_file, own, text
from study.exercises.files import as_answered
from study.exercises.submission import read, source_of_text
from study.exercises.variants import Variant, key_of, variant_of
from study.exercises.variants.changes import FLIPPED, TRANSPOSED, factor_of, times
from study.exercises.variants.mistakes import ANOTHER, LEFT_OUT, NONE, NOT_BACK, NOT_DOUT, ONLY_BACK
from study.exercises.variants.table import GROUPS
from study.exercises.variants.variant import varied
from study.mistakes.base import as_tuple

SOFTMAX = COURSE["softmax"]
MINE = [{"x": TRANSPOSED, "out": TRANSPOSED}, {"x": times(0.4)}, {"out": times(1.3)}]  # in the order of the table


def of_softmax(chosen=MINE) -> Variant:
    return varied(SOFTMAX, chosen, "jane", GROUPS["softmax"])


def answer(before=0.4, after=0.4, upstream=1.3, axis=-2, total=lambda s: s):
    """softmax_backward for out = 1.3 * softmax(0.4 * x^T)^T, or with something else in it."""
    def softmax_backward(dout, x):
        e = np.exp(before * x - np.max(before * x, axis=axis, keepdims=True))
        p = e / e.sum(axis=axis, keepdims=True)
        return after * p * (upstream * dout - total((upstream * dout * p).sum(axis=axis, keepdims=True)))
    return softmax_backward


def test_an_exercise_without_variants_has_its_own_judge():
    assert {name for name in COURSE if name not in GROUPS} == {name for name, one in COURSE.items() if one.judged}
    with pytest.raises(ValueError, match="find_leak has no variants"):
        variant_of(COURSE["find_leak"], "jane")


def test_a_mistake_in_one_expression_of_the_exercise_is_named():
    def softmax_backward(dout, x):
        e = np.exp(0.4 * x - np.max(0.4 * x, axis=-1, keepdims=True))
        p = e / e.sum(axis=-2, keepdims=True)
        return 0.4 * p * (1.3 * dout - (1.3 * dout * p).sum(axis=-2, keepdims=True))

    report = check(softmax_backward, of_softmax(), seed=0)
    assert report.names == ("along the wrong axis",) and "x.max(" in report.mistake, report


class Swap:
    """T in "x**T"."""

    __array_ufunc__ = None

    def __rpow__(self, a):
        return np.swapaxes(a, -1, -2)


def evaluated(variant, inputs):
    """What the equation that students read says."""
    _, _, code = variant.equation.replace("^", "**").replace("not ", "~").partition(" = ")
    function = variant.base.forward or variant.base.solution
    return eval(code, {variant.name: function, "flip": lambda a: a[..., ::-1, :], "T": Swap()} | inputs)


def is_as_written(variant):
    """Right results are those of the equation, or its derivatives by differences, and the right answer is judged right."""
    for inputs in list(variant.inputs(1))[1:5:3]:  # all sizes different, and any
        right = variant.right(inputs)
        if variant.forward is None:
            found = as_tuple(evaluated(variant, inputs))
            assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(found, right.values(), strict=True))
            continue
        for name, gradient in right.items():
            x, step = inputs[name[1:]], 1e-5 * np.random.default_rng(0).normal(size=gradient.shape)
            after, before = (np.sum(inputs["dout"] * evaluated(variant, inputs | {name[1:]: x + way * step})) for way in (1, -1))
            assert np.isclose(after - before, 2 * np.sum(gradient * step), rtol=1e-5, atol=1e-11), variant.equation
    names = {"np": np, "math": math}
    exec(variant.source, names)  # the solution that teachers see
    report = check(names[variant.function_name], variant, seed=1)
    assert report and not report.remarks, f"{variant.source}\n{report}"


@pytest.mark.parametrize("students", [["Jane"], pytest.param([f"Student {i}" for i in range(8)], marks=pytest.mark.long)])
def test_a_variant_is_its_equation(students):
    in_order = [TRANSPOSED, FLIPPED, times(3)]  # the first two do not commute
    odd = of_softmax([{"x": change, "out": other} for change, other in zip(in_order, in_order[::-1])])
    each([odd, *(variant_of(COURSE[name], student) for name in GROUPS for student in students)], is_as_written)


@pytest.mark.parametrize("backward, begins, says", [
    (answer(), None, ""),
    (answer(before=1, after=1), LEFT_OUT, "x is used where yours has 0.4 * x"),
    (answer(after=1), NOT_BACK, "dx is the gradient of 0.4 * x, not yet of x"),
    (answer(before=1), ONLY_BACK, "x is used where yours has 0.4 * x"),
    (answer(upstream=1), NOT_DOUT, "your out is 1.3 * out"),
    (answer(axis=-1), LEFT_OUT, "yours has x^T, out^T"),
    (answer(1, 1, 1, -1), NONE, "yours is out = 1.3 * softmax(0.4 * x^T)^T"),
    (answer(0.7, 0.7, 0.2), ANOTHER, "out = 0.2 * softmax(0.7 * x^T)^T; yours is out = 1.3 * softmax(0.4 * x^T)^T"),
    (answer(0.7, 0.7, 0.2, -1), ANOTHER, "out = 0.2 * softmax(0.7 * x); yours is out = 1.3 * softmax(0.4 * x^T)^T"),
    (answer(total=lambda s: 0), "the sum over the row is missing",
     "every output depends on every input of its row (with x^T for x, out^T for out)"),
])
def test_what_is_wrong_with_an_answer_to_a_variant(backward, begins, says):
    report = check(backward, of_softmax(), seed=1)
    assert len(report.mistakes) == (begins is not None), report
    if begins:
        assert report.mistake.startswith(f"{begins}: {says}")


def test_a_remark_says_of_what():
    report = check(lambda dout, x: 0.4 * dout * (1 - ((np.exp(0.8 * x) - 1) / (np.exp(0.8 * x) + 1)) ** 2),
                   varied(COURSE["tanh"], [{"x": times(0.4)}], "jane", [factor_of("x")]), seed=1)
    assert report and report.remarks[0].startswith("for numbers around 1000 (as 0.4 * x), such as x = [[")


def test_a_name_has_one_variant_however_it_is_written_and_a_class_has_many():
    names = "Zoë van Doe", "doe, zoe VAN", "zoevandoe"
    assert len({variant_of(SOFTMAX, name).equation for name in names}) == 1
    assert key_of("student 12") != key_of("student 21")
    assert len({variant_of(COURSE["tanh"], f"Student {i}").equation for i in range(30)}) > 25


def test_what_the_documentation_says_of_variants():
    said = " ".join(pathlib.Path(__file__).parents[3].joinpath("docs/exercises.md").read_text(encoding="utf-8").split())
    counts = {math.prod(map(len, groups)): name for name, groups in GROUPS.items()}
    (least, one), *_, (most, other) = sorted(counts.items())
    assert f"from {least}, for `{one}`, to {most}, for `attention`" in said and other in ("attention", "tied_embedding")
    for student in ("Jane Doe", "Anna Log"):
        assert variant_of(SOFTMAX, student).equation in said


def test_two_students_with_one_variant_have_other_examples():
    carl, gina = (variant_of(COURSE["rotary"], name) for name in ("carl", "gina"))
    assert carl.equation == gina.equation and not np.array_equal(text.example(carl)[0]["x"], text.example(gina)[0]["x"])


def test_the_starter_says_which_variant_it_is_and_shows_its_numbers(tmp_path):
    variant = variant_of(SOFTMAX, "Jane Doe")
    content = text.starter(variant, "softmax.py")
    assert variant.equation in content and "variant = 'Jane Doe'" in content
    assert "(N, M)  0.4 * x^T: scores" in text.statement(of_softmax())
    assert content != text.starter(variant_of(SOFTMAX, "Bob"), "softmax.py").replace("Bob", "Jane Doe")
    assert as_answered(SOFTMAX, source_of_text("softmax.py", content)).equation == variant.equation
    inputs, right = text.example(variant)
    names = {}
    exec(content, names)
    assert not names["softmax_backward"](**inputs).any() and np.any(variant.solution(*inputs.values()))
    assert np.array_equal(variant.solution(*inputs.values()), right["dx"])


@pytest.mark.parametrize("line, expected", [
    ("variant = 'Jane'", "Jane"), (f"variant = '{'x' * 999}'", "x" * 200), ("variant = 'Jane'\nvariant = 'Bob'", "Bob"), ("variant = 3", ""), ("variants = 'Jane'", ""),
    ("def f():\n    variant = 'Jane'", ""), ("variant = 'a\\x1b[31m'", "a\N{REPLACEMENT CHARACTER}[31m"),
])
def test_the_line_of_a_file(tmp_path, line, expected):
    assert source_of_text("a.py", line).variant == expected
    notebook = {"nbformat": 4, "cells": [{"cell_type": "code", "source": f"%matplotlib inline\n{line}"}]}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert read(tmp_path / "a.ipynb").variant == expected


def test_a_file_is_judged_by_its_own_variant(tmp_path):
    path = tmp_path / "tanh.py"
    for variant in (variant_of(COURSE["tanh"], name) for name in ("Jane", "Bob")):
        path.write_text(f"import numpy as np\nvariant = {variant.variant!r}\n{variant.source}")
        assert check_file(path)
        path.write_text(path.read_text().replace("variant =", "# variant ="))
        assert not check_file(path)


def test_a_teachers_own_exercise_has_variants_too(tmp_path):
    exercise = own.load(own.new("gate", tmp_path))
    variant = variant_of(exercise, "jane")
    assert variant.equation.startswith("out = ") and " * gate(" in variant.equation and " * x, gate)" in variant.equation
    assert check(variant.solution, variant, seed=1)
    report = check(exercise.solution, variant, seed=1)
    assert report.mistake.startswith(NONE)
    (tmp_path / "kink_exercise.py").write_text(
        "statement = 'Find dx.'\nshapes = {'x': 'N'}\ndef forward(x): return abs(x - 1)\n")
    kink = variant_of(own.load(tmp_path / "kink_exercise.py"), "jane")
    at_kink = kink.changes["x"][0].undo(1.0)
    assert [kink.is_fit({"dout": np.ones(1), "x": np.array([x])}) for x in (1.0, at_kink)] == [True, False]
