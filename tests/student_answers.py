"""Answers as students write them: `study/exercises/submissions/EXERCISE.txt` has one file after the other, each below a line such as

    # ---- wrong: forgot the transpose of b => b not transposed | another name that says the same
    # ---- wrong twice: forgot 1 / sqrt(d) | no causal mask => no scale && no mask
    # ---- right: einsum

They were written from the signatures alone, without knowledge of the known mistakes, except for those "for matrices", which
show that stacks of matrices do not change the diagnosis. After "=>" are the names that are right (`Report.names`), compared
with the label by hand; there are none if the mistake has no name.

`two_dimensional.txt` has answers for matrices only (`.T`, `sum(0)`): a right body for each exercise, below it what is replaced
in it by what, and the names, or "right".
"""
import json
import pathlib
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from study.exercises import COURSE

SOFTMAX = """import numpy as np

def softmax_backward(dout, x):
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p * (dout - (dout * p).sum(-1, keepdims=True))
"""
NO_SUM = SOFTMAX.replace(" - (dout * p).sum(-1, keepdims=True)", "")
# a teacher's own exercise
FILE = '''
import numpy as np
statement = "Find the gradients."
shapes = {"x": "M N", "scale": "N"}

def forward(x, scale):
    return np.tanh(x) * scale
'''
BACKWARD = '''
def backward(dout, x, scale):
    return dout * scale * (1 - np.tanh(x)**2), (dout * np.tanh(x)).sum(0)
'''
FOLDER = pathlib.Path(__file__).parent / "study" / "exercises" / "submissions"
TWO_DIMENSIONAL = FOLDER.parent / "two_dimensional.txt"
HEAD = re.compile(r"^# ---- (right|wrong twice|wrong): (.*?)(?: => (.*))?$")


def notebook(*cells: str, **changes) -> bytes:
    return json.dumps({"nbformat": 4, "cells": [
        {"cell_type": "markdown", "source": "# def text_backward(): ..."},
        *({"cell_type": "code", "source": cell, "outputs": []} for cell in cells)]} | changes).encode()


@dataclass(frozen=True)
class Submission:
    exercise: str
    kind: str  # "right", "wrong" or "wrong twice"
    label: str  # the mistake or the style, in the author's words
    names: tuple[frozenset[str], ...]  # any of these sets of names is right
    code: str
    number: int

    def __str__(self) -> str:
        return f"{self.exercise} {self.number}: {self.label}"


def submissions(exercises: Iterable[str], folder: pathlib.Path = FOLDER) -> list[Submission]:
    """All for these exercises."""
    found = []
    for path in filter(pathlib.Path.is_file, (folder / f"{name}.txt" for name in exercises)):
        parts = re.split(r"^(?=# ---- )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for number, part in enumerate(filter(str.strip, parts)):
            head, _, code = part.partition("\n")
            kind, label, names = HEAD.match(head).groups()
            found.append(Submission(path.stem, kind, label, sets_of(names or ""), code, number))
    return found


def sets_of(names: str) -> tuple[frozenset[str], ...]:
    """>>> sets_of("no scale && no mask | factor") == (frozenset({"no scale", "no mask"}), frozenset({"factor"}))
    True
    """
    return tuple(frozenset(option.strip().split(" && ")) for option in names.split(" | ") if option.strip())


def two_dimensional() -> list[Submission]:
    """The answers of `two_dimensional.txt`: in each section the right one, then its variants."""
    found = []
    for section in TWO_DIMENSIONAL.read_text(encoding="utf-8").split("# ---- ")[1:]:
        head, rows = section.split("\n\n", 1)
        name, body = head.split("\n", 1)
        start = f"import numpy as np\n\n\ndef {COURSE[name].signature}:\n"
        found.append(Submission(name, "right", "as it is", (), start + textwrap.indent(body, "    "), 0))
        for number, row in enumerate(rows.strip().splitlines(), 1):
            change, names = row.split(" => ")
            old, new = change.split(" -> ")
            assert old in body, row
            kind, sets = ("right", ()) if names == "right" else ("wrong", sets_of(names))
            code = start + textwrap.indent(body.replace(old, new, 1), "    ")
            found.append(Submission(name, kind, change, sets, code, number))
    return found
