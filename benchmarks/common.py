"""What both libraries are measured on, and with."""
import pathlib
import re
import resource

import numpy as np


def random_batch(config, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens and targets (B, T)."""
    return tuple(np.random.default_rng(0).integers(config.vocabulary_size, size=(2, batch_size, config.context)))


def peak_megabytes() -> float:
    """The most memory that this process has had at once.

    Linux's getrusage also counts what the parent had before exec, so its own count comes first.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20  # bytes on macOS
