"""Other processes, one per core, compile the kernels of `minigrad train` on a machine that has none compiled yet.

training.txt lists the kernels, from those that are needed last to those of the first step: the training process compiles
what it calls, so it begins at the other end, and no kernel is compiled by two processes at once (see `cache.KernelCache`).
If a process is killed or cannot start, nothing is lost: kernels are compiled at their first call.
"""
import atexit
import functools
import importlib
import os
import pathlib
import re
import subprocess
import sys

import numba
from llvmlite import binding
from numba import types

from . import bfloat16, gemm, threads
from .cache import cache_folder, prerequisites
from .internals import CPUDispatcher, is_missing

KERNELS = pathlib.Path(__file__).with_name("training.txt")  # test_ahead.py writes it
MOST = 6  # processes: the slowest kernel takes an eighth of the total time
# It imports only the kernels of minigrad, without SciPy's BLAS, which Numba imports if it is there; there is too little
# garbage to collect.
COMMAND = f"""
import gc, sys, types
gc.disable()
for name, folder in ("minigrad", {str(KERNELS.parents[2])!r}), ("minigrad.fast", {str(KERNELS.parents[1])!r}):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
sys.modules["scipy"] = None
from minigrad.fast.kernels import ahead
ahead.run_no_kernel()
ahead.compile_listed(*sys.argv[1:])
"""


@functools.cache
def start() -> None:
    """Start the processes, unless all kernels are compiled, or there is no cache."""
    is_python = pathlib.Path(sys.executable or "").name.startswith("python")  # not a program that embeds Python
    if not is_python or cache_folder() is None or _done().exists():
        return
    environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    for _ in range(min(MOST, numba.config.NUMBA_NUM_THREADS - 1)):
        try:
            process = subprocess.Popen([sys.executable, "-P", "-c", COMMAND, str(os.getpid()), str(KERNELS)],
                                       env=environment, **nowhere)
        except OSError:
            return
        atexit.register(_end, process)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def _done() -> pathlib.Path:
    """The file in the cache that says that everything is compiled."""
    return cache_folder() / KERNELS.with_suffix(".done").name


def run_no_kernel() -> None:
    """From now on kernels can be compiled but not run: no threads start, and what kernels call gets a dummy address."""
    prerequisites.clear()
    for name in (gemm.symbol(types.float32), *threads.NAMES):
        binding.add_symbol(name, 1)


def compile_listed(parent: str, kernels: str) -> None:
    """What each process does after `run_no_kernel`: compile what no other does, as long as the parent lives."""
    for line in pathlib.Path(kernels).read_text(encoding="utf-8").splitlines():
        if os.getppid() != int(parent):
            return
        kernel, signature = read_line(line)
        if kernel.py_func.__module__ == bfloat16.__name__ and not bfloat16.is_native():
            continue  # training uses it only if asked to
        if is_missing(kernel, signature):
            kernel.compile(signature)
    _done().touch()


def read_line(line: str) -> tuple[CPUDispatcher, tuple[types.Type, ...]]:
    """(kernel, signature) of a line, which spells types as Numba does.

    >>> kernel, signature = read_line("activations.add_forward (UniTuple(Array(float32, 1, 'C', False, aligned=True), 3),)")
    >>> kernel.py_func.__name__, len(signature[0])
    ('add_forward', 3)
    """
    name, _, signature = line.partition(" ")
    module, _, function = name.partition(".")
    kernel = getattr(importlib.import_module(f".{module}", __package__), function)
    signature = re.sub(r"(\w+)\*", r"CPointer(\1)", signature)
    return getattr(kernel, "dispatcher", kernel), eval(signature, dict(vars(types)))
