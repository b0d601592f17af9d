"""Exercises with their own judges: write a checker, find a leak in a mask."""
import itertools

import numpy as np
import pytest
from tables import each

from study.exercises import COURSE, check
from study.exercises.files import check_file
from study.exercises.finding import checkers, leaks
from study.mistakes import FUNCTIONS, MUTANTS

SOLUTIONS = [name for name, exercise in COURSE.items() if exercise.judged]


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 40), marks=pytest.mark.long)])
def test_the_solutions_are_right_whatever_is_drawn(seeds):
    def is_right(name):
        for seed in seeds[:1] if name == "check_gradient" else seeds:
            report = check(COURSE[name].solution, name, seed)
            assert report and report.sentence.startswith("right on"), (seed, report)

    each(SOLUTIONS, is_right)


def test_a_checker_gets_all_right_backwards_and_wrong_ones_of_each():
    assert {function.name for function in checkers.right_ones()} >= {*FUNCTIONS}
    r, asked = np.random.default_rng(0), set()
    for _ in range(100):
        wrong = {mutant.name for mutant in checkers.wrong_ones(r)}
        assert {MUTANTS[name].right.name for name in wrong & {*MUTANTS}} == {*FUNCTIONS}
        asked |= wrong
    assert len(asked) > 0.85 * len(MUTANTS)


def test_an_answer_that_raises_gets_the_message_and_is_wrong_if_only_sometimes():
    def unreliable(solution, most):
        calls = itertools.count(1)

        def raises_at_times(*arguments):
            if next(calls) % 7 > most:
                raise KeyError("oh no")
            return solution(*arguments)

        return raises_at_times

    def gets_the_message(name):
        for most, verdict in (-1, "error"), (4, "wrong"):
            report = check(unreliable(COURSE[name].solution, most), name, seed=0)
            assert report.verdict == verdict and "oh no" in report.sentence

    each(SOLUTIONS, gets_the_message)


def checker(upstream=lambda r, shape: r.normal(size=shape), step=1e-5, one_sided=False, entries=np.ndindex, first_only=False,
            compare=lambda error, size: error <= 1e-6 * size + 1e-9, form=True, dtype=np.float64, in_place=False, factor=1):
    """A checker made of parts, which are right by default."""

    def check_gradient(forward, backward, inputs):
        r = np.random.default_rng(0)  # the same at each call: which weaknesses show must not depend on chance
        inputs = [x.astype(dtype) if x.dtype.kind == "f" and dtype != np.float64 else x for x in inputs]
        dout = upstream(r, np.shape(forward(*inputs)))
        gradients = backward(dout, *inputs)
        if form and len(gradients) != len(inputs):
            return False
        for k, (x, gradient) in enumerate(zip(inputs, gradients)):
            if x.dtype.kind != "f" or first_only and k > 0:
                continue
            if form and (gradient is None or np.shape(gradient) != x.shape):
                return False
            wrong = []
            for i in entries(x.shape):
                up, down = x.copy(), x.copy()
                up[i] += step
                down[i] -= 0 if one_sided else step
                change = forward(*inputs[:k], up, *inputs[k + 1:]) - forward(*inputs[:k], down, *inputs[k + 1:])
                wrong.append((gradient[i] if form else np.broadcast_to(gradient, x.shape)[i],
                              factor * (dout * change).sum() / (step if one_sided else 2 * step)))
                if in_place:
                    x[i] += 0.01
            a, b = np.array(wrong, dtype=np.float64).T
            if not compare(np.abs(a - b).max(), np.abs(b).max()):
                return False
        return True

    return check_gradient


CHANGES_ITS_INPUTS = """def check_gradient(forward, backward, inputs):
    backward(forward(*inputs), *inputs)
    inputs[0] += 1
    return False
"""


def first_entry(shape):
    return [next(iter(np.ndindex(shape)))]


WEAK = {  # {name of the weakness: such a checker}
    "plain sum": checker(upstream=lambda r, shape: np.ones(shape)),
    "positive upstream": checker(upstream=lambda r, shape: r.uniform(0.5, 1.5, size=shape)),
    "not all inputs": checker(first_only=True),
    "not all entries": checker(entries=first_entry),
    "step too small": checker(step=1e-13),
    "step too large": checker(step=0.05),
    "one-sided": checker(step=1e-4, one_sided=True),
    "float32": checker(dtype=np.float32, compare=lambda error, size: error <= 1e-3 * size),
    "NaN passes": checker(compare=lambda error, size: not error > 1e-6 * size + 1e-9),
    "absolute tolerance": checker(compare=lambda error, size: error <= 1e-3),
    "tolerance too strict for large numbers": checker(compare=lambda error, size: error <= 1e-9),
    "tolerance too strict": checker(compare=lambda error, size: error <= 1e-13 * size),
    "tolerance too loose": checker(compare=lambda error, size: error <= 0.1 * size),
    "twice the difference": checker(factor=2),
    "form": checker(form=False),
    "changes its inputs": checker(in_place=True),
    "no answer": lambda forward, backward, inputs: None,
    "backward unused": lambda forward, backward, inputs: bool(np.all(np.isfinite(forward(*inputs)))),
    "nothing moved": lambda forward, backward, inputs: bool(np.ndim(backward(np.ones(np.shape(forward(*inputs))), *inputs)[0]) > -1),
}


SHORT = "plain sum", "not all entries", "NaN passes", "changes its inputs", "no answer", "nothing moved"


@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in WEAK])
def test_a_weakness_of_a_checker_is_named(name):
    report = check(WEAK[name], "check_gradient", seed=0)
    assert (report.verdict, report.names) == ("wrong", (name,))
    if name == "plain sum":
        assert "wrong backwards pass, worst first: " in report.facts[0]


def test_differences_along_random_directions_are_right():
    """Along random directions, with another step."""

    def along_directions(forward, backward, inputs):
        r = np.random.default_rng(0)  # the same at each call: which weaknesses show must not depend on chance
        dout = r.normal(size=np.shape(forward(*inputs)))
        found = backward(dout, *inputs)
        if len(found) != len(inputs):
            return False
        for k, (x, gradient) in enumerate(zip(inputs, found)):
            for _ in range(4 * (x.dtype.kind == "f")):
                if gradient is None or gradient.shape != x.shape:
                    return False
                v = r.normal(size=x.shape)
                ahead, behind = ([*inputs[:k], x + h * v, *inputs[k + 1:]] for h in (3e-6, -3e-6))
                slope = (dout * (forward(*ahead) - forward(*behind))).sum() / 6e-6
                if not np.isclose((gradient * v).sum(), slope, rtol=1e-4, atol=1e-6 * np.abs(gradient).max()):
                    return False
        return np.True_

    assert check(along_directions, "check_gradient", seed=1)


def test_answers_in_files_are_judged_the_same(tmp_path):
    for name, source in (("find_leak", COURSE["find_leak"].source), ("check_gradient", CHANGES_ITS_INPUTS)):
        (tmp_path / f"{name}.py").write_text(f"import numpy as np\n\n\n{source}")
    assert check_file(tmp_path / "find_leak.py")
    assert check_file(tmp_path / "check_gradient.py", seed=0).names == ("changes its inputs",)


def test_raising_on_a_wrong_backward_counts_as_finding_it():
    def asserting(forward, backward, inputs):
        assert COURSE["check_gradient"].solution(forward, backward, inputs)
        return True

    assert check(asserting, "check_gradient", seed=0)
    assert "lets 1 of" in check(WEAK["absolute tolerance"], "check_gradient", seed=0).facts[0]


def finder(later=lambda i, j, tokens: True, move=lambda row: row + np.array([1.0, -2.0, 0.5]), answer=lambda i, j: (i, j),
           tolerance=1e-9):
    """Looks for leaks, at some pairs only."""

    def find_leak(model, x):
        before = model(x)
        for j in range(len(x)):
            for i in range(len(x)):
                moved = x.copy()
                moved[j] = move(moved[j])
                if later(i, j, len(x)) and not np.abs(model(moved) - before)[i].max() <= tolerance:
                    return answer(i, j)
        return None

    return find_leak


BLIND = {
    "exchanged": finder(lambda i, j, tokens: i < j, answer=lambda i, j: (j, i)),
    "counted from 1": finder(lambda i, j, tokens: i < j, answer=lambda i, j: (i + 1, j + 1)),
    "never": finder(lambda i, j, tokens: i < j, answer=lambda i, j: None),
    "the past": finder(lambda i, j, tokens: i <= j),
    "next token only": finder(lambda i, j, tokens: j == i + 1),
    "last token only": finder(lambda i, j, tokens: i < j == tokens - 1),
    "first output only": finder(lambda i, j, tokens: i == 0 < j),
    "step too small": finder(lambda i, j, tokens: i < j, move=lambda row: row + 1e-9, tolerance=1e-6),
    "NaN": finder(lambda i, j, tokens: i < j, move=lambda row: row * np.nan),
    "nothing moved": lambda model, x: model(x)[0, 0] > 5 or None,
    "model unused": lambda model, x: (0, 1),
}


def test_a_weakness_in_finding_leaks_is_named():
    def is_told(name, function):
        report = check(function, "find_leak", seed=0)
        assert (report.verdict, report.names) == ("wrong", (name,)), report

    each(BLIND, is_told)


def test_a_pair_may_have_any_type():
    looks_right = finder(lambda i, j, tokens: i < j)

    def as_a(kind):
        def find_leak(model, x):
            pair = looks_right(model, x)
            return None if pair is None else kind(pair)
        return find_leak

    for kind in (list, np.array, lambda pair: (np.int64(pair[0]), float(pair[1]))):
        assert check(as_a(kind), "find_leak", seed=2)
    for kind in (lambda pair: (*pair, 0), lambda pair: pair[0], lambda pair: (pair[0], pair[1] + 0.5), str):
        assert check(as_a(kind), "find_leak", seed=2).verdict == "wrong"


def test_a_leak_is_at_one_place_of_one_head():
    r = np.random.default_rng(0)
    for tokens in (2, 5):
        model = leaks.draw(r, tokens, leaks=True)
        x, out = model.x, model(model.x)
        changed = set()
        for j in range(tokens):
            moved = x.copy()
            moved[j] += r.normal(size=3)
            changed |= {(i, j) for i in range(j) if np.abs(model(moved) - out)[i].max() > 1e-12}
        assert changed == {model.place}


def test_arrays_that_are_handed_out_are_copies():
    """Writing to the arrays of one call does not affect the next."""
    seen = []

    def spoiler(forward, backward, inputs):
        first = [np.array(g) for g in backward(np.ones(np.shape(forward(*inputs))), *inputs) if g is not None]
        for g in backward(np.ones(np.shape(forward(*inputs))), *inputs):
            if isinstance(g, np.ndarray) and g.flags.writeable:
                g *= 0
        again = [np.array(g) for g in backward(np.ones(np.shape(forward(*inputs))), *inputs) if g is not None]
        seen.append(all(np.allclose(a, b, rtol=1e-6, equal_nan=True) for a, b in zip(first, again)))
        return True

    check(spoiler, "check_gradient", seed=0)
    assert len(seen) > 300 and all(seen[:len(checkers.right_ones())])
