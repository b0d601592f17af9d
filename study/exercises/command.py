"""`minigrad exercises`: the list, and what to do with an exercise. Exit code 1 if an answer is not right."""
import argparse
import functools
import itertools
import json
import pathlib

from models.commands.shared import Parser, UsageError, check_ending, check_writable
from models.progress import saying
from study import document
from study.exercises import own, progress, text
from study.exercises.course import COURSE, TOPICS
from study.exercises.exercise import Exercise
from study.exercises.files import check_file, exercise_called
from study.exercises.grading import command as grading
from study.exercises.report import ERROR, Report
from study.exercises.submission import SubmissionError
from study.exercises.training import command as training
from study.places import check_place

HANDOUT = "exercises.html"


def add_flags(parser: argparse.ArgumentParser) -> None:
    make = functools.partial(Parser, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=make,
                                    help="what to do; without one, the list")
    for action, (about, add, _) in ACTIONS.items():
        add(actions.add_parser(action, help=about, description=about))


def run(options: argparse.Namespace) -> int:
    return ACTIONS[options.action][2](options) if options.action else show_list(pathlib.Path())


def show_list(folder: pathlib.Path) -> int:
    """All exercises by topic, and which are done in this folder."""
    done = progress.read(folder)
    count = sum(entry["right"] for name, entry in done.items() if name in COURSE)
    print(f"{len(COURSE)} exercises, {count} done in this folder; the number is the difficulty, from 1 to 5")
    for topic, exercises in TOPICS.items():
        print(f"\n{topic}")
        for exercise in exercises:
            mark = "done" if done.get(exercise.name, {}).get("right") else ""
            print(f"  {mark:4}  {exercise.difficulty}  {exercise.name:22}  {exercise.title}")
    print("\nminigrad exercises start NAME writes a file to begin with; minigrad exercises check FILE judges it;\n"
          "minigrad exercises train FILE... trains a small transformer with it")
    return 0


def add_start_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the exercise, or the file of your own")
    add_to(parser)


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="FOLDER", default=".", help="where the file goes (default: this folder)")


def start(options: argparse.Namespace) -> int:
    exercise = exercise_of(options.name)
    path = pathlib.Path(options.to) / f"{exercise.name}.py"
    check_writable(path.parent, "--to")
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text.starter(exercise))
    except FileExistsError:
        raise UsageError(f"{path} already exists; choose another folder with --to") from None
    print(path)
    return 0


def add_show_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="+", help="the exercise, or the file of your own")
    parser.add_argument("--hints", type=int, choices=(1, 2, 3), help="also show this many of its three hints")
    parser.add_argument("--solution", action="store_true", help="also show the solution")
    parser.add_argument("--html", metavar="PAGE", nargs="?", const=HANDOUT,
                        help=f"write a page to hand out (default: {HANDOUT})")


def show(options: argparse.Namespace) -> int:
    exercises = [exercise_of(name) for name in options.name]
    if "html" not in options:
        parts = [[one.signature, text.statement(one), *more(one, options, "{}")] for one in exercises]
        print("\n\n\n".join("\n\n".join(part) for part in parts))
        return 0
    path = pathlib.Path(options.html)
    check_place(path, "--html")
    parts = ["# Exercises", *(text.handout(one, more(one, options, "```python\n{}\n```")) for one in exercises)]
    path.write_text(document.page("\n\n".join(parts), path.parent), encoding="utf-8")
    print(path)
    return 0


def more(exercise: Exercise, options: argparse.Namespace, code: str) -> list[str]:
    """The hints and the solution that were asked for."""
    hints = [f"Hint {k + 1} of 3: {exercise.hints[k]}" for k in range(getattr(options, "hints", 0))]
    return hints + [code.format(exercise.source.rstrip())] * ("solution" in options)


def add_new_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the exercise; students will write NAME_backward")
    add_to(parser)


def new(options: argparse.Namespace) -> int:
    check_writable(pathlib.Path(options.to), "--to")
    if options.name in COURSE:
        raise UsageError(f"{options.name} is an exercise of the course; choose another name for your own")
    try:
        print(own.new(options.name, options.to))
    except ValueError as error:
        raise UsageError(error) from None
    return 0


def add_check_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="your answer: a .py file or a notebook")
    parser.add_argument("--exercise", metavar="NAME", help="which one it answers, or the file of your own (default: "
                        "the one that the file or its function is named after)")
    parser.add_argument("--hint", action="store_true", help="show the next of three hints")
    parser.add_argument("--solution", action="store_true", help="after a right answer, show a solution")
    parser.add_argument("--plot", metavar="PICTURE", nargs="?", const="",
                        help="draw your result next to the right one (.png, .pdf or .svg)")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--seed", type=int, help="draw the same inputs again")


def check(options: argparse.Namespace) -> int:
    given = vars(options)
    path = pathlib.Path(given["file"])
    if not path.exists():
        raise UsageError(f"there is no file {path}")
    if given.get("plot"):
        check_place(pathlib.Path(given["plot"]), "--plot")
        check_ending(given["plot"], "--plot")
    if given.get("seed", 0) < 0:
        raise UsageError(f"--seed: expected a whole number from 0, got {given['seed']}")
    exercise = exercise_of(given["exercise"]) if "exercise" in given else None
    try:
        with saying("running your answer"):
            report = check_file(path, exercise, given.get("seed"))
    except SubmissionError as error:
        hint = "; say which exercise it is with --exercise NAME" if "exercise" in str(error) else ""
        unknown = {"exercise": None, "verdict": ERROR, "mistake": None, "sentence": f"{error}{hint}"}
        print(json.dumps(unknown) if "json" in given else f"{ERROR.upper()}\n  {error}{hint}")
        return 1
    folder = path.parent
    if report:
        progress.note(folder, report.exercise.name, right=True)
    if "json" in given:
        print(json.dumps(report.as_dict()))
    else:
        print(report)
    if "plot" in given and report.trials:
        picture = pathlib.Path(given["plot"] or unused(folder / f"{report.exercise.name}_check.png"))
        with saying("drawing the picture"):
            report.plot(str(picture))
        print(picture)
    if "hint" in given and not report:
        print_hint(report, folder)
    if "solution" in given:
        print_solution(report)
    return 0 if report else 1


def print_hint(report: Report, folder: pathlib.Path) -> None:
    """The hints that have been read, and the next one."""
    exercise = report.exercise
    read = progress.read(folder).get(exercise.name, {"hints": 0})["hints"]
    for k in range(min(read + 1, len(exercise.hints))):
        print(f"\nHint {k + 1} of {len(exercise.hints)}: {exercise.hints[k]}")
    progress.note(folder, exercise.name, hints=1)


def print_solution(report: Report) -> None:
    exercise = report.exercise
    print(f"\n{exercise.source}" if report else "\nThe solution is shown once your answer is right; to see it now:  "
          f"minigrad exercises show {exercise.name} --solution")


def unused(path: pathlib.Path) -> pathlib.Path:
    """The path, with a number if it exists already."""
    numbered = (path.with_stem(f"{path.stem}_{k}") for k in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not one.exists())


def exercise_of(name: str) -> Exercise:
    """An exercise by its name or file; UsageError if there is none."""
    try:
        return exercise_called(name)
    except ValueError as error:
        raise UsageError(error) from None


ACTIONS = {
    "start": ("Write a file to start from; it never overwrites anything.", add_start_flags, start),
    "show": ("Show the statement of an exercise.", add_show_flags, show),
    "check": ("Judge an answer, and name the mistake.", add_check_flags, check),
    "train": ("Train a small transformer with your own backwards in it.", training.add_flags, training.run),
    "grade": ("Grade all answers of a class.", grading.add_flags, grading.run),
    "new": ("Write a template for an exercise of your own.", add_new_flags, new),
}
