"""What an answer is worth, and which of its gradients are right."""
import numpy as np
import pytest

from study.exercises import check
from study.exercises.course import COURSE
from study.exercises.grading.points import earned, points_of

SOLUTION = COURSE["linear"].solution


def altered(**changes):
    """linear's solution with some gradients replaced by functions of theirs."""
    def backward(dout, x, weight, bias):
        found = dict(zip(("dx", "dweight", "dbias"), SOLUTION(dout, x, weight, bias)))
        return tuple(changes.get(name, lambda right: right)(right) for name, right in found.items())
    return backward


def kept_between_calls(dout, x, weight, bias, seen=[]):  # noqa: B006
    seen.append(dout.tobytes())
    return tuple(gradient * seen.count(dout.tobytes()) for gradient in SOLUTION(dout, x, weight, bias))


def writes(dout, x, weight, bias):
    found = SOLUTION(dout, x, weight, bias)
    x *= 2
    return found


def for_matrices(dout, x, weight, bias):
    _rows, _ = x.shape
    return -dout @ weight, dout.T @ x, dout.sum(0)


@pytest.mark.parametrize("backward, right", [
    (SOLUTION, ("dx", "dweight", "dbias")),
    (altered(dx=np.negative), ("dweight", "dbias")),
    (altered(dx=np.negative, dbias=np.negative), ("dweight",)),
    (altered(dweight=lambda right: right.T), ("dx", "dbias")),  # of another shape
    (altered(dweight=lambda right: None), ("dx", "dbias")),
    (altered(dbias=lambda right: right * (right.size < 4)), ("dx", "dweight")),  # right on some inputs
    (altered(dbias=lambda right: right.astype(np.float32)), ()),
    (lambda *inputs: SOLUTION(*inputs)[:2], ()),
    (lambda *inputs: 1 / 0, ()),
    (for_matrices, ("dweight", "dbias")),
    (writes, ()),
    (kept_between_calls, ()),
])
def test_which_gradients_are_right(backward, right):
    assert check(backward, "linear", seed=1).right_results == right


@pytest.mark.parametrize("content, worth", [
    (None, {"dx": 1, "dweight": 1, "dbias": 1}),
    ("6", {"dx": 2, "dweight": 2, "dbias": 2}),
    ("linear = 1.5", {"dx": 0.5, "dweight": 0.5, "dbias": 0.5}),
    ("linear = {dx = 2, all = 1}", {"dx": 2, "all": 1}),
    ("[linear]\ndx = 2", {"dx": 2}),
    ("softmax = 2", {"dx": 1, "dweight": 1, "dbias": 1}),  # linear's difficulty is 3
])
def test_points(tmp_path, content, worth):
    (tmp_path / "points.toml").write_text(content or "")
    given = content if content in (None, "6") else str(tmp_path / "points.toml")
    assert points_of(given, COURSE)["linear"] == worth


@pytest.mark.parametrize("right, is_right, points", [
    ([], False, 0), (["dx"], False, 2), (["dx", "dbias"], False, 2.33), (["dx", "dweight", "dbias"], True, 3.33)])
def test_points_of_an_answer(right, is_right, points):
    assert earned({"dx": 2, "dbias": 1 / 3, "all": 1}, right, is_right) == points


@pytest.mark.parametrize("content, says", [
    ("softmx = 2", "no exercise 'softmx' is graded; did you mean softmax?"),
    ("linear = {dw = 2}", "linear: expected points for dx, dweight, dbias, all, got 'dw'"),
    ("linear = {dx = -1}", "linear: dx: expected a number of points from 0, got -1"),
    ("linear = 'many'", "linear: expected a number of points from 0, got 'many'"),
    ("linear = true", "linear: expected a number of points from 0, got True"),
    ("linear = inf", "linear: expected a number of points from 0, got inf"),
    ("linear", "points.toml is not TOML: "),
])
def test_what_is_wrong_with_a_file_of_points(tmp_path, content, says):
    (tmp_path / "points.toml").write_text(content)
    with pytest.raises(ValueError) as caught:
        points_of(str(tmp_path / "points.toml"), COURSE)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_of_points_that_is_missing():
    with pytest.raises(ValueError, match="cannot read nothing.toml"):
        points_of("nothing.toml", COURSE)
