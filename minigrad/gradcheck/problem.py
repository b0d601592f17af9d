"""What is checked: a function of some leaves, to be evaluated, moved and differentiated without leaving a trace."""
import contextlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .. import random, tape
from ..tensor import Tensor


class Problem:
    """`function()` reads `leaves`, float64 tensors by name. Outputs are flattened to one vector, so are upstreams.

    Each evaluation starts with the same random state: a dropout in the function draws the same mask every time.
    """

    def __init__(self, title: str, function: Callable[[], Any], leaves: dict[str, Tensor]):
        self.title = title
        self.function = function
        self.leaves = leaves
        self.random_state = random.get_state()
        self.evaluations = 0
        for name, leaf in leaves.items():
            if leaf.dtype != np.float64:
                raise TypeError(
                    f"gradcheck: {name} is {leaf.dtype}; use .double(), differences need float64. To check the float32 "
                    "kernels, hold their gradients against float64's: minigrad.gradcheck.compare_float32"
                )

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Whatever happens inside, the leaves and the random state are afterwards what they were."""
        state = random.get_state()
        before = [leaf.array.copy() for leaf in self.leaves.values()]
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            random.set_state(state)
            for leaf, array in zip(self.leaves.values(), before):
                leaf.array[...] = array

    def outputs(self) -> tuple[Tensor, ...]:
        """The floating-point outputs, on the tape."""
        random.set_state(self.random_state)
        with tape.enable_grad():
            return floats(self.function())

    def values(self) -> np.ndarray:
        """All output values, as a vector."""
        random.set_state(self.random_state)
        self.evaluations += 1
        with tape.no_grad():
            return flat(out.array for out in floats(self.function()))

    def gradients(self, outputs: Sequence[Tensor], upstream: np.ndarray) -> list[np.ndarray | None]:
        """The gradient of sum(outputs * upstream) for each leaf; None where nothing leads to it."""
        return tape.gradients(roots(outputs, upstream), [leaf.node for leaf in self.leaves.values()], True)

    def move(self, generator: np.random.Generator, upward: bool) -> None:
        """Go to a point nearby, where the function has its kinks elsewhere."""
        for leaf in self.leaves.values():
            noise = generator.standard_normal(leaf.shape)
            leaf.array += 0.03 * np.maximum(np.abs(leaf.array), 0.3) * (np.abs(noise) if upward else noise)


def generator_for(seed: int) -> np.random.Generator:
    """A stream of its own: default_rng(seed) may have drawn the inputs, and an upstream equal to one of them can hide a
    missing transpose, by symmetry."""
    return np.random.default_rng((seed, 7919))


def floats(result: Any) -> tuple[Tensor, ...]:
    """The floating-point tensors of what a function returned."""
    results = (result,) if isinstance(result, Tensor) else tuple(result)
    found = tuple(out for out in results if isinstance(out, Tensor) and out.dtype.kind == "f")
    if not found:
        raise TypeError("gradcheck: the function must return a floating-point Tensor, or several")
    return found


def flat(arrays: Any) -> np.ndarray:
    return np.concatenate([np.asarray(array).reshape(-1) for array in arrays])


def roots(outputs: Sequence[Tensor], upstream: np.ndarray) -> dict:
    """What the tape starts from: each output's part of the vector `upstream`."""
    found, start = {}, 0
    for out in outputs:
        part = upstream[start:start + out.numel()].reshape(out.shape)
        start += out.numel()
        if out.node is not None:
            part = part.astype(out.dtype)
            found[out.node] = found[out.node] + part if out.node in found else part
    return found
