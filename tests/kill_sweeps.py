"""Does a sweep that is killed end with the table of one that is not?

    python tests/kill_sweeps.py [--seed 0] [--steps 300]

trains twelve runs, four learning rates with three seeds, twice: once undisturbed, and once with three ends at random
moments, after each of which the same command starts it again: kill -9 of the sweep itself, kill -9 of all its processes at
once, and Ctrl-C; and on the way one worker is killed, whose run the sweep starts again itself. It prints when, what was
finished by then, and what differs in the end. The exit code is 1 if any loss, parameter or table differs in a bit, times
aside. It takes a few minutes on two cores.
"""
import argparse
import contextlib
import csv
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from ranks import ROOT, children

sys.path.insert(0, str(ROOT))

from small_runs import assert_same_runs

GRID = "--lr", "3e-4,1e-3,3e-3,1e-2", "--seed", "0,1,2"


def start(folder: pathlib.Path, steps: int) -> subprocess.Popen:
    """A sweep of small models on the language reference."""
    command = [sys.executable, "-m", "minigrad", "sweep", "--preset", "micro", "--steps", str(steps), "--eval-every", "25", *GRID]
    return subprocess.Popen([*command, "--out", str(folder)], env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen, expected: int = 0) -> str:
    """What the process printed; SystemExit if its exit code is not the expected one."""
    out, err = process.communicate()
    if process.returncode != expected:
        sys.exit(f"the sweep ended with {process.returncode}, expected {expected}:\n{err}")
    return out


def kill(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def disturb(folder: pathlib.Path, steps: int, seconds: float, draws: random.Random) -> None:
    """Start the sweep three times and stop it each time within `seconds`."""
    for what in ("kill -9 of the sweep", "kill -9 of all", "Ctrl-C"):
        started, process = time.monotonic(), start(folder, steps)
        first, second = sorted(draws.uniform(3, max(4, seconds / 3)) for _ in range(2))
        time.sleep(first)
        workers = children(process.pid)
        kill(draws.sample(workers, min(1, len(workers))))
        time.sleep(second - first)
        workers = children(process.pid)
        if process.poll() is not None:
            sys.exit("the sweep ended too early; give more --steps")
        if what == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            kill([process.pid, *(workers if what.endswith("all") else [])])
        end(process, 130 if what == "Ctrl-C" else -signal.SIGKILL)
        finished, begun = (len(list(folder.glob(f"*/{name}"))) for name in ("sample.txt", "metrics.jsonl"))
        print(f"{what} after {time.monotonic() - started:.1f} s, of a worker after {first:.1f} s; {finished} of 12 runs finished, "
              f"{begun} begun")


def table(folder: pathlib.Path) -> list[dict[str, str]]:
    """sweep.csv without times."""
    with open(folder / "sweep.csv", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if "second" not in name} for row in csv.DictReader(file)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = pathlib.Path(folder, "whole"), pathlib.Path(folder, "parts")
        started = time.monotonic()
        end(start(whole, options.steps))
        seconds = time.monotonic() - started
        print(f"undisturbed: {seconds:.1f} s")
        disturb(parts, options.steps, seconds, random.Random(options.seed))
        print(end(start(parts, options.steps)))
        names, wrong = [path.parent.name for path in whole.glob("*/checkpoint.npz")], []
        for name in names:
            try:
                assert_same_runs(whole / name, parts / name)
            except AssertionError as error:
                wrong.append(f"{name} differs: {error}")
        if table(whole) != table(parts):
            wrong.append("the tables differ")
        print(*wrong, f"{len(names)} runs compared", sep="\n")
        return int(len(names) != 12 or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
