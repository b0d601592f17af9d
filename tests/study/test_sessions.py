"""Golden sessions of the command, and messages: see tests/sessions.py."""
import json
import os
import pathlib

import numpy as np
import pytest

import minigrad as mg
import study
from minigrad.tracing import Trace, page as page_of_trace, shares
from pages import CLASSES, Q_K_V, X, draw, trace_of
from sessions import replay, sections
from student_answers import BACKWARD, FILE, notebook
from study import document
from study.exercises.own import load
from study.exercises.submission import LARGEST, exercise_of, expect, read, source_of_notebook, source_of_text
from study.page import pages as pages_of_study


def written(name: str, content: str | bytes) -> pathlib.Path:
    path = pathlib.Path(name).absolute()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def without_backward() -> Trace:
    x = mg.tensor([1.0], requires_grad=True)
    with mg.trace() as trace:
        y = x * 2.0  # noqa: F841  named for the trace
    return trace


def python(cell: str) -> str:
    source = source_of_notebook("a.ipynb", notebook(cell, "x = 1"))
    assert not source.broken
    return repr(source.text)


COURSE = {"softmax": "softmax_backward", "tanh": "tanh_backward", "gelu": "gelu_backward", "clip": "clip_by_norm"}
NAMES = {
    "np": np, "json": json, "math": np, "os": os, "Path": pathlib.Path, "load": load, "notebook": notebook, "LARGEST": LARGEST,
    "FILE": FILE, "BACKWARD": BACKWARD, "Q_K_V": Q_K_V, "X": X, "CLASSES": CLASSES,
    "mg": mg, "shares": shares, "without_backward": without_backward, "trace": lambda: trace_of(draw(np.random.default_rng(0), 2, 2)),
    "page_with": lambda extras: page_of_trace.html(NAMES["trace"](), extras, {"none": {}}),
    "own": lambda source, name="own_exercise.py": load(written(name, source)),
    "read": lambda name, content: read(written(name, content)),
    "exercise_of": lambda text, name="hw.py": exercise_of(source_of_text(name, text), COURSE),
    "python": python,
    "html": lambda text: repr(document.body(text, pathlib.Path(study.__file__).parents[1])),
    "expect": lambda text: expect(source_of_text("hw.py", text), "f", ["dout", "x"]),
}


@pytest.mark.parametrize("path, title", sections(pathlib.Path(__file__).parent / "sessions"))
def test_sessions(run, in_this_process, path, title, tmp_path, monkeypatch):
    def page(given) -> str:
        """What the command prints of these numbers."""
        written("numbers.json", given if isinstance(given, str) else json.dumps(given))
        return "".join(run("study", "--no-open", "--input", "numbers.json")[1:])

    monkeypatch.setattr(pages_of_study, "checker", lambda head: lambda mistake: "unchecked")  # which takes a second for each page
    monkeypatch.chdir(tmp_path)
    replay(path, title, run, NAMES | {"page": page})
