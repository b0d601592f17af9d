"""Does a sweep that is killed end with the table of one that is not?

    python tests/kill_sweeps.py [--seed 0] [--steps 300] [--folder DIR]

trains twelve runs, four learning rates with three seeds, twice: once undisturbed, and once with three ends at random
moments, after each of which the same command starts it again: kill -9 of the sweep itself, kill -9 of all its processes at
once, and Ctrl-C; and on the way one worker is killed, which the sweep mends itself. It says when, what was finished then,
and whether all losses, parameters and the tables are the same to the bit, times aside. The exit code is 1 if they are not.
It takes a few minutes on two cores.
"""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from models import checkpoint as checkpoints  # noqa: E402

GRID = "--lr", "3e-4,1e-3,3e-3,1e-2", "--seed", "0,1,2"
CLOCK = "seconds", "per_second"  # in the names of what depends on the clock


def command(folder: pathlib.Path, steps: int) -> list[str]:
    """A sweep of small models on the language reference."""
    return [sys.executable, "-m", "minigrad", "sweep", "--preset", "micro", "--steps", str(steps), "--eval-every", "25", *GRID,
            "--out", str(folder)]


def start(folder: pathlib.Path, steps: int) -> subprocess.Popen:
    return subprocess.Popen(command(folder, steps), env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen, wanted: int = 0) -> str:
    """What it printed; SystemExit if it ended otherwise."""
    out, err = process.communicate()
    if process.returncode != wanted:
        sys.exit(f"the sweep ended with {process.returncode}, expected {wanted}:\n{err}")
    return out


def children(process: int) -> list[int]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            if int(path.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
    return found


def kill(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def disturb(folder: pathlib.Path, steps: int, seconds: float, draws: random.Random) -> None:
    """Three sweeps that do not get to their end, each some seconds long."""
    for what in ("kill -9 of the sweep", "kill -9 of all", "Ctrl-C"):
        started, process = time.monotonic(), start(folder, steps)
        moments = sorted(draws.uniform(3, max(4, seconds / 3)) for _ in range(2))
        time.sleep(moments[0])
        workers = children(process.pid)
        kill(draws.sample(workers, min(1, len(workers))))
        time.sleep(moments[1] - moments[0])
        workers = children(process.pid)
        if process.poll() is not None:
            sys.exit("the sweep was at its end before the moment came; give more --steps")
        if what == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            kill([process.pid, *(workers if what.endswith("all") else [])])
        end(process, 130 if what == "Ctrl-C" else -signal.SIGKILL)
        finished = len(list(folder.glob("*/sample.txt")))
        print(f"{what} after {time.monotonic() - started:.1f} s, of a worker after {moments[0]:.1f} s; {finished} of 12 runs "
              f"finished, {len(list(folder.glob('*/metrics.jsonl')))} begun")


def table(folder: pathlib.Path) -> list[dict[str, str]]:
    with open(folder / "sweep.csv", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if not any(word in name for word in CLOCK)}
                for row in csv.DictReader(file)]


def rows(folder: pathlib.Path) -> list[dict]:
    """Of metrics.jsonl."""
    found = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{name: value for name, value in row.items() if not any(word in name for word in CLOCK)} for row in found]


def same_parameters(one: pathlib.Path, other: pathlib.Path) -> bool:
    a, b = checkpoints.load(one).model, checkpoints.load(other).model
    return a.keys() == b.keys() and all(np.array_equal(array, b[name]) for name, array in a.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--folder", help="an empty one, which stays (default: a temporary one)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(options.folder or stack.enter_context(tempfile.TemporaryDirectory()))
        whole, parts = folder / "whole", folder / "parts"
        started = time.monotonic()
        end(start(whole, options.steps))
        seconds = time.monotonic() - started
        print(f"undisturbed: {seconds:.1f} s")
        disturb(parts, options.steps, seconds, random.Random(options.seed))
        print(end(start(parts, options.steps)))
        names = sorted(path.parent.name for path in whole.glob("*/checkpoint.npz"))
        wrong = [name for name in names if rows(whole / name) != rows(parts / name)
                 or not same_parameters(whole / name, parts / name)]
        same_tables = table(whole) == table(parts)
        print(f"{len(names) - len(wrong)} of {len(names)} runs have the same losses and parameters; the tables are "
              f"{'the same' if same_tables else 'NOT the same'}")
        return 0 if len(names) == 12 and not wrong and same_tables else 1


if __name__ == "__main__":
    sys.exit(main())
