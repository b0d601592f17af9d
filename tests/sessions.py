"""Golden sessions: documents whose indented lines are commands, `$ ...`, or expressions, `>>> ...`, and what they print or raise.

Each section, under `## `, begins in an empty folder. `...` in what is printed stands for anything, blank lines do not count, and
[2] is an exit code. `$ write NAME` makes a file of the lines below it. `SESSIONS=write pytest FILE` writes what is printed now.
"""
import difflib
import os
import pathlib
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

INDENT = "    "
BEGINS = f"{INDENT}$ ", f"{INDENT}>>> "
Call = Callable[..., tuple[int, str, str]]


def sections(folder: pathlib.Path) -> list:
    """The values of two parameters: each document in the folder, and the titles of its sections."""
    return [pytest.param(path, title, id=f"{path.stem}: {title}") for path in sorted(folder.glob("*.session"))
            for title in re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)]


def printed(command: str, body: list[str], call: Call, names: dict[str, Any]) -> list[str]:
    """What a command prints, or an expression's value or error, as lines."""
    if command.startswith(">>> "):
        try:
            found = str(eval(command.removeprefix(">>> "), names))
        except Exception as error:  # noqa: BLE001  it is shown
            found = f"{type(error).__name__}: {error}"
        return found.replace(f"{pathlib.Path.cwd()}/", "").splitlines()
    name, *arguments = shlex.split(command.removeprefix("$ "))
    if name == "write":
        path = pathlib.Path(arguments[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(body) + "\n", encoding="utf-8")
        return body
    if name == "ls":
        return sorted(path.as_posix() for path in pathlib.Path().rglob("*") if path.is_file())
    assert name == "minigrad", command
    code, out, err = call(*arguments)
    text = (out + err).replace(f"{pathlib.Path.cwd()}/", ".../")
    return [line for line in text.split("\n") if line.strip()] + [f"[{code}]"] * bool(code)


def is_body(line: str) -> bool:
    return line.startswith(INDENT) and not line.startswith(BEGINS)


def matches(expected: list[str], found: list[str]) -> bool:
    pattern = ".*?".join(map(re.escape, "\n".join(expected).split("...")))
    return re.fullmatch(pattern, "\n".join(found), re.DOTALL) is not None


def replay(path: pathlib.Path, title: str, call: Call | None = None, names: dict[str, Any] | None = None) -> None:
    """AssertionError, with both texts, unless the commands of a section print what it says."""
    text = path.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL).group()
    lines, played = section.splitlines(), []
    while lines:
        played.append(lines.pop(0))
        if played[-1].startswith(BEGINS):
            size = next((i for i, line in enumerate(lines) if line and not is_body(line)), len(lines))
            expected = "\n".join(line.removeprefix(INDENT) for line in lines[:size]).rstrip().splitlines()
            lines = lines[size:] if size < len(lines) and lines[size].startswith(INDENT) else lines[len(expected):]
            found = printed(played[-1].removeprefix(INDENT), expected, call, names)
            played += [(INDENT + line).rstrip() for line in (expected if matches(expected, found) else found)]
    now = "\n".join(played) + "\n"
    if os.environ.get("SESSIONS") == "write":
        path.write_text(text.replace(section, now), encoding="utf-8")
    else:
        assert now == section, "\n".join(difflib.unified_diff(section.splitlines(), now.splitlines(), "expected", "found", n=1, lineterm=""))
