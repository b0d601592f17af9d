"""Do the tests notice when a part of the library does not work? This script breaks one part at a time, and names what
stayed green.

    python tests/sabotage [--jobs 2] [--only attention] [--list]

The parts are listed in ops.py, nn.py and models.py, each with the tests that are for it. Each sabotage happens in a
process of its own: forked from this one, which has imported the library but started no kernel, so that every process has
its own threads. A test has to fail then. What stays green shows a hole in the tests, unless `explained` says why no test
can see it; so does, for the sake of this check, a selection of tests that is empty or fails without any sabotage, and a
sabotage that cannot be applied any more or is itself in error. Exit code 1 if there is something of the kind.
"""
import argparse
import importlib
import os
import pathlib
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[2]
sys.path[0:1] = [str(ROOT), str(ROOT / "tests")]  # instead of this folder, whose nn.py is not the library's

import pytest  # noqa: E402

import models.cli  # noqa: E402, F401  all of the library, once for all processes
from sabotage.base import Sabotage  # noqa: E402

PARTS = "ops", "nn", "models"
SECONDS = 300  # a process that takes longer hangs: that is noticed too
CANNOT_BE_APPLIED = 99  # exit code, beside pytest's
SLIPS = "NameError", "UnboundLocalError", "SyntaxError", "IndentationError"  # of who wrote the sabotage
OPTIONS = "-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore"


@dataclass
class Outcome:
    """How a run of pytest ended."""

    code: int  # pytest's: 0 passed, 1 failed, 5 no tests; negative: ended by that signal
    report: str

    @property
    def is_slip(self) -> bool:
        return self.code == CANNOT_BE_APPLIED or any(f"{slip}:" in self.report for slip in SLIPS)

    @property
    def reason(self) -> str:
        """The first failure in one line."""
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        lines = self.report.splitlines()
        return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1] if lines else "no output")


def all_sabotages() -> list[Sabotage]:
    paths = [ROOT / "tests/sabotage" / f"{part}.py" for part in PARTS]
    found = [s for path in paths if path.exists() for s in importlib.import_module(f"sabotage.{path.stem}").SABOTAGES]
    names = [sabotage.name for sabotage in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two sabotages have one name: {', '.join(sorted(twice))}")
    return found


def start(tests: Iterable[str], apply: Callable[[], None], report: str) -> int:
    """Run tests in a process of its own, after `apply()`; its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if process := os.fork():
        return process
    signal.alarm(SECONDS)
    output = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    code = CANNOT_BE_APPLIED
    try:
        apply()
        code = pytest.main([*OPTIONS, *tests])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(tasks: Iterable[tuple[tuple[str, ...], Callable[[], None]]], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """(which task, how it ended), as they end."""
    waiting, running = list(enumerate(tasks)), {}
    with tempfile.TemporaryDirectory() as scratch:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, (tests, apply) = waiting.pop(0)
                running[start(tests, apply, f"{scratch}/{number}")] = number
            process, status = os.wait()
            number = running.pop(process)
            report = pathlib.Path(scratch, str(number))
            yield number, Outcome(os.waitstatus_to_exitcode(status), report.read_text(errors="replace"))


def broken_selections(sabotages: list[Sabotage], jobs: int) -> set[tuple[str, ...]]:
    """Those of their tests that do not exist, or fail as things are."""
    selections = list(dict.fromkeys(sabotage.tests for sabotage in sabotages))
    broken = set()
    for number, outcome in run([(tests, lambda: None) for tests in selections], jobs):
        if outcome.code:
            broken.add(selections[number])
            print(f"without any sabotage: {' '.join(selections[number])}: {outcome.reason}", flush=True)
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--only", default="", metavar="WORD", help="sabotages whose name contains this")
    parser.add_argument("--list", action="store_true", help="list them, run nothing")
    parser.add_argument("--verbose", action="store_true", help="say of each which test noticed it")
    options = parser.parse_args()
    os.chdir(ROOT)
    chosen = [sabotage for sabotage in all_sabotages() if options.only in sabotage.name]
    if options.list:
        print(*(f"{sabotage.name}  ({' '.join(sabotage.tests)})" for sabotage in chosen), f"{len(chosen)} sabotages", sep="\n")
        return 0
    broken = broken_selections(chosen, options.jobs)
    chosen = [sabotage for sabotage in chosen if sabotage.tests not in broken]
    noticed = explained = unexplained = 0
    for number, outcome in run([(sabotage.tests, sabotage.apply) for sabotage in chosen], options.jobs):
        sabotage = chosen[number]
        if outcome.code == 0 and sabotage.explained:
            explained += 1
            print(f"green: {sabotage.name}  (explained: {sabotage.explained})", flush=True)
        elif outcome.code == 0:
            unexplained += 1
            print(f"green: {sabotage.name}", flush=True)
        elif outcome.is_slip:
            unexplained += 1
            print(f"no sabotage: {sabotage.name}: {outcome.report.splitlines()[-1]}", flush=True)
        elif sabotage.explained:
            unexplained += 1
            print(f"noticed, though explained away: {sabotage.name}: {outcome.reason}", flush=True)
        else:
            noticed += 1
            if options.verbose:
                print(f"noticed: {sabotage.name}: {outcome.reason}", flush=True)
    print(f"{noticed} of {len(chosen)} sabotages noticed, {explained} explained, {unexplained} to be looked at; "
          f"{len(broken)} selections of tests are broken")
    return 1 if unexplained or broken else 0


if __name__ == "__main__":
    sys.exit(main())
