"""Memory that is reused, by each Python thread: `own`.

Fresh memory is slow: the system maps it page by page of 4 KB, with a page fault at the first touch, and takes it back when
it is freed. A training step of preset nano had 8,700 such faults, a third of its time.
"""
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

SMALL = 1 << 15  # bytes; the C library reuses smaller arrays itself
WORTH_CUTTING = 1 << 17  # bytes; for less, the search for a place takes longer than the work done there
ALIGNMENT = 64  # bytes, a cache line and a vector
IDLE_BYTES = 1 << 26  # a pool frees unused memory if it is more than this, and the pool holds twice what it ever used


def aligned(count: int, make: Callable = np.empty) -> tuple[np.ndarray, int]:
    """Bytes from make(size, dtype), and the offset at which `count` of them are aligned to 64 bytes."""
    owner = make(count + ALIGNMENT, np.uint8)
    return owner, -owner.ctypes.data % ALIGNMENT


def lasting(shape: tuple[int, ...], dtype: np.dtype, make: Callable = np.empty) -> np.ndarray:
    """make(shape, dtype), with np.empty or np.zeros, in its own memory, aligned to 64 bytes if it is not small.

    NumPy aligns to 16: then most vectors straddle two cache lines, and reading weights takes 1.2 to 2 times as long.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return make(shape, dtype)
    owner, start = aligned(size, make)
    return np.ndarray(shape, dtype, owner, start)


class _Region(NamedTuple):
    """Memory from the system, and the blocks it is cut into, in order and without gaps."""

    memory: memoryview
    blocks: list[np.ndarray]


class _Run(NamedTuple):
    """Unused neighbouring blocks, region.blocks[first:end]: `size` bytes from `start` on in region.memory."""

    size: int
    region: _Region
    first: int
    end: int
    start: int


class Pool:
    """Arrays whose memory is reused as soon as no array refers to it any more.

    Nothing needs to be returned: in NumPy every view keeps the block that it was made from alive, so the block's reference
    count tells whether it is in use. A pool belongs to one Python thread.

    A block keeps the size that was first asked for. If all blocks of a size are in use, unused neighbours are merged and
    cut, so gradients come to lie where activations were. A region that is entirely unused becomes one block again, so each
    step finds the same memory as the step before. With this, preset small takes 118 MB, exactly what is in use at once;
    with blocks that never change it took 138.
    """

    def __init__(self, keeps_all: bool = False):
        self.keeps_all = keeps_all  # never free memory: its addresses are in use
        self._peak = 0  # the most bytes in use at once since memory was last freed
        self._regions: list[_Region] = []
        self._blocks: dict[int, list[np.ndarray]] = {}  # of all regions, by size; those that fill a region come first

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """np.empty(shape, dtype), aligned to 64 bytes if it is not small."""
        size = math.prod(shape) * dtype.itemsize
        if size < SMALL:
            return np.empty(shape, dtype)
        step = 1 << (size.bit_length() - 4)  # sizes are rounded up by at most an eighth, so that similar ones share blocks
        size = -(-size // step) * step
        for block in self._blocks.get(size, ()):
            if sys.getrefcount(block) == UNUSED:
                break
        else:
            block = self._cut(self._shortest_run(size) or self._new_run(size), size)
        return np.ndarray(shape, dtype, block)

    def _shortest_run(self, size: int) -> _Run | None:
        """The shortest run of unused blocks that is long enough; regions that are unused become one block on the way."""
        if size < WORTH_CUTTING:
            return None
        runs = [run for run in self._runs(size) if run.size >= size]
        for i, run in enumerate(runs):
            if run.size == run.region.memory.nbytes and run.end > 1:
                self._cut(run, run.size)
                runs[i] = run._replace(end=1)
        return min(runs, key=lambda run: run.size, default=None)

    def _runs(self, least: int = 0) -> Iterator[_Run]:
        """The runs of unused blocks, in regions of at least `least` bytes."""
        for region in self._regions:
            if region.memory.nbytes < least:
                continue
            first = number = start = stop = 0
            for block in region.blocks:  # enumerate's tuple would hold another reference
                if sys.getrefcount(block) != UNUSED:
                    if stop > start:
                        yield _Run(stop - start, region, first, number, start)
                    first, start = number + 1, stop + block.nbytes
                number += 1
                stop += block.nbytes
            if stop > start:
                yield _Run(stop - start, region, first, number, start)

    def _new_run(self, size: int) -> _Run:
        """New memory from the system."""
        if not self.keeps_all:
            self._trim()
        owner, start = aligned(size)
        region = _Region(memoryview(owner)[start : start + size], [])
        self._regions.append(region)
        return _Run(size, region, 0, 0, 0)

    def _cut(self, run: _Run, size: int) -> np.ndarray:
        """Replace a run's blocks by one of this size at its start, and one of the rest."""
        memory, blocks = run.region
        for block in blocks[run.first : run.end]:
            self._forget(block)
        first, rest = run.start + size, run.start + run.size
        # Their base is no array, so views of a block keep the block itself alive, not its base.
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
        """Free unused memory if there is much of it, as when shapes have changed. Much is more than a step leaves idle:
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
        """How much memory the pool holds."""
        return sum(region.memory.nbytes for region in self._regions)

    def owns(self, array: np.ndarray) -> bool:
        """Does the array's memory belong to this pool?"""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return any(array is block for block in self._blocks.get(array.nbytes, ()))


def _references_of_an_unused_block() -> int:
    """The value of sys.getrefcount in the loops of `Pool` for an array that only the pool refers to."""
    region, by_size = [np.empty(0)], {}
    by_size[0] = [*region]
    for block in region:
        count = sys.getrefcount(block)
    return count


UNUSED = _references_of_an_unused_block()


class _Own(threading.local):
    """The state of a Python thread."""

    observe_launch: Callable | None = None  # called as observe_launch(function, arguments) at each kernel launch

    def __init__(self):
        self.pool = Pool()  # memory for results
        self.workspaces: dict[tuple[str, str], np.ndarray] = {}  # scratch memory of kernels, by purpose and dtype


own = _Own()
