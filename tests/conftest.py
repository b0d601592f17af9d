"""Shared fixtures, and the marks of tests that need an extra."""
import gc
import importlib.util
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from browser import Browser, missing


# In the background a shell lets its commands ignore Ctrl-C, and theirs would: the tests that press it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

MARKS = {"torch": "oracle", "safetensors": "hub", "tokenizers": "hub"}  # of tests with pytest.importorskip(library)


@pytest.fixture(scope="session", autouse=True)
def unfreeze() -> Iterator[None]:
    """What the command's start hides from the garbage collector is shown again: Hypothesis, which may be imported by the
    summary of a session only, looks for what refers to its objects."""
    yield
    gc.unfreeze()


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if missing():
        pytest.skip(f"needs {missing()}")
    browser = Browser()
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium) -> Browser:
    """One Chromium for all tests, as wide and as light as at first."""
    chromium.resize("wide")
    chromium.scheme("light")
    return chromium


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """The command that starts a program on several ranks."""
    command = shutil.which("mpiexec", path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if command is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpiexec")
    return command


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs an extra, by the library that it asks for, itself or for its whole file, or by the fixture:
    none can be forgotten. A test that compares with PyTorch is of `oracle` alone."""
    for item in items:
        if isinstance(item, pytest.Function):
            mark = next((mark for library, mark in MARKS.items()
                         if hasattr(item.module, library) or library in item.function.__code__.co_consts), None)
            if mark:
                item.add_marker(mark)
            for fixture, mark in (("chromium", "browser"), ("mpiexec", "mpi")):
                if fixture in item.fixturenames:
                    item.add_marker(mark)


def pytest_terminal_summary(terminalreporter) -> None:
    if importlib.util.find_spec("torch") is None:
        terminalreporter.write_line('NOT run: the tests that compare with PyTorch, which is not installed (extra "oracle")')
    if any(importlib.util.find_spec(library) is None for library in ("safetensors", "tokenizers")):
        terminalreporter.write_line('NOT run: the tests of formats and tokenizers of others (extra "hub")')
    if importlib.util.find_spec("mpi4py") is None:
        terminalreporter.write_line('NOT run: the tests on several ranks, which need MPI (extra "mpi")')
    if missing():
        terminalreporter.write_line(f'NOT run: the tests that open a browser, which need {missing()} (extra "browser")')
