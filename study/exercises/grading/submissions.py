"""Which files in a folder belong to whom, and to which exercise, by the names that students and platforms give them.

    FOLDER/jane/softmax.py, FOLDER/jane/homework/softmax.ipynb       a folder for each student
    FOLDER/Jane Doe_123_assignsubmission_file_/softmax.py            Moodle
    FOLDER/doejane_LATE_123_456_softmax-1.py                         Canvas, all in one folder
    FOLDER/jane.zip, FOLDER/jane/homework.zip                        a zip is a folder, and FOLDER may be one
    FOLDER/submission_1234/softmax.py                                Gradescope
    FOLDER/jane_softmax.py, FOLDER/softmax_jane.py                   by hand
    FOLDER/softmax.py                                                the folder itself is the student

A file answers the exercise that it is named after, or else those whose functions it defines, which may be several.
"""
import functools
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from study.exercises.exercise import Exercise
from study.exercises.grading.files import ZIP, File, files_in

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+_?(?P<rest>.*)")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<rest>.+)")
COPY = re.compile(r"(?P<stem>.*?)[-_ ]*(?:copy)?[-_ ]*(?:\((?P<in_brackets>\d+)\)|(?P<number>\d+))?")
DEFINED = re.compile(rb"(?:\b|\\n)def[ \t]+(\w+)")  # in a notebook, a cell may be one string with its newlines as \n

Course = Mapping[str, Exercise]


class Owner(NamedTuple):
    """A student's name, and the platform's number, as two may have one name."""

    name: str
    number: str = ""


@dataclass(frozen=True)
class Submission:
    """What a student handed in for an exercise, or why it cannot be judged."""

    student: str
    number: str = ""  # the platform's
    exercise: str = ""
    file: File | None = None
    note: str = ""  # which of several files is judged
    problem: str = ""
    is_late: bool = False


@dataclass(frozen=True)
class Answer:
    """A file that may be a submission, or that was handed in in its place."""

    file: File
    called: str  # by the student: softmax.py, homework.zip/softmax.py
    is_late: bool
    exercises: tuple[str, ...] = ()

    @property
    def preference(self) -> tuple:
        """Of several for an exercise, the last of the largest is judged: "softmax-2" over "softmax", .py over .ipynb."""
        copy, place = COPY.fullmatch(pathlib.PurePath(self.called).stem), self.file.place
        return int(copy["in_brackets"] or copy["number"] or 0), place.suffix == ".py", -len(place.parts), place


def find(folder: pathlib.Path, exercises: Course, course: Course, unpacked: str, *, every: bool = False,
         one_student: bool = False) -> list[Submission]:
    """The submissions in a folder or a class's zip, by student and exercise. What is in zips is unpacked.

    exercises: those to grade; files for others of the course are left out.
    every: a student who handed in nothing for an exercise gets a row that says so.
    one_student: all files are from one student, named after the folder.
    """
    root, course = folder.resolve(), {**course, **exercises}
    alone = Owner(root.stem if root.is_file() else root.name)
    answers: dict[Owner, list[Answer]] = {alone: []} if one_student else {}
    for file in files_in(root, unpacked, one_student):
        owner, called, is_late = handed_in(file, course)
        if file.is_folder and not file.problem:
            if len(file.place.parts) == 1 and not one_student:
                answers.setdefault(owner, [])
            continue
        name = pathlib.PurePath(called)
        stem = name.stem if file.path or file.problem else name.name.partition(".")[0]
        answered, rest = exercises_of(stem, functions_in(file.path), course)
        if owner is None and (file.path or file.problem or answered and rest):
            owner = Owner(rest)
        if owner or one_student:
            owner = alone if one_student or not owner.name else owner
            answers.setdefault(owner, []).append(Answer(file, called, is_late, tuple(answered if file.path else ())))
    names = Counter(owner.name for owner in answers)
    found = []
    for (name, number), theirs in answers.items():
        shown = name if names[name] == 1 or not number else f"{name} ({number})"
        found += of_student(functools.partial(Submission, shown, number), theirs, exercises, every)
    order = {exercise: i for i, exercise in enumerate(exercises)}
    return sorted(found, key=lambda row: (row.student.casefold(), row.student, order.get(row.exercise, -1), str(row.file)))


def of_student(row: Callable[..., Submission], answers: list[Answer], exercises: Course, every: bool
               ) -> Iterator[Submission]:
    """One student's rows: for each exercise, and for what answers none."""
    by_exercise: dict[str, list[Answer]] = {}
    for answer in answers:
        for exercise in answer.exercises:
            by_exercise.setdefault(exercise, []).append(answer)
    if len(exercises) == 1 and not by_exercise.keys() & exercises.keys():  # then any file must answer this one
        by_exercise |= {exercise: [answer for answer in answers if answer.file.path and not answer.exercises]
                        for exercise in exercises}
    missing = [exercise for exercise in exercises if not by_exercise.get(exercise)]
    for exercise in exercises:
        if exercise not in missing:
            *others, best = sorted(by_exercise[exercise], key=lambda answer: answer.preference)
            last = ", the last of its name," if any(answer.file.place == best.file.place for answer in others) else ""
            note = f"of {len(others) + 1} files, {best.file.place.name}{last} is judged" if others else ""
            yield row(exercise, best.file, note, is_late=best.is_late)
        elif every:
            yield row(exercise, problem=nothing_but(f"{exercise}.py", answers))
    rest = [answer for answer in answers if not any(answer in chosen for chosen in by_exercise.values())]
    if every and missing:  # whose rows say all
        return
    yield from (row(file=answer.file, problem=f"{answer.called}: {answer.file.problem}")
                for answer in rest if answer.file.problem)
    if unknown := [answer.file for answer in rest if answer.file.path]:
        more = f", and {len(unknown) - 1} more such files" if unknown[1:] else ""
        yield row(file=unknown[0], problem=f"answers no known exercise, by its name or its functions{more}")
    if not any(answer.file.path or answer.file.problem for answer in answers):
        yield row(problem=nothing_but(".py and no .ipynb", answers))


def nothing_but(wanted: str, answers: list[Answer]) -> str:
    """Why there is nothing to judge: "no softmax.py, but homework.zip/tanh.py"."""
    names = [answer.called + (f" ({answer.file.problem})" if answer.file.problem else "") for answer in answers]
    if not names:
        return "nothing was handed in"
    return f"no {wanted}, but {', '.join(names[:3])}" + (f", and {len(names) - 3} more" if names[3:] else "")


def handed_in(file: File, course: Course) -> tuple[Owner | None, str, bool]:
    """(whose it is, what they called it, whether it is late); None if no folder, zip or platform says whose."""
    first, *inner = file.place.parts
    outer = pathlib.PurePosixPath(first)
    if file.is_folder or inner and outer.suffix.casefold() != ZIP:
        found = MOODLE.fullmatch(first)
        return Owner(found["name"], found["number"]) if found else Owner(first), file.name, False
    for platform in (MOODLE, CANVAS):
        if (found := platform.fullmatch(outer.stem)) and found["rest"]:
            called = found["rest"] + outer.suffix + file.name.removeprefix(first)
            return Owner(found["name"], found["number"]), called, bool(found.groupdict().get("late"))
    if not inner:
        return None, first, False
    if any(platform.fullmatch(pathlib.PurePath(inner[0]).stem) for platform in (MOODLE, CANVAS)):  # the zip of a class
        return handed_in(replace(file, place=pathlib.PurePosixPath(*inner)), course)
    return Owner(exercises_of(outer.stem, set(), course)[1]), file.name, False


def functions_in(path: pathlib.Path | None) -> set[str]:
    """What a file seems to define, without parsing it."""
    return {name.decode() for name in DEFINED.findall(path.read_bytes())} if path else set()


def exercises_of(stem: str, defined: set[str], course: Course) -> tuple[list[str], str]:
    """(the exercises that a file answers, the rest of its name): by its name, or else by the functions that it defines.

    "anna_log_softmax" may be log_softmax, or Anna Log's softmax: the functions decide, or else the longer match.
    """
    by_content = [name for name, exercise in course.items() if exercise.function_name in defined]
    said = named_by(stem, course)
    if not said:
        return by_content, stem
    best = max(said, key=lambda name: (name in by_content, len(name)))
    return [best], said[best]


def named_by(stem: str, course: Course) -> dict[str, str]:
    """{an exercise that a file's name may mean: the rest of the name}; only one if nothing is left."""
    words = {plain(word): name for name, exercise in course.items() for word in (name, exercise.function_name)}
    found = {}
    for text in (plain(stem), plain(COPY.fullmatch(stem)["stem"])):
        if text in words:
            return {words[text]: ""}
        for word, name in words.items():
            if text.endswith(f"_{word}"):
                found.setdefault(name, text.removesuffix(f"_{word}"))
            if text.startswith(f"{word}_"):
                found.setdefault(name, text.removeprefix(f"{word}_"))
    return found


def plain(name: str) -> str:
    """A name as a Python identifier.

    >>> plain("Layer-Norm (final)")
    'layer_norm_final'
    """
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")

