"""The command `minigrad exercises`, for the tests of all its actions."""
import contextlib

import pytest

from study.command import main
from study.exercises import files
from study.exercises.answer import Direct
from study.exercises.training import command as training


@pytest.fixture
def exercises(capsys, tmp_path, monkeypatch):
    """A function that calls it in an empty folder, and returns its exit code, stdout and stderr."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["exercises", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def in_this_process(monkeypatch):
    """Answers run in this process, which is faster; test_files.py runs them in their own."""
    @contextlib.contextmanager
    def run_here(source, function_name, *limits):
        names = {"__name__": "submission"}
        exec(source.text, names)
        yield Direct(names[function_name])

    for module in (files, training):
        monkeypatch.setattr(module, "Sandbox", run_here)
