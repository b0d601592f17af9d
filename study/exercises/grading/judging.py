"""Judging a class: a pool of processes, each of which starts a sandbox for one submission at a time.

Whatever happens to one of them, the class goes on.
"""
import ast
import atexit
import dataclasses
import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from study.exercises import submission, text
from study.exercises.exercise import Exercise
from study.exercises.files import check_file, exercise_called
from study.exercises.grading.rows import NOT_STARTED, line, lines
from study.exercises.report import ERROR, WRONG, Report
from study.exercises.sandbox import Limits
from study.exercises.submission import Source, SubmissionError

PATIENCE = 120.0  # seconds for the judge itself, on top of those of the submission
CALLS = 6.0  # a submission may take this many times the seconds of one call
MOST_SHOWN = 20_000  # characters of a submission
DIGITS = 6  # to which wrong numbers count as the same, next to the largest right one

Result = dict[str, Any]  # verdict, mistakes, sentence, report, right (gradients), numbers, source, seconds; `failed` if the
# judge failed


class Task(NamedTuple):
    """A submission to judge, the exercise by its name or file, and how many seconds one call may take."""

    path: str
    exercise: str
    seed: int
    seconds: float


def judge_all(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    """Results as they arrive from this many processes, which end with the generator."""
    left, interrupt = set(tasks), signal.signal(signal.SIGINT, signal.SIG_IGN)  # as judges do: Ctrl-C is for the command
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(tasks)) or 1, start) as pool:
        signal.signal(signal.SIGINT, interrupt)
        results = pool.imap_unordered(judged, tasks)
        while left:
            try:
                task, result = results.next(CALLS * tasks[0].seconds + PATIENCE)
            except multiprocessing.TimeoutError:  # of a judge that has died, no result comes
                break
            left.remove(task)
            yield task, result
    yield from ((task, failed("the judge itself ended, or takes too long; grade again, or judge this one yourself"))
                for task in left)


def start() -> None:
    """Of a judge: it ends when it is told to, and its sandbox with it, and is silent."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)  # it is ending already
    np.seterr(all="ignore")


def judged(task: Task) -> tuple[Task, Result]:
    """The result for a submission."""
    start = time.perf_counter()
    try:
        source, asked = source_of(task.path), exercise_called(task.exercise)
        if is_starter(source, asked):
            said = {"verdict": NOT_STARTED, "sentence": "the function is the one in the starter file"}
        else:
            said = said_of(check_file(task.path, asked, task.seed, limits_of(task.seconds)))
    except Exception as error:  # noqa: BLE001  a bug of ours must not stop the class
        return task, failed(line(f"the judge itself failed ({type(error).__name__}: {error}); judge this one yourself"))
    return task, {"mistakes": [], "report": "", "numbers": "", **said,
                  "source": lines(source.text[:MOST_SHOWN]), "seconds": round(time.perf_counter() - start, 3)}


def failed(sentence: str) -> Result:
    """The result if the judge failed: nothing is known about the answer."""
    return {"verdict": ERROR, "mistakes": [], "sentence": sentence, "report": "", "numbers": "", "source": "",
            "seconds": 0.0, "failed": True}


def said_of(report: Report) -> Result:
    return {"verdict": report.verdict, "mistakes": [line(one) for one in report.mistakes],
            "sentence": line(report.sentence), "report": lines(repr(report)), "numbers": digest_of_wrong(report)}


def digest_of_wrong(report: Report) -> str:
    """The same for all wrong answers that give these numbers, up to rounding; "" for others."""
    if report.verdict != WRONG or not all(trial.given for trial in report.trials):
        return ""
    found = hashlib.sha256()
    for trial in report.trials:
        for name, given in trial.given.items():
            largest = np.max(np.abs(trial.right[name]), initial=np.finfo(float).tiny)
            numbers = None if given is None else np.round(np.nan_to_num(given / largest), DIGITS) + 0.0  # no -0.0
            found.update(repr(given is None or numbers.tolist()).encode())
    return found.hexdigest()[:16]


def limits_of(seconds: float) -> Limits:
    """Those of `minigrad exercises check`, scaled by the seconds of a call."""
    usual = Limits()
    return dataclasses.replace(usual, call_seconds=seconds, load_seconds=max(seconds, usual.load_seconds),
                               total_seconds=CALLS * seconds)


def source_of(path: str) -> Source:
    """The submission; if it is not valid, as much as can be read, and `check_file` says what is wrong."""
    try:
        return submission.read(path)
    except SubmissionError:
        with open(path, encoding="utf-8", errors="replace") as file:
            return Source(os.path.basename(path), file.read(MOST_SHOWN))


def is_starter(source: Source, exercise: Exercise) -> bool:
    """Is the function unchanged from the starter file?"""
    name = exercise.function_name
    given, first = (one.functions.get(name) for one in (source, submission.source_of_text("", text.starter(exercise))))
    return None not in (given, first) and ast.dump(given) == ast.dump(first)
