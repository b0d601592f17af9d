"""Start the command on several ranks with any mpiexec, and find the processes it starts, on Linux."""
import functools
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
TINY = ("--layers", 2, "--heads", 2, "--width", 32, "--context", 32, "--batch-size", 8, "--eval-windows", 10, "--warmup-steps", 2)


@functools.cache
def flags_of(mpiexec: str) -> tuple[str, ...]:
    """Allow more ranks than cores, and bind none to a core."""
    version = subprocess.run([mpiexec, "--version"], check=False, capture_output=True, text=True).stdout
    return ("--oversubscribe", "--bind-to", "none") if "Open MPI" in version or "prte" in version.lower() else ()


def environment(**changes: str) -> dict[str, str]:
    """Open MPI asks root, as in a container, for confirmation."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **changes}


def started(mpiexec: str, *programs: tuple, **changes: str) -> subprocess.Popen:
    """mpiexec of programs (number of ranks, *arguments of Python)."""
    parts = [["-n", size, sys.executable, *arguments] for size, *arguments in programs]
    joined = [word for i, part in enumerate(parts) for word in ([":"] if i else []) + part]
    return subprocess.Popen([mpiexec, *flags_of(mpiexec), *map(str, joined)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(**changes), cwd=ROOT)


def train(mpiexec: str, size: int, *flags, **changes: str) -> subprocess.Popen:
    """`mpiexec -n size minigrad train flags`"""
    return started(mpiexec, (size, "-m", "minigrad", "train", *flags), **changes)


def children(pid: int) -> list[int]:
    """The child processes of all its threads."""
    return [int(child) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def ranks_of(process: subprocess.Popen) -> list[int]:
    """The process ids of its running ranks."""
    found, waiting = [], [process.pid]
    while waiting:
        try:
            waiting += (below := children(waiting.pop()))
            found += [pid for pid in below if b"\0train\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        except OSError:  # it has ended
            pass
    return found


def ours(stderr: str) -> list[str]:
    """The lines that say why a run ended. Open MPI ends a message of its own with a NUL, which may come before one."""
    return [line for line in stderr.replace("\0", "").splitlines() if line.startswith("minigrad: ")]
