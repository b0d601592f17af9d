"""Pages of LLVM's library that only its start needed are given back.

It maps 36 MB of its file when it is imported, for relocations and for constructors of hundreds of passes; loading kernels
needs half of that, and a training step nothing. Unchanged pages of a file are not lost: they stay in the system's cache,
from where the next access maps them again. At its peak `minigrad train` has 158 MB instead of 185 with preset micro, and
376 instead of 402 with small (VmHWM, 30 steps, kernels compiled before).
"""
import ctypes
import mmap
import os
import re
from collections.abc import Iterator

from .internals import llvm_library

MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-\S+ \S+ \S+ \S+ +(/.*)")  # that nobody can write to
HEADER = re.compile(r"[0-9a-f]+-[0-9a-f]+ ")


def unchanged(description: str, path: str) -> Iterator[tuple[int, int]]:
    """(address, bytes) of a file's mappings that have no page of the process's own and never get one, as they cannot be
    written to; from /proc/self/smaps.

    Such a page is anonymous in memory, or swapped out: then what is unmapped would be lost.

    >>> of_four = '''7f00-8f00 r--p 00000000 00:1f 12  /lib/a.so
    ... Anonymous:             0 kB
    ... Swap:                  0 kB
    ... 8f00-9f00 r--p 00001000 00:1f 12  /lib/a.so
    ... Anonymous:             4 kB
    ... Swap:                  0 kB
    ... 9f00-af00 r--p 00002000 00:1f 12  /lib/a.so
    ... Anonymous:             0 kB
    ... Swap:                  4 kB
    ... af00-bf00 rw-p 00003000 00:1f 12  /lib/a.so
    ... Anonymous:             0 kB
    ... Swap:                  0 kB'''
    >>> list(unchanged(of_four, "/lib/a.so"))
    [(32512, 4096)]
    """
    first, end, own, is_wanted = 0, 0, 0, False
    for line in description.splitlines():
        if HEADER.match(line):
            mapping = MAPPING.match(line)
            is_wanted = mapping is not None and mapping[3] == path
            first, end = (int(mapping[i], 16) for i in (1, 2)) if is_wanted else (0, 0)
        elif line.startswith("Anonymous:"):
            own = int(line.split()[1])
        elif line.startswith("Swap:") and is_wanted and own + int(line.split()[1]) == 0:
            yield first, end - first


def give_back() -> None:
    """Unmap LLVM's pages until they are used, where the system can tell which of them are as in the file."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
            description = file.read()
        madvise = ctypes.CDLL(None).madvise
        path, advice = os.path.realpath(llvm_library()), mmap.MADV_DONTNEED
    except (OSError, AttributeError):  # not Linux
        return
    for address, size in unchanged(description, path):
        madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice)
