"""Shared fixtures, and the mark of tests that compare with PyTorch."""
import importlib.util

import numpy as np
import pytest


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `oracle` every test that asks for PyTorch, itself or for its whole file: none can be forgotten."""
    for item in items:
        if isinstance(item, pytest.Function):
            if hasattr(item.module, "torch") or "torch" in item.function.__code__.co_consts:
                item.add_marker("oracle")


def pytest_terminal_summary(terminalreporter) -> None:
    if importlib.util.find_spec("torch") is None:
        terminalreporter.write_line('NOT run: the tests that compare with PyTorch, which is not installed (extra "oracle")')
