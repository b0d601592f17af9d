"""What a call may change apart from its inputs: buffers of modules, and the states of random generators."""
import contextlib
import random as python_random
from typing import Any, Callable, Iterator

import numpy as np

from ..fast.compiling.reached import Reached
from .libraries import MINIGRAD, Generator, Library, library_of, others

NUMPYS = Generator(np.random.get_state, np.random.set_state, np.random.seed)
PYTHONS = Generator(python_random.getstate, python_random.setstate, python_random.seed)


def all_generators() -> list[Generator]:
    """Every global one that a function may draw from."""
    found = [generator for library in (MINIGRAD, *others()) for generator in library.generators()]
    return [NUMPYS, PYTHONS, *found]


class State:
    """The state of the modules that fn uses, and of generators, as it is now."""

    def __init__(self, fn: Callable[..., Any], generators: list[Generator]):
        self.generators = generators
        self.states: list[Any] = [generator.state() for generator in generators]
        libraries = [(library_of(module, ()), module) for module in modules_of(fn)]
        self.buffers: list[tuple[Library, Any, np.ndarray]] = [
            (library, buffer, library.array(buffer)) for library, module in libraries for buffer in module.buffers()]

    def restore(self) -> None:
        self.restore_buffers()
        for generator, state in zip(self.generators, self.states):
            generator.put_back(state)

    def start(self, seed: int) -> None:
        """The same buffers, and random numbers that follow from the seed."""
        self.restore_buffers()
        for generator in self.generators:
            generator.start(seed)

    def restore_buffers(self) -> None:
        for library, buffer, before in self.buffers:
            library.write(buffer, before)

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, all is restored afterwards. NumPy's warnings are off."""
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self.restore()


def modules_of(fn: Callable[..., Any]) -> list[Any]:
    """The modules whose buffers a call may change: fn itself, or those that its code uses."""
    reached = [fn, getattr(fn, "__self__", None), *Reached(fn).values.values()]
    return [module for i, module in enumerate(reached)
            if hasattr(type(module), "named_parameters") and not any(module is other for other in reached[:i])]
