"""Answers as students write them: `submissions/EXERCISE.txt` has one file after the other, each below a line such as

    # ---- wrong: forgot the transpose of b => b not transposed | a fact, as an alternative
    # ---- wrong twice: forgot 1 / sqrt(d) | no causal mask => no scale + no mask
    # ---- right: einsum

They were written by reading the statements alone, without the table of known mistakes. What stands after "=>" are the names
that the judge may give (`Report.names`); "" if the label's own words are all there is, and the mistake is not known.
"""
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).parent / "submissions"
HEAD = re.compile(r"^# ---- (right|wrong twice|wrong): (.*?)(?: => (.*))?$")


@dataclass(frozen=True)
class Submission:
    exercise: str
    kind: str  # "right", "wrong" or "wrong twice"
    label: str  # the mistake, or the style, in its author's words
    names: tuple[frozenset[str], ...]  # each of these sets of names says it rightly
    code: str
    number: int

    def __str__(self) -> str:
        return f"{self.exercise} {self.number}: {self.label}"


def submissions(exercises: Iterable[str], folder: pathlib.Path = FOLDER) -> list[Submission]:
    """All of these exercises, as far as there are any."""
    found = []
    for path in filter(pathlib.Path.is_file, (folder / f"{name}.txt" for name in exercises)):
        parts = re.split(r"^(?=# ---- )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for number, part in enumerate(filter(str.strip, parts)):
            head, _, code = part.partition("\n")
            kind, label, names = HEAD.match(head).groups()
            sets = tuple(frozenset(option.strip().split(" + ")) for option in (names or "").split(" | ") if option.strip())
            found.append(Submission(path.stem, kind, label, sets, code, number))
    return found
