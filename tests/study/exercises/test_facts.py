"""What a report says of wrong numbers is true of them: random wrong answers, and each sentence checked in another way."""
import re

import numpy as np
import pytest
from tables import each, shares

from study.exercises import COURSE, check

EXERCISES = ["softmax", "linear", "rms_norm", *(
    pytest.param(name, marks=pytest.mark.long)
    for name in ("layer_norm", "attention", "masked_softmax", "embedding", "scores", "product", "cross_entropy"))]


def rows_of(a):
    return a.reshape(-1, a.shape[-1]) if a.ndim else a.reshape(1, 1)


def is_a_multiple(given, other):
    """Row by row."""
    return all(np.linalg.matrix_rank(np.stack(pair), tol=1e-7 * np.abs(pair).max()) < 2
               for pair in zip(rows_of(given), rows_of(np.broadcast_to(other, given.shape))) if np.abs(pair).max() > 1e-12)


def columns_of(a):
    return np.swapaxes(a, -1, -2)


def off(given, right):
    return ~np.isclose(given, right, rtol=1e-7, atol=1e-10)


def summed(a, ndim):
    """All sums of an array over axes, with `ndim` axes left."""
    if a.ndim == ndim:
        return [a]
    return [total for axis in range(a.ndim) for total in summed(a.sum(axis), ndim)]


WRONG = {  # name: how a right result is made wrong; `numbers` draws, in each call the same
    "a factor per row": lambda a, numbers: a * numbers.normal(size=(*a.shape[:-1], 1)),
    "a number per row": lambda a, numbers: a + numbers.normal(size=(*a.shape[:-1], 1)),
    "a factor per column": lambda a, numbers: a * numbers.normal(size=a.shape[-1:]),
    "some elements": lambda a, numbers: np.where(numbers.random(a.shape) < 0.4, numbers.normal(size=a.shape), a),
    "the diagonal": lambda a, numbers: np.where(np.eye(*a.shape[-2:], dtype=bool), np.cos(a), a) if a.ndim > 1 else np.cos(a),
    "the last row": lambda a, numbers: np.concatenate([a[:-1], np.cos(a[-1:])]),
    "an axis more": lambda a, numbers: a[None],
    "an axis less": lambda a, numbers: a.sum(0),
    "flat": lambda a, numbers: a.reshape(-1),
    "a copy more": lambda a, numbers: np.stack([a, np.zeros_like(a)]),
    "NaN here and there": lambda a, numbers: np.where(numbers.random(a.shape) < 0.3, np.nan, np.cos(a)),
    "only where large": lambda a, numbers: np.where(np.abs(a) > 1, np.sin(a), a),
    "only if wide": lambda a, numbers: np.sin(a) if a.shape[-1] > 2 else a,
    "a sum in front": lambda a, numbers: a.sum(0, keepdims=True),
}


def of_all(test):
    """Holds wherever the result is wrong."""
    return lambda trials, name, *said: all(test(t.given[name], t.right[name], t, *said) for t in trials if t.off[name].any())


def on_one(test):
    return lambda trials, name, *said: any(test(t.given[name], t.right[name], t, *said) for t in trials if t.off[name].any())


PLACES = {  # where: a mask of an array's shape
    "in its first row": lambda a: (np.arange(a.shape[-2]) == 0)[:, None], "on its diagonal": lambda a: np.eye(*a.shape[-2:]) > 0,
    "in its last row": lambda a: (np.arange(a.shape[-2]) == a.shape[-2] - 1)[:, None],
    "in its first column": lambda a: np.arange(a.shape[-1]) == 0,
    "in its last column": lambda a: np.arange(a.shape[-1]) == a.shape[-1] - 1,
    "in its first element": lambda a: np.arange(len(a)) == 0, "in its last element": lambda a: np.arange(len(a)) == len(a) - 1,
    "above its diagonal": lambda a: ~np.tri(*a.shape[-2:], dtype=bool),
    "below its diagonal": lambda a: np.tri(*a.shape[-2:], -1, dtype=bool), "off its diagonal": lambda a: ~(np.eye(*a.shape[-2:]) > 0),
}
AXES = {"row": -1, "column": -2}
TRUE = {  # a sentence: is it true? (of one result, whose name comes first)
    r"(\w+) is right up to a factor per row": of_all(lambda given, right, t: is_a_multiple(given, right)),
    r"(\w+) is right up to a factor per column": of_all(
        lambda given, right, t: is_a_multiple(columns_of(given), columns_of(right))),
    r"(\w+) is right up to a factor for all of it, .*": of_all(
        lambda given, right, t: is_a_multiple(given.reshape(1, -1), right.reshape(1, -1))),
    r"(\w+), yours minus right, is a single number in each row": of_all(
        lambda given, right, t: is_a_multiple(given - right, np.ones(1))),
    r"(\w+), yours minus right, is a multiple of (\w+) in each row": of_all(
        lambda given, right, t, key: is_a_multiple(given - right, t.inputs[key])),
    r"(\w+) (?:has the right numbers in|has) shape (\(.*?\)) instead of (\(.*?\)).*": on_one(
        lambda given, right, t, came, wanted: (str(given.shape), str(right.shape)) == (came, wanted)),
    r"(\w+) is not summed: it has shape (\(.*?\)) instead of (\(.*?\))": on_one(
        lambda given, right, t, came, wanted: (str(given.shape), str(right.shape)) == (came, wanted) and given.size > right.size
        and any(total.size == right.size and np.allclose(total.ravel(), right.ravel())
                for n in range(given.ndim) for total in summed(given, n))),
    r"each (row|column) of (\w+) should sum to 0; one of yours sums to (.*)": lambda trials, line, name, number: all(
        np.allclose(t.right[name].sum(AXES[line]), 0, atol=1e-9) for t in trials) and any(
        np.isclose(t.given[name].sum(AXES[line]), float(number), rtol=1e-3).any() for t in trials),
    r"(\w+) is wrong only (i.*|o.*|a.*|b.*)": of_all(lambda given, right, t, where: where not in PLACES or not np.any(
        off(given, right) & ~PLACES[where](right))),
    r"(\d+) of (\d+) numbers of (\w+) are (NaN|infinite|NaN or infinite)": lambda trials, n, size, name, kind: any(
        t.given[name].size == int(size) and np.sum(~np.isfinite(t.given[name])) == int(n) for t in trials),
    r"(\w+) is off by up to (\d+)% of its largest number": lambda trials, name, percent: abs(max(
        np.nanmax(np.abs(t.given[name] - t.right[name])) / np.abs(t.right[name]).max() for t in trials
        if t.off[name].any() and not np.allclose(t.right[name], 0, atol=1e-12)) * 100 - int(percent)) <= 0.5001,
    r"(.*) (?:is|are) wrong, (.*) (?:is|are) right": lambda trials, wrong, right: all(
        any(t.off[name].any() for t in trials) == (name in wrong.split(", ") or name in re.split(", | and ", wrong))
        for name in trials[0].right),
    r"(\w+) is wrong on (\d+) of (\d+) inputs: exactly those that are not square": lambda trials, name, n, of: all(
        t.off[name].any() == any(a.ndim > 1 and a.shape[-1] != a.shape[-2] for key, a in t.inputs.items()
                                 if key != "dout" and isinstance(a, np.ndarray) and a.dtype.kind == "f") for t in trials),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", shares(5))
@pytest.mark.parametrize("name", EXERCISES)
def test_what_is_said_is_true(name, share):
    """Each way of being wrong, in one result of a function."""
    said = set()

    def is_true(row):
        kind, place = row
        results = COURSE[name].routine.results

        def answer(*inputs):
            found = list(COURSE[name].routine.run(dict(zip(COURSE[name].routine.arguments, inputs))).values())
            found[place] = WRONG[kind](found[place], np.random.default_rng(0))
            return tuple(found)

        report = check(answer, name, seed=0)
        trials = [trial for trial in report.trials if trial.given]
        for sentence in (*report.facts, *report.mistakes):
            for pattern, holds in TRUE.items():
                if match := re.fullmatch(pattern, sentence):
                    said.add(pattern)
                    assert holds(trials, *match.groups()), (sentence, results)

    each([(kind, number % len(COURSE[name].routine.results)) for number, kind in enumerate(WRONG)][::share], is_true)
    assert len(said) > 4 / share
