"""`minigrad exercises`, as a student types it. Answers run in this process; test_files.py runs them in their own."""
import html
import json
import pathlib
import re
import runpy

import numpy as np
import pytest
from refusals import one_line
from student_answers import NO_SUM, SOFTMAX
from tables import each, shares

from study.exercises import COURSE, progress, text
from study.exercises.report import numbers


@pytest.fixture
def run(exercises, in_this_process):
    return exercises


def write(name: str, content: str) -> None:
    pathlib.Path(name).write_text(content, encoding="utf-8")


def test_the_list_has_all_exercises_and_what_is_done(run):
    code, out, err = run()
    assert (code, err) == (0, "") and out.startswith(f"{len(COURSE)} exercises, 0 done in this folder")
    for name, exercise in COURSE.items():
        assert f"        {exercise.difficulty}  {name:22}  {exercise.title}\n" in out
    write("softmax.py", SOFTMAX)
    assert run("check", "softmax.py")[0] == 0
    code, out, _ = run()
    assert f"{len(COURSE)} exercises, 1 done in this folder" in out
    assert [line for line in out.splitlines() if line.startswith("  done")] == [
        f"  done  {COURSE['softmax'].difficulty}  {'softmax':22}  Softmax"]


@pytest.mark.parametrize("share", shares(10))
def test_a_starter_runs_prints_its_example_and_is_not_right_yet(run, share, capsys):
    def is_not_right_yet(name):
        assert run("start", name) == (0, f"{name}.py\n", "")
        content = pathlib.Path(f"{name}.py").read_text(encoding="utf-8")
        assert COURSE[name].signature in content and content.startswith(f'"""{COURSE[name].title} (')
        runpy.run_path(f"{name}.py", run_name="__main__")
        capsys.readouterr()
        code, out, err = run("check", f"{name}.py")
        assert (code, err) == (1, "") and out.startswith((f"{name}: WRONG", f"{name}: ERROR"))
        assert pathlib.Path(f"{name}.py").read_text(encoding="utf-8") == content

    each(list(COURSE)[::share], is_not_right_yet)


def test_the_example_of_a_starter_shows_what_the_solution_gives():
    def shows_it(name):
        inputs, right = text.example(COURSE[name])
        content = text.starter(COURSE[name])
        exec(content, {})  # defines the function; the example runs only as a program
        literals = {argument: eval(text.literal(value, 0), {"np": np}) for argument, value in inputs.items()
                    if not callable(value)}
        assert all(np.array_equal(literals[argument], inputs[argument]) for argument in literals)
        for line in (line for value in right.values() for line in numbers(value).splitlines()):
            assert line in content

    each([name for name, exercise in COURSE.items() if not exercise.demo], shows_it)


def test_nothing_is_ever_overwritten(run):
    write("softmax.py", NO_SUM)
    one_line(run("start", "softmax"), "softmax.py already exists", (2,))
    assert run("start", "softmax", "--to", "new")[1].strip() == str(pathlib.Path("new", "softmax.py"))
    write("softmax_check.png", "mine")
    assert "softmax_check_2.png" in run("check", "softmax.py", "--plot")[1]
    one_line(run("check", "softmax.py", "--plot", "softmax.py"), "softmax.py already exists", (2,))
    assert run("check", "softmax.py", "--plot", "a.svg")[1].endswith("a.svg\n") and pathlib.Path("a.svg").read_text().startswith("<?xml")
    assert run("check", "softmax.py", "--plot", "a.jpg")[0] == 2 and not pathlib.Path("a.jpg").exists()
    assert pathlib.Path("softmax.py").read_text() == NO_SUM and pathlib.Path("softmax_check.png").read_text() == "mine"


def test_a_verdict_in_words_and_as_json(run):
    write("softmax.py", NO_SUM)
    code, out, err = run("check", "softmax.py")
    assert (code, err) == (1, "") and out.startswith("softmax: WRONG\n  the sum over the row is missing")
    code, out, err = run("check", "softmax.py", "--json", "--seed", "3")
    found = json.loads(out)
    assert (code, err) == (1, "") and list(found) == ["exercise", "verdict", "mistake", "sentence"]
    assert found["exercise"] == "softmax" and found["verdict"] == "wrong" and "sum over the row" in found["mistake"]
    write("softmax.py", SOFTMAX)
    code, out, _ = run("check", "softmax.py", "--json")
    assert code == 0 and json.loads(out)["verdict"] == "right" and json.loads(out)["mistake"] is None


def test_hints_come_one_by_one_and_what_is_done_stays_done(run):
    write("softmax.py", SOFTMAX)
    assert "Hint" not in run("check", "softmax.py", "--hint")[1]
    write("softmax.py", NO_SUM)
    for k in (1, 2, 3, 3):
        out = run("check", "softmax.py", "--hint")[1]
        assert [hint in out for hint in COURSE["softmax"].hints] == [n < k for n in range(3)]
    assert "Hint" not in run("check", "softmax.py")[1]
    assert progress.read(pathlib.Path()) == {"softmax": {"right": True, "hints": 4}}


def test_a_damaged_or_forged_record_of_progress_does_no_harm(run):
    for content in ("", "{", "[1]", '{"softmax": 3}', '{"softmax": {"right": true}}', '{"zzz": {"right": true, "hints": 0}}'):
        write(progress.FILE, content)
        assert "0 done in this folder" in run()[1]
    write("softmax.py", SOFTMAX)
    assert run("check", "softmax.py")[0] == 0 and progress.read(pathlib.Path())["softmax"]["right"]


def test_the_solution_is_shown_after_a_right_answer_or_on_request(run):
    write("softmax.py", NO_SUM)
    out = run("check", "softmax.py", "--solution")[1]
    assert "def softmax_backward" not in out and "minigrad exercises show softmax --solution" in out
    assert "def softmax_backward" in run("show", "softmax", "--solution")[1]
    assert "def softmax_backward" not in run("show", "softmax")[1]
    write("softmax.py", SOFTMAX)
    assert "def softmax_backward" in run("check", "softmax.py", "--solution")[1]


def test_a_statement_has_the_signature_and_the_hints(run):
    def has_it(name, exercise):
        code, out, _ = run("show", name, "--hints", "2")
        assert code == 0 and out.startswith(exercise.signature)
        assert exercise.hints[0] in out and exercise.hints[1] in out and exercise.hints[2] not in out
        assert all(len(line) <= 124 for line in out.splitlines() if not line.startswith("Hint"))

    each(COURSE, has_it)


def test_a_page_to_hand_out_says_what_the_statements_say(run):
    one = run("show", "softmax", "tanh", "--hints", "1", "--solution")[1]
    assert one.count("Hint 1 of 3") == 2 and one.index("def softmax_backward") < one.index("tanh_backward(dout, x)\n\ntanh (1 of 5")
    assert run("show", *COURSE, "--html") == (0, "exercises.html\n", "")
    page = html.unescape(re.sub("<[^>]*>", "", pathlib.Path("exercises.html").read_text(encoding="utf-8").partition("<main>")[2]))
    shown, start = " ".join(page.split()), 0
    for name, exercise in COURSE.items():
        said = f"{text.statement(exercise)} Write {exercise.signature} in {name}.py.".replace("`", "")
        start = shown.index(" ".join(said.split()), start)
    assert "Hint" not in shown and "def " not in shown
    assert run("show", "softmax", "--html", "a/b.html", "--hints", "2", "--solution")[1] == "a/b.html\n"
    page = pathlib.Path("a/b.html").read_text(encoding="utf-8")
    assert page.count("<p>Hint") == 2 and '<pre tabindex="0"><code>def softmax_backward' in page
    one_line(run("show", "tanh", "--html", "a/b.html"), "a/b.html already exists; choose another name with --html", (2,))


def test_a_page_to_hand_out_fits_and_is_accessible(run, browser):
    run("show", *COURSE, "--html")
    for size in ("narrow", "wide"):
        browser.resize(size)
        browser.open(pathlib.Path("exercises.html").absolute())
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.accessibility() == [] and browser.errors() == [] and browser.requests() == []


@pytest.mark.parametrize(("arguments", "problem"), [
    (["show", "softmax", "sofmax", "--html"], "there is no exercise 'sofmax'; did you mean softmax?"),
    (["show", "softmax", "--html", "/dev/null"], "/dev/null already exists"),
    (["show", "softmax", "--html", "softmax.py/x.html"], "cannot write to softmax.py"),
    (["show", "--html"], "the following arguments are required: name"),
    (["show", "sofmax"], "there is no exercise 'sofmax'; did you mean softmax?"),
    (["start", "zzz"], "there is no exercise 'zzz'; `minigrad exercises` lists them"),
    (["check"], "the following arguments are required: file"),
    (["check", "softmax.py", "--hints"], "unrecognized arguments: --hints (did you mean --hint?)"),
    (["check", "softmax.py", "--seed", "-1"], "--seed: expected a whole number from 0, got -1"),
    (["new", "softmax"], "softmax is an exercise of the course"),
    (["sofmax"], "invalid choice: 'sofmax'"),
    (["show", "softmax", "--hints", "4"], "--hints: invalid choice: "),
    (["check", "missing.py"], "missing.py"),
    (["show", "missing_exercise.py"], "missing_exercise.py"),
])
def test_bad_usage_is_one_line(run, arguments, problem):
    write("softmax.py", NO_SUM)
    one_line(run(*arguments), problem, (2,))


@pytest.mark.parametrize(("name", "content", "exercise", "problem"), [
    ("softmax.py", "def softmax_backward(dout, x:\n", "softmax", "line 1"),
    ("homework.py", "x = 1", None, "homework.py defines no function of an exercise, such as product_backward; say which"),
    ("homework.py", "x =", None, "line 1"),
])
def test_an_invalid_file_gets_a_verdict(run, name, content, exercise, problem):
    write(name, content)
    code, out, err = run("check", name, "--json")
    found = json.loads(out)
    assert (code, err) == (1, "") and (found["exercise"], found["verdict"], found["mistake"]) == (exercise, "error", None)
    assert problem in found["sentence"]
    code, out, err = run("check", name)
    assert (code, err) == (1, "") and "ERROR" in out and problem in " ".join(out.split())


def test_a_teachers_own_exercise_from_new_to_check(run):
    assert run("new", "gate") == (0, "gate_exercise.py\n", "")
    one_line(run("new", "gate"), "gate_exercise.py already exists", (2,))
    assert run("start", "gate_exercise.py")[:2] == (0, "gate.py\n")
    code, out, _ = run("check", "gate.py", "--exercise", "gate_exercise.py")
    assert code == 1 and out.startswith("gate: WRONG")
