"""A course's file, which teacher and students keep in the folder of their answers, or in one above it.

    name = "deep-learning-2026"
    variants = true                # each student answers a variant of their own
    lock = "9f3c..."               # solutions are shown only next to the teacher's minigrad-course.key
"""
import hmac
import os
import pathlib
import re
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.exercises.exercise import Exercise
from study.exercises.submission import Source
from study.exercises.variants import has_variants, key_of

FILE, KEY = "minigrad-course.toml", "minigrad-course.key"
CONTENT = """# A course in `minigrad exercises`. Keep this file in the folder of your answers, or in one above it.
name = "{name}"
variants = {variants}
lock = "{lock}"
"""
NUMBERED = re.compile(r" \(\d+\)$")  # of two students with one name


@dataclass(frozen=True)
class CourseFile:
    path: pathlib.Path
    name: str
    variants: bool = False
    lock: str = ""

    @property
    def is_locked(self) -> bool:
        """Are solutions hidden here? Not from the owner of the key."""
        try:
            key = self.path.with_name(KEY).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            key = ""
        return bool(self.lock) and not hmac.compare_digest(lock_of(self.name, key), self.lock)

    def variant(self, student: str) -> str:
        """What a student's file says: "deep-learning-2026: Jane Doe"."""
        return f"{self.name}: {student}"

    def problem(self, exercise: Exercise, source: Source, students: Sequence[str] = ()) -> str:
        """Why a file does not answer the variant of any of these students, or ""; () are all students of the course."""
        if not self.variants or not has_variants(exercise):
            return ""
        own = f"begin with `minigrad exercises start {exercise.name} --seed NAME`"
        if not source.variant:
            return f"it has no line `variant = ...`, and {self.name} has a variant for each student; {own}"
        if not source.variant.startswith(self.variant("")):
            return f"it answers the variant of {source.variant}, not one of {self.name}; {own}"
        names = [NUMBERED.sub("", name) for name in students]
        if names and key_of(source.variant) not in map(key_of, map(self.variant, names)):
            return f"it answers the variant of {source.variant}, not of {' and '.join(names)}; {own}"
        return ""


def find(folder: str | os.PathLike[str] = ".") -> CourseFile | None:
    """The course's file in the folder, or in the nearest one above; ValueError, one line, if it is none."""
    folder = pathlib.Path(folder).resolve()
    return next((read(place / FILE) for place in (folder, *folder.parents) if (place / FILE).is_file()), None)


def given_or_found(flags: Mapping[str, Any]) -> CourseFile | None:
    """That of the flag --course, or the one for this folder."""
    return read(flags["course"]) if "course" in flags else find()


def read(path: str | os.PathLike[str]) -> CourseFile:
    try:
        content = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        name, variants, lock = content["name"], content.get("variants", False), content.get("lock", "")
    except OSError as error:
        raise ValueError(f"cannot read {path} ({error.strerror}); `minigrad exercises course NAME` writes one") from None
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not the file of a course ({error}); ask your teacher for it again") from None
    if [type(value) for value in (name, variants, lock)] != [str, bool, str]:
        raise ValueError(f"{path} is not the file of a course; ask your teacher for it again")
    return CourseFile(pathlib.Path(path), name, variants, lock)


def new(name: str, folder: pathlib.Path, variants: bool) -> tuple[pathlib.Path, pathlib.Path]:
    """Write a course's file and its key, which must not exist; ValueError if the name cannot be that of a course."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"{name!r} cannot name a course; use letters, digits, - and _, such as deep-learning-2026")
    paths, key = (folder / FILE, folder / KEY), secrets.token_hex(16)
    for path in paths:
        if path.exists():
            raise ValueError(f"{path} exists; choose another folder with --to")
    content = CONTENT.format(name=name, variants=str(variants).lower(), lock=lock_of(name, key))
    for path, text in zip(paths, (content, f"{key}\n")):
        path.write_text(text, encoding="utf-8")
    paths[1].chmod(0o600)
    return paths


def lock_of(name: str, key: str) -> str:
    """What the file shows of the key: it can be checked, and not found."""
    return hmac.new(key.encode(), name.encode(), "sha256").hexdigest()
