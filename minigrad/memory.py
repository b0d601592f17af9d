"""The C library's allocator, told what training does."""
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
ONE_GIGABYTE = 1 << 30


def keep_freed_memory() -> bool:
    """Let this process keep memory that it frees, up to 1 GB, to use it again. True if the C library can (glibc).

    A training step frees all its activations, and the next one wants them back. By default the C library returns them
    to the system in between, and each page costs a fault when it is touched again: 3,500 faults, a fifth of the time of
    a step of preset nano. It concerns the whole process, so a program calls it, as `minigrad train` does; importing
    minigrad does not.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, ONE_GIGABYTE) and mallopt(M_MMAP_THRESHOLD, ONE_GIGABYTE))
