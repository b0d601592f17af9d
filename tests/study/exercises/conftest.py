"""The command `minigrad exercises`, for the tests of all its actions."""
import pytest

from minigrad.command import main


@pytest.fixture
def exercises(capsys, tmp_path, monkeypatch):
    """A function that calls it in an empty folder, and returns its exit code, stdout and stderr."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["exercises", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call
