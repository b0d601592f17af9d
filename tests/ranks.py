"""Start the command on several ranks with any mpiexec."""
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


ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # as in a container


def started(mpiexec: str, size: int, *arguments) -> subprocess.Popen:
    """`mpiexec -n size python arguments`"""
    command = [mpiexec, *flags_of(mpiexec), "-n", size, sys.executable, *arguments]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | ENVIRONMENT, cwd=ROOT)


def train(mpiexec: str, size: int, *flags) -> subprocess.Popen:
    return started(mpiexec, size, "-m", "minigrad", "train", *flags)
