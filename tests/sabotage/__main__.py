"""Do the tests notice when a part of the library does not work? This script breaks one part at a time, and names what
stayed green.

    python tests/sabotage [--jobs 2] [--part nn] [--only Attention] [--list] [--verbose]

Each part of the library has a file here, such as engine.py, which lists its sabotages, each with the tests that are for
it; note_003.py has what the claims of that lecture note are to notice. Those tests run once as things are, and then again
for each sabotage, in a process forked from that one, where test modules, kernels and PyTorch are loaded already; a test
has to fail then. (A forked process has no threads but its own, and kernels do all parts there.)

What stays green shows a hole in the tests, unless `explained` says why no test can see it. To be looked at are also
selections of tests that are empty or fail without any sabotage, and sabotages that cannot be applied any more or fail
by themselves. The exit code is 1 if there is anything of the kind.
"""
import argparse
import contextlib
import importlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from typing import TextIO

ROOT = pathlib.Path(__file__).parents[2]
sys.path[0:1] = [str(ROOT), str(ROOT / "tests")]  # instead of this folder, whose nn.py is not the library's

import pytest  # noqa: E402

from sabotage.base import PARTS, Sabotage, all_sabotages  # noqa: E402

SECONDS = 300  # a process that takes longer hangs; a claim of the lecture notes may need 20 on an idle core
GREEN, NOTICED, NOT_APPLIED = 0, 1, 99  # exit codes of a process with a sabotage
SLIPS = "NameError", "UnboundLocalError", "SyntaxError"  # of who wrote the sabotage
OPTIONS = "-x", "-q", "--no-header", "--capture=sys", "--tb=line", "-p", "no:cacheprovider"


class SabotageRuns:
    """A pytest plugin: after the tests have passed, they run again for each sabotage, in a process of its own."""

    def __init__(self, sabotages: list[Sabotage], jobs: int, folder: pathlib.Path, tell: TextIO):
        self.sabotages, self.jobs, self.folder, self.tell = sabotages, jobs, folder, tell
        self.failure = ""  # the first one, in a line

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failure:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failure = f"{report.nodeid}: {' '.join(str(crash.message if crash else report.longrepr).split())[:150]}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session):
        passed = yield
        if session.testscollected and not session.testsfailed:
            waiting, running = list(enumerate(self.sabotages)), {}
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    number, sabotage = waiting.pop(0)
                    running[self._start(session, sabotage, self.folder / str(number))] = number
                process, status = os.wait()
                if process not in running:  # one that a test has left behind, such as those that compile kernels ahead
                    continue
                number, code = running.pop(process), os.waitstatus_to_exitcode(status)
                path = self.folder / str(number)
                failure = path.read_text() if path.exists() else f"ended by {signal.Signals(-code).name}"
                print(json.dumps([number, code, failure]), file=self.tell, flush=True)
        return passed

    def _start(self, session: pytest.Session, sabotage: Sabotage, path: pathlib.Path) -> int:
        """Run the tests again in a process of its own, which leaves its first failure in a file; its id."""
        if process := os.fork():
            return process
        signal.alarm(SECONDS)
        code = NOT_APPLIED
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            if torch := sys.modules.get("torch"):
                torch.set_num_threads(1)  # it would wait for ever for those that did not come along
            sabotage.apply()
            code = GREEN
            with contextlib.suppress(session.Failed, session.Interrupted):
                session.config.pluginmanager.subset_hook_caller("pytest_runtestloop", [self])(session=session)
            code = NOTICED if session.testsfailed else GREEN
        except BaseException as error:  # noqa: BLE001  pytest's own too: this process ends here
            self.failure = f"{type(error).__name__}: {error}"
        path.write_text(self.failure)
        os._exit(code)


def run(tests: tuple[str, ...], sabotages: list[Sabotage], jobs: int) -> Iterator[tuple[Sabotage, int, str]]:
    """(sabotage, exit code of its process, first failure), by one pytest for all that have the same tests.

    ValueError if those tests do not pass without any sabotage, or are none.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        read, write = os.pipe()
        sys.stdout.flush()
        process = os.fork()
        if not process:
            code = NOT_APPLIED
            try:
                output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
                os.dup2(output, 1)
                os.dup2(output, 2)
                runs = SabotageRuns(sabotages, jobs, folder, tell=os.fdopen(write, "w"))
                code = pytest.main([*OPTIONS, *tests], plugins=[runs])
            except BaseException:  # noqa: BLE001  the same
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(write)
        with os.fdopen(read) as lines:
            for number, code, failure in map(json.loads, lines):
                yield sabotages[number], code, failure
        _, status = os.waitpid(process, 0)
        if code := os.waitstatus_to_exitcode(status):
            last = (folder / "output").read_text().splitlines()[-3:]
            raise ValueError(f"without any sabotage, pytest {' '.join(tests)} ends with code {code}: {''.join(last)}")


def verdict(sabotage: Sabotage, code: int, failure: str) -> str:
    """How it went, in a word or two."""
    if code == NOT_APPLIED or any(f"{slip}:" in failure for slip in SLIPS):
        return "no sabotage"
    if code == -signal.SIGALRM:
        return "hung"
    if code == GREEN:
        return "explained" if sabotage.explained else "green"
    return "noticed, though explained" if sabotage.explained else "noticed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--part", choices=PARTS, action="append", help="sabotages of this file (default: all)")
    parser.add_argument("--only", default="", metavar="WORD", help="sabotages whose name contains this")
    parser.add_argument("--list", action="store_true", help="list them, run nothing")
    parser.add_argument("--verbose", action="store_true", help="say of each which test noticed it")
    options = parser.parse_args()
    os.chdir(ROOT)
    chosen = [sabotage for sabotage in all_sabotages(options.part or PARTS) if options.only in sabotage.name]
    if options.list:
        print(*(f"{sabotage.name}  ({' '.join(sabotage.tests)})" for sabotage in chosen), sep="\n")
        return 0
    load_what_tests_import()
    counts: dict[str, int] = {}
    broken = 0
    for tests in dict.fromkeys(sabotage.tests for sabotage in chosen):
        try:
            for sabotage, code, failure in run(tests, [s for s in chosen if s.tests == tests], options.jobs):
                word = verdict(sabotage, code, failure)
                counts[word] = counts.get(word, 0) + 1
                if word != "noticed" or options.verbose:
                    reasons = [f"({why})" for why in (sabotage.explained, failure) if why]
                    print(f"{word}: {sabotage.name}", *reasons, flush=True)
        except ValueError as error:
            broken += 1
            print(error, flush=True)
    print(f"of {len(chosen)} sabotages:", ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return int(bool(broken or counts.keys() - {"noticed", "explained"}))


def load_what_tests_import() -> None:
    """Once for all processes."""
    for name in "models.commands.train", "study.notes.command", "matplotlib.figure":
        importlib.import_module(name)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("torch")


if __name__ == "__main__":
    sys.exit(main())
