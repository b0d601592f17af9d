"""Grading a class: which files belong to whom, judges that fail, and the tables."""
import csv
import functools
import io
import json
import os
import pathlib
import shutil
import stat
import struct
import textwrap
import time
import tracemalloc
import types
import warnings
import zipfile

import numpy as np
import pytest
from refusals import one_line
from sessions import replay
from student_answers import NO_SUM, SOFTMAX
from tables import each

from study.exercises import check, own, text
from study.exercises.course import COURSE
from study.exercises.grading import command, gradescope, judging, tables
from study.exercises.grading.rows import Row, frequencies, line, lines
from study.exercises.grading.files import MOST_BYTES, MOST_FILES, MOST_UNPACKED, File, in_zip
from study.exercises.grading.submissions import Submission, find
from study.exercises.report import Report
from study.exercises.sandbox import Limits

NO_FUNCTION = "def softmax(x): pass"
SYNTAX_ERROR = "def softmax_backward(dout, x:\n    return"
STARTER = text.starter(COURSE["softmax"])

NAMES = "softmax", "log_softmax", "masked_softmax", "attention", "layer_norm", "task1"
NO_ANSWER = "answers no known exercise, by its name or its functions"
FAKE_COURSE = {name: types.SimpleNamespace(name=name, function_name=f"{name}_backward") for name in NAMES}


def make(folder: pathlib.Path, files: dict[str, str | bytes]) -> pathlib.Path:
    """A folder with these files; names that end with a slash are folders."""
    for name, content in files.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
    return folder


def found(folder: pathlib.Path, exercises=NAMES, **options) -> list[tuple[str, str, str]]:
    """(student, exercise, problem, or file and note) of each submission; zips are unpacked beside the folder."""
    chosen, unpacked = {name: FAKE_COURSE[name] for name in exercises}, folder.parent / "unpacked"
    unpacked.mkdir(exist_ok=True)
    submissions = find(folder, chosen, FAKE_COURSE, str(unpacked), **options)
    assert all(one.problem or one.file.path.is_file() for one in submissions)
    return [(one.student, one.exercise, one.problem or f"{one.file.place} ({one.note})".replace(" ()", "")) for one in submissions]


# whose, and for what

WHOSE = [  # a file, a student, the exercise, what is in the file, and more exercises
    ("jane/softmax.py", "jane", "softmax"),
    ("jane/softmax.ipynb", "jane", "softmax"),
    ("jane/a/b/Softmax_Backward.py", "jane", "softmax"),
    ("jane/masked-softmax (final).py", "jane", "masked_softmax"),
    ("jane/hw3_layer_norm_jane.py", "jane", ""),
    ("group_7/softmax.py", "group_7", "softmax"),
    ("jane/task1.py", "jane", "task1"),
    ("jane/task1-2.py", "jane", "task1"),
    ("jane/softmax copy 2.py", "jane", "softmax"),
    ("Jane Doe_4711_assignsubmission_file_/softmax.py", "Jane Doe", "softmax"),
    ("Jane_Doe_4711_assignsubmission_file/softmax.py", "Jane_Doe", "softmax"),
    ("Jane Doe_4711_assignsubmission_file_softmax.py", "Jane Doe", "softmax"),
    ("doejane_123_456_softmax.py", "doejane", "softmax"),
    ("doejane_LATE_123_456_log_softmax-3.py", "doejane", "log_softmax"),
    ("submission_1234/softmax.py", "submission_1234", "softmax"),
    ("jane_softmax.py", "jane", "softmax"),
    ("softmax_jane_doe.py", "jane_doe", "softmax"),
    ("anna_log_softmax.py", "anna", "log_softmax"),
    ("softmax-2.py", "class", "softmax"),
    ("layer_norm.py", "class", "layer_norm"),
    ("jane.py", "jane", ""),
    ("Zoë=SUM(1)/softmax.py", "Zoë=SUM(1)", "softmax"),
    ("jane/homework.py", "jane", "softmax", "def softmax_backward(): pass\ndef attention_backward(): pass", "attention"),
    ("jane/homework.ipynb", "jane", "layer_norm", json.dumps({"cells": [{"source": ["import x\n", "def layer_norm_backward(a):\n"]}]})),
    ("jane/homework.ipynb", "jane", "layer_norm", json.dumps({"cells": [{"source": "import x\n\ndef layer_norm_backward(a):\n"}]})),
    ("anna_log_softmax.py", "anna_log", "softmax", "def softmax_backward(): pass"),
    ("anna_log_softmax.py", "anna", "log_softmax", "def log_softmax_backward(): pass"),
    ("jane/masked_softmax.py", "jane", "masked_softmax", "def softmax_backward(): pass"),
    ("jane/softmax.py", "jane", "softmax", "def attention_backward(): pass"),
    ("jane/homework.py", "jane", "", "def softmax_backwards(): pass"),
]


def test_whose_and_for_what(tmp_path):
    def is_found(row):
        file, student, exercise, content, *more = *row, *[""] * (len(row) < 4)
        where = file if exercise else NO_ANSWER
        folder = make(tmp_path / str(WHOSE.index(row)) / "class", {file: content})
        assert found(folder) == [(student, one, where) for one in (exercise, *more)]

    each(WHOSE, is_found)


HIDDEN = [".jane/softmax.py", ".jane/.old/softmax.py", ".bob/", ".git/softmax.py", ".softmax.py", ".ipynb_checkpoints/softmax.ipynb",
          ".venv/lib/softmax.py", "eve/.venv/softmax.py"]
SEVERAL_FILES = [  # of one exercise, and which of them is judged
    (["jane/softmax.py", "jane/softmax-1.py", "jane/softmax-2.py"], "jane/softmax-2.py"),
    (["jane/softmax (10).py", "jane/softmax (9).py"], "jane/softmax (10).py"),
    (["jane/softmax.ipynb", "jane/softmax.py"], "jane/softmax.py"),
    (["jane/old/softmax.py", "jane/softmax.py"], "jane/softmax.py"),
    (["jane/a/softmax.py", "jane/b/softmax.py"], "jane/b/softmax.py"),
]
NOTHING = "nothing was handed in"
FOLDERS = {  # the files of a folder, options of `found`, and what it finds
    "two students with one name": (
        [f"Jane Doe_{number}_assignsubmission_file_/softmax.py" for number in (1, 2)], {},
        [(f"Jane Doe ({number})", "softmax", f"Jane Doe_{number}_assignsubmission_file_/softmax.py") for number in (1, 2)]),
    "several files of a student on Canvas": (
        ["doejane_123_0_softmax.py", "doejane_123_1_layer_norm.py"], {},
        [("doejane", "softmax", "doejane_123_0_softmax.py"), ("doejane", "layer_norm", "doejane_123_1_layer_norm.py")]),
    "many that answer nothing": (
        [f"jane/venv/{i}.py" for i in range(30)], {}, [("jane", "", f"{NO_ANSWER}, and 29 more such files")]),
    "ignored": (
        ["jane/softmax.py", "jane/.hidden.py", "jane/__pycache__/softmax.py", "jane/.ipynb_checkpoints/softmax.py",
         "__MACOSX/jane/softmax.py", "jane/notes.txt", "bob/softmax.rar", "eve/"], {},
        [("bob", "", "no .py and no .ipynb, but softmax.rar"), ("eve", "", NOTHING), ("jane", "softmax", "jane/softmax.py")]),
    "no code": (
        ["README.md", "bob/homework.rar", "eve/layer_norm.py.txt", "eve/softmax.py", "zoe_softmax.py.txt",
         "Jane Doe_4711_assignsubmission_file_/a/x.zip", "doejane_LATE_123_456_homework.rar", *(f"kim/{i}.png" for i in range(5))],
        {"exercises": ["layer_norm"], "every": True},
        [(student, "layer_norm", f"no layer_norm.py, but {files}") for student, files in (
            ("bob", "homework.rar"), ("doejane", "homework.rar"), ("eve", "layer_norm.py.txt, softmax.py"),
            ("Jane Doe", "x.zip (cannot be unpacked (File is not a zip file))"), ("kim", "0.png, 1.png, 2.png, and 2 more"),
            ("zoe", "zoe_softmax.py.txt"))]),
    "a student's folder may be hidden": (HIDDEN, {}, [
        (".bob", "", NOTHING), (".jane", "softmax", ".jane/softmax.py"), ("eve", "", NOTHING)]),
    "that of one student may not": (HIDDEN, {"one_student": True}, [("class", "", NOTHING)]),
    "some exercises": (
        ["jane/softmax.py", "jane/attention.py", "bob/my_answer.py", "bob/attention.py", "eve/answer.py", "eve/softmax.py",
         "zoe/attention.py"], {"exercises": ["softmax"], "every": True},
        [("bob", "softmax", "bob/my_answer.py"), ("eve", "", NO_ANSWER), ("eve", "softmax", "eve/softmax.py"),
         ("jane", "softmax", "jane/softmax.py"), ("zoe", "softmax", "no softmax.py, but attention.py")]),
    "of one student": (
        ["softmax.py", "src/layer_norm.py", "jane_attention.py"], {"one_student": True},
        [("class", "softmax", "softmax.py"), ("class", "attention", "jane_attention.py"),
         ("class", "layer_norm", "src/layer_norm.py")]),
    "of one student, empty": (
        ["x/"], {"exercises": ["softmax"], "every": True, "one_student": True}, [("class", "softmax", "nothing was handed in")]),
}


def test_what_a_folder_holds(tmp_path):
    def is_found(name, row):
        files, options, expected = row
        assert found(make(tmp_path / name / "class", dict.fromkeys(files, "")), **options) == expected

    each(FOLDERS | {f"several: {judged}": (files, {}, [(
        "jane", "softmax", f"{judged} (of {len(files)} files, {judged.split('/')[-1]} is judged)")]) for files, judged in SEVERAL_FILES}, is_found)


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    folder = make(tmp_path / "class", {"bob/softmax.py": "", "jane/softmax.py": ""})
    scandir = os.scandir

    def refused(path):
        if os.path.basename(path) == "jane":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PermissionError):
        found(folder)


def test_links_out_of_the_folder_and_what_cannot_be_read(tmp_path):
    make(tmp_path, {"elsewhere/softmax.py": "def softmax_backward(): pass", "class/jane/softmax.py": "", "class/large/softmax.py": "", "class/pipe/": ""})
    os.mkfifo(tmp_path / "class/pipe/softmax.py")
    os.truncate(tmp_path / "class/large/softmax.py", MOST_BYTES + 1)
    links = {"eve/softmax.py": tmp_path / "elsewhere/softmax.py", "mallory/all": tmp_path / "elsewhere",
             "oscar": tmp_path / "elsewhere", "bob/softmax.py": tmp_path / "class/jane/softmax.py",
             "trent/softmax.py": tmp_path / "nowhere.py", "loop/softmax.py": tmp_path / "class/loop/softmax.py"}
    for name, target in links.items():
        (tmp_path / "class" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "class" / name).symlink_to(target)
    said = {student: what for student, _, what in found(tmp_path / "class")}
    inner = "a link to a folder, which is not followed"
    assert said.pop("loop").startswith("softmax.py: cannot be read")
    assert said == {"jane": "jane/softmax.py", "bob": "bob/softmax.py", "mallory": f"all: {inner}", "oscar": f"oscar: {inner}",
                    "eve": "softmax.py: a link out of the folder, which is not followed",
                    "trent": "softmax.py: cannot be read (No such file or directory)",
                    "pipe": "softmax.py: a pipe, socket or device, not a file",
                    "large": "softmax.py: too large: 20,000,001 bytes, and the limit is 20,000,000"}


# zips

def zipped(*members: tuple[str | zipfile.ZipInfo, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these (name, content)."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members with one name
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def a_link(name: str, target: str) -> tuple[zipfile.ZipInfo, str]:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


def changed(content: bytes, **fields: tuple[int, bytes]) -> bytes:
    """With other bytes, at these offsets, in the header of its only member and in the directory that repeats it."""
    changed = bytearray(content)
    for place, bytes_ in fields.values():
        for start, offset in ((0, place), (content.index(b"PK\x01\x02"), place + 2)):
            changed[start + offset:start + offset + len(bytes_)] = bytes_
    return bytes(changed)


ANSWER = ("softmax.py", "def softmax_backward(): pass")
LIE = struct.pack("<I", 10)
ZIPS = {  # {files of the folder, zips as bytes: what is found}
    "of students": (
        {"jane/homework.zip": zipped(ANSWER), "bob.zip": zipped(("hw/softmax.py", ""), ("hw/readme.txt", "")), "softmax_eve.zip": zipped(ANSWER),
         "doejane_LATE_123_456_homework.zip": zipped(ANSWER), "Zoë_1_assignsubmission_file_/x.ZIP": zipped(("a\\softmax.py", ""))},
        [("bob", "softmax", "bob.zip/hw/softmax.py"), ("doejane", "softmax", "doejane_LATE_123_456_homework.zip/softmax.py"),
         ("eve", "softmax", "softmax_eve.zip/softmax.py"), ("jane", "softmax", "jane/homework.zip/softmax.py"),
         ("Zoë", "softmax", "Zoë_1_assignsubmission_file_/x.ZIP/a/softmax.py")]),
    "of a class, in the folder": (
        {"submissions.zip": zipped(("doejane_123_456_softmax.py", ""), ("Bob Ross_7_assignsubmission_file_/softmax.py", ""))},
        [("Bob Ross", "softmax", "submissions.zip/Bob Ross_7_assignsubmission_file_/softmax.py"),
         ("doejane", "softmax", "submissions.zip/doejane_123_456_softmax.py")]),
    "without the answer": (
        {"jane/homework.zip": zipped(("tanh.py", ""), ("b/notes.pdf", ""), ("__MACOSX/softmax.py", ""), (".git/softmax.py", "")),
         "bob/homework.zip": zipped()},
        [("bob", "softmax", "no softmax.py, but homework.zip (an empty zip)"),
         ("jane", "softmax", "jane/homework.zip/tanh.py")]),
    "beside an answer": ({"jane/softmax.py": "", "jane/x.zip": "x"}, [
        ("jane", "", "x.zip: cannot be unpacked (File is not a zip file)"), ("jane", "softmax", "jane/softmax.py")]),
}
HOSTILE_ZIPS = {  # {name: (a zip, what is said)}
    "empty file": (b"", "homework.zip (cannot be unpacked (File is not a zip file))"),
    "no zip": (b"hello", "homework.zip (cannot be unpacked (File is not a zip file))"),
    "cut": (zipped(ANSWER)[:-30], "homework.zip (cannot be unpacked (File is not a zip file))"),
    "garbage": (zipped(ANSWER).replace(b"PK\x01\x02", b"PK\x07\x02"), "homework.zip (cannot be unpacked (Bad magic number for central directory))"),
    "outside": (zipped(("../softmax.py", "")), "homework.zip (holds ../softmax.py, which leads out of it, and is left out)"),
    "deep outside": (zipped(("a/../../softmax.py", "")), "homework.zip (holds a/../../softmax.py, which leads out of it, and is left out)"),
    "outside on Windows": (zipped(("..\\softmax.py", "")), "homework.zip (holds ../softmax.py, which leads out of it, and is left out)"),
    "absolute": (zipped(("/tmp/softmax.py", "")), "homework.zip (holds /tmp/softmax.py, which leads out of it, and is left out)"),
    "a link": (zipped(a_link("softmax.py", "/etc/passwd")), "homework.zip/softmax.py (a link, which is not followed)"),
    "nested": (zipped(("a.zip", zipped(ANSWER))), "homework.zip/a.zip (a zip in a zip, which is not opened)"),
    "encrypted": (changed(zipped(ANSWER), flags=(6, b"\1\0")), "homework.zip/softmax.py (encrypted)"),
    "huge": (zipped(("softmax.py", b"#" * (MOST_BYTES + 1))), "homework.zip/softmax.py (too large: 20,000,001 bytes, and the limit is 20,000,000)"),
    "a size that is a lie": (changed(zipped(("softmax.py", b"#" * MOST_BYTES)), size=(22, LIE)), "homework.zip/softmax.py (cannot be unpacked (Bad CRC-32 for file 'softmax.py'))"),
    "damaged": (zipped(("softmax.py", b"#" * 99), method=0).replace(b"#" * 99, b"#" * 98 + b"!"), "homework.zip/softmax.py (cannot be unpacked (Bad CRC-32 for file 'softmax.py'))"),
    "another method": (zipped(ANSWER, method=zipfile.ZIP_LZMA), "homework.zip/softmax.py (cannot be unpacked (its method, 14, is not that of most zips))"),
    "many": (zipped(*((f"{i}.txt", "") for i in range(MOST_FILES + 1))), "homework.zip (10,001 files, and the limit is 10,000)"),
    "a long name": (zipped((f"{'x' * 300}.py", "")), f"homework.zip/{'x' * 300}.py (cannot be unpacked ([Errno 36] File name too long: "),
    "no name": (zipped(("/", ""), (".py/", "")), "homework.zip (holds /, which leads out of it, and is left out)"),
}


def test_zips(tmp_path):
    def is_found(name, row):
        files, expected = row
        assert found(make(tmp_path / name / "class", files), exercises=["softmax"], every=True) == expected

    each(ZIPS, is_found)


@pytest.mark.parametrize("content, says", HOSTILE_ZIPS.values(), ids=HOSTILE_ZIPS)
@pytest.mark.parametrize("is_class", [False, True], ids=["of a student", "in that of a class"])
def test_a_zip_that_cannot_be_used_is_one_line_and_does_no_harm(grade, tmp_path, content, says, is_class):
    folder = make(tmp_path / "a/b/class", {"jane/homework.zip": content})
    if is_class:
        (tmp_path / "a/b/class.zip").write_bytes(zipped(("jane/homework.zip", content)))
        shutil.rmtree(folder)
        folder = tmp_path / "a/b/class.zip"
    before = sorted(tmp_path.rglob("*"))
    code, out, err = grade(folder, "--only", "softmax")
    row = out.splitlines()[1]
    assert (code, err) == (0, "") and row.startswith(f"jane     softmax   not judged  no softmax.py, but {says}")
    assert len(out.split("\n\n")[0].splitlines()) == 2 and sorted(tmp_path.rglob("*")) == before


def test_what_zips_unpack_to_has_a_limit(tmp_path):
    content = zipped(*((f"{i}/softmax.py", b"#" * MOST_BYTES) for i in range(7)))
    folder = make(tmp_path / "class", {"jane/homework.zip": content})
    problems = [what for _, _, what in found(folder, exercises=["softmax"])]
    assert len(problems) == 3 and problems[:2] == [
        f"homework.zip/softmax.py: left out: unpacked, the zip has more than {MOST_UNPACKED:,} bytes"] * 2
    assert sum(path.stat().st_size for path in (tmp_path / "unpacked").rglob("*.py")) == MOST_UNPACKED


def test_a_size_that_is_a_lie_is_a_limit(tmp_path):
    content = changed(zipped(("softmax.py", b"#" * MOST_BYTES)), size=(22, LIE))
    (tmp_path / "a.zip").write_bytes(content)
    tracemalloc.start()
    (file,) = in_zip(tmp_path / "a.zip", pathlib.PurePosixPath("a.zip"), str(tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "Bad CRC" in file.problem and peak < MOST_BYTES / 10


def test_of_two_members_with_one_name_the_last_is_judged(tmp_path):
    folder = make(tmp_path, {"jane/a.zip": zipped(("softmax.py", "first"), ("softmax.py", "last"))})
    (one,) = find(folder, FAKE_COURSE, FAKE_COURSE, str(tmp_path))
    assert one.file.path.read_text() == "last" and one.note == "of 2 files, softmax.py, the last of its name, is judged"


@pytest.mark.parametrize("seed", range(3))
def test_damaged_zips_raise_nothing(tmp_path, seed):
    """Whatever is changed, a zip has rows."""
    generator = np.random.default_rng(seed)
    content = zipped(ANSWER, ("a/attention.ipynb", "{}" * 50), a_link("b.py", "c"), ("d.zip", zipped(ANSWER)))
    for k in range(200):
        damaged = bytearray(content)
        for place in generator.integers(0, len(content), 1 + k % 5):
            damaged[place] = generator.integers(256)
        folder = make(tmp_path / "class", {"jane/a.zip": bytes(damaged[:len(damaged) - (k % 7 == 0) * 9])})
        assert found(folder) and all(student == "jane" for student, _, _ in found(folder, every=True))


@pytest.mark.parametrize("platform, files", [
    ("canvas", ["anna_11_1_softmax.py", "bob_LATE_12_2_homework.zip", "carl_13_3_notes.pdf"]),
    ("moodle", ["anna_11_assignsubmission_file_/softmax.py", "bob_12_assignsubmission_file_/homework.zip", "carl_13_assignsubmission_file_/"]),
])
def test_a_class_as_platforms_zip_it(grade, fake, tmp_path, platform, files):
    contents = "right", zipped(("softmax.py", "wrong")), ""
    (tmp_path / "class.zip").write_bytes(zipped(*zip(files, contents)))
    code, out, err = grade(tmp_path / "class.zip", "--only", "softmax", "--canvas", "grades.csv", "--report", "x.html")
    assert (code, err) == (0, "") and verdicts(out) == {"anna": "right", "bob": "wrong", "carl": "not"}
    assert [line.partition(",")[0] for line in out.splitlines() if "(late)" in line] == [out.splitlines()[2]] * (platform == "canvas")
    rows = csv.reader(pathlib.Path("grades.csv").read_text().splitlines()[2:])
    assert [row[:2] for row in rows] == [["anna", "11"], ["bob", "12"], ["carl", "13"]]
    assert ("wrong, late" in pathlib.Path("x.html").read_text()) == (platform == "canvas")


# which exercises

@pytest.mark.parametrize("content, names", [
    ("softmax\ntanh\n", "softmax, tanh"), ("# week 1\nsoftmax, tanh  # easy\n", "softmax, tanh"), ("", None), ("# none", None)])
def test_a_file_in_the_folder_names_the_exercises(grade, fake, tmp_path, content, names):
    folder = make(tmp_path / "class", {"jane/softmax.py": "right", "exercises.txt": content})
    _, out, _ = grade(folder, "--seed", 1)
    assert out.endswith(f"\nseed 1; exercises: {names}\n" if names else "\nseed 1\n")
    assert ("tanh" in out) == bool(names) and "exercises" not in verdicts(out)
    assert grade(folder, "--only", "gelu", "--seed", 1)[1].endswith("seed 1; exercises: gelu\n")
    if names:
        assert "exercises" not in grade(folder, "--gradescope", "x.json")[1]  # which a student could write


# judging

def said_in(task: judging.Task) -> tuple[judging.Task, judging.Result]:
    """Judges as the file says, or fails in every way."""
    said = pathlib.Path(task.path).read_text()
    if "dies" in said:
        os.kill(os.getpid(), 9)
    if "hangs" in said:
        time.sleep(100)
    verdict = said.split()[0]
    return task, {**judging.failed("s"), "verdict": verdict, "numbers": "1" * (verdict == "wrong"), "failed": False}


@pytest.fixture
def fake(monkeypatch):
    """Judges that repeat what the file says, in this process, the last first."""
    monkeypatch.setattr(judging, "judge_all", lambda tasks, jobs: map(said_in, tasks[::-1]))


@pytest.fixture
def grade(exercises):
    return functools.partial(exercises, "grade")


def verdicts(out: str) -> dict[str, str]:
    """{student: verdict} of a printed table."""
    return {words[0]: words[2] for words in map(str.split, out.split("\n\n")[0].splitlines()[1:])}


def test_a_judge_that_fails_costs_only_its_own_row(grade, tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "judged", said_in)
    contents = {"a": "right", "b": "wrong", "c": "right", "d": "hangs", "e": "dies"}
    folder = make(tmp_path / "class", {f"{name}/softmax.py": content for name, content in contents.items()})
    arriving = judging.judge_all([judging.Task(str(folder / name / "softmax.py"), "softmax", 1, 0.1) for name in contents], 2)
    results = [next(arriving) for _ in range(3)]
    monkeypatch.setattr(judging, "PATIENCE", 1.0)
    results += arriving
    assert {pathlib.Path(task.path).parent.name: result["verdict"] for task, result in results} == {
        "a": "right", "b": "wrong", "c": "right", "d": "error", "e": "error"}
    monkeypatch.setattr(judging, "judge_all", lambda tasks, jobs: results)
    code, out, _ = grade(folder, "--seed", 1, "--seconds", 0.1)
    assert code == 1 and out.count("the judge itself ended, or takes too long; grade again") == 2


def test_the_same_table_whatever_the_order(grade, fake, tmp_path, monkeypatch):
    folder = make(tmp_path / "class", {f"s{i:02}/softmax.py": f"{('right', 'wrong')[i % 3 == 0]} {i}" for i in range(12)})
    first, walk = grade(folder, "--seed", 5), os.walk
    monkeypatch.setattr(os, "walk", lambda *a, **k: ((p, f[::-1], n[::-1]) for p, f, n in walk(*a, **k)))
    assert grade(folder, "--seed", 5) == first and len(verdicts(first[1])) == 12 and first[1].endswith("\n\nseed 5\n")


def test_a_class(grade, tmp_path):
    """With real judges and sandboxes."""
    folder = make(tmp_path / "class", {
        "right/softmax.py": SOFTMAX, "wrong/softmax.py": NO_SUM, "no_function/softmax.py": NO_FUNCTION,
        "syntax/softmax.py": SYNTAX_ERROR, "starter/softmax.py": STARTER, "nothing/": "",
        "notebook/softmax.ipynb": json.dumps({"nbformat": 4, "cells": [
            {"cell_type": "code", "source": textwrap.dedent(SOFTMAX)}, {"cell_type": "markdown", "source": "Done."}]}),
    })
    code, out, err = grade(folder, "--only", "softmax", "--seed", 1, "--json", "class.json", "--jobs", 1)
    assert (code, err) == (0, "")
    rows = {row["student"]: row for row in json.loads(pathlib.Path("class.json").read_text())["rows"]}
    assert {student: row["verdict"] for student, row in rows.items()} == {
        "right": "right", "wrong": "wrong", "no_function": "error", "syntax": "error", "starter": "not started",
        "nothing": "not judged", "notebook": "right"}
    assert "sum over the row" in rows["wrong"]["mistake"] and "sum over the row" in out
    assert "softmax, 5 answers:" in out


def judged(path: pathlib.Path, seconds: float = 10.0) -> judging.Result:
    return judging.judged(judging.Task(str(path), path.stem, 1, seconds))[1]


@pytest.mark.parametrize("content, verdict, seconds", [
    (STARTER, "not started", 10),
    (STARTER.replace("# your formula", ""), "not started", 10),
    (STARTER.replace("np.zeros_like(x)", "np.zeros_like(dout)"), "wrong", 10),
    (f"# mine\n{textwrap.dedent(SOFTMAX)}", "right", 10),
    (SYNTAX_ERROR, "error", 10),
    ("\x1b[2J = 1", "error", 10),
    ("def softmax_backward(dout, x):\n    raise ValueError('\\x1b[2J')", "error", 10),
    ("import time\ndef softmax_backward(dout, x):\n    time.sleep(0.7)\n    return x", "timeout", 0.5),
])
def test_one_submission_and_its_points(tmp_path, content, verdict, seconds):
    path = make(tmp_path, {"softmax.py": content}) / "softmax.py"
    result = judged(path, seconds)
    assert result["verdict"] == verdict and "failed" not in result
    assert not any("\x1b" in result[name] for name in ("sentence", "report", "source"))
    assert result["source"].split() == content.replace("\x1b", "\ufffd").split()
    row = command.row_of(Submission("jane", "", "softmax", File(path, path)), result, COURSE, 3)
    assert (row.verdict, row.points, row.most_points) == (verdict, 3 * (verdict == "right"), 3)
    assert judging.limits_of(command.SECONDS) == Limits()  # as `minigrad exercises check`


def test_a_bug_in_the_judge_is_not_a_verdict_and_reports_have_no_control_characters(tmp_path, monkeypatch):
    said = judging.said_of(Report(COURSE["softmax"], "error", facts=("\x1b[2J",)))
    assert "\x1b" not in said["report"] + said["sentence"] and "[2J" in said["report"]
    make(tmp_path, {"softmax.py": SOFTMAX})
    monkeypatch.setattr(judging, "check_file", lambda *arguments: 1 / 0)
    result = judged(tmp_path / "softmax.py")
    assert result["failed"] and "the judge itself failed (ZeroDivisionError" in result["sentence"]


GATE = """
    import numpy as np

    def gate_backward(dout, x, gate):
        s = 1 / (1 + np.exp(-gate))
        return dout * s, (dout * x * s * (1 - s)).sum(axis=0)
"""


@pytest.mark.long
def test_a_teachers_own_exercise(grade, tmp_path):
    path = own.new("gate")
    folder = make(tmp_path / "class", {"right/gate.py": GATE, "wrong/gate.py": GATE.replace(".sum(axis=0)", ""), "bob/x.txt": ""})
    assert grade(folder, "--only", f"{path}, softmax", "--json", "class.json")[0] == 0
    rows = {(row["student"], row["exercise"]): row for row in json.loads(pathlib.Path("class.json").read_text())["rows"]}
    assert {who: row["verdict"] for who, row in rows.items() if who[1] == "gate"} == {
        ("right", "gate"): "right", ("wrong", "gate"): "wrong", ("bob", "gate"): "not judged"}
    assert "sum its gradient over the rows" in rows["wrong", "gate"]["mistake"]
    path.write_text(path.read_text().replace("sum its gradient over the rows", "add up"))
    assert "add up" in grade(folder, "--only", path)[1]  # another exercise, judged anew


# tables

ROWS = [
    Row("anna", "softmax", "right", sentence="right on all 9 inputs", points=2, most_points=2, file="anna.py"),
    Row("bob", "softmax", "wrong", ("the sum is missing", "it returns a list"), "the sum is missing; ...", "report\n", "bob.py",
        most_points=2, seconds=0.25, source="x < 1"),
    Row("carl", "softmax", "wrong", ("the sum is missing",), "the sum is missing; ...", file="c.py", note="of 2 files, c.py is judged"),
    Row("dora", "softmax", "wrong", (), "dx is zero", file="d.py"),
    Row("eve", "softmax", "timeout", (), "it takes more than 10 s", file="e.py"),
    Row("finn", "softmax", "error", (), "no function", file="f.py"),
    Row("finn", "attention", "inconclusive", (), "who knows", file="g.py"),
    Row("gina", "softmax", "not started", (), "as it was"),
    Row("hans", "", "not judged", (), "for no known exercise", file="h.py"),
]


def row_of(student: str, exercise: str, verdict: str, numbers: str = "", *mistakes: str) -> Row:
    return Row(student, exercise, verdict, mistakes, numbers=numbers)


SEVERAL = [
    row_of("anna", "softmax", "right"), row_of("anna", "tanh", "right"), row_of("bob", "softmax", "right"),
    row_of("bob", "tanh", "wrong", "x", "no square"), row_of("carl", "softmax", "wrong", "a"),
    row_of("carl", "tanh", "wrong", "x", "no square"), row_of("dora", "softmax", "wrong", "a"),
    row_of("dora", "tanh", "not judged"), row_of("eve", "softmax", "wrong", "b"), row_of("finn", "softmax", "error"),
    row_of("gina", "softmax", "wrong", "a"), row_of("gina", "tanh", "wrong", "a"), row_of("hans", "", "not judged"),
]


CANVAS = [
    Row("doejane", "softmax", "right", points=2, most_points=2, number="123"),
    Row("doejane", "scores", "wrong", points=1, most_points=3, number="123"),
    Row("bob", "softmax", "wrong", points=0, most_points=2, file="bob/softmax.py"),
    Row("carl", "softmax", "inconclusive", most_points=2), Row("carl", "scores", "not judged", most_points=3),
    Row("=1", "softmax", "not started", most_points=2), Row("eve", "", "not judged", file="x.py")]


def test_tables():
    names = {**vars(tables), "ROWS": ROWS, "SEVERAL": SEVERAL, "CANVAS": CANVAS, "results": gradescope.results, "frequencies": frequencies}
    replay(pathlib.Path(__file__).with_name("tables.session"), "tables of a class", names=names)


def digest(change: str) -> str:
    """Of what softmax's judge gets from p * (dout - s), changed."""
    names = {}
    exec(SOFTMAX.replace("p * (dout -", f"{change} * (dout -"), names)
    return judging.digest_of_wrong(check(names["softmax_backward"], "softmax", seed=1))


@pytest.mark.parametrize("one, other, are_same", [
    ("2 * p", "p * 2.0000000001", True), ("2 * p", "(p + p)", True), ("-p", "p * -1.0", True), ("0", "-0.0", True),
    ("2 * p", "2.01 * p", False), ("2 * p", "-2 * p", False), ("2 * p", "2 * np.stack([p, p])", False),
    ("np.nan", "np.nan", True),
])
def test_the_same_wrong_numbers(one, other, are_same):
    assert digest(one) and digest(other) and (digest(one) == digest(other)) == are_same


@pytest.mark.parametrize("change", ["p", "1 / 0 * p", "{} and p"])
def test_only_wrong_numbers_are_compared(change):
    assert digest(change) == ""


HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "=cmd|' /C calc'!A0", '"=1', "a,b", 'a"b', "a\nb", "|x", "%x", "1,5"]


def test_a_spreadsheet_runs_no_formula():
    rows = [Row(name, "softmax", "wrong", (name,), name, file=name, note=name) for name in HOSTILE]
    read = list(csv.reader(io.StringIO(tables.as_csv(rows))))
    assert len(read) == len(rows) + 1 and tuple(read[0]) == tables.CSV_COLUMNS
    for name, cells in zip(HOSTILE, read[1:]):
        assert cells[0].removeprefix("'") == name
        assert all(cell.lstrip()[:1] not in ("=", "+", "-", "@", "|", "%") for cell in cells)


# the command

def test_outputs(grade, fake, tmp_path):
    folder = make(tmp_path / "class", {"jane/softmax.py": "right", "bob/softmax.py": "wrong", "bob/attention.py": "right",
                                        "carl/softmax.py": "wrong"})
    places = {"--csv": "a/class.csv", "--canvas": "canvas.csv", "--json": "class.json", "--report": "class.html"}
    flags = [word for pair in places.items() for word in pair]
    code, out, _ = grade(folder, *flags, "--points", 5)
    assert code == 0 and out.splitlines()[-4:] == ["a/class.csv", "canvas.csv", "class.json", "class.html"]
    assert json.loads(pathlib.Path("class.json").read_text())["same_numbers"][0]["students"] == ["bob", "carl"]
    assert json.loads(pathlib.Path("class.json").read_text())["rows"][-1]["points"] == 5
    pathlib.Path("a/class.csv").unlink()
    assert grade(folder, *flags)[0] == 0  # it replaces its own files


@pytest.mark.parametrize("flag, path, mine", [
    ("--csv", "x.csv", "student,exercise,verdict\n"), ("--canvas", "x.csv", "Student,ID,SIS User ID,SIS Login ID,Section,hw 1 (7)\n"),
    ("--json", "x.json", '{"mine": 1}'), ("--report", "x.html", "<!doctype html>\n<html>"), ("--gradescope", "x.json", ""),
])
def test_nothing_is_overwritten_without_force(grade, fake, tmp_path, flag, path, mine):
    folder = make(tmp_path / "class", {"jane/softmax.py": "right"})
    file = pathlib.Path(path)
    file.write_text(mine)
    code, out, err = grade(folder, flag, path)
    assert (code, out) == (2, "") and f"{file} already exists" in err and "--force" in err
    assert file.read_text() == mine
    assert grade(folder, flag, path, "--force")[0] == 0 and file.read_text() != mine
    (folder / "jane/softmax.py").write_text("wrong")
    before = file.read_text()
    assert grade(folder, flag, path)[0] == 0 and file.read_text() != before  # its own


def test_as_gradescopes_autograder(grade, fake, tmp_path):
    folder = make(tmp_path / "submission", {"answer.py": "right"})
    arguments = folder, "--only", "softmax", "--gradescope", "out/results.json"
    assert grade(*arguments)[0] == 0
    content = json.loads(pathlib.Path("out/results.json").read_text())
    assert (content["score"], [test["name"] for test in content["tests"]]) == (2, ["softmax"])
    (folder / "answer.py").unlink()
    assert grade(*arguments)[0] == 0
    (test,) = json.loads(pathlib.Path("out/results.json").read_text())["tests"]
    assert (test["score"], test["max_score"], test["output"]) == (0, 2, "not judged: nothing was handed in")


def test_exercises_that_are_not_text(grade, tmp_path):
    folder = make(tmp_path / "class", {"jane/softmax.py": "right", "exercises.txt": b"\xff"})
    one_line(grade(folder), "exercises.txt: 'utf-8' codec can't decode", (2,))


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "half \udce4", "\u202eturned", "<b>", "\x07"])
def test_text_of_students_is_safe_in_a_terminal(name):
    for text_ in (line(name), lines(f"  {name}\n{name}")):
        assert not any(ord(c) < 32 and c != "\n" or 0xD800 <= ord(c) < 0xE000 or c == "\u202e" for c in text_)
        text_.encode()
    assert lines("a\n    b\n") == "a\n    b"
