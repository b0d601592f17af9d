"""Is an answer right, on all inputs that are drawn, and if not, which mistake is it?"""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minigrad.gradcheck.doctor import Diagnosis, Evidence, diagnose_numbers
from study.exercises.answer import Caller, Direct
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise

RIGHT, WRONG, INCONCLUSIVE, ERROR, TIMEOUT = "right", "wrong", "inconclusive", "error", "timeout"


@dataclass(frozen=True, repr=False)
class Report:
    """The verdict on one answer. It is true if the answer is right; printed, it says what is wrong and where."""

    exercise: str
    verdict: str
    mistake: str | None = None
    sentence: str = ""
    smallest: Evidence | None = None  # the smallest input on which it is wrong

    def __bool__(self) -> bool:
        return self.verdict == RIGHT

    def as_dict(self) -> dict[str, str | None]:
        return {"exercise": self.exercise, "verdict": self.verdict, "mistake": self.mistake, "sentence": self.sentence}

    def __repr__(self) -> str:
        return f"{self.exercise}: {self.verdict.upper()}\n  {self.sentence}"


def check(function: Callable, name: str, seed: int | None = None) -> Report:
    """Judge a function in this process, as `minigrad exercises check` judges a file."""
    return judge(COURSE[name], Direct(function), seed)


def judge(exercise: Exercise, caller: Caller, seed: int | None = None) -> Report:
    """Call it on inputs drawn anew, compare, and name the mistake."""
    seen = []
    for inputs in exercise.inputs(np.random.SeedSequence(seed).entropy):
        answer = caller.call(list(inputs.values()))
        if answer.kind != "returned":
            return Report(exercise.name, ERROR, None, answer.message)
        right = exercise.routine.run(inputs)
        seen.append(Evidence(inputs, right, dict(zip(right, answer.results, strict=True))))
    wrong = [evidence for evidence in seen if not is_right(evidence)]
    if not wrong:
        return Report(exercise.name, RIGHT, None, f"right on {len(seen)} inputs")
    found: Diagnosis = diagnose_numbers(seen, exercise.routine)
    return Report(exercise.name, WRONG, found.mistake, found.sentence, wrong[0])


def is_right(evidence: Evidence) -> bool:
    return all(np.shape(evidence.given[name]) == right.shape and np.allclose(evidence.given[name], right, rtol=1e-7, atol=1e-10)
               for name, right in evidence.right.items())
