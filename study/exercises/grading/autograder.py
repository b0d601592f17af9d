"""`minigrad exercises gradescope-zip`: the zip file that Gradescope wants of an autograder.

By https://gradescope-autograders.readthedocs.io/en/latest/specs/ its files are unpacked into /autograder/source, setup.sh
runs once as root, and run_autograder for each submission, in /autograder/submission.
"""
import argparse
import pathlib
import secrets
import shlex
import stat
import zipfile

from models.commands.shared import UsageError, check_writable, usage_errors
from study.exercises import course_file
from study.exercises.files import exercise_called
from study.exercises.grading.points import points_of

SETUP = """#!/usr/bin/env bash
set -e
apt-get update
apt-get install -y python3.11 python3.11-venv
python3.11 -m venv /autograder/venv
/autograder/venv/bin/pip install /autograder/source/{wheel}
"""
RUN = """#!/usr/bin/env bash
/autograder/venv/bin/minigrad exercises grade /autograder/submission {flags} \\
    --out /tmp/grades --gradescope /autograder/results/results.json
"""
SOURCE = "/autograder/source"
DAY_ONE = (1980, 1, 1, 0, 0, 0)  # so that the same files give the same zip


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("zip", metavar="ZIP", help="the file to write")
    parser.add_argument("--wheel", metavar="FILE", required=True, help="minigrad's wheel; in its folder of sources, "
                        "`pip wheel --no-deps .` makes it")
    parser.add_argument("--exercise", metavar="NAME", action="append", required=True,
                        help="what to grade, or the file of your own (may be given more than once)")
    parser.add_argument("--points", metavar="POINTS", help="as for `minigrad exercises grade`")
    parser.add_argument("--seed", type=int, help="of the inputs, which are the same for everybody (default: drawn now)")
    parser.add_argument("--course", metavar="FILE", help="as for `minigrad exercises grade`")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def run(options: argparse.Namespace) -> int:
    given = vars(options)
    path = pathlib.Path(given["zip"])
    check_writable(path.parent, "ZIP")
    if path.exists() and "force" not in given:
        raise UsageError(f"{path} exists; choose another name, or overwrite it with --force")
    if given.get("seed", 0) < 0:
        raise UsageError(f"--seed: expected a whole number from 0, got {given['seed']}")
    files = files_of(given)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, DAY_ONE)
            is_script = name in ("setup.sh", "run_autograder")
            entry.external_attr = (stat.S_IFREG | (0o755 if is_script else 0o644)) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    print(path)
    return 0


def files_of(given: dict) -> dict[str, bytes]:
    """{name: content}: the scripts, and what they refer to. UsageError if something cannot be graded."""
    with usage_errors():
        chosen = [exercise_called(name) for name in given["exercise"]]
        points_of(given.get("points"), {exercise.name: exercise for exercise in chosen})
        course = course_file.given_or_found(given)
    wheel = pathlib.Path(given["wheel"])
    if not (wheel.name.startswith("minigrad_transformers-") and wheel.suffix == ".whl" and zipfile.is_zipfile(wheel)):
        raise UsageError(f"--wheel: {wheel} is not a wheel of minigrad; `pip wheel --no-deps .` makes one")
    taken = {wheel.name: wheel}

    def at_source(word: str) -> str:
        """The word, or if it is a file, where it is in the container."""
        if not pathlib.Path(word).is_file():
            return word
        taken[pathlib.Path(word).name] = pathlib.Path(word)
        return f"{SOURCE}/{pathlib.Path(word).name}"

    flags = [word for name in given["exercise"] for word in ("--exercise", at_source(name))]
    if "points" in given:
        flags += ["--points", at_source(given["points"])]
    if course:
        flags += ["--course", at_source(str(course.path))]
    flags += ["--seed", str(given.get("seed", secrets.randbelow(10**6)))]
    return {"setup.sh": SETUP.format(wheel=shlex.quote(wheel.name)).encode(),
            "run_autograder": RUN.format(flags=shlex.join(flags)).encode(),
            **{name: file.read_bytes() for name, file in taken.items()}}
