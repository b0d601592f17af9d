"""Which files in a folder belong to whom, and to which exercise, by the names that students and platforms give them.

    FOLDER/jane/softmax.py, FOLDER/jane/homework/softmax.ipynb       a folder for each student
    FOLDER/Jane Doe_123_assignsubmission_file_/softmax.py            Moodle
    FOLDER/doejane_LATE_123_456_softmax-1.py                         Canvas, all in one folder
    FOLDER/submission_1234/softmax.py                                Gradescope
    FOLDER/jane_softmax.py, FOLDER/softmax_jane.py                   by hand
    FOLDER/softmax.py                                                the folder itself is the student

A file answers the exercise that it is named after, or else those whose functions it defines, which may be several.
"""
import os
import pathlib
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from study.exercises.exercise import Exercise

SUFFIXES = ".py", ".ipynb"
NEVER = "__pycache__", "__MACOSX"  # nor hidden files; of hidden folders next to the students', only these:
TOOLS = (".git", ".github", ".hg", ".svn", ".idea", ".vscode", ".venv", ".cache", ".ipynb_checkpoints", ".mypy_cache",
         ".pytest_cache", ".ruff_cache")
MOST_BYTES = 20_000_000  # of a file

MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+_?(?P<rest>.*)")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_\d+_(?P<rest>.+)")
COPY = re.compile(r"(?P<stem>.*?)[-_ ]*(?:copy)?[-_ ]*(?:\((?P<in_brackets>\d+)\)|(?P<number>\d+))?")
DEFINED = re.compile(rb"(?:\b|\\n)def[ \t]+(\w+)")  # in a notebook, a cell may be one string with its newlines as \n

Course = Mapping[str, Exercise]
Owner = tuple[str, str]  # a name, and the platform's number, as two students may have one name


@dataclass(frozen=True)
class Submission:
    """What a student handed in for an exercise, or why it cannot be judged."""

    student: str
    exercise: str = ""
    path: pathlib.Path | None = None
    note: str = ""  # which of several files is judged
    problem: str = ""


@dataclass(frozen=True)
class File:
    """A file that may be a submission."""

    path: pathlib.Path
    owner: Owner
    stem: str  # what the student called it
    exercises: tuple[str, ...] = ()
    problem: str = ""
    is_code: bool = True

    @property
    def preference(self) -> tuple:
        """Of several files for an exercise, the largest key is judged: "softmax-2" over "softmax", .py over .ipynb."""
        copy = COPY.fullmatch(self.stem)
        return int(copy["in_brackets"] or copy["number"] or 0), self.path.suffix == ".py", -len(self.path.parts), self.path


def find(folder: pathlib.Path, exercises: Course, course: Course, *, every: bool = False,
         one_student: bool = False) -> list[Submission]:
    """The submissions in a folder, by student and exercise.

    exercises: those to grade; files for others of the course are left out.
    every: a student who handed in nothing for an exercise gets a row that says so.
    one_student: all files are from one student, named after the folder.
    """
    root, course = folder.resolve(), {**course, **exercises}
    alone = root.name, ""
    owners = {owner: [] for owner in ([alone] if one_student else owners_of_folders(root))}
    for file in files_in(root, course, one_student):
        owners.setdefault(alone if one_student else file.owner, []).append(file)
    found = []
    for owner, name in names_of(owners).items():
        code, others = ([file for file in owners[owner] if file.is_code == is_code] for is_code in (True, False))
        rows = list(of_student(name, code, exercises))
        if every:
            missing = [exercise for exercise in exercises if exercise not in {row.exercise for row in rows}]
            rows += [Submission(name, exercise, problem=nothing_but(others)) for exercise in missing]
        elif not code:
            rows.append(Submission(name, problem=nothing_but(others)))
        found += rows
    order = {exercise: i for i, exercise in enumerate(exercises)}
    return sorted(found, key=lambda row: (row.student.casefold(), row.student, order.get(row.exercise, -1), str(row.path)))


def nothing_but(others: list[File]) -> str:
    """Why there is nothing to judge."""
    names = [file.path.name for file in others]
    if not names:
        return "nothing was handed in"
    return f"no .py and no .ipynb, but {', '.join(names[:3])}" + (f", and {len(names) - 3} more" if names[3:] else "")


def of_student(name: str, files: list[File], exercises: Course) -> Iterator[Submission]:
    """One student's: a submission for each exercise, and one for the files that answer none."""
    by_exercise, unknown = defaultdict(list), []
    for file in files:
        if file.problem:
            yield Submission(name, path=file.path, problem=file.problem)
        elif not file.exercises:
            unknown.append(file)
        for exercise in file.exercises:
            by_exercise[exercise].append(file)
    if len(exercises) == 1 and not by_exercise.keys() & exercises.keys():  # then any file must answer this one
        (only,) = exercises
        by_exercise[only], unknown = unknown, []
    for exercise in exercises:
        if chosen := by_exercise[exercise]:
            *others, best = sorted(chosen, key=lambda file: file.preference)
            note = f"of {len(chosen)} files, {best.path.name} is judged" if others else ""
            yield Submission(name, exercise, best.path, note)
    if unknown:
        first, *others = unknown
        more = f", and {len(others)} more such files" if others else ""
        yield Submission(name, path=first.path, problem=f"answers no known exercise, by its name or its functions{more}")


def names_of(owners: Iterable[Owner]) -> dict[Owner, str]:
    """{owner: the name to show}, with the number if the name is not unique."""
    counts = Counter(name for name, _ in owners)
    return {(name, number): name if counts[name] == 1 or not number else f"{name} ({number})" for name, number in owners}


def owners_of_folders(root: pathlib.Path) -> Iterator[Owner]:
    """The students who have a folder."""
    with os.scandir(root) as entries:
        for entry in entries:
            if is_wanted(entry.path, is_students=True) and entry.is_dir(follow_symlinks=False):
                yield owner_of_folder(entry.name)


def files_in(root: pathlib.Path, course: Course, one_student: bool = False) -> Iterator[File]:
    """All files that may be submissions; OSError if a folder cannot be read."""
    def stop(error: OSError):
        raise error

    for place, folders, names in os.walk(root, onerror=stop):
        are_students = not one_student and pathlib.Path(place) == root
        folders[:] = sorted(name for name in folders if is_wanted(os.path.join(place, name), are_students))
        files = sorted(name for name in names if is_wanted(os.path.join(place, name)))
        for path in (pathlib.Path(place, name) for name in sorted((*folders, *files))):
            if path.suffix.casefold() in SUFFIXES and not path.is_dir() or path.is_symlink() and path.is_dir():
                yield file_at(path, root, course)
            elif not path.is_dir() and (one_student or (owner := owner_of_other(path, root, course))):
                yield File(path, ("", "") if one_student else owner, path.stem, is_code=False)


def file_at(path: pathlib.Path, root: pathlib.Path, course: Course) -> File:
    """What a file is, by its name and its functions."""
    owner, stem = owner_of(path, root)
    problem, content = read(path, root)
    defined = {name.decode() for name in DEFINED.findall(content)}
    exercises, rest = exercises_of(stem, defined, course)
    return File(path, owner or (rest or root.name, ""), stem, () if problem else tuple(exercises), problem)


def owner_of_other(path: pathlib.Path, root: pathlib.Path, course: Course) -> Owner | None:
    """Who handed in a file that is no code, if its folder, its platform or its name says so."""
    owner, _ = owner_of(path, root)
    rest = next(iter(named_by(path.name.partition(".")[0], course).values()), "")
    return owner or ((rest, "") if rest else None)


def read(path: pathlib.Path, root: pathlib.Path) -> tuple[str, bytes]:
    """(why it cannot be judged, or ""; its content)"""
    try:
        if path.is_dir():
            return "a link to a folder, which is not followed", b""
        if not path.resolve(strict=True).is_relative_to(root):
            return "a link out of the folder, which is not followed", b""
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "a pipe, socket or device, not a file", b""
        if status.st_size > MOST_BYTES:
            return f"too large: {status.st_size:,} bytes, and the limit is {MOST_BYTES:,}", b""
        return "", path.read_bytes()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        return f"cannot be read ({getattr(error, 'strerror', None) or error})", b""


def owner_of(path: pathlib.Path, root: pathlib.Path) -> tuple[Owner | None, str]:
    """(who handed it in, what they called it); None if no platform named the file."""
    first, *inner = path.relative_to(root).parts
    if inner or path.is_dir():
        return owner_of_folder(first), path.stem
    for platform in (MOODLE, CANVAS):
        if (found := platform.fullmatch(path.stem)) and found["rest"]:
            return (found["name"], found["number"]), found["rest"]
    return None, path.stem


def owner_of_folder(name: str) -> Owner:
    found = MOODLE.fullmatch(name)
    return (found["name"], found["number"]) if found else (name, "")


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


def is_wanted(path: str | os.PathLike, is_students: bool = False) -> bool:
    """Is it neither hidden nor a tool's? A student's folder may be hidden, so that everybody gets a row."""
    name = os.path.basename(path)
    is_hidden = name in TOOLS if is_students else name.startswith(".")
    return not is_hidden and name not in NEVER
