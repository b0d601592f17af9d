"""Settings of Numba's with which no kernel can run: said in one line, before Numba ends in a traceback of its own."""
import os
import re
import tempfile
from collections.abc import Mapping

import llvmlite.binding


def check(environment: Mapping[str, str] = os.environ) -> None:
    """RuntimeError if one of Numba's environment variables rules kernels out.

    >>> check({"NUMBA_NUM_THREADS": "0"})
    Traceback (most recent call last):
    ...
    RuntimeError: NUMBA_NUM_THREADS must be a whole number from 1, got '0'; unset it to use all cores
    """
    threads = environment.get("NUMBA_NUM_THREADS", "1")
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,3}\s*", threads):
        raise RuntimeError(f"NUMBA_NUM_THREADS must be a whole number from 1, got {threads!r}; unset it to use all cores")
    if environment.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
        raise RuntimeError("NUMBA_DISABLE_JIT is set, but the kernels of minigrad have to be compiled; unset it")
    cpu, features = (environment.get(f"NUMBA_CPU_{kind}") for kind in ("NAME", "FEATURES"))
    if cpu or features:
        complaint = re.search(r"'(.*?)' is not a recognized (\w+)", _complaints(cpu or "", features or ""))
        if complaint:
            kind = {"processor": "NAME", "feature": "FEATURES"}[complaint[2]]
            raise RuntimeError(f"NUMBA_CPU_{kind}: LLVM knows no {complaint[2]} {complaint[1]!r}; unset it to compile for "
                               "the processor at hand")


def _complaints(cpu: str, features: str) -> str:
    """What LLVM prints about such a processor: it knows no other way to tell, and would repeat it for each function."""
    llvmlite.binding.initialize_native_target()
    stderr = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            llvmlite.binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features)
            file.seek(0)
            return file.read().decode(errors="replace")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
