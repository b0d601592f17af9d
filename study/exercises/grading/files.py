"""The files in a folder and in the zips of students, or of a whole class: where each can be read, or why it cannot.

Nothing here trusts a zip: what a member is called never becomes a path, and none is unpacked beyond the limits.
"""
import math
import os
import pathlib
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

CODE, ZIP = (".py", ".ipynb"), ".zip"
NEVER = "__pycache__", "__MACOSX"  # nor hidden files; of hidden folders next to the students', only these:
TOOLS = (".git", ".github", ".hg", ".svn", ".idea", ".vscode", ".venv", ".cache", ".ipynb_checkpoints", ".mypy_cache",
         ".pytest_cache", ".ruff_cache")
MOST_BYTES = 20_000_000  # of a file
MOST_UNPACKED = 5 * MOST_BYTES  # of a student's zip
MOST_FILES = 10_000


@dataclass(frozen=True)
class File:
    """A file or folder. Only what may hold an answer has a path or a problem."""

    place: pathlib.PurePosixPath  # jane/homework.zip/softmax.py
    path: pathlib.Path | None = None  # where to read it
    problem: str = ""  # why it cannot be judged
    is_folder: bool = False

    @property
    def name(self) -> str:
        """The last part of its place, and of a file in a zip the zip, too: homework.zip/softmax.py."""
        *outer, last = self.place.parts
        zips = [part for part in outer if part.casefold().endswith(ZIP)]
        return "/".join([*zips, last])


def files_in(root: pathlib.Path, unpacked: str, one_student: bool = False) -> Iterator[File]:
    """All that is in a folder, or in the zip of a class; zips are unpacked there. OSError if a folder cannot be read."""
    def stop(error: OSError):
        raise error

    if root.is_file():
        yield from in_zip(root, pathlib.PurePosixPath(), unpacked, is_class=True)
        return
    for where, folders, names in os.walk(root, onerror=stop):
        are_students = not one_student and pathlib.Path(where) == root
        folders[:] = sorted(name for name in folders if is_wanted(name, are_students))
        for path in (pathlib.Path(where, name) for name in (*folders, *sorted(filter(is_wanted, names)))):
            place = pathlib.PurePosixPath(path.relative_to(root))
            is_folder, suffix = path.is_dir(), path.suffix.casefold()
            may_answer = path.is_symlink() if is_folder else suffix in (*CODE, ZIP)
            problem = problem_of(path, root) if may_answer else ""
            if may_answer and not problem and suffix == ZIP:
                yield from in_zip(path, place, unpacked)
            else:
                yield File(place, path if may_answer and not problem else None, problem, is_folder)


def is_wanted(name: str, is_students: bool = False) -> bool:
    """Is it neither hidden nor a tool's? A student's folder may be hidden, so that everybody gets a row."""
    is_hidden = name in TOOLS if is_students else name.startswith(".")
    return not is_hidden and name not in NEVER


def problem_of(path: pathlib.Path, root: pathlib.Path) -> str:
    """Why it cannot be judged; "" if nothing is seen."""
    try:
        if path.is_dir():
            return "a link to a folder, which is not followed"
        if not path.resolve(strict=True).is_relative_to(root):
            return "a link out of the folder, which is not followed"
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "a pipe, socket or device, not a file"
        path.open("rb").close()
        return too_large(status.st_size)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def too_large(size: int) -> str:
    return f"too large: {size:,} bytes, and the limit is {MOST_BYTES:,}" if size > MOST_BYTES else ""


def in_zip(path: pathlib.Path, place: pathlib.PurePosixPath, unpacked: str, is_class: bool = False) -> Iterator[File]:
    """What is in a student's zip, or in that of a class, whose zips are students'."""
    left: float = math.inf if is_class else MOST_UNPACKED
    try:
        archive = zipfile.ZipFile(path)
        infos = archive.infolist()
    except Exception as error:  # noqa: BLE001  whatever a stranger has made
        yield File(place, problem=f"cannot be unpacked ({error})")
        return
    with archive:
        if not infos or len(infos) > MOST_FILES and not is_class:
            yield File(place, problem=f"{len(infos):,} files, and the limit is {MOST_FILES:,}" if infos else "an empty zip")
            return
        for info in infos:
            name = pathlib.PurePosixPath(info.filename.replace("\\", "/"))  # as some programs on Windows pack
            suffix = name.suffix.casefold()
            if name.is_absolute() or ".." in name.parts:
                yield File(place, problem=f"holds {name}, which leads out of it, and is left out")
            elif not all(map(is_wanted, name.parts)):
                continue
            elif info.filename.endswith(("/", "\\")) or suffix not in (*CODE, ZIP):
                yield File(place / name, is_folder=info.filename.endswith(("/", "\\")))
            elif suffix == ZIP and not is_class:
                yield File(place / name, problem="a zip in a zip, which is not opened")
            else:
                file, problem = unpack(archive, info, name.name, unpacked, left)
                left -= file.stat().st_size if file else 0
                if file and suffix == ZIP:
                    yield from in_zip(file, place / name, unpacked)
                else:
                    yield File(place / name, file, problem)


def unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, unpacked: str, left: float
           ) -> tuple[pathlib.Path | None, str]:
    """(a member, unpacked into a folder of its own; "") or (None, why it is not)."""
    if stat.S_ISLNK(info.external_attr >> 16):
        return None, "a link, which is not followed"
    if info.flag_bits & 1:
        return None, "encrypted"
    if problem := too_large(info.file_size):
        return None, problem
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a limit
        return None, f"cannot be unpacked (its method, {info.compress_type}, is not that of most zips)"
    if info.file_size > left:
        return None, f"left out: unpacked, the zip has more than {MOST_UNPACKED:,} bytes"
    try:
        path = pathlib.Path(tempfile.mkdtemp(dir=unpacked), name)
        with archive.open(info) as file:
            path.write_bytes(file.read(info.file_size))  # without a number, a size that is a lie would be no limit
        return path, ""
    except Exception as error:  # noqa: BLE001  whatever a stranger has made
        return None, f"cannot be unpacked ({error})"
