"""The judge's reports on right, wrong and invalid answers."""
import dataclasses
import re

import numpy as np
import pytest
from tables import each, one_in

from study.exercises import COURSE, check
from study.exercises.answer import Answer, Direct
from study.exercises.judge import judge


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def right(dout, x):
    p = softmax(x)
    return p * (dout - (dout * p).sum(-1, keepdims=True))


def naive(dout, x):
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return p * (dout - (dout * p).sum(-1, keepdims=True))


def only_the_diagonal(dout, x):
    p = softmax(x)
    return p * (1 - p) * dout


def through_float32(dout, x):
    return right(dout.astype(np.float32), x).astype(np.float64)


def writes_to_the_upstream(dout, x):
    p = softmax(x)
    dout -= (dout * p).sum(-1, keepdims=True)
    return p * dout


def writes_to_x(dout, x):
    x -= x.max(-1, keepdims=True)
    return right(dout, x)


def adds_up(dout, x, sums={}):  # noqa: B006  this is the mistake
    sums[x.shape] = sums.get(x.shape, 0.0) + right(dout, x)
    return sums[x.shape]


def adds_up_until_the_shape_changes(dout, x, kept=[0.0]):  # noqa: B006
    kept[0] = right(dout, x) + (kept[0] if np.shape(kept[0]) == x.shape else 0.0)
    return kept[0]


def wears_out(dout, x, calls=[]):  # noqa: B006
    calls.append(x.shape)
    return right(dout, x) * (1.0 if len(calls) <= 6 else 1.1)


def not_for_odd_sizes(dout, x):
    if x.shape[-1] % 2:
        raise ValueError("odd")
    return right(dout, x)


def test_right_answers():
    def is_right(function):
        report = check(function, "softmax")
        assert report and report.verdict == "right" and report.mistake is None and not report.remarks

    each([right, lambda dout, x: (right(dout, x),)], is_right)


def for_matrices(dout, x):
    p = np.array([softmax(row) for row in x])
    return np.array([p[i] * (dout[i] - dout[i] @ p[i]) for i in range(len(x))]) if x.ndim == 2 else p[99]


def sums_over_all_leading_rows(dout, x):
    p = softmax(x)
    return p * (dout - (dout * p).sum(-1, keepdims=True).sum(tuple(range(x.ndim - 2)), keepdims=True))


def test_right_with_a_remark():
    raises, adds = check(for_matrices, "softmax", seed=0), check(sums_over_all_leading_rows, "softmax", seed=0)
    assert raises and "another number of axes" in raises.sentence and "IndexError" in raises.sentence
    assert adds and "another number of axes, such as x (" in adds.sentence
    assert not check(lambda dout, a, b: (dout * b, dout * a), "product")  # where axes are the exercise
    report = check(naive, "softmax", seed=0)
    assert report and "overflows" in report.sentence and "is nan, and should be" in report.remarks[0]
    assert re.search(r"for numbers around 1000, such as x = \[\[-?\d+, ", report.remarks[0])  # an input, in whole numbers


SOFTMAX_OF_EVERYTHING = {"e": "e = np.exp(x - x.max())"}
OF_EVERYTHING = {"e": "e = np.exp(scores - scores.max())"}
OF_WHAT_IS_MASKED_TOO = {"e": "e = np.exp(scores - (q @ np.swapaxes(k, -1, -2) * scale).max(axis=-1, keepdims=True))"}
SEEDS = one_in(3, range(3))
APART, ABOVE = "rows around 1000 and -1000", "masked scores around 1000"
SAFE_FOR_ONE_ROW = {  # (exercise, what the remark says): the line of an answer that overflows there only
    ("softmax", APART): SOFTMAX_OF_EVERYTHING, ("log_softmax", APART): SOFTMAX_OF_EVERYTHING,
    ("cross_entropy", APART): {"e": "e = np.exp(logits[rows] - logits[rows].max())"},
    ("masked_softmax", APART): {
        "largest": "largest = np.full_like(masked[..., :1], np.max(scores[mask & (scores == scores)], initial=scores.min()))"},
    ("masked_softmax", ABOVE): {"largest": "largest = scores.max(axis=-1, keepdims=True)"},
    ("attention", APART): OF_EVERYTHING, ("causal_attention", APART): OF_EVERYTHING, ("multi_head", APART): OF_EVERYTHING,
    ("causal_attention", ABOVE): OF_WHAT_IS_MASKED_TOO,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_far_apart_and_large_masked_scores_get_a_remark(seed):
    def gets_a_remark(row, parts):
        exercise, drawn = row
        report = check(lambda *given: COURSE[exercise].routine.right(*given, **parts), exercise, seed=seed)
        assert report and "1000" in report.remarks[0] and "it overflows" in report.remarks[0], report.sentence
        assert drawn == APART or seed or drawn in report.remarks[0]  # other seeds may draw larger numbers first

    each(SAFE_FOR_ONE_ROW, gets_a_remark)


@pytest.mark.parametrize("seed", SEEDS)
def test_solutions_need_no_remark(seed):
    def needs_none(name):
        assert not check(COURSE[name].solution, name, seed=seed).remarks

    each([name for name, exercise in COURSE.items() if exercise.beyond], needs_none)


def test_stacks_wide_values_and_single_rows():
    """Stacks distinguish axes that matrices do not, values may be wider than queries, one row or column is no evidence."""
    def scaled_by_the_width_of_values(dout, q, k, v):
        by = (q.shape[-1] / v.shape[-1]) ** 0.25
        dq, dk, dv = COURSE["attention"].solution(dout, q * by, k * by, v)
        return dq * by, dk * by, dv

    assert check(scaled_by_the_width_of_values, "attention", seed=0).names == ("scale of the width of the values",)
    report = check(lambda dout, x: softmax(x) * (dout - (dout * softmax(x)).sum(-2, keepdims=True)), "softmax", seed=0)
    assert report.names == ("the sum over the row runs along the wrong axis",)
    report = check(lambda dout, x: right(dout, x) + x - x.mean(-1, keepdims=True), "softmax", seed=0)
    assert not report.names and "length 1" not in report.sentence


WRONG = {  # what the sentence says: a function
    "returns a list": lambda dout, x: right(dout, x).tolist(),
    "returns a dict": lambda dout, x: {"dx": right(dout, x)},
    "returns 2 arrays; the array dx is expected": lambda dout, x: (right(dout, x), right(dout, x)),
    "returns nothing; `return` is missing": lambda dout, x: None,
    "dx is None": lambda dout, x: (None,),
    "returns a str": lambda dout, x: "softmax",
    "dx is of float32": lambda dout, x: right(dout, x).astype(np.float32),
    "writes to its argument dout": writes_to_the_upstream,
    "writes to its argument x": writes_to_x,
    "a second call with the same arrays gives another answer": adds_up,
    "something is kept between calls": adds_up_until_the_shape_changes,
    "dx is a list; an array is expected": lambda dout, x: (right(dout, x).tolist(),),
    "or it draws at random": lambda dout, x: right(dout, x) + np.random.normal(size=x.shape),
    "diagonal": only_the_diagonal,
    "nan": lambda dout, x: right(dout, x) * np.nan,
    "shape": lambda dout, x: right(dout, x).sum(-1),
    "it raises ValueError: odd": not_for_odd_sizes,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_answers(seed):
    def is_told(said, function):
        report = check(function, "softmax", seed=seed)
        assert report.verdict == "wrong" and not report and said in report.sentence, report.sentence
        assert report.as_dict() == {"exercise": "softmax", "verdict": "wrong", "mistake": report.mistake,
                                    "sentence": report.sentence}

    each(WRONG, is_told)


def test_hanging_in_a_repeated_call_is_a_timeout():
    class Hanging(Direct):
        calls = 0

        def call(self, arguments):
            self.calls += 1
            return super().call(arguments) if self.calls < 16 else Answer("timeout", message="a call takes more than 10 seconds")

    report = judge(COURSE["softmax"], Hanging(right), seed=0)
    assert report.verdict == "timeout" and "more than 10 seconds" in report.sentence


def test_rounding_in_a_repeated_call_is_no_difference():
    generator = np.random.default_rng()

    def shuffled(dout, x):
        p, order = softmax(x), generator.permutation(x.shape[-1])
        return p * (dout - (dout * p)[..., order].cumsum(-1)[..., -1:])

    assert all(check(shuffled, "softmax", seed=seed) for seed in range(3))


def test_what_is_wrong_in_several_ways_or_unknown_is_reported():
    assert " of 9 inputs it raises ValueError: odd in line" in check(not_for_odd_sizes, "softmax", seed=0).sentence
    odd = check(lambda dout, x: right(dout, x) + 1e-3 * np.sin(x), "softmax", seed=0)
    assert odd.mistake is None and odd.facts
    found = check(lambda dout, x: (None, only_the_diagonal(dout, x)), "softmax", seed=0)
    assert "returns 2 arrays" in found.sentence and "diagonal" in found.sentence
    assert "something is kept between calls" in check(wears_out, "softmax", seed=0).sentence


BOUNDED = {  # right for most numbers, and wrong for some that are drawn
    "tanh, 0 / 0": ("tanh", lambda dout, x: dout * (1 - np.tanh(x) ** 2) * x / x),
    "tanh, dout clipped": ("tanh", lambda dout, x: np.clip(dout, -20, 20) * (1 - np.tanh(x) ** 2)),
    "softmax of 6 columns": ("softmax", lambda dout, x: softmax(x) * (dout - (dout * softmax(x))[..., :6].sum(-1, keepdims=True))),
    "scores of -100 for -inf": ("masked_softmax", lambda dout, scores, mask: mask * right(dout, np.where(mask, scores, -100.0))),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_zeros_large_upstreams_larger_sizes_and_low_scores_are_drawn(seed):
    def is_wrong(name, row):
        assert check(row[1], row[0], seed=seed).verdict == "wrong"

    each(BOUNDED, is_wrong)


def test_an_answer_that_raises_on_every_input_of_the_statements_shapes_is_an_error_with_its_line():
    def broken(dout, x):
        return right(dout, x.T @ np.ones(99))

    def for_stacks_alone(dout, x):
        return right(dout, np.einsum("bij->bij", x))

    def later(dout, x):
        raise NotImplementedError

    for function, code in ((broken, "return right(dout, x.T @ np.ones(99))"), (for_stacks_alone, 'return right(dout, np.einsum("bij->bij", x))')):
        report = check(function, "softmax")
        assert report.verdict == "error" and report.mistake is None
        assert "ValueError" in report.sentence and f"line {function.__code__.co_firstlineno + 1}: {code}" in report.sentence
    assert check(later, "softmax").sentence.startswith("not written yet")


def test_a_small_wrong_input_is_shown_with_its_numbers():
    report = check(only_the_diagonal, "softmax", seed=0)
    wrong = [trial for trial in report.trials if not trial.is_right]
    assert report.counterexample.size == min(trial.size for trial in wrong if trial.inputs["x"].shape[-1] > 1)
    assert f"{len(wrong)} of {len(report.trials)}" in repr(report)
    assert "dx, yours = " in repr(report) and "dx, right = " in repr(report)
    assert "<pre" in report._repr_html_() and "diagonal" in report._repr_html_()


SHOWN = {
    "softmax": lambda dout, x: softmax(x), "tanh": lambda dout, x: dout, "embedding": lambda dout, ids, weight: 0 * weight,
    "linear": lambda dout, x, weight, bias: (dout @ weight, 2 * dout.T @ x, dout.sum(0)),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_counterexample_shows_more_than_one_nonzero_number(seed):
    def shows_something(exercise, function):
        report = check(function, exercise, seed=seed)
        shown = report.counterexample
        assert sum(np.count_nonzero(shown.right[name]) for name, off in shown.off.items() if off.any()) > 1
        assert any(trial.size < shown.size and not trial.is_right for trial in report.trials)  # which says less

    each(SHOWN, shows_something)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("linear", "scores", "attention", "rms_norm", "embedding"))])
def test_a_counterexample_is_two_by_two_and_its_numbers_differ_visibly_where_any_do(name):
    def sizes(trial):
        return [n for value in trial.inputs.values() if isinstance(value, np.ndarray) for n in value.shape]

    def differs(trial):
        return any(np.abs(trial.given[key] - trial.right[key]).max() > 0.1 * np.abs(trial.right[key]).max()
                   for key, off in trial.off.items() if off.any())

    def is_telling(known):
        report = check(lambda *given: COURSE[name].routine.right(*given, **known.changes), name, seed=0)
        wrong = [trial for trial in report.trials if not trial.is_right and trial.given and min(sizes(trial)) > 1
                 and all(a is not None and a.shape == trial.right[key].shape for key, a in trial.given.items())]
        telling = [trial for trial in wrong if differs(trial)] or wrong
        assert not telling or report.counterexample.size == min(trial.size for trial in telling) or not differs(telling[0])
        assert not wrong or min(sizes(report.counterexample)) > 1

    each(COURSE[name].routine.mistakes[::6], is_telling)


def test_wrong_and_right_numbers_look_different():
    def look_different(row):
        off, scale = row
        report = check(lambda dout, x: (1 + off) * dout * scale * (1 - np.tanh(x) ** 2), "tanh", seed=0)
        trial = dataclasses.replace(report.counterexample, right={"dx": report.counterexample.right["dx"] * scale})
        yours, expected = "\n".join(report.shown(trial)).split("dx, yours = ")[1].split("dx, right = ")
        assert yours.split() != expected.split()

    each([(1e-5, 1.0), (1e-5, 1e9), (1e-8, 1.0), (1e-8, 1e9)], look_different)
    found = check(through_float32, "softmax", seed=0)
    given, _, expected = found.counterexample.first_difference().partition(", and should be ")
    assert found.verdict == "wrong" and given.split()[-1] != expected
    assert check(lambda dout, x: right(dout, x) + (x.size == 1), "softmax", seed=0).counterexample.inputs["x"].size == 1


def test_a_seed_decides_the_inputs_and_names_may_be_those_of_functions():
    first, again, other = (check(right, name, seed=seed).trials for name, seed in (("softmax", 1), ("softmax_backward", 1), ("softmax", 2)))
    assert all(np.array_equal(a.inputs["x"], b.inputs["x"]) for a, b in zip(first, again))
    assert not all(np.array_equal(a.inputs["x"], b.inputs["x"]) for a, b in zip(first, other))
    with pytest.raises(ValueError, match="no exercise 'sofmax'; did you mean softmax"):
        check(right, "sofmax")


def test_a_report_plots_the_wrong_results(tmp_path):
    figure = check(only_the_diagonal, "softmax").plot(tmp_path / "softmax.png")
    assert (tmp_path / "softmax.png").stat().st_size > 5000
    assert [axis.get_title().split(" (")[0] for axis in figure.axes[:3]] == ["dx, yours", "dx, right", "yours - right"]
    almost = check(lambda dout, x: right(dout, x) * 1.001, "softmax").plot()  # the difference is seen on a scale of its own
    given, off = (axis.images[0] for axis in (almost.axes[0], almost.axes[2]))
    assert abs(off.get_array()).max() == pytest.approx(off.get_clim()[1]) and off.get_clim()[1] < 0.01 * given.get_clim()[1]
    check(right, "softmax").plot(tmp_path / "right.png")
