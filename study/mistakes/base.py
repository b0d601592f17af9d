"""What the doctor knows of a function: forward, a readable backward, and the mistakes that no rule makes.

A mistake is the backward with an expression replaced: by a rule (rules.py), or by a line that stands beside the function.
"""
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import Op, apply
from minigrad.gradcheck.blame import spare
from minigrad.gradcheck.fit import fitted

from .doctor.routine import Routine

spare(__file__)


@dataclass(frozen=True, repr=False)
class Differentiable:
    """A function and its gradient: forward(*inputs) -> out, backward(dout, *inputs) -> a gradient for each that is learned.

    `inputs(generator)` draws inputs to check it on: floats get gradients, integers and booleans are constants. Printed, it
    says what it computes, and on which inputs it is checked.
    """

    name: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[Any]]
    constants: tuple[str, ...] = ()  # arguments that get no gradient, such as ids, a mask, eps
    names: tuple[str, ...] = ()  # of the inputs; by default, backward's own, if it names them all
    statement: str = ""  # what forward computes, in a line
    options: dict[str, Any] = field(default_factory=dict)  # further arguments, such as eps, which forward has by now

    @functools.cached_property
    def arguments(self) -> tuple[str, ...]:
        """The names of the inputs: ("x", "weight", "bias")."""
        if self.names:
            return self.names
        parameters = inspect.signature(self.backward).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)[1:]

    @functools.cached_property
    def learned(self) -> tuple[str, ...]:
        """The arguments that get a gradient, in order."""
        return tuple(name for name in self.arguments if name not in self.constants)

    @functools.cached_property
    def op(self) -> type[Op]:
        """The function as an op on the tape, which saves its inputs.

        Its backward is NumPy code and must see arrays: a Tensor's variance divides by N - 1, an array's by N.
        """

        def forward(op, *arrays):
            op.save(*arrays)
            return self.forward(*arrays)

        def backward(op, dout, *arrays):
            if isinstance(dout, Tensor):
                raise RuntimeError(f"{self.name}: a backward in NumPy cannot itself be differentiated (create_graph=True)")
            learned = [np.asarray(a).dtype.kind == "f" and name not in self.constants
                       for name, a in zip(self.arguments, arrays, strict=True)]
            needed = [op.needs(i) for i in range(len(arrays))]
            return fitted(self.results(dout, *arrays), arrays, self.arguments, learned, needed)

        title = self.name.title().replace("_", "").replace(" ", "")
        return type(title, (Op,), {"forward": forward, "backward": backward})

    def results(self, dout: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
        """What backward returns, as a tuple."""
        return as_tuple(self.backward(dout, *arrays))

    def gradients(self, dout: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
        """One gradient for each input; None for those that are constant."""
        found = self.results(dout, *arrays)
        if len(found) != len(self.learned):
            return found
        gradients = dict(zip(self.learned, found))
        return tuple(gradients.get(name) for name in self.arguments)

    def __call__(self, *tensors: Any) -> Tensor:
        return apply(self.op, *tensors)

    def __repr__(self) -> str:
        shapes = [str(array.shape) for array in self.inputs(np.random.default_rng(0))]
        drawn = ", ".join(f"{name} {shape}" for name, shape in zip(self.arguments, shapes))
        return f"{self.name}({', '.join(self.arguments)}): {self.statement}\n  drawn as {drawn}"

    def draw(self, seed: int) -> list[Any]:
        """Inputs for gradcheck: Tensors that require gradients, and arrays that are constant."""
        arrays = self.inputs(np.random.default_rng(seed))
        return [mg.tensor(a, requires_grad=True) if a.dtype.kind == "f" and name in self.learned else a
                for name, a in zip(self.arguments, arrays)]


@dataclass(frozen=True, repr=False)
class Mutant(Differentiable):
    """A function with a wrong backward."""

    mistake: str = ""
    right: Differentiable | Any = None

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  its backward is wrong: {self.mistake}"


FUNCTIONS: dict[str, Differentiable] = {}
ROUTINES: dict[str, Routine] = {}  # by the name of the function


def as_tuple(found: Any) -> tuple:
    """What a function of several results, or of one, returned."""
    return tuple(found) if isinstance(found, tuple) else (found,)


def normal(*shapes: tuple[int, ...]) -> Callable:
    return lambda r: [r.normal(size=shape) for shape in shapes]


def positive(*shapes: tuple[int, ...]) -> Callable:
    return lambda r: [r.uniform(0.3, 2.0, size=shape) for shape in shapes]
