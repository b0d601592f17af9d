"""Tests that need an extra are marked with its group, and --must-run makes a skip in a group a failure."""
import ast
import gc
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conftest import MARKS

HERE = pathlib.Path(__file__).parent


def named(node: ast.AST) -> list[str]:
    """The variables and attributes below a node."""
    return [getattr(child, "id", None) or getattr(child, "attr", "") for child in ast.walk(node)]


def calls(node: ast.AST, name: str, functions: tuple[str, ...] = ()) -> Iterator[tuple[ast.Call, tuple[str, ...]]]:
    """(call of pytest's function of that name, the functions around it)"""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and getattr(child.func, "attr", "") == name:
            yield child, functions
        yield from calls(child, name, (*functions, child.name) if isinstance(child, ast.FunctionDef) else functions)


def at_top(tree: ast.Module) -> dict[str, ast.Assign]:
    """{name: name = pytest.importorskip(...)} at the top of a file."""
    return {node.targets[0].id: node for node in tree.body if isinstance(node, ast.Assign) and "importorskip" in named(node)}


def unmarked(path: pathlib.Path, tree: ast.Module, asked_for: dict[str, set[str]]) -> Iterator[str]:
    """Skips for a missing extra that conftest does not notice: it only looks for a library that the test itself or the top of
    its file imports by name. `asked_for`: by other files at their top."""
    helpers = []
    for call, functions in calls(tree, "importorskip"):
        library = ast.literal_eval(call.args[0])
        if library not in MARKS:
            yield f"line {call.lineno}: conftest.MARKS has no group for {library}"
        if functions and not functions[0].startswith("test_") and functions[0] not in MARKS:
            yield f"line {call.lineno}: the tests that use {functions[0]} are not marked"
        if not functions and library not in at_top(tree):
            yield f"line {call.lineno}: {library} is not the name of what is imported"
    for call, functions in calls(tree, "skip"):
        if path.name != "conftest.py" or functions[0] not in {*MARKS, "kernels"}:
            yield f"line {call.lineno}: skips a test that is not marked"
    for call, _ in calls(tree, "skipif"):
        if {"find_spec", "which", "missing"} & {*named(call)}:
            yield f"line {call.lineno}: not marked"
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            helpers.append((node.module, {alias.name for alias in node.names}))
        elif isinstance(node, ast.Import):
            helpers += [(alias.name, set()) for alias in node.names]
    for helper, names in helpers:
        if not names >= asked_for.get(helper, set()):
            yield f"imports {helper} without what it asks for"


def test_every_skip_for_a_missing_extra_is_marked():
    trees = {path.relative_to(HERE): ast.parse(path.read_text(encoding="utf-8")) for path in HERE.rglob("*.py")}
    asked_for = {path.stem: set(at_top(tree)) for path, tree in trees.items() if at_top(tree)}
    assert [f"{path}: {problem}" for path, tree in trees.items() for problem in unmarked(path, tree, asked_for)] == []


NEEDS = 'import pytest\n{} = pytest.importorskip("{}")\ndef test(): pass\n'
OF_TORCH, NOWHERE = NEEDS.format("torch", "torch"), NEEDS.format("nowhere", "nowhere")
LONG = "import pytest\n@pytest.mark.long\ndef test(): pass\n"
SHORT = LONG.replace("long", "short")
IN_TEST = 'import pytest\ndef test_here(): pass\ndef test(): pytest.importorskip("torch")\n'


# They would act on this process too
PLUGINS = [f"-p no:{name}" for name in ("cacheprovider", "faulthandler", "threadexception", "unraisableexception")]


@pytest.mark.parametrize("content, flags, code, words", [
    ("def test(): pass", "--must-run core", 0, "core: 1 tests ran\noracle: 0 tests ran\n"),
    ("def test(): pass", "--must-run core,mpi", 1, "mpi: 0 tests ran"),
    ("def test(): pass", "--must-run jax", 4, "no such group: jax; there are core, oracle, hub, docs, browser, mpi, types"),
    (NOWHERE, "--must-run core", 1, "--must-run core, but test_it.py: Skipped: could not import 'nowhere'"),
    (OF_TORCH, "--must-run oracle", 1, "--must-run oracle, but test_it.py: Skipped: could not import 'torch'"),
    (IN_TEST, "--must-run core", 0, "core: 1 tests ran\noracle: 0 tests ran; 1 tests skipped: could not import 'torch'"),
    (IN_TEST, "--must-run oracle -n1", 1, "--must-run oracle, but test_it.py::test: Skipped: could not import 'torch'"),
    (LONG, "", 5, "core: 0 tests ran"),
    (LONG, "--long", 0, "core: 1 tests ran"),
    (SHORT, "", 0, "core: 1 tests ran"),
    (SHORT, "--long", 5, "core: 0 tests ran"),
    ("def test(mpiexec): pass", "--must-run mpi", 1, "--must-run mpi, but test_it.py::test: Skipped: needs mpi4py"),
])
def test_a_skip_in_a_group_that_must_run_is_a_failure(content, flags, code, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "test_it.py").write_text(content)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  long\n  short\n  oracle\n  hub\n  mpi\n  browser\n  docs\n  types\n")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules |= dict.fromkeys(['torch', 'mpi4py'])\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    arguments = ["--rootdir", tmp_path, "-c", tmp_path / "pytest.ini", "--import-mode=importlib", "-p", "conftest",
                 *PLUGINS, *flags.split(), tmp_path]
    if "-n1" in flags:
        path = os.pathsep.join(map(str, (tmp_path, HERE.parent, HERE)))
        run = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False, capture_output=True, text=True,
                             env=os.environ | {"PYTHONPATH": path})
        found, output = run.returncode, run.stdout + run.stderr
    else:
        for library in ("torch", "mpi4py"):
            monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.delitem(sys.modules, "test_it", raising=False)  # of the row before
        monkeypatch.setattr(gc, "collect", lambda: 0)  # it walks through all that is loaded
        found, output = pytest.main([*map(str, arguments)]), "".join(capsys.readouterr())
    assert (found, words in output) == (code, True), output
