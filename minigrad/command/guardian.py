"""Ranks started by mpiexec speak with one voice: the reason why a run ends is printed once, in one line, however it ends.

A rank that is killed cannot print anything, and a mistake in a flag is seen by all ranks. So the stderr of each rank goes
through a guardian, a small process that outlives its rank. It passes everything on, except that of the lines saying why a
command ends, only the first of all ranks on a machine gets through. If its rank ends without such a line and without
GOODBYE, the rank was killed, and the guardian says so.

mpiexec ends the other ranks. MPICH's does not if a rank exits before it has called MPI, and the others would wait for it;
then the guardian ends them. This file also runs as the guardian, so it needs only the standard library.
"""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

RANKS = "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"  # hold the rank with Open MPI, MPICH, and Slurm for both
LAUNCHERS = "hydra", "prte", "orte", "mpi"  # prefixes of the names of processes that start the ranks of a machine
LAST_WORDS = b"minigrad: error: ", b"minigrad: stopped ", b"minigrad: interrupted"  # of a command
GOODBYE = b"\0"
SECONDS = 3.0  # for which the other ranks stay silent, as mpiexec ends them for the same reason


def rank(environment: Mapping[str, str] = os.environ) -> str | None:
    """The number of this rank; None if mpiexec did not start it.

    >>> rank({"PMI_RANK": "3"})
    '3'
    """
    return next((environment[name] for name in RANKS if name in environment), None)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Inside, a rank's stderr goes through its guardian."""
    number = rank()
    if number is None:
        yield
        return
    command = [sys.executable, "-I", "-S", __file__, number, str(os.getppid())]
    guardian = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert guardian.stdin and guardian.stdout  # for type checkers: they are pipes
    before = os.dup(2)
    os.dup2(guardian.stdin.fileno(), 2)
    try:
        yield
        sys.stderr.flush()
        os.write(2, GOODBYE)
    finally:
        os.dup2(before, 2)
        os.close(before)
        guardian.stdin.close()
        guardian.stdout.read()  # until it has printed everything: mpiexec may end as soon as a rank does
        guardian.stdout.close()


def guard(number: str, job: str) -> None:
    """Run as the guardian of a rank; `job` is the same for all ranks on this machine."""
    has_ended, gate, line, is_start = False, None, b"", True
    while chunk := os.read(0, 1 << 16):
        has_ended |= GOODBYE in chunk
        for piece in chunk.replace(GOODBYE, b"").splitlines(keepends=True):
            line += piece
            is_last = is_start and any(words.startswith(line[: len(words)]) for words in LAST_WORDS)
            if is_last and not line.endswith(b"\n"):
                continue  # more of the line is to come
            if not is_last:
                os.write(2, line)
            else:
                gate, has_ended = gate or say(line, job), True
            is_start, line = line.endswith((b"\n", b"\r")), b""
    os.write(2, line)
    if not has_ended:
        gate = say(b"minigrad: error: rank %s has died (killed, or out of memory?), which ends the run on all ranks; the "
                   b"last checkpoint is kept: continue with --resume\n" % number.encode(), job)
    os.close(1)
    os.close(2)  # which mpiexec waits for
    if gate:
        time.sleep(SECONDS)
        end_others(int(job))
        time.sleep(SECONDS / 3)


def end_others(job: int) -> None:
    """End the remaining ranks on this machine: the children of the process that started them."""
    with contextlib.suppress(OSError):
        if pathlib.Path(f"/proc/{job}/comm").read_text().startswith(LAUNCHERS):
            for child in pathlib.Path(f"/proc/{job}/task/{job}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


def say(line: bytes, job: str) -> socket.socket | None:
    """Print the line unless another rank of the job has printed one; returns a gate that silences the others until closed.

    The gate is an address that only one process at a time can bind. Only Linux has addresses that leave no file behind;
    elsewhere each rank prints its line.
    """
    gate = socket.socket(socket.AF_UNIX)
    if sys.platform == "linux":
        try:
            gate.bind(f"\0minigrad-{os.getuid()}-{job}")
        except OSError:
            return None
    os.write(2, line)
    return gate


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # stderr is closed
        guard(*sys.argv[1:])
