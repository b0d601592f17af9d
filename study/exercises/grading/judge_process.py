"""What runs in a process that judges: `python -m study.exercises.grading.judge_process FD`; see `judges.py`."""
import ast
import contextlib
import json
import os
import pathlib
import sys
import time
from multiprocessing.connection import Connection

from study.exercises import text
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise
from study.exercises.files import check_file
from study.exercises.grading.judges import Result, failed
from study.exercises.grading.rows import NOT_STARTED, line, lines
from study.exercises.report import Report

MOST_SHOWN = 20_000  # letters of what was handed in


def main() -> None:
    """Judge what comes over the pipe, until nobody sends anything any more."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # what a student wrote may start in a process of this one's
    connection = Connection(descriptor)
    connection.send_bytes(b"{}")  # ready
    while True:
        try:
            task = json.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(json.dumps(judged(**task)).encode())


def judged(path: str, exercise: str, own: str | None, seed: int, seconds: float) -> Result:
    """The result for a submission."""
    start = time.perf_counter()
    try:
        source = source_of(path)
        if is_starter(source, COURSE[exercise]):
            said = {"verdict": NOT_STARTED, "sentence": "the function is as in the file to start from"}
        else:
            said = said_of(check_file(path, COURSE[exercise], seed))
    except Exception as error:  # noqa: BLE001  a bug of ours must not stop the class
        return failed(line(f"the judge itself failed ({type(error).__name__}: {error}); judge this one yourself"))
    return {"mistakes": [], "report": "", **said, "source": lines(source[:MOST_SHOWN]),
            "seconds": round(time.perf_counter() - start, 3)}


def said_of(report: Report) -> dict:
    return {"verdict": report.verdict, "mistakes": [line(one) for one in report.mistakes],
            "sentence": line(report.sentence), "report": lines(repr(report))}


def source_of(path: str) -> str:
    """What a student wrote, if it can be read."""
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def is_starter(source: str, exercise: Exercise) -> bool:
    """Is the function what it was in the file that the student got?"""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        given, first = (function_in(code, exercise.function_name) for code in (source, text.starter(exercise, "")))
        return given is not None and given == first
    return False


def function_in(source: str, name: str) -> str | None:
    """A function's code without its comments and blanks; None if it is not there."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    return ast.dump(found[-1]) if found else None


if __name__ == "__main__":
    main()
