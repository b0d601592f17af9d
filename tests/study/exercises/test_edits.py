"""Mistakes in one expression of a solution, which no table lists."""
import ast

import numpy as np
import pytest
from tables import each, shares

from study.exercises import COURSE, check
from study.exercises.edits import PATTERNS, expression, matches, places_in
from study.mistakes.solutions import source_of

ANSWERS = {  # {what is wrong: (the exercise, what is replaced in its solution by what, what is said of it)}
    "the sign of a term is wrong": (
        "layer_norm_jvp", "vx - shift -", "vx - shift +", "vx - shift + x_hat * stretch replaces vx - shift - x_hat * stretch, "
        "where shift is vx.mean(-1), stretch is (x_hat * vx).mean(-1)"),
    "the division is missing": ("adam_step", "lr * m_hat / root", "lr * m_hat", "lr * m_hat replaces lr * m_hat / root"),
    "a transpose is out of place": (  # in a solution with a T of its own
        "blockwise_attention", "dscores @ k[..., columns, :] * scale", "np.swapaxes(dscores, -1, -2) @ k[..., columns, :] * scale",
        "dscores.T @ k[..., columns, :] replaces dscores @ k[..., columns, :], where dscores is "),
    "another variable": ("masked_softmax", "dout * p)", "dout * mask)", "dout * mask replaces dout * p"),
    "one of several is left out": ("clip_by_global_norm", "in (da, db, dc)", "in (da, db)", "(da, db) replaces (da, db, dc)"),
    "eps is outside of the root": (
        "layer_norm_jvp", "np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)",
        "(np.sqrt((centred**2).mean(axis=-1, keepdims=True)) + eps)", "sqrt((centred**2).mean(-1)) + eps replaces"),
    "a function is left out": ("tied_embedding", "1 - hidden**2", "1 - weight[ids]**2", "weight[ids]**2 replaces hidden**2, "),
    "only the last term of the sum is there, as if = were written for += in a loop": (
        "scores", "dout @ k", "dout[..., -1:] @ k[..., -1:, :]", "dout[..., -1:] @ k[..., -1:, :] replaces dout @ k"),
    "keepdims is missing": ("layer_norm_jvp", "(x_hat * vx).mean(axis=-1, keepdims=True)", "(x_hat * vx).mean(axis=-1)",
                            "(x_hat * vx).mean(-1) replaces (x_hat * vx).mean(-1, keepdims=True)"),
    "another sum": ("log_softmax", "dout.sum", "(dout / p).sum", "(dout / p).sum(-1) replaces p * dout.sum(-1)"),
}


@pytest.mark.parametrize("share", shares(3))
def test_a_mistake_in_any_expression_of_a_solution_is_named(share):
    def is_named(what, row):
        name, right, wrong, said = row
        source = source_of(COURSE[name].solution)
        assert right in source
        names = dict(COURSE[name].solution.__globals__)
        exec(source.replace(right, wrong), names)
        report = check(names[COURSE[name].function_name], name, seed=0)
        assert len(report.mistakes) == 1 and report.mistake.startswith(f"{what}: ") and said in report.mistake, report

    each(dict([*ANSWERS.items()][::share]), is_named)


def test_an_edit_that_would_spoil_what_is_right_explains_nothing():
    """The parameter's numbers are those of a wrong v, which the answer returns right."""
    def adam_step(parameter, gradient, m, v, t, lr, beta1, beta2, eps):
        _, new_m, new_v = COURSE["adam_step"].solution(parameter, gradient, m, v, t, lr, beta1, beta2, eps)
        wrong_v = beta2 * v + (1 - beta2) * new_m**2
        root = np.sqrt(wrong_v / (1 - beta2**t)) + eps
        return parameter - lr * new_m / (1 - beta1**t) / root, new_m, new_v

    report = check(adam_step, "adam_step", seed=0)
    assert not report and not report.mistakes


def test_each_rule_fits_somewhere_in_the_course():
    modules = [ast.parse(source_of(exercise.solution)) for exercise in COURSE.values()]
    places = [expression(place) for module in modules for place in places_in(module)]
    assert [what for what, right, *_ in PATTERNS if not any(matches(right, node, {}) for node in places)] == []


def test_a_solution_is_itself_again_after_its_edits():
    solution = COURSE["rms_norm"]
    inputs = next(solution.inputs(0))
    before = solution.right(inputs)
    for edit in solution.edits:
        try:
            solution.routine.run(inputs, edit.changes)
        except Exception:  # noqa: BLE001  many do not fit the shapes
            pass
    assert all(np.array_equal(before[name], after) for name, after in solution.right(inputs).items())
