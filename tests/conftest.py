"""Shared fixtures, and the marks of tests that need an extra."""
import gc
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

if importlib.util.find_spec("numba") is None:
    os.environ["MINIGRAD_FAST"] = "0"  # in the processes that tests start, too

from browser import Browser, missing
from minigrad import fast
from study.command import main
from minigrad.fast import IS_FAST


# A shell makes its background jobs ignore Ctrl-C, and so would the processes of tests that press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

MARKS = {  # by the library of pytest.importorskip, or by fixture: the first that fits
    "torch": "oracle", "jax": "oracle", "transformers": "oracle", "scipy": "oracle", "expecttest": "oracle",
    "ml_dtypes": "oracle", "safetensors": "hub", "tokenizers": "hub",
    "mkdocs": "docs", "markdown": "docs", "chromium": "browser", "mpiexec": "mpi", "mypy": "types", "pyright": "types",
    "twine": "wheel",
}
GROUPS = "core", *dict.fromkeys(MARKS.values())  # core: without a mark


def pytest_ignore_collect(collection_path: pathlib.Path) -> bool | None:
    """Without kernels, files that name them are left out; a test may also ask for the fixture `kernels`."""
    if not IS_FAST and collection_path.suffix == ".py" and "conftest" not in collection_path.name:
        text = collection_path.read_text(encoding="utf-8")
        return True if re.search(r"minigrad\.fast\b(?! import plain)|^from fuzz\b", text, re.MULTILINE) else None
    return None


def pytest_collection_finish() -> None:
    """Hide what stays, modules and collected tests, from the garbage collector, which takes a second to walk through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unfreeze() -> Iterator[None]:
    """Hypothesis, which may be imported as late as for the summary of a session, looks for what refers to its own."""
    yield
    gc.unfreeze()


@pytest.fixture
def kernels() -> None:
    """For a test about kernels in a file that does not name them."""
    if not IS_FAST:
        pytest.skip("about kernels")


@pytest.fixture(autouse=True)
def one_thread_of_pytorch() -> None:
    """On two, small ops take 30 times as long when the machine is busy."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def run(capsys):
    """A function that calls the command in this process and returns its exit code, stdout and stderr."""
    def call(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if missing():
        pytest.skip(f"needs {missing()}")
    browser = Browser()
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium) -> Iterator[Browser]:
    """One Chromium for all tests, reset to its size and colours. Its pages must log no errors and request no address."""
    chromium.resize("wide")
    chromium.scheme("light")
    yield chromium
    assert chromium.errors() == [] and chromium.requests() == []


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """The command that starts a program on several ranks."""
    command = shutil.which("mpiexec", path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if command is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpiexec")
    return command


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked as long too")
    parser.addoption("--must-run", metavar="GROUP,...", default="",
                     help=f"fail if a test of these groups is skipped, or none runs: {', '.join(GROUPS)}")


def pytest_configure(config: pytest.Config) -> None:
    if not IS_FAST:  # no examples in or about the engine room either
        room = pathlib.Path(fast.__file__).parent
        rooms = {*room.iterdir(), room.parents[1] / "docs" / "architecture.md"} - {room / "plain.py"}
        config.option.ignore = [*(config.option.ignore or ()), *map(str, rooms)]
    if unknown := must_run(config) - {*GROUPS}:
        raise pytest.UsageError(f"--must-run: no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}")


def must_run(config: pytest.Config) -> set[str]:
    return {*config.getoption("--must-run").split(",")} - {""}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that needs an extra, by the library that it or its file imports, or by its fixture, so that none is
    forgotten. Tests that compare with PyTorch are `oracle` only. Without --long, long tests are left out, with it the short ones
    that they repeat."""
    for item in items:
        if isinstance(item, pytest.Function):
            code = item.function.__code__
            names = {*item.fixturenames, *vars(item.module), *(code.co_consts if "importorskip" in code.co_names else ())}
            if mark := next((mark for name, mark in MARKS.items() if name in names), None):
                item.add_marker(mark)
                item.user_properties.append(("group", mark))
    left_out = "short" if config.getoption("--long") else "long"
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(left_out)])
    items[:] = [item for item in items if not item.get_closest_marker(left_out)]


def group_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The group of a test, or of a file that could not be collected, by the missing library."""
    if isinstance(report, pytest.CollectReport):
        return next((mark for name, mark in MARKS.items() if f"'{name}'" in report.longrepr[2]), "core")
    return dict(report.user_properties).get("group", "core")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    return judged((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    return judged((yield), collector.config)


def judged(report, config: pytest.Config):
    """The report; a skip in a group that must run is a failure."""
    if report.skipped and (group := group_of(report)) in must_run(config):
        report.outcome, report.longrepr = "failed", f"--must-run {group}, but {report.nodeid}: {report.longrepr[2]}"
    return report


def ran(terminalreporter) -> Counter[str]:
    """The number of tests that ran, by group."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    return Counter(group_of(report) for report in reports if isinstance(report, pytest.TestReport))


def pytest_sessionfinish(session: pytest.Session) -> None:
    terminalreporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminalreporter and must_run(session.config) - ran(terminalreporter).keys():  # xdist's workers have none
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    """Print how many tests of each group ran, how many were skipped, and why."""
    counts, skipped = ran(terminalreporter), terminalreporter.getreports("skipped")
    for group in GROUPS:
        reasons = Counter(f"{'file' if isinstance(report, pytest.CollectReport) else 'test'}s skipped: "
                          f"{report.longrepr[2].removeprefix('Skipped: ')}" for report in skipped if group_of(report) == group)
        terminalreporter.write_line("; ".join([f"{group}: {counts[group]} tests ran",
                                               *(f"{count} {reason}" for reason, count in reasons.most_common())]))
