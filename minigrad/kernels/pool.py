"""Memory that is used again.

Fresh memory is slow: the system hands it out in pages of 4 KB, each with a fault when it is first touched, and takes
it back when it is freed. A training step of preset nano had 8,700 such faults, a third of its time.
"""
import math
import sys

import numpy as np

SMALL = 1 << 15  # bytes; the C library keeps what is smaller
ALIGNMENT = 64  # bytes, a cache line and a vector
IDLE_BYTES = 1 << 26  # a pool that holds more than this unused, and twice what it ever used, gives all that back


def aligned(count: int) -> tuple[np.ndarray, int]:
    """Uninitialised bytes, and from where on `count` of them begin at a multiple of 64."""
    owner = np.empty(count + ALIGNMENT, np.uint8)
    return owner, -owner.ctypes.data % ALIGNMENT


class Pool:
    """Arrays whose memory is used again as soon as no array refers to it any more.

    No array needs to be given back: NumPy lets every view hold on to the array that owns the memory, so the owner's
    count of references tells whether anything is left of what was made from it. A pool belongs to one Python thread.
    """

    def __init__(self, keeps_all: bool = False):
        self.keeps_all = keeps_all  # never give memory back: its addresses are in use
        self._peak = 0  # the most bytes in use at once, since memory was last given back
        self._blocks: dict[int, list[tuple[np.ndarray, int]]] = {}  # by size: what owns the memory, and where it is aligned

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """np.empty(shape, dtype), aligned to 64 bytes if it is not small."""
        size = math.prod(shape) * dtype.itemsize
        if size < SMALL:
            return np.empty(shape, dtype)
        step = 1 << (size.bit_length() - 4)  # sizes are rounded up by an eighth at most, so that similar ones share
        size = -(-size // step) * step
        blocks = self._blocks.setdefault(size, [])
        for owner, start in blocks:  # noqa: B007  start is used below
            if sys.getrefcount(owner) == UNUSED:
                break
        else:
            if not self.keeps_all:
                self._trim()
            owner, start = aligned(size)
            blocks.append((owner, start))
        return np.ndarray(shape, dtype, owner, start)

    def _trim(self) -> None:
        """Give unused memory back if there is much of it: shapes have changed. Much is more than what a step leaves idle:
        activations at its end, gradients at its start."""
        used: dict[int, list[tuple[np.ndarray, int]]] = {size: [] for size in self._blocks}
        in_use = idle = 0
        for size, blocks in self._blocks.items():
            for owner, start in blocks:
                if sys.getrefcount(owner) == UNUSED:
                    idle += size
                else:
                    in_use += size
                    used[size].append((owner, start))
        self._peak = max(self._peak, in_use)
        if idle > IDLE_BYTES and idle + in_use > 2 * self._peak:
            self._peak = in_use
            for size, blocks in self._blocks.items():
                blocks[:] = used[size]

    def nbytes(self) -> int:
        """All the memory that it holds."""
        return sum(size * len(blocks) for size, blocks in self._blocks.items())

    def owns(self, array: np.ndarray) -> bool:
        """Does the array's memory belong to this pool?"""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return any(array is owner for owner, _ in self._blocks.get(array.nbytes - ALIGNMENT, ()))


def _references_of_an_unused_owner() -> int:
    """What sys.getrefcount gives in the loops of `Pool` for an array that only the pool knows."""
    blocks = [(np.empty(0), 0)]
    for owner, _ in blocks:
        count = sys.getrefcount(owner)
    return count


UNUSED = _references_of_an_unused_owner()
