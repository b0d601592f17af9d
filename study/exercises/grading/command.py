"""`minigrad exercises grade FOLDER`: grades a class."""
import argparse
import math
import os
import pathlib
import re
import secrets
import shutil
import sys
import tempfile
import zipfile

from tqdm import tqdm

from minigrad.serialization import replacing
from models.commands.shared import UsageError, usage_errors
from models.distributed import own_cores
from study.exercises.course import COURSE
from study.exercises.exercise import Exercise
from study.exercises.files import exercise_called
from study.exercises.grading import gradescope, judging, page, submissions, tables
from study.exercises.grading.rows import NOT_JUDGED, Row, line
from study.exercises.grading.submissions import Course, Submission
from study.exercises.report import RIGHT
from study.exercises.sandbox import Limits
from study.places import check_place

SECONDS = Limits().call_seconds
CHOSEN = "exercises.txt"
FILES = {  # {flag: the content for (rows, title, seed)}
    "csv": lambda rows, title, seed: tables.as_csv(rows),
    "canvas": lambda rows, title, seed: tables.as_canvas(rows),
    "json": lambda rows, title, seed: tables.as_json(rows, seed),
    "gradescope": lambda rows, title, seed: gradescope.results(rows, seed),
    "report": page.html,
}
BEGINNING = 40  # characters that all files of a kind have in common


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="a folder, or zip, with a folder or files for each student")
    parser.add_argument("--only", metavar="NAMES", help=f"these exercises, with commas between, or files of your own "
                        f"(default: those in FOLDER/{CHOSEN}, or all that anybody handed in)")
    parser.add_argument("--csv", metavar="FILE", help="write the table for a spreadsheet")
    parser.add_argument("--canvas", metavar="FILE", help="write the points for Canvas to import into its gradebook")
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--report", metavar="FILE", help="write an HTML page: mistakes by frequency, each student in full")
    parser.add_argument("--gradescope", metavar="FILE", help="FOLDER is one submission: write its results.json")
    parser.add_argument("--points", type=float, help="for a right answer (default: the exercise's difficulty, 1 to 5)")
    parser.add_argument("--seed", type=int, help="of the inputs, which are the same for everybody (default: drawn once)")
    parser.add_argument("--seconds", type=float,
                        help=f"limit for one call (default: {SECONDS:g}; for all calls: six times that)")
    parser.add_argument("--jobs", type=int, help="how many to judge at once (default: one per core)")
    parser.add_argument("--force", action="store_true", help="overwrite files that this command did not write")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    check_numbers(given)
    folder, one_student = pathlib.Path(given["folder"]), "gradescope" in given
    check_places(given, folder)
    seed = given.get("seed", secrets.randbelow(10**6))
    with tempfile.TemporaryDirectory(prefix="minigrad-") as unpacked:
        try:
            chosen, only = chosen_exercises(given, folder)
            found = submissions.find(folder, chosen, COURSE, unpacked, every=only, one_student=one_student)
        except OSError as error:
            place = error.filename or folder
            raise UsageError(f"cannot read {place} ({error.strerror}); name the folder of a class") from None
        if not found and not one_student:
            raise UsageError(f"there are no submissions in {folder}: no .py and no .ipynb" +
                             (f" for {', '.join(chosen)}" if only else ""))
        results = judged(found, chosen, seed, given)
    rows = [row_of(submission, results.get(submission), chosen, given.get("points")) for submission in found]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(tables.table(rows, width), tables.summary(rows), sep="\n\n")
    print(f"\nseed {seed}" + (f"; exercises: {', '.join(chosen)}" if only else ""))
    title = f"Grades: {line(folder.resolve().stem)}"
    for name, make in FILES.items():
        if name in given:
            write(pathlib.Path(given[name]), make(rows, title, seed))
            print(given[name])
    return int(any(result.get("failed", False) for result in results.values()))


def judged(found: list[Submission], chosen: Course, seed: int, given: dict) -> dict[Submission, judging.Result]:
    """The results of all submissions that can be judged."""
    seconds, jobs = given.get("seconds", SECONDS), given.get("jobs", len(own_cores()))
    tasks = {judging.Task(os.fspath(one.file.path), chosen[one.exercise].file or one.exercise, seed, seconds): one
             for one in found if not one.problem}
    arriving = judging.judge_all(list(tasks), jobs)
    return {tasks[task]: result
            for task, result in tqdm(arriving, "judged", len(tasks), unit="", leave=False, disable=None)}


def row_of(submission: Submission, result: judging.Result | None, chosen: Course, points: float | None) -> Row:
    """The row of a submission; a right answer gets the points."""
    exercise = chosen.get(submission.exercise)
    most = 0 if exercise is None else exercise.difficulty if points is None else points
    named = {"student": line(submission.student), "number": submission.number, "exercise": submission.exercise,
             "file": line(str(submission.file.place)) if submission.file else "", "most_points": most,
             "is_late": submission.is_late}
    if result is None:
        return Row(verdict=NOT_JUDGED, sentence=line(submission.problem), **named)
    return Row(verdict=result["verdict"], mistakes=tuple(result["mistakes"]), sentence=result["sentence"],
               report=result["report"], note=line(submission.note), points=most if result["verdict"] == RIGHT else 0,
               seconds=result["seconds"], source=result["source"], numbers=result["numbers"], **named)


def write(path: pathlib.Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(pathlib.Path(os.path.realpath(path))) as file:
        file.write(content.encode())


def chosen_exercises(given: dict, folder: pathlib.Path) -> tuple[dict[str, Exercise], bool]:
    """({name: exercise}, whether a flag or a file in the folder names them, or it is the whole course). A student's own
    folder chooses nothing."""
    path, names = folder / CHOSEN, []
    with usage_errors("" if "only" in given else f"{path}: "):
        if "only" in given:
            names = [name.strip() for name in given["only"].split(",")]
        elif path.is_file() and "gradescope" not in given:
            names = re.findall(r"[^\s,]+", re.sub("#.*", "", path.read_text(encoding="utf-8")))
            if own := [name for name in names if name.endswith(".py")]:
                raise ValueError(f"{own[0]} would run as yours; name files of your own with --only")
        chosen = [exercise_called(os.path.abspath(name) if name.endswith(".py") else name) for name in names or COURSE]
    return {exercise.name: exercise for exercise in chosen}, bool(names)


def check_numbers(given: dict) -> None:
    """UsageError for numbers out of range."""
    for name, least, what in (("jobs", 1, "a number of processes from 1"), ("seed", 0, "a whole number from 0"),
                              ("seconds", 0.1, "a number from 0.1"), ("points", 0, "a number of points from 0")):
        if name in given and not least <= given[name] < math.inf:
            raise UsageError(f"--{name}: expected {what}, got {given[name]:g}")


def check_places(given: dict, folder: pathlib.Path) -> None:
    """UsageError, before anything is judged, if an output cannot be written."""
    if not folder.is_dir() and not (folder.is_file() and zipfile.is_zipfile(folder)):
        raise UsageError(f"{folder} is neither a folder nor a zip; name one with a folder or files for each student")
    for name, make in FILES.items():
        if name in given:
            ours = make([], "", 0)[:BEGINNING].encode()
            check_place(pathlib.Path(given[name]), f"--{name}", lambda path, ours=ours: path.read_bytes().startswith(ours),
                        "force" in given)
