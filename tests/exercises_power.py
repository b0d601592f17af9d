"""How many answers are judged correctly, how many mistakes are named correctly, and how long does it take?

    python tests/exercises_power.py [--seed 1] [--folder FOLDER] [--jobs 2] [--two-dimensional]

Each answer in `tests/study/exercises/submissions` (or in `two_dimensional.txt` beside it) becomes a file and is judged as by `minigrad exercises check`: in its own
process, on inputs drawn anew. `student_answers.py` explains how an answer says which names are right.
"""
import argparse
import concurrent.futures
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[0:1] = [str(ROOT), str(ROOT / "tests")]

from student_answers import FOLDER, Submission, submissions, two_dimensional  # noqa: E402

from study.exercises import COURSE, check_file  # noqa: E402
from study.exercises.report import Report  # noqa: E402

COLUMNS = "exercise", "right: judged right", "wrong: judged wrong", "named correctly", "not named", "misnamed"


def judged(submission: Submission, seed: int) -> tuple[Report, float]:
    """The report on an answer in a file, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"{submission.exercise}.py")
        path.write_text(submission.code, encoding="utf-8")
        start = time.perf_counter()
        report = check_file(path, seed=seed)
        return report, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--two-dimensional", action="store_true")
    options = parser.parse_args()
    found = two_dimensional() if options.two_dimensional else submissions(COURSE, options.folder)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda submission: judged(submission, options.seed), found))
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    names = [name for name in COURSE if any(one.exercise == name for one in found)]
    for name in [*names, "all"]:
        rows = [(one, report) for one, (report, _) in zip(found, results) if name in (one.exercise, "all")]
        print_row(name, rows)
    for one, (report, _) in zip(found, results):
        if one.kind == "right" and not report or one.kind != "right" and not is_named(one, report):
            print(f"{one} [{one.kind}]: {report.verdict}, {', '.join(report.names) or 'no name'}: {report.sentence[:200]}")
    seconds = [taken for _, taken in results]
    print(f"seconds: median {statistics.median(seconds):.2f}, largest {max(seconds):.2f}")


def print_row(name: str, rows: list[tuple[Submission, Report]]) -> None:
    right = [report for one, report in rows if one.kind == "right"]
    wrong = [(one, report) for one, report in rows if one.kind != "right"]
    named = sum(is_named(one, report) for one, report in wrong)
    without = sum(not report.names for _, report in wrong)
    cells = (f"{sum(map(bool, right))} of {len(right)}", f"{sum(not report for _, report in wrong)} of {len(wrong)}",
             named, without, len(wrong) - named - without)
    print(f"| {name} | {' | '.join(map(str, cells))} |")


def is_named(submission: Submission, report: Report) -> bool:
    return bool(report.names) and frozenset(report.names) in submission.names


if __name__ == "__main__":
    main()
