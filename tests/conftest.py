"""Shared fixtures, and the marks of tests that compare with PyTorch and of those that open a browser."""
import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest

from browser import Browser, missing


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `oracle` every test that asks for PyTorch, itself or for its whole file, and as `browser` every one that opens
    a browser: none can be forgotten."""
    for item in items:
        if isinstance(item, pytest.Function):
            if hasattr(item.module, "torch") or "torch" in item.function.__code__.co_consts:
                item.add_marker("oracle")
            if "chromium" in item.fixturenames:
                item.add_marker("browser")


def pytest_terminal_summary(terminalreporter) -> None:
    if importlib.util.find_spec("torch") is None:
        terminalreporter.write_line('NOT run: the tests that compare with PyTorch, which is not installed (extra "oracle")')
    if missing():
        terminalreporter.write_line(f'NOT run: the tests that open a browser, which need {missing()} (extra "browser")')
