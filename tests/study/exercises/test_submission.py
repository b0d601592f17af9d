"""How a submission is read, what it defines, and what the error says if it is not one."""
import errno
import json
import os

import pytest

from study.exercises.submission import (
    LARGEST, SubmissionError, exercise_of, expect, read, safe, source_of_notebook, source_of_text,
)

COURSE = {"softmax": "softmax_backward", "tanh": "tanh_backward", "gelu": "gelu_backward", "clip": "clip_by_norm"}


def notebook(*cells: str, **changes) -> bytes:
    return json.dumps({"nbformat": 4, "cells": [
        {"cell_type": "markdown", "source": "# def text_backward(): ..."},
        *({"cell_type": "code", "source": cell, "outputs": []} for cell in cells)]} | changes).encode()


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


NO_SUBMISSION = {  # name: (content, words)
    "empty.py": (b"", "empty.py is empty"),
    "blank.py": (b" \n\n", "blank.py is empty"),
    "syntax.py": (b"def f(x):\n    return (x\n", "syntax.py is not Python: '(' was never closed (line 2: `return (x`)"),
    "indented.py": (b"def f(x):\nreturn x\n", "indented.py is not Python: expected an indented block"),
    "tabs.py": (b"def f(x):\n\tif x:\n        return x\n", "tabs.py is not Python: inconsistent use of tabs"),
    "two.py": (b"print 'a'\n", "two.py is not Python: Missing parentheses"),
    "deep.py": (b"x = " + b"(" * 10**5, "deep.py is not Python: too many nested parentheses"),
    "signs.py": (b"x = " + b"-" * 10**6 + b"1", "signs.py is"),
    "digits.py": (b"x = " + b"1" * 10**5, "digits.py is not Python: Exceeds the limit"),
    "latin.py": ("# a\n# café\n".encode("latin-1"), "latin.py is not in UTF-8: line 2 has the byte 0xe9; save it as UTF-8"),
    "utf16.py": ("x = 1".encode("utf-16"), "utf16.py is in UTF-16: save it as UTF-8"),
    "unknown.py": (b"# coding: klingon\n", "unknown.py declares an encoding that it is not in: save it as UTF-8"),
    "binary.py": (b"\x7fELF\0\0\1", "binary.py is not text"),
    "large.py": (b"#" * (LARGEST[".py"] + 1), "large.py is larger than 1 MB"),
    "notes.txt": (b"x = 1", "notes.txt is neither a .py nor an .ipynb file"),
    "without": (b"x = 1", "without is neither a .py nor an .ipynb file"),
    "notebook.py": (notebook("x = 1"), "notebook.py is a notebook: its name should end with .ipynb"),
    "no.ipynb": (b"x = 1", "no.ipynb is not a notebook: it is not JSON"),
    "deep.ipynb": (b"[" * 10**6, "deep.ipynb is not a notebook: it is not JSON"),
    "list.ipynb": (b"[]", "list.ipynb is not a readable notebook"),
    "magics.ipynb": (notebook("%a\n" * 10**4), "that are not Python"),
    "sheets.ipynb": (b'{"worksheets": [1]}', "sheets.ipynb is not a readable notebook"),
    "cells.ipynb": (b'{"cells": [{"cell_type": "code", "source": [1]}]}', "cells.ipynb is not a readable notebook"),
    "none.ipynb": (notebook(), "none.ipynb is empty"),
    "blank.ipynb": (notebook("", "\n"), "blank.ipynb is empty"),
    "code.ipynb": (notebook("#" * 2**20, "#"), "code.ipynb has more than 1 MB of code"),
    "syntax.ipynb": (notebook("", "\nx ="), "syntax.ipynb is not Python: invalid syntax (code cell 2, line 2: `x =`)"),
    "zero.ipynb": (notebook("x = '\0'"), "zero.ipynb is not Python: source code "),
    "half.ipynb": (notebook("x = '\ud800'"), "half.ipynb is not Python: 'utf-8' codec can't encode"),
    "return.py": (b"x = 1\nreturn x", "return.py is not Python: 'return' outside function (line 2: `return x`)"),
    "future.py": (b"x = 1\nfrom __future__ import division", "future.py is not Python: from __future__ imports must occur"),
    "moves\x1b[2J.py": (b"x =", "moves\N{REPLACEMENT CHARACTER}[2J.py is not Python"),
    "shows.py": (b"x = '\x1b[2J' y", "shows.py is not Python: invalid syntax (line 1: `x = '\N{REPLACEMENT CHARACTER}[2J' y`)"),
}


LINES = {"syntax.py": (2, "line 2"), "latin.py": (2, "line 2"), "syntax.ipynb": (3, "code cell 2, line 2"), "empty.py": (None, "")}


@pytest.mark.parametrize("name", NO_SUBMISSION)
def test_invalid_submissions_are_explained(name, tmp_path):
    content, words = NO_SUBMISSION[name]
    with pytest.raises(SubmissionError) as raised:
        read(written(tmp_path, name, content))
    assert words in str(raised.value) and "\n" not in str(raised.value)
    assert (raised.value.line, raised.value.place) == LINES.get(name, (raised.value.line, raised.value.place))


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
    monkeypatch.setattr(os, "open", refuse)  # root would read it whatever its rights
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


@pytest.mark.parametrize("cell, text", {
    "%matplotlib inline\nx = 1": "pass\nx = 1",
    "!pip install numpy\nx = 1": "pass\nx = 1",
    "%%time\nx = 1": "pass\nx = 1",
    "%%bash\nrm -r *\nx = 1": "\n\n",
    "%%writefile a.py\nx = 1": "\n",
    "if True:\n    %time x\n    !ls": "if True:\n    pass\n    pass",
    "files = !ls\nt = %timeit -o f()": "pass\npass",
    "np.exp?\n?np\nx??": "pass\npass\npass",
    "a = (7\n     % 4)": "a = (7\n     % 4)",
    "%time\na = (7\n  % 4\n  % 2)": "pass\na = (7\n  % 4\n  % 2)",
    "s = '''\n%time\n!ls?\n'''": "s = '''\n%time\n!ls?\n'''",
    "%time\ns = '''\n%time\n'''": "pass\ns = '''\n%time\n'''",
    "a = 5 %\\\n3": "a = 5 %\\\n3",
}.items())
def test_magics_go_and_python_stays(cell, text):
    source = source_of_notebook("a.ipynb", notebook(cell, "x = 1"))
    assert source.text == text + "\nx = 1" and not source.broken


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


@pytest.mark.parametrize("name, text, exercise", [
    ("softmax.py", "x = 1", "softmax"), ("softmax_backward.py", "x = 1", "softmax"), ("Softmax.py", "", "softmax"),
    ("Soft-Max.py", "def tanh_backward(): ...", "tanh"), ("tanh.py", "def softmax_backward(): ...", "tanh"),
    ("hw.py", "def softmax_backward(): ...", "softmax"), ("hw.py", "def clip_by_norm(): ...", "clip"),
    ("clip-by norm.py", "", "clip"), ("hw.py", "def help(): ...\ndef tanh_backward(): ...", "tanh"),
])
def test_the_exercise_is_found_by_file_name_or_function(name, text, exercise):
    assert exercise_of(source_of_text(name, text), COURSE) == exercise


@pytest.mark.parametrize("text", [
    "def f(dout, x): ...", "def f(g, y): ...", "def f(dout, x, eps=1e-5): ...", "def f(*a): ...", "def f(dout, *rest): ...",
    "def f(dout, x, /): ...", "def f(dout, x, *, axis=-1, **more): ...", "def f(dout=1, x=2): ...", "f = g", "@cached\ndef f(): ...",
    "def f(): ...\ndef f(dout, x): ...", "def f(x, upstream): ...",
])
def test_a_callable_function_is_accepted(text):
    expect(source_of_text("hw.py", text), "f", ["dout", "x"])


NO_EXERCISE = {
    "def softmax_backwards(d, x): ...": "hw.py defines softmax_backwards: did you mean softmax_backward?",
    "def SOFTMAX_BACKWARD(d, x): ...": "hw.py defines SOFTMAX_BACKWARD: did you mean softmax_backward?",
    "def softmax_backward(): ...\ndef tanh_backward(): ...": "hw.py answers several exercises (softmax, tanh): name it after one",
    "class A:\n    def tanh_backward(self): ...": "hw.py defines tanh_backward inside class A: move it to the top level",
    "def solution(dout, x): ...": "hw.py defines no function of an exercise, such as softmax_backward",
}
WRONG_ARGUMENTS = {
    "def f(x): ...": "f takes 1 argument (x), but is called as f(dout, x) (line 1)",
    "def f(): ...": "f takes 0 arguments (), but is called as f(dout, x) (line 1)",
    "\ndef f(dout, x, axis): ...": "f takes 3 arguments (dout, x, axis), but is called as f(dout, x) (line 2)",
    "def f(dout, x, axis, eps=1): ...": "f takes at least 3 arguments (dout, x, axis, eps), but is called as f(dout, x) (line 1)",
    "def f(x, dout): ...": "f takes its arguments in another order (x, dout): it is called as f(dout, x) (line 1)",
    "def f(dout, *, x): ...": "f takes 1 argument (dout), but is called as f(dout, x) (line 1)",
    "def f(dout, x, *, axis): ...": "f needs axis by name, but is called as f(dout, x) (line 1)",
    "async def f(dout, x): ...": "f is an `async def`, but is called as f(dout, x) (line 1)",
    "def g(dout, x): ...": "hw.py defines no f(dout, x)",
    "class A:\n    def f(self, dout, x): ...": "hw.py defines f inside class A: move it to the top level",
    "def main():\n    if x:\n        def f(dout, x): ...": "hw.py defines f inside function main: move it to the top level",
}


@pytest.mark.parametrize("text, name, words, line", [
    *[(text, None, words, None) for text, words in NO_EXERCISE.items()], *[(text, "f", words, None) for text, words in WRONG_ARGUMENTS.items()],
    ("\n\ndef tanh_backwrad(dout, x): ...", "tanh_backward", "hw.py defines tanh_backwrad: did you mean tanh_backward?", 3),
])
def test_a_file_without_the_function_is_explained(text, name, words, line):
    source = source_of_text("hw.py", text)
    with pytest.raises(SubmissionError) as raised:
        expect(source, name, ["dout", "x"]) if name else exercise_of(source, COURSE)
    assert str(raised.value) == words and line in (None, raised.value.line)


def test_control_characters_are_not_shown():
    assert safe("a\x1b[2J\r\x00\udcff\u202eé\n\t") == "a\ufffd[2J\ufffd\ufffd\ufffd\ufffdé\n\t"
