"""Write minigrad/fast/kernels/training.txt: the kernels that `minigrad train` compiles, the last one it needs first.

    NUMBA_NUM_THREADS=1 python tests/first_training.py

With one thread no other process compiles some of them.
"""
import contextlib
import importlib
import inspect
import os
import pathlib
import sys
import tempfile

from numba.core import event
from numba.core.dispatcher import Dispatcher

from minigrad.fast.kernels import ahead
from models.commands.train import new_trainer
from models.run import train


class Order(event.Listener):
    """The order in which kernels are compiled."""

    def __init__(self):
        self.compiled: list[Dispatcher] = []

    def on_start(self, event):
        self.compiled.append(event.data["dispatcher"])

    def on_end(self, event):
        """Numba calls it, too."""


def kernels() -> dict[Dispatcher, str]:
    """The names of all kernels cached on disk, except for those that every kernel needs."""
    found = {}
    for path in sorted(ahead.KERNELS.parent.glob("[!_]*.py")):
        module = importlib.import_module(f"minigrad.fast.kernels.{path.stem}")
        for name, value in vars(module).items():
            kernel = getattr(value, "dispatcher", value)
            if path.stem != "threads" and isinstance(kernel, Dispatcher) and type(kernel._cache).__name__ == "KernelCache":
                if inspect.getmodule(kernel.py_func) is module:
                    found[kernel] = f"{path.stem}.{name}"
    return found


def lines_of_a_training() -> list[str]:
    """A line for each kernel that the default training compiles, with its pictures and its sample, the last one first."""
    order = Order()
    with (tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr),
          event.install_listener("numba:compile", order)):
        train(new_trainer({"precision": "bfloat16", "steps": 1})[0], pathlib.Path(folder))
    names = kernels()
    last_first = sorted(names, key=lambda kernel: -order.compiled.index(kernel) if kernel in order.compiled else 0)
    return [f"{names[kernel]} {signature}" for kernel in last_first for signature in kernel.signatures]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        os.environ["NUMBA_CACHE_DIR"] = empty
        lines = lines_of_a_training()
    ahead.KERNELS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{ahead.KERNELS}: {len(lines)} kernels", file=sys.stderr)
