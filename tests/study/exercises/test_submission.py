"""How a submission is read, what it defines, and what the error says if it is not one."""
import errno
import json
import os
import pathlib

import pytest
from student_answers import notebook

from study.exercises.submission import (
    SubmissionError, expect, read, safe, source_of_notebook, source_of_text,
)

def written(tmp_path, name: str, content: bytes):
    path = tmp_path / name
    path.write_bytes(content)
    return path


# Files

def test_a_file_is_its_text_with_pythons_line_ends(tmp_path):
    """str.splitlines splits at more characters than Python."""
    source = read(written(tmp_path, "mine.py", "import numpy as np\r\na = '\u2028\x0c'\rdef f(x):\r\n    return x\n".encode()))
    assert source.text == "import numpy as np\na = '\u2028\x0c'\ndef f(x):\n    return x\n" and not source.cells
    assert source.functions["f"].lineno == 3 and source.place(4) == "line 4" and source.code(4) == "return x"


@pytest.mark.parametrize("content", [
    "# café\n".encode(), "# café\n".encode("utf-8-sig"), "# coding: latin-1\n# café\n".encode("latin-1"),
    "#!python\n# -*- coding: cp1252 -*-\n# café\n".encode("cp1252"),
])
def test_encodings_are_pythons(content, tmp_path):
    assert "café" in read(written(tmp_path, "mine.py", content)).text


@pytest.mark.parametrize("name, content, place", [
    ("a.py", b"def f(x):\n    return (x\n", (2, "line 2")), ("a.py", "# a\n# caf\u00e9\n".encode("latin-1"), (2, "line 2")), ("a.py", b"", (None, "")),
    ("a.ipynb", notebook("", "\nx ="), (3, "code cell 2, line 2")),
])
def test_an_error_has_its_place(name, content, place, tmp_path):
    with pytest.raises(SubmissionError) as raised:
        read(written(tmp_path, name, content))
    assert (raised.value.line, raised.value.place) == place


def test_what_cannot_be_read_is_explained(tmp_path, monkeypatch):
    """Neither a pipe nor a folder blocks it."""
    (tmp_path / "folder.py").mkdir()
    os.symlink("nowhere", tmp_path / "link.py")
    os.mkfifo(tmp_path / "pipe.py")
    says = {"folder.py": "is a folder", "nothing.py": "does not exist", "link.py": "does not exist",
            "pipe.py": "is not a regular file", "/": "is a folder", ".": "is a folder"}
    for name, words in says.items():
        with pytest.raises(SubmissionError, match=words):
            read(name if name in "/." else tmp_path / name)

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = written(tmp_path, "mine.py", b"x = 1")
    monkeypatch.setattr(pathlib.Path, "open", refuse)  # root would read it whatever its rights
    with pytest.raises(SubmissionError, match=r"mine\.py cannot be read: Permission denied"):
        read(path)


# Notebooks

def test_cells_are_joined_and_lines_keep_their_numbers():
    source = source_of_notebook("mine.ipynb", notebook("import numpy as np\n", "", "def f(x):\n    return x"))
    assert source.lines == ["import numpy as np", "", "", "def f(x):", "    return x"]
    assert [source.place(line) for line in (1, 4, 5)] == [
        "code cell 1, line 1", "code cell 3, line 1", "code cell 3, line 2"]
    assert set(source.functions) == {"np", "f"}


def test_cells_are_strings_or_lists_of_lines_in_this_format_and_the_previous(tmp_path):
    """And pictures do not count as code."""
    sheets = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1\n", "y = 2"]}, {"cell_type": "heading", "source": "z"}]}]}
    pictures = json.loads(notebook("x = 1\ny = 2"))
    pictures["cells"][1]["outputs"] = ["A" * 3 * 2**20]
    for content in (json.dumps(sheets).encode(), notebook("x = 1\ny = 2"), notebook(["x = 1\n", "y = 2"]), json.dumps(pictures).encode()):
        assert read(written(tmp_path, "a.ipynb", content)).text == "x = 1\ny = 2"


def test_a_cell_that_is_not_python_is_left_out():
    source = source_of_notebook("a.ipynb", notebook("def f(x): return x", "x = = 1\ny", "def g(x): return x"))
    assert source.lines == ["def f(x): return x", "", "", "def g(x): return x"] and set(source.functions) == {"f", "g"}
    assert [str(error) for error in source.broken] == [
        "a.ipynb is not Python: invalid syntax (code cell 2, line 1: `x = = 1`)"]
    with pytest.raises(SubmissionError, match="code cell 2, line 1"):
        expect(source, "h", ["x"])


# Definitions

TOP_LEVEL = (
    "def f(a): ...", "if True:\n    def f(a): ...", "try:\n    pass\nexcept E:\n    def f(a): ...", "with a:\n    def f(a): ...",
    "for i in a:\n    pass\nelse:\n    def f(a): ...", "f = lambda a: a", "f: object = 1", "g, (f, h) = 1, (2, 3)",
    "from a import f", "from a import g as f", "import f", "class f: ...", "@decorated\ndef f(): ...", "async def f(a): ...",
)
ELSEWHERE = "def g():\n    def f(a): ...", "class g:\n    def f(self): ...", "lambda: (f := 1)", "from f import a", "a = f"


@pytest.mark.parametrize("text", [*TOP_LEVEL, *ELSEWHERE])
def test_functions_are_found_at_the_top_level_only(text):
    assert ("f" in source_of_text("a.py", text).functions) == (text in TOP_LEVEL)


def test_a_misspelled_function_names_its_line():
    with pytest.raises(SubmissionError) as raised:
        expect(source_of_text("hw.py", "\n\ndef tanh_backwrad(dout, x): ..."), "tanh_backward", ["dout", "x"])
    assert (str(raised.value), raised.value.line) == ("hw.py defines tanh_backwrad: did you mean tanh_backward?", 3)


def test_control_characters_are_not_shown():
    assert safe("a\x1b[2J\r\x00\udcff\u202eé\n\t") == "a\ufffd[2J\ufffd\ufffd\ufffd\ufffdé\n\t"
