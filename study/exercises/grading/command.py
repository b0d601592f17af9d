"""`minigrad exercises grade FOLDER`: grades a class."""
import argparse
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Callable

from tqdm import tqdm

from minigrad.serialization import replacing
from models.commands.shared import CheckFailed, UsageError, check_writable, usage_errors
from models.distributed import own_cores
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise
from study.exercises.files import exercise_called
from study.exercises.grading import gradescope, judges, page, submissions, tables
from study.exercises.grading.kept import Elsewhere, Kept
from study.exercises.grading.points import Points, earned, points_of
from study.exercises.grading.rows import NOT_JUDGED, Row, line
from study.exercises.grading.submissions import Submission
from study.exercises.report import RIGHT, TIMEOUT
from study.exercises.sandbox import Limits

OUT, SECONDS = "grades", Limits().call_seconds
FILES = {  # {flag: (the content for (rows, title, seed), was content made by this?)}
    "csv": (lambda rows, title, seed: tables.as_csv(rows), tables.is_csv),
    "canvas": (lambda rows, title, seed: tables.as_canvas(rows), tables.is_canvas),
    "json": (lambda rows, title, seed: tables.as_json(rows, seed), tables.is_json),
    "report": (page.html, page.is_page),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="a folder with a folder for each student, or with their files")
    parser.add_argument("--exercise", metavar="NAME", action="append",
                        help="only this exercise, or the file of your own (may be given more than once)")
    parser.add_argument("--out", metavar="FOLDER",
                        help=f"where results are kept, for a run to resume (default: {OUT}, in this folder)")
    parser.add_argument("--csv", metavar="FILE", help="write the table for a spreadsheet")
    parser.add_argument("--canvas", metavar="FILE", help="write the points for Canvas to import into its gradebook")
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--report", metavar="FILE", help="write an HTML page: mistakes by frequency, each student in full")
    parser.add_argument("--gradescope", metavar="PLACE",
                        help="write results.json for each student into this folder; a .json file: FOLDER is one submission")
    parser.add_argument("--points", metavar="POINTS", help="a number for each exercise, divided among its gradients, or a "
                        "TOML file: softmax = 2, attention = {dq = 1, dk = 1, dv = 2} (default: its difficulty, 1 to 5)")
    parser.add_argument("--seed", type=int, help="of the inputs, which are the same for everybody (default: drawn once)")
    parser.add_argument("--seconds", type=float,
                        help=f"limit for one call (default: {SECONDS:g}; for all calls: six times that)")
    parser.add_argument("--jobs", type=int, help="how many to judge at once (default: one per core)")
    parser.add_argument("--force", action="store_true", help="overwrite files that this command did not write")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    check_numbers(given)
    folder = pathlib.Path(given["folder"])
    chosen, called = chosen_exercises(given)
    with usage_errors():
        points = points_of(given.get("points"), chosen)
    check_places(given, folder)
    one_student = is_file_of_gradescope(given)
    try:
        found = submissions.find(folder, chosen, COURSE, every="exercise" in given, one_student=one_student)
    except OSError as error:
        raise UsageError(f"cannot read {error.filename or folder} ({error.strerror}); name the folder of a class") from None
    if not found and not one_student:
        raise UsageError(f"there are no submissions in {folder}: no .py and no .ipynb" +
                         (f" for {', '.join(chosen)}" if "exercise" in given else ""))
    grades = opened(pathlib.Path(given.get("out", OUT)), given.get("seed"))
    try:
        results = judged(found, called, grades, given)
    except judges.NoJudges as error:
        raise CheckFailed(error) from None
    rows = [row_of(submission, results.get(submission), points, folder) for submission in found]
    show(rows, grades)
    for path, content in outputs(given, rows, grades.seed).items():
        write(path, content)
    for name in ("csv", "canvas", "json", "gradescope", "report"):
        if name in given:
            print(given[name])
    return int(any(result.get("failed", False) for result in results.values()))


def judged(found: list[Submission], called: dict[str, str], grades: Kept, given: dict) -> dict[Submission, judges.Result]:
    """The results of all submissions that can be judged: kept ones, and the others as they arrive."""
    seconds = given.get("seconds", SECONDS)
    tasks, results = {}, {}

    def key_of(submission: Submission) -> str:
        return grades.key(submission.path, called[submission.exercise])

    for submission in found:
        if submission.problem:
            continue
        key = key_of(submission)
        before = grades.get(key)
        if before and (before["verdict"] != TIMEOUT or before["limit"] >= seconds):
            results[submission] = before
        else:
            task = judges.Task(os.fspath(submission.path), called[submission.exercise], grades.seed, seconds)
            tasks[task] = submission, key
    count = len(tasks) + len(results)
    try:
        with tqdm(total=count, initial=len(results), desc="judged", unit="", leave=False, disable=None) as bar:
            for task, result in judges.judge_all(list(tasks), given.get("jobs", len(own_cores()))):
                submission, key = tasks[task]
                results[submission] = result
                if not result.get("failed") and key_of(submission) == key:
                    grades.keep(key, {**result, "limit": seconds})
                bar.update()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {len(results)} of {count} are judged and kept in {grades.folder}: "
                                "run the same command again to resume") from None
    return results


def row_of(submission: Submission, result: judges.Result | None, points: Points, folder: pathlib.Path) -> Row:
    worth = points.get(submission.exercise, {})
    file = line(os.path.relpath(submission.path, folder.resolve())) if submission.path else ""
    named = {"student": line(submission.student), "exercise": submission.exercise, "file": file,
             "most_points": round(sum(worth.values()), 2)}
    if result is None:
        return Row(verdict=NOT_JUDGED, sentence=line(submission.problem), **named)
    return Row(verdict=result["verdict"], mistakes=tuple(result["mistakes"]), sentence=result["sentence"],
               report=result["report"], note=line(submission.note),
               points=earned(worth, result["right"], result["verdict"] == RIGHT), seconds=result["seconds"],
               source=result["source"], numbers=result["numbers"], **named)


def show(rows: list[Row], grades: Kept) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(tables.table(rows, width), tables.summary(rows), sep="\n\n")
    print(f"\nseed {grades.seed}; results are kept in {grades.folder}")


def outputs(given: dict, rows: list[Row], seed: int) -> dict[pathlib.Path, str]:
    """{path: content} of the requested files."""
    title = f"Grades: {line(pathlib.Path(given['folder']).resolve().name)}"
    found = {pathlib.Path(given[name]): make(rows, title, seed) for name, (make, _) in FILES.items() if name in given}
    if is_file_of_gradescope(given):
        found[pathlib.Path(given["gradescope"])] = gradescope.results(rows, seed)
    elif "gradescope" in given:
        found |= gradescope.files(rows, pathlib.Path(given["gradescope"]), seed)
    return found


def write(path: pathlib.Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(pathlib.Path(os.path.realpath(path))) as file:
        file.write(content.encode())


def chosen_exercises(given: dict) -> tuple[dict[str, Exercise], dict[str, str]]:
    """The exercises to grade, by name, and {name: what the user called it}; by default the whole course."""
    try:
        names = [os.path.abspath(name) if name.endswith(".py") else name for name in given.get("exercise", COURSE)]
        chosen = {name: exercise_called(name) for name in names}
        return ({exercise.name: exercise for exercise in chosen.values()},
                {exercise.name: name for name, exercise in chosen.items()})
    except ValueError as error:
        raise UsageError(error) from None


def opened(folder: pathlib.Path, seed: int | None) -> Kept:
    try:
        return Kept(folder, seed)
    except Elsewhere as error:
        raise UsageError(f"{error}; keep the results elsewhere, with --out") from None
    except OSError as error:
        raise UsageError(f"cannot write to {folder} ({error.strerror}); keep the results elsewhere, with --out") from None


def is_file_of_gradescope(given: dict) -> bool:
    return pathlib.Path(given.get("gradescope", "")).suffix == ".json"


def check_numbers(given: dict) -> None:
    """UsageError for numbers out of range."""
    for name, least, what in (("jobs", 1, "a number of processes from 1"), ("seed", 0, "a whole number from 0"),
                              ("seconds", 0.1, "a number from 0.1")):
        if name in given and not least <= given[name] < math.inf:
            raise UsageError(f"--{name}: expected {what}, got {given[name]:g}")


def check_places(given: dict, folder: pathlib.Path) -> None:
    """UsageError, before anything is judged, if an output cannot be written."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name one with a folder for each student, or with their files")
    if "out" not in given and pathlib.Path(OUT).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"results would be kept in {OUT}, inside {folder}; choose another place with --out")
    for name, (_, is_ours) in FILES.items():
        if name in given:
            check_file_place(pathlib.Path(given[name]), f"--{name}", is_ours, "force" in given)
    if is_file_of_gradescope(given):
        check_file_place(pathlib.Path(given["gradescope"]), "--gradescope", gradescope.is_results, "force" in given)
    elif "gradescope" in given:
        place = pathlib.Path(given["gradescope"])
        if place.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"--gradescope: {place} is inside {folder}, with the students' files; name another folder")
        check_writable(place, "--gradescope")
        for path in place.glob(f"*/{gradescope.RESULTS}"):
            check_file_place(path, "--gradescope", gradescope.is_results, "force" in given)


def check_file_place(path: pathlib.Path, flag: str, is_ours: Callable[[bytes], bool], force: bool) -> None:
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is a folder, pipe, socket or device; name a file with {flag}")
    check_writable(path.parent, flag)
    try:
        if path.is_file() and not force and not is_ours(path.read_bytes()):
            raise UsageError(f"{path} exists; choose another place with {flag}, or overwrite it with --force")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); choose another place with {flag}") from None
