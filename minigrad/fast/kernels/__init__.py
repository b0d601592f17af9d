"""Loops over plain arrays, compiled by Numba: one file per family, named after its file in `minigrad.ops`."""
import os
import re
from collections.abc import Mapping


def check(environment: Mapping[str, str] = os.environ) -> None:
    """RuntimeError if an environment variable of Numba rules kernels out, before Numba fails with a traceback.

    >>> check({"NUMBA_NUM_THREADS": "0"})
    Traceback (most recent call last):
    ...
    RuntimeError: NUMBA_NUM_THREADS must be a whole number from 1, got '0'; unset it to use all cores
    """
    threads = environment.get("NUMBA_NUM_THREADS", "1")
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,3}\s*", threads):
        raise RuntimeError(f"NUMBA_NUM_THREADS must be a whole number from 1, got {threads!r}; unset it to use all cores")
    if environment.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
        raise RuntimeError("NUMBA_DISABLE_JIT is set, but minigrad's kernels must be compiled; unset it")


check()
