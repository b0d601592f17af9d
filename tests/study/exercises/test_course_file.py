"""A course's file: it locks the solutions, and each student has a variant."""
import json
import pathlib
import stat

import pytest
from refusals import one_line
from student_answers import SOFTMAX

from study.exercises import COURSE, course_file
from study.exercises.submission import source_of_text
from study.exercises.variants import variant_of

FILE, KEY = map(pathlib.Path, (course_file.FILE, course_file.KEY))
LOCKED = "the teacher of dl-2026 has locked the solutions"


def answer(student: str, course: str = "dl-2026: ") -> str:
    """The right answer of a student to their variant of tanh."""
    variant = variant_of(COURSE["tanh"], f"{course}{student}")
    return f"import numpy as np\nvariant = {variant.variant!r}\n{variant.source}"


def test_solutions_are_shown_only_next_to_the_key(exercises, in_this_process):
    assert exercises("course", "dl-2026") == (
        0, "minigrad-course.toml  for everybody\nminigrad-course.key   for yourself alone: solutions are shown only next to it\n", "")
    pathlib.Path("softmax.py").write_text(SOFTMAX)
    asks = ["show", "softmax", "--solution"], ["check", "softmax.py", "--solution"]
    key = KEY.read_text()
    assert stat.S_IMODE(KEY.stat().st_mode) == 0o600
    for content in (key, None, "another key", "", "\xff"):
        KEY.unlink() if content is None else KEY.write_text(content, encoding="latin-1")
        for ask in asks:
            if content == key:
                assert "def softmax_backward" in exercises(*ask)[1]
            else:
                one_line(exercises(*ask), LOCKED, (2,))
    assert exercises("show", "softmax", "--hints", 3)[0] == exercises("check", "softmax.py")[0] == exercises()[0] == 0
    assert key.strip() not in FILE.read_text()
    FILE.write_text('name = "dl-2026"')
    assert exercises("show", "softmax", "--solution")[0] == 0


def test_the_file_counts_in_all_folders_below_it(exercises, in_this_process, monkeypatch):
    exercises("course", "dl-2026")
    KEY.unlink()
    pathlib.Path("homework/one").mkdir(parents=True)
    monkeypatch.chdir("homework/one")
    assert LOCKED in exercises("show", "softmax", "--solution")[2]
    monkeypatch.chdir("../../..")
    assert exercises("show", "softmax", "--solution")[0] == 0
    pathlib.Path("here/homework/one/softmax.py").write_text(SOFTMAX)
    assert LOCKED in exercises("check", "here/homework/one/softmax.py", "--solution")[2]


def test_a_student_begins_with_a_variant_of_the_course(exercises, in_this_process, monkeypatch):
    exercises("course", "dl-2026", "--variants")
    one_line(exercises("start", "tanh"), "dl-2026 has a variant of tanh for each student: add --seed NAME", (2,))
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir("..")
        one_line(exercises("start", "tanh", "--to", "here/new"), "dl-2026 has a variant of tanh for each student", (2,))
    assert exercises("start", "find_leak")[0] == 0
    assert exercises("start", "tanh", "--seed", "Jane Doe") == (0, "tanh.py\n", "")
    starter = pathlib.Path("tanh.py").read_text()
    assert "\nvariant = 'dl-2026: Jane Doe'" in starter and variant_of(COURSE["tanh"], "dl-2026: Jane Doe").equation in starter
    assert variant_of(COURSE["tanh"], "dl-2026: Bob").equation in exercises("show", "tanh", "--seed", "Bob")[1]
    pathlib.Path("tanh.py").write_text(answer("Jane Doe"))
    assert exercises("check", "tanh.py")[0] == 0
    pathlib.Path("tanh.py").write_text(answer("Jane Doe", "last year: "))
    assert "it answers the variant of last year: Jane Doe, not one of dl-2026" in " ".join(exercises("check", "tanh.py")[1].split())


@pytest.mark.parametrize("exercise, variant, students, says", [
    ("tanh", "dl-2026: Jane Doe", ["Jane Doe"], ""),
    ("tanh", "dl-2026: jane  DOE", ["doejane"], ""),
    ("tanh", "dl-2026: Zoë Doe", ["Zoe Doe (2)"], ""),
    ("tanh", "dl-2026: Jane Doe", ["Bob", "Jane Doe"], ""),
    ("tanh", "dl-2026: Jane Doe", [], ""),
    ("find_leak", "", ["Jane Doe"], ""),
    ("tanh", "", ["Jane Doe"], "it has no line `variant = ...`, and dl-2026 has a variant for each student"),
    ("tanh", "Jane Doe", ["Jane Doe"], "it answers the variant of Jane Doe, not one of dl-2026"),
    ("tanh", "dl-2026: Jane Doe", ["Bob"], "it answers the variant of dl-2026: Jane Doe, not of Bob"),
    ("tanh", "dl-2026: Jane Doe", ["Jane Do"], "not of Jane Do"),
    ("tanh", "dl-2026: group 12", ["group 21"], "not of group 21"),
])
def test_whose_variant_a_file_answers(exercise, variant, students, says):
    course = course_file.CourseFile(FILE, "dl-2026", variants=True)
    found = course.problem(COURSE[exercise], source_of_text("tanh.py", f"variant = {variant!r}"), students)
    assert found.startswith(says) or says in found
    assert bool(found) == bool(says) and not course_file.CourseFile(FILE, "dl-2026").problem(
        COURSE[exercise], source_of_text("tanh.py", f"variant = {variant!r}"), students)


def test_a_class_is_graded_by_its_own_variants(exercises):
    """Jane and Zoe answer theirs, Bob hands in Jane's file, Eve Jane's with her name in it, Finn the exercise itself, Gus nothing."""
    exercises("course", "dl-2026", "--variants")
    KEY.unlink()
    answers = {"Jane Doe": answer("Jane Doe"), "zoe": answer("Zoe"), "Bob": answer("Jane Doe"),
               "Eve": answer("Jane Doe").replace("Jane Doe", "Eve"), "Finn": answer("Finn").replace("variant", "v"),
               "submission_12": answer("Anna"), "Gus": ""}
    for student, content in answers.items():
        pathlib.Path("class", student).mkdir(parents=True)
        pathlib.Path("class", student, "tanh.py").write_text(content)
    code, out, err = exercises("grade", "class", "--exercise", "tanh", "--json", "class.json", "--seed", 1)
    content = json.loads(pathlib.Path("class.json").read_text())
    assert (code, err) == (0, "") and {row["student"]: row["verdict"] for row in content["rows"]} == {
        "Jane Doe": "right", "zoe": "right", "Bob": "not judged", "Eve": "wrong", "Finn": "not judged", "submission_12": "right",
        "Gus": "error"}
    assert "  right for the variant of Jane Doe: Eve\n" in out and "     1 of 5: this answers another variant\n" in out
    assert content["copies"] == [
        {"exercise": "tanh", "students": ["Eve"], "mistake": "right for the variant of Jane Doe"}]


@pytest.mark.parametrize("of, points", [("Jane Doe", 1), ("Zoe", 0)])
def test_gradescope_says_whose_file_it_is(exercises, of, points):
    exercises("course", "dl-2026", "--variants")
    pathlib.Path("submission_metadata.json").write_text(json.dumps({"users": [{"name": "Bob"}, {"name": "Jane Doe"}]}))
    pathlib.Path("submission").mkdir()
    pathlib.Path("submission/tanh.py").write_text(answer(of))
    assert exercises("grade", "submission", "--exercise", "tanh", "--gradescope", "results.json")[0] == 0
    assert json.loads(pathlib.Path("results.json").read_text())["score"] == points


@pytest.mark.parametrize("arguments, content, says", [
    (["course", "two words"], None, "'two words' cannot name a course; use letters, digits, - and _"),
    (["course", "dl-2026"], "", "minigrad-course.toml exists; choose another folder with --to"),
    (["show", "softmax", "--solution"], "", "is not the file of a course ('name'); ask your teacher for it again"),
    (["show", "softmax", "--solution"], "name", "is not the file of a course ("),
    (["show", "softmax", "--solution"], "name = 3", "is not the file of a course; ask"),
    (["start", "softmax", "--seed", 'a"b'], None, "--seed: expected a name without quotes and backslashes, got 'a\"b'"),
    (["start", "find_leak", "--seed", "Jane"], None, "--seed: find_leak has no variants"),
    (["grade", ".", "--course", "nowhere.toml"], None, "cannot read nowhere.toml (No such file or directory)"),
])
def test_bad_usage_is_one_line(exercises, arguments, content, says):
    if content is not None:
        FILE.write_text(content)
    one_line(exercises(*arguments), says, (2,))
    assert not KEY.exists()
