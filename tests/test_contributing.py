"""CONTRIBUTING.md: an op that is added by its recipe, word for word, passes the tests, and what it names is there; the changelog's version."""
import importlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

import pytest

import minigrad as mg

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPE = TEXT[TEXT.index("**Adding an op**") : TEXT.index("**Kernels.**")]
FILE, CONTENTS, CASES = "minigrad/ops/activations.py", "minigrad/__init__.py", "tests/cases.py"
PLACES = {  # {the first word of an edit: (the file that the recipe names, the line before it, how far it is indented)}
    "from": (FILE, "from typing import Generic\n", 0),
    "class": (FILE, "from .operands import call, floating\n", 0),
    "def": (FILE, "class ActivationMethods(Generic[Tensor]):\n", 4),
    "squareplus": (CONTENTS, "# activations\n", 0),
    "Case": (CASES, "    Case(activations.Softplus, [normal(3, 4)],", 4),
}
COMMAND, = re.findall(r"`python (-m pytest .*)` then", RECIPE)


def edits() -> list[str]:
    """The lines of code that the recipe gives."""
    blocks = re.findall(r"^   ```python\n(.*?)^   ```$", RECIPE, re.DOTALL | re.MULTILINE)
    return [*re.findall(r"\(`(from .* import Op)`\)", RECIPE), *(textwrap.dedent(block) for block in blocks)]


def added(text: str, code: str, before: str, indent: int) -> str:
    """The text with the code below the first line that begins like this."""
    end = text.index("\n", text.index(before)) + 1
    return f"{text[:end]}{textwrap.indent(code.strip(), ' ' * indent)}\n\n{text[end:]}"


def result_of_tests(folder: pathlib.Path) -> str:
    """How the tests that the recipe names end."""
    variables = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, *shlex.split(COMMAND), "--numprocesses", "0", "-q", "-p", "no:cacheprovider"],
                          cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return next(line for line in reversed(done.stdout.splitlines()) if re.search(r"\d+ (passed|failed|error)", line))


@pytest.mark.long
def test_an_op_added_by_the_recipe_passes_and_without_its_row_does_not(tmp_path):
    for name in ("minigrad", "nn", "models", "study", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    assert [edit.split()[0].rstrip(":").partition("(")[0] for edit in edits()] == [*PLACES]
    for edit, (name, before, indent) in zip(edits(), PLACES.values()):
        assert f"`{name}`" in RECIPE
        path = tmp_path / name
        without = path.read_text(encoding="utf-8")
        path.write_text(added(without, edit, before, indent), encoding="utf-8")
    passed, = re.findall(r"^(\d+) passed", result_of_tests(tmp_path))
    assert int(passed) > 20
    path.write_text(without, encoding="utf-8")
    assert "1 failed" in result_of_tests(tmp_path)


def test_the_changelog_begins_with_this_version():
    """Below what is unreleased: the tag's message is that section."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert next(heading.split(",")[0] for heading in headings if heading != "Unreleased") == mg.__version__


def is_there(name: str) -> bool:
    """Is it a module, or a name in one?"""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(name))
    except ModuleNotFoundError:
        return False


def test_what_is_named_is_there():
    paths = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if ".git" not in path.parts}
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|md|txt|cfg|yml)|(?:\w+/)+)`", TEXT))
    assert {name for name in named if not any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in paths)} == set()
    names = set(re.findall(r"`((?:minigrad|nn|models|study)(?:\.\w+)+)`", TEXT))
    assert len(names) > 5 and {name for name in names if not is_there(name)} == set()
