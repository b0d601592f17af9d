"""What a call may change apart from its inputs: what the function reaches of gradients, buffers, modes and hooks, and the
states of random generators."""
import contextlib
import functools
import pickle
import random as python_random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..fast.compiling.reached import Reached
from .arguments import owner_of, same_bits
from .libraries import MINIGRAD, NUMPY, Generator, Taped, library_of_value, others

NUMPYS = Generator(np.random.get_state, np.random.set_state, np.random.seed)
PYTHONS = Generator(python_random.getstate, python_random.setstate, python_random.seed)
# Types of generators that a user may keep, by their packages, and the names of what gets and sets a state.
OWN = (
    ("random", "Random", "getstate", "setstate"), ("numpy.random", "RandomState", "get_state", "set_state"),
    ("numpy.random", "BitGenerator", "__getstate__", "__setstate__"), ("torch", "Generator", "get_state", "set_state"),
)
PutBack = Callable[[], Any]


def all_generators() -> list[Generator]:
    """Every global one that a function may draw from."""
    return [NUMPYS, PYTHONS, *(generator for library in (MINIGRAD, *others()) for generator in library.generators)]


class Used(Reached):
    """What functions and modules can reach. The code of the libraries that they are written with is not theirs."""

    def __init__(self, functions: Sequence[Any]):
        all_of_them = functools.partial(len, *functions)
        module = str(getattr(owner_of(functions[0]), "__module__", ""))
        is_librarys = module.partition(".")[0] in {library.package for library in others()}
        all_of_them.__module__ = "" if is_librarys else module
        super().__init__(all_of_them)
        self._names |= {"backward", "setup_context"}  # which the code of Functions does not name
        self.add((), "")


class State:
    """The state of all that these functions and modules use, and of generators, as it is now."""

    def __init__(self, *functions: Any):
        values = list(Used(functions).values.values())
        modules = [value for value in values if hasattr(type(value), "named_parameters")]
        parts = each_once(part for module in modules for part in module.modules())
        tensors = each_once([*values, *(tensor for module in modules for tensor in module.parameters())])
        self.generators: list[Generator] = all_generators() + [
            Generator(getattr(value, get), getattr(value, put), lambda seed: None)
            for package, kind, get, put in OWN if package in sys.modules
            for value in values if isinstance(value, getattr(sys.modules[package], kind))]
        self.states: list[Any] = [generator.state() for generator in self.generators]
        self.held: list[int] = list(range(len(self.states)))  # which are put back before each call
        self.buffers: list[PutBack] = [
            keeps_numbers(buffer) for buffer in each_once(buffer for module in modules for buffer in module.buffers())]
        self.others: list[PutBack] = [keeps(part, key) for part in parts for key in vars(part)
                                      if key == "training" or key.endswith("_hooks")]
        self.others += [functools.partial(library.recording, library.records())
                        for library in (MINIGRAD, *others()) if isinstance(library, Taped)]
        for tensor in filter(is_leaf, tensors):
            of_torch = ("data", "requires_grad") if hasattr(tensor, "data_ptr") else ()
            self.others += [keeps(tensor, key) for key in ("grad", "_backward_hooks", *of_torch) if hasattr(tensor, key)]

    def restore(self) -> None:
        """All of it."""
        self.held = list(range(len(self.states)))
        self.begin()
        for put_back in self.others:
            put_back()

    def begin(self, seed: int | None = None) -> None:
        """The same buffers and random numbers for each call, or those that follow from the seed."""
        for put_back in self.buffers:
            put_back()
        for k in self.held:
            self.generators[k].put_back(self.states[k]) if seed is None else self.generators[k].start(seed)

    def hold_drawn(self) -> None:
        """Put back, before a call, only generators that one has drawn from until now: NumPy's takes longer than a call."""
        self.held = [k for k, generator in enumerate(self.generators)
                     if pickle.dumps(generator.state()) != pickle.dumps(self.states[k])]

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, all is restored afterwards. NumPy's warnings are off."""
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            self.restore()


def each_once(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())


def is_leaf(value: Any) -> bool:
    """Can gradients gather in its `grad`?"""
    library = library_of_value(value)
    return library is not None and hasattr(value, "grad") and library.is_leaf(value) and value.is_leaf


def keeps_numbers(value: Any) -> PutBack:
    """What writes a tensor's present numbers into it again, if it holds others then."""
    library = library_of_value(value) or NUMPY
    before = library.array(value)
    return lambda: None if same_bits(library.array(value), before) else library.write(value, before)


def keeps(owner: Any, key: str) -> PutBack:
    """What puts an attribute back: the same object, a dict with the same items, a tensor with the same numbers."""
    before = getattr(owner, key)
    items = dict(before) if isinstance(before, dict) else {}
    numbers = keeps_numbers(before) if library_of_value(before) else None

    def put_back() -> None:
        if getattr(owner, key) is not before:
            setattr(owner, key, before)
        if isinstance(before, dict) and before != items:
            before.clear()
            before.update(items)
        if numbers is not None:
            numbers()

    return put_back
