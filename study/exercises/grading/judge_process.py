"""What runs in a process that judges: `python -m study.exercises.grading.judge_process FD`; see `judges.py`."""
import ast
import dataclasses
import hashlib
import json
import os
import signal
import sys
import time
from multiprocessing.connection import Connection

import numpy as np

from study.exercises import submission, text
from study.exercises.exercise import Exercise
from study.exercises.files import check_file, exercise_called
from study.exercises.grading.judges import CALLS, Result, failed
from study.exercises.grading.rows import NOT_STARTED, line, lines
from study.exercises.report import WRONG, Report
from study.exercises.sandbox import Limits
from study.exercises.submission import Source, SubmissionError

MOST_SHOWN = 20_000  # characters of a submission
DIGITS = 6  # to which wrong numbers count as the same, next to the largest right one


def main() -> None:
    """Judge tasks from the pipe until it closes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the student's process ends as well
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # by the student's process
    connection = Connection(descriptor)
    connection.send_bytes(b"{}")  # ready
    while True:
        try:
            task = json.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(json.dumps(judged(**task)).encode())


def judged(path: str, exercise: str, seed: int, seconds: float) -> Result:
    """The result for a submission."""
    start = time.perf_counter()
    try:
        source, asked = source_of(path), exercise_called(exercise)
        if is_starter(source, asked):
            said = {"verdict": NOT_STARTED, "sentence": "the function is the one in the starter file"}
        else:
            said = said_of(check_file(path, asked, seed, limits_of(seconds)))
    except Exception as error:  # noqa: BLE001  a bug of ours must not stop the class
        return failed(line(f"the judge itself failed ({type(error).__name__}: {error}); judge this one yourself"))
    return {"mistakes": [], "report": "", "right": (), "numbers": "", **said,
            "source": lines(source.text[:MOST_SHOWN]), "seconds": round(time.perf_counter() - start, 3)}


def said_of(report: Report) -> dict:
    return {"verdict": report.verdict, "mistakes": [line(one) for one in report.mistakes],
            "sentence": line(report.sentence), "report": lines(repr(report)), "right": report.right_results,
            "numbers": digest_of_wrong(report)}


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
    given, first = (one.functions.get(name) for one in (source, submission.source_of_text("", text.starter(exercise, ""))))
    return None not in (given, first) and ast.dump(given) == ast.dump(first)


if __name__ == "__main__":
    main()
