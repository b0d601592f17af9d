"""Mistakes that no table lists: each rule is tried at every expression of a solution, or of an op of the library."""
import ast
import inspect

import numpy as np
import pytest
from cases import CASES
from tables import each, shares

import minigrad as mg
from minigrad.ops.elementary import elementary
from study.exercises import COURSE, check
from study.mistakes.operations import backward_of, is_learned, program_of
from study.mistakes.rewriting import PATTERNS, RARE, expressions_in, matches, mistakes_in
from study.mistakes.solutions import source_of
from study.mistakes.textbook import elementwise, norms, rows

ANSWERS = {  # {what is wrong: (the exercise, what is replaced in its solution by what, what is said of it)}
    "x_hat * stretch has the wrong sign": (
        "layer_norm_jvp", "vx - shift -", "vx - shift +", "vx - shift + x_hat * stretch replaces vx - shift - x_hat * stretch, "
        "where shift is vx.mean(-1), x_hat is centred * rstd, stretch is (x_hat * vx).mean(-1)"),
    "the division by root is missing": ("adam_step", "lr * m_hat / root", "lr * m_hat", "lr * m_hat replaces lr * m_hat / root"),
    "a transpose is out of place": (  # in a solution with a T of its own
        "blockwise_attention", "dscores @ k[..., columns, :] * scale", "np.swapaxes(dscores, -1, -2) @ k[..., columns, :] * scale",
        "dscores.T @ k[..., columns, :] replaces dscores @ k[..., columns, :]"),
    "another variable": ("masked_softmax", "dout * p)", "dout * mask)", "dout * mask replaces dout * p"),
    "dc is left out": ("clip_by_global_norm", "in (da, db, dc)", "in (da, db)", "(da, db) replaces (da, db, dc)"),
    "eps is outside of the root": (
        "layer_norm_jvp", "np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)",
        "(np.sqrt((centred**2).mean(axis=-1, keepdims=True)) + eps)", "sqrt((centred**2).mean(-1)) + eps replaces"),
    "a function is left out": ("tied_embedding", "1 - hidden**2", "1 - weight[ids]**2", "weight[ids]**2 replaces hidden**2, "),
    "only the last term of the sum is there, as if = were written for += in a loop": (
        "scores", "dout @ k", "dout[..., -1:] @ k[..., -1:, :]", "dout[..., -1:] @ k[..., -1:, :] replaces dout @ k"),
    "keepdims is missing": ("layer_norm_jvp", "(x_hat * vx).mean(axis=-1, keepdims=True)", "(x_hat * vx).mean(axis=-1)",
                            "(x_hat * vx).mean(-1) replaces (x_hat * vx).mean(-1, keepdims=True)"),
    "another sum": ("log_softmax", "dout.sum", "(dout / p).sum", "(dout / p).sum(-1) replaces dout.sum(-1)"),
    # a comment beside or above a line is what is said of it
    "the sum over the row is averaged instead of added up": (
        "attention", "(dweights * weights).sum(axis=-1", "(dweights * weights).mean(axis=-1",
        "every weight depends on every score of its row"),
    "the path through the mean is missing": ("layer_norm", "dx_hat - shift - x_hat", "dx_hat - x_hat",
                                             "moving x_i moves the row's mean, and so all its outputs"),
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


def test_each_rule_fits_somewhere_in_the_course_or_the_library():
    modules = [ast.parse(source_of(exercise.solution)) for exercise in COURSE.values()]
    modules += [ast.parse(inspect.getsource(module)) for module in (elementwise, norms, rows)]  # in which their forms are
    modules += [program_of(op).module for op in {case.op for case in CASES}]
    places = [node for module in modules for written in module.body for node, _ in expressions_in(written)]
    assert [what for what, right, *_ in PATTERNS + RARE if not any(matches(right, node, {}) for node in places)] == []


def test_a_solution_is_itself_again_after_its_edits():
    solution = COURSE["rms_norm"]
    inputs = next(solution.inputs(0))
    before = solution.right(inputs)
    for edit in solution.routine.edits():
        try:
            solution.routine.run(inputs, edit.changes)
        except Exception:  # noqa: BLE001  many do not fit the shapes
            pass
    assert all(np.array_equal(before[name], after) for name, after in solution.right(inputs).items())


def wrong_ones(op, inputs, options):
    """Sentences on edits of the op's own lines that give other numbers."""
    dout = np.random.default_rng(0).standard_normal(op_shape(op, inputs, options))
    right = backward_of(op, **options)(dout, *inputs)
    program = program_of(op, **options)
    again = program.run()(dout, *inputs)
    assert all(a is b or np.allclose(a, b, equal_nan=True) for a, b in zip(right, again, strict=True))
    for mistake in mistakes_in((), program):
        try:
            with np.errstate(all="ignore"):
                found = mistake.changes["instead"](dout, *(x.copy() if is_learned(x) else x for x in inputs))
                if not all(a is b or np.allclose(a, b, rtol=1e-6, equal_nan=True) for a, b in zip(found, right, strict=True)):
                    yield mistake.sentence
        except Exception:  # noqa: BLE001  many do not fit the shapes
            pass


def op_shape(op, inputs, options):
    with mg.textbook():
        return np.shape(object.__new__(op).forward(*inputs, **options))


UNEDITED = {"Minimum", "Step", "FloorDivide"}  # Maximum's lines, reversed; gradients that are zero
EASY = [case for case in CASES if any(map(is_learned, case.inputs)) and all(
    x is None or 0 < np.size(x) <= 2000 for x in case.inputs)]


@pytest.mark.parametrize("share", shares(4))
def test_every_op_of_the_library_has_mistakes_without_a_line_of_its_own(share):
    cases = {case.op: case for case in reversed(EASY)}

    def has_mistakes(op, case):
        found = wrong_ones(op, case.inputs, case.options)
        assert len({sentence for sentence, _ in zip(found, range(3))}) == 3

    each({op: case for op, case in [*cases.items()][::share] if op.__name__ not in UNEDITED}, has_mistakes)


Squareplus = elementary(  # as CONTRIBUTING has it
    "out = (x + sqrt(x^2 + 4)) / 2:  dx = dout * (1 + x / sqrt(x^2 + 4)) / 2",
    lambda x: (x + np.sqrt(x * x + 4)) / 2, lambda dout, x: dout * (1 + x / np.sqrt(x * x + 4)) / 2, name="squareplus")


def test_a_new_op_has_its_mistakes_without_a_further_line():
    found = list(wrong_ones(Squareplus, [np.linspace(-2, 2, 12).reshape(3, 4)], {}))
    assert found[0].startswith("x / sqrt(x * x + 4) is missing: 1 replaces 1 + x / sqrt(x * x + 4)")
    assert any(sentence.startswith("the root is missing: ") for sentence in found)
    assert any(sentence.startswith("the division by sqrt(x * x + 4) is missing: ") for sentence in found)
