"""`minigrad exercises gradescope-zip`: the files for Gradescope, and what they say."""
import functools
import pathlib
import zipfile

import pytest
from refusals import one_line

from study.exercises import course_file, own

WHEEL = "minigrad_transformers-9-py3-none-any.whl"


@pytest.fixture
def make(exercises):
    """The command, in a folder with a wheel."""
    with zipfile.ZipFile(WHEEL, "w") as wheel:
        wheel.writestr("minigrad/__init__.py", "")
    pathlib.Path("points.toml").write_text("softmax = 3")
    pathlib.Path("other.whl").write_text("no zip")
    return functools.partial(exercises, "gradescope-zip")


def test_the_zip_has_what_its_scripts_name(make):
    teachers, course = own.new("smooth_abs", ""), course_file.new("dl-2026", pathlib.Path(), variants=True)[0]
    assert make("a.zip", "--wheel", WHEEL, "--exercise", "softmax", "--exercise", teachers, "--points", "points.toml",
                "--seed", 7) == (0, "a.zip\n", "")
    with zipfile.ZipFile("a.zip") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
        modes = {entry.filename: oct(entry.external_attr >> 16) for entry in archive.infolist()}
    assert {name for name, mode in modes.items() if mode == "0o100755"} == {"setup.sh", "run_autograder"}
    assert content[WHEEL] == pathlib.Path(WHEEL).read_bytes() and content["points.toml"] == b"softmax = 3"
    assert content["smooth_abs_exercise.py"] == pathlib.Path(teachers).read_bytes()
    assert content[course.name] == course.read_bytes() and course_file.KEY not in content
    assert f"pip install /autograder/source/{WHEEL}\n" in content["setup.sh"].decode()
    assert content["run_autograder"].decode().splitlines()[1:] == [
        "/autograder/venv/bin/minigrad exercises grade /autograder/submission --exercise softmax --exercise "
        "/autograder/source/smooth_abs_exercise.py --points /autograder/source/points.toml --course "
        "/autograder/source/minigrad-course.toml --seed 7 \\",
        "    --out /tmp/grades --gradescope /autograder/results/results.json"]


def test_the_seed_is_drawn_once_and_no_file_is_overwritten(make):
    flags = "--wheel", WHEEL, "--exercise", "softmax", "--points", 5
    assert make("a.zip", *flags)[0] == 0
    first = pathlib.Path("a.zip").read_bytes()
    script = zipfile.ZipFile("a.zip").read("run_autograder").decode()
    assert script.partition("--seed ")[2].split()[0].isdigit() and "--points 5 " in script
    one_line(make("a.zip", *flags), "a.zip exists", (2,))
    assert pathlib.Path("a.zip").read_bytes() == first
    assert make("a.zip", *flags, "--force")[0] == 0


@pytest.mark.parametrize("arguments, says", [
    (["--wheel", "other.whl", "--exercise", "softmax"], "other.whl is not a wheel of minigrad"),
    (["--wheel", "minigrad_transformers-nothing.whl", "--exercise", "softmax"], "minigrad_transformers-nothing.whl is not a wheel of minigrad"),
    (["--wheel", WHEEL, "--exercise", "softmx"], "there is no exercise 'softmx'; did you mean softmax?"),
    (["--wheel", WHEEL, "--exercise", "tanh", "--points", "points.toml"], "no exercise 'softmax' is graded"),
    (["--wheel", WHEEL, "--exercise", "tanh", "--seed", "-1"], "--seed: expected a whole number from 0, got -1"),
])
def test_what_cannot_be_graded(make, arguments, says):
    one_line(make("a.zip", *arguments), says, (2,))
    assert not pathlib.Path("a.zip").exists()
