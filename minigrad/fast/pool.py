"""Memory that is reused, by each Python thread: `own`.

Fresh memory is slow: the system maps it page by page of 4 KB, with a page fault at the first touch, and takes it back when
it is freed. A training step of preset nano had 8,700 such faults, a third of its time.
"""
import math
import sys
import threading
from collections.abc import Callable

import numpy as np

SMALL = 1 << 15  # bytes; the C library reuses smaller arrays itself
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


class Pool:
    """Arrays whose memory is reused as soon as no array refers to it any more, in blocks by size.

    Nothing needs to be returned: in NumPy every view keeps the block that it was made from alive, so the block's reference
    count tells whether it is in use. A pool belongs to one Python thread.

    Each step finds the blocks of the step before. Gradients do not lie where activations were, unless they have the same
    size: preset small takes 137 MB for the 122 that are in use at once, which is 5% of the process.
    """

    def __init__(self, keeps_all: bool = False):
        self.keeps_all = keeps_all  # never free memory: its addresses are in use
        self._peak = 0  # the most bytes in use at once since memory was last freed
        self._blocks: dict[int, list[np.ndarray]] = {}  # by size

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
            block = self._new_block(size)
        return np.ndarray(shape, dtype, block)

    def _new_block(self, size: int) -> np.ndarray:
        """New memory from the system."""
        if not self.keeps_all:
            self._trim()
        owner, start = aligned(size)
        # Its base is no array, so views of the block keep the block itself alive, not its base.
        block = np.frombuffer(memoryview(owner)[start : start + size], np.uint8)
        self._blocks.setdefault(size, []).append(block)
        return block

    def _trim(self) -> None:
        """Free unused memory if there is much of it, as when shapes have changed. Much is more than a step leaves idle:
        activations at its end, gradients at its start."""
        used = {size: [block for block in blocks if sys.getrefcount(block) != UNUSED]
                for size, blocks in self._blocks.items()}
        held, in_use = self.nbytes(), sum(size * len(blocks) for size, blocks in used.items())
        self._peak = max(self._peak, in_use)
        if held - in_use > IDLE_BYTES and held > 2 * self._peak:
            self._peak, self._blocks = in_use, used

    def nbytes(self) -> int:
        """How much memory the pool holds."""
        return sum(size * len(blocks) for size, blocks in self._blocks.items())

    def owns(self, array: np.ndarray) -> bool:
        """Does the array's memory belong to this pool?"""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return any(array is block for block in self._blocks.get(array.nbytes, ()))


def _references_of_an_unused_block() -> int:
    """The value of sys.getrefcount in the loops of `Pool` for an array that only the pool refers to."""
    blocks = [np.empty(0)]
    for block in blocks:
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


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array for a result, from this Python thread's pool."""
    return own.pool.empty(shape, dtype)


def empty_like(array: np.ndarray) -> np.ndarray:
    """An uninitialised, C-contiguous array of this shape and dtype, from this Python thread's pool."""
    if array.nbytes < SMALL:
        return np.empty(array.shape, array.dtype)
    return own.pool.empty(array.shape, array.dtype)
