"""`minigrad exercises`, as a student types it: more of it is in sessions/. Answers run in this process; test_files.py runs them in their own."""
import html
import pathlib
import re
import runpy

import numpy as np
import pytest
from tables import each, shares

from study.exercises import COURSE, text
from study.exercises.report import numbers


@pytest.fixture
def run(exercises, in_this_process):
    return exercises


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


def test_a_statement_has_the_signature_and_the_hints(run):
    def has_it(name, exercise):
        code, out, _ = run("show", name, "--hints", "2")
        assert code == 0 and out.startswith(exercise.signature)
        assert exercise.hints[0] in out and exercise.hints[1] in out and exercise.hints[2] not in out
        assert all(len(line) <= 124 for line in out.splitlines() if not line.startswith("Hint"))

    each(COURSE, has_it)


def test_a_page_to_hand_out_says_what_the_statements_say(run):
    assert run("show", *COURSE, "--html") == (0, "exercises.html\n", "")
    page = html.unescape(re.sub("<[^>]*>", "", pathlib.Path("exercises.html").read_text(encoding="utf-8").partition("<main>")[2]))
    shown, start = " ".join(page.split()), 0
    for name, exercise in COURSE.items():
        said = f"{text.statement(exercise)} Write {exercise.signature} in {name}.py.".replace("`", "")
        start = shown.index(" ".join(said.split()), start)
    assert "Hint" not in shown and "def " not in shown
    run("show", "softmax", "--html", "a/b.html", "--hints", "2", "--solution")
    page = pathlib.Path("a/b.html").read_text(encoding="utf-8")
    assert page.count("<p>Hint") == 2 and '<pre tabindex="0"><code>def softmax_backward' in page


def test_a_page_to_hand_out_fits_and_is_accessible(run, browser):
    run("show", *COURSE, "--html")
    for size in ("narrow", "wide"):
        browser.resize(size)
        browser.open(pathlib.Path("exercises.html").absolute())
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.accessibility() == [] and browser.errors() == [] and browser.requests() == []
