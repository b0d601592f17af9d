"""Golden sessions of the command, in sessions/: see tests/sessions.py."""
import pathlib

import pytest

from sessions import replay, sections


@pytest.mark.parametrize("path, title", sections(pathlib.Path(__file__).parent / "sessions"))
def test_sessions(run, in_this_process, path, title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replay(path, title, run)
