"""Memory that is used again.

Fresh memory is slow: the system hands it out in pages of 4 KB, each with a fault when it is first touched, and takes
it back when it is freed. A training step of preset nano had 8,700 such faults, a third of its time.
"""
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

SMALL = 1 << 15  # bytes; the C library keeps what is smaller
WORTH_CUTTING = 1 << 17  # bytes; for less than this, to look for a place takes longer than what is done there
ALIGNMENT = 64  # bytes, a cache line and a vector
IDLE_BYTES = 1 << 26  # a pool that holds more than this unused, and twice what it ever used, gives all that back


def aligned(count: int, make: Callable = np.empty) -> tuple[np.ndarray, int]:
    """Bytes from make(count, dtype), and from where on `count` of them begin at a multiple of 64."""
    owner = make(count + ALIGNMENT, np.uint8)
    return owner, -owner.ctypes.data % ALIGNMENT


def lasting(shape: tuple[int, ...], dtype: np.dtype, make: Callable = np.empty) -> np.ndarray:
    """make(shape, dtype), np.empty or np.zeros, in memory of its own, aligned to 64 bytes if it is not small.

    NumPy aligns to 16: then most vectors lie across two cache lines, and to read weights takes 1.2 to 2 times as long.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return make(shape, dtype)
    owner, start = aligned(size, make)
    return np.ndarray(shape, dtype, owner, start)


class _Region(NamedTuple):
    """Memory from the system, and the blocks that it is cut into: in order, without gaps."""

    memory: memoryview
    blocks: list[np.ndarray]


class _Run(NamedTuple):
    """Neighbours that are unused: region.blocks[first:end], with so many bytes, from `start` on in region.memory."""

    size: int
    region: _Region
    first: int
    end: int
    start: int


class Pool:
    """Arrays whose memory is used again as soon as no array refers to it any more.

    No array needs to be given back: NumPy lets every view hold on to the block that it was made from, so the block's count
    of references tells whether anything is left of that. A pool belongs to one Python thread.

    A block has the size that was first asked for. When none of a size is unused, neighbours that are become one, and that
    is cut: gradients come to lie where activations were. A region of which nothing is used becomes whole again, so each
    step finds the memory as the one before did. So preset small takes 118 MB, as much as is in use at once; blocks that
    keep their sizes took 138.
    """

    def __init__(self, keeps_all: bool = False):
        self.keeps_all = keeps_all  # never give memory back: its addresses are in use
        self._peak = 0  # the most bytes in use at once, since memory was last given back
        self._regions: list[_Region] = []
        self._blocks: dict[int, list[np.ndarray]] = {}  # of all regions, by size; those that fill one come first

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """np.empty(shape, dtype), aligned to 64 bytes if it is not small."""
        size = math.prod(shape) * dtype.itemsize
        if size < SMALL:
            return np.empty(shape, dtype)
        step = 1 << (size.bit_length() - 4)  # sizes are rounded up by an eighth at most, so that similar ones share
        size = -(-size // step) * step
        for block in self._blocks.get(size, ()):
            if sys.getrefcount(block) == UNUSED:
                break
        else:
            block = self._cut(self._shortest_run(size) or self._new_run(size), size)
        return np.ndarray(shape, dtype, block)

    def _shortest_run(self, size: int) -> _Run | None:
        """The shortest run of unused blocks of so many bytes; regions that are all unused become whole on the way."""
        if size < WORTH_CUTTING:
            return None
        runs = [run for run in self._runs(size) if run.size >= size]
        for i, run in enumerate(runs):
            if run.size == run.region.memory.nbytes and run.end > 1:
                self._cut(run, run.size)
                runs[i] = run._replace(end=1)
        return min(runs, key=lambda run: run.size, default=None)

    def _runs(self, least: int = 0) -> Iterator[_Run]:
        """The runs of unused blocks, in regions of at least so many bytes."""
        for region in self._regions:
            if region.memory.nbytes < least:
                continue
            first = number = start = stop = 0
            for block in region.blocks:  # not by enumerate, whose pair would be one more reference
                if sys.getrefcount(block) != UNUSED:
                    if stop > start:
                        yield _Run(stop - start, region, first, number, start)
                    first, start = number + 1, stop + block.nbytes
                number += 1
                stop += block.nbytes
            if stop > start:
                yield _Run(stop - start, region, first, number, start)

    def _new_run(self, size: int) -> _Run:
        """So many bytes from the system."""
        if not self.keeps_all:
            self._trim()
        owner, start = aligned(size)
        region = _Region(memoryview(owner)[start : start + size], [])
        self._regions.append(region)
        return _Run(size, region, 0, 0, 0)

    def _cut(self, run: _Run, size: int) -> np.ndarray:
        """A block of this size at the start of a run, and one of the rest, take the place of its blocks."""
        memory, blocks = run.region
        for block in blocks[run.first : run.end]:
            self._forget(block)
        first, rest = run.start + size, run.start + run.size
        # Their base is no array, so whatever is made of a block holds on to the block, and not to its base.
        made = [np.frombuffer(memory[start:stop], np.uint8)
                for start, stop in ((run.start, first), (first, rest)) if stop > start]
        blocks[run.first : run.end] = made
        for block in made:
            own = self._blocks.setdefault(block.nbytes, [])
            own.insert(0 if len(blocks) == 1 else len(own), block)
        return made[0]

    def _forget(self, block: np.ndarray) -> None:
        own = self._blocks[block.nbytes]
        del own[next(i for i, other in enumerate(own) if other is block)]

    def _trim(self) -> None:
        """Give unused memory back if there is much of it: shapes have changed. Much is more than what a step leaves idle:
        activations at its end, gradients at its start."""
        held, unused = self.nbytes(), list(self._runs())
        idle = sum(run.size for run in unused)
        self._peak = max(self._peak, held - idle)
        if idle > IDLE_BYTES and held > 2 * self._peak:
            self._peak = held - idle
            for run in unused:
                if run.size == run.region.memory.nbytes:
                    for block in run.region.blocks:
                        self._forget(block)
                    self._regions = [region for region in self._regions if region is not run.region]

    def nbytes(self) -> int:
        """All the memory that it holds."""
        return sum(region.memory.nbytes for region in self._regions)

    def owns(self, array: np.ndarray) -> bool:
        """Does the array's memory belong to this pool?"""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return any(array is block for block in self._blocks.get(array.nbytes, ()))


def _references_of_an_unused_block() -> int:
    """What sys.getrefcount gives in the loops of `Pool` for an array that only the pool knows."""
    region, by_size = [np.empty(0)], {}
    by_size[0] = [*region]
    for block in region:
        count = sys.getrefcount(block)
    return count


UNUSED = _references_of_an_unused_block()
