"""Answers as students write them: right ones are right in any style, and the mistakes of wrong ones are named."""
import contextlib
import io

import numpy as np
import pytest
from student_answers import submissions, two_dimensional
from tables import each, one_in

from study.exercises import COURSE
from study.exercises.answer import Direct
from study.exercises.judge import judge
from study.exercises.report import Report

SUBMISSIONS = submissions(COURSE)
TWO_DIMENSIONAL = two_dimensional()
PARTS = 35
SHARE = 8


def report_on(submission, seed: int = 1) -> Report:
    names: dict = {"__name__": "submission"}
    exercise = COURSE[submission.exercise]
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        exec(compile(submission.code, f"{submission.exercise}.py", "exec"), names)
        return judge(exercise, Direct(names[exercise.function_name]), seed)


def is_judged_rightly(submission):
    report = report_on(submission)
    if submission.kind == "right":
        assert report, report.sentence
    elif report:  # right but for what the exercise does not ask for, and says so
        assert not submission.names and report.remarks
    else:
        assert report.verdict == "wrong" and frozenset(report.names) in (submission.names or (frozenset(),)), report.sentence


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", one_in(SHARE, range(PARTS)))
def test_the_verdict_and_the_mistake_are_right(part):
    each(SUBMISSIONS[part::PARTS], is_judged_rightly)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", one_in(PARTS, range(PARTS)))
def test_answers_for_matrices_only_are_judged_the_same(part):
    each(TWO_DIMENSIONAL[part::PARTS], is_judged_rightly)


def test_there_are_enough_in_many_styles():
    right = [submission for submission in SUBMISSIONS if submission.kind == "right"]
    wrong = [submission for submission in SUBMISSIONS if submission.kind != "right"]
    assert len(right) >= 60 and len(wrong) >= 120 and {one.exercise for one in right} == {one.exercise for one in wrong}
    assert sum(bool(submission.names) for submission in wrong) >= 0.95 * len(wrong)
