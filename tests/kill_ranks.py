"""Kill a rank at random moments: does the run always stop in time, with one line and an intact checkpoint?

    python tests/kill_ranks.py [--times 10] [--mpiexec mpiexec] [--signal 9]
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[1])]

from models.checkpoint import CheckpointError, load  # noqa: E402
from ranks import TINY, ours, ranks_of, train  # noqa: E402


def killed_after(mpiexec: str, seconds: float, size: int, number: int, folder: pathlib.Path) -> tuple:
    """(seconds until all had ended, our lines, the checkpoint's step or None, ranks still running)"""
    process = train(mpiexec, size, *TINY, "--steps", 100_000, "--eval-every", 20, "--out", folder)
    time.sleep(seconds)
    pids = ranks_of(process)
    victim = random.choice(pids)
    os.kill(victim, number)
    started = time.monotonic()
    try:
        _, stderr = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        return 30.0, ["HANGS"], None, pids
    ended = time.monotonic() - started
    time.sleep(0.2)
    left = [pid for pid in pids if pathlib.Path(f"/proc/{pid}/exe").exists()]
    try:
        step = load(folder).step
    except CheckpointError as error:
        step = None if not list(folder.glob("*.npz")) else f"DAMAGED {error}"
    return ended, ours(stderr), step, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds after the start")
    parser.add_argument("--signal", type=int, default=signal.SIGKILL)
    options = parser.parse_args()
    failed = 0
    for _ in range(options.times):
        moment = random.uniform(0.15, options.longest)
        with tempfile.TemporaryDirectory() as folder:
            ended, lines, step, left = killed_after(options.mpiexec, moment, options.ranks, options.signal, pathlib.Path(folder) / "run")
        is_right = ended < 10 and len(lines) == 1 and not left and not isinstance(step, str)
        failed += not is_right
        print(f"killed after {moment:.2f} s: all ended after {ended:.2f} s, checkpoint of step {step}, "
              f"{'right' if is_right else 'WRONG'}: {lines} {left or ''}", flush=True)
    print(f"{failed} of {options.times} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
