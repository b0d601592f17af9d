"""How a wrong backward is written: the right one, in plain NumPy, with some of its parts replaced.

A `Differentiable` has a forward, and a backward whose parts are keyword arguments with the right defaults. A `Mutant` names
the parts that it replaces, so a mistake is one line of data.
"""
import functools
import inspect
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import Op, apply
from minigrad.gradcheck.blame import spare
from minigrad.gradcheck.fit import fitted

from .statements import STATEMENTS

spare(__file__)


@dataclass(frozen=True, repr=False)
class Differentiable:
    """A function and its gradient: forward(*inputs) -> out, backward(dout, *inputs, **parts) -> one gradient per input.

    `inputs(generator)` draws inputs to check it on: floats get gradients, integers and booleans are constants. Printed, it
    says what it computes, and on which inputs it is checked.
    """

    name: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[Any]]
    changes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()  # arguments that get no gradient, such as ids, a mask, eps
    names: tuple[str, ...] = ()  # of the inputs; by default, backward's own, if it names them all
    statement: str = ""  # what forward computes, in a line

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
            return fitted(self.gradients(dout, *arrays), arrays, self.arguments, learned, needed)

        title = self.name.title().replace("_", "").replace(" ", "")
        return type(title, (Op,), {"forward": forward, "backward": backward})

    def gradients(self, dout: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
        """One gradient for each input that is learned, as an array."""
        return as_tuple(self.backward(dout, *arrays, **self.changes))

    def __call__(self, *tensors: Any) -> Tensor:
        return apply(self.op, *tensors)

    def __repr__(self) -> str:
        shapes = [str(array.shape) for array in self.inputs(np.random.default_rng(0))]
        drawn = ", ".join(f"{name} {shape}" for name, shape in zip(self.arguments, shapes))
        return f"{self.name}({', '.join(self.arguments)}): {self.statement}\n  drawn as {drawn}"

    def draw(self, seed: int) -> list[Any]:
        """Inputs for gradcheck: Tensors that require gradients, and arrays that are constant."""
        arrays = self.inputs(np.random.default_rng(seed))
        return [mg.tensor(a, requires_grad=True) if a.dtype.kind == "f" else a for a in arrays]


@dataclass(frozen=True, repr=False)
class Mutant(Differentiable):
    """A function with a wrong backward; `equivalent` proves that it is right after all, if it is."""

    mistake: str = ""
    right: Differentiable | Any = None
    equivalent: str = ""

    def __repr__(self) -> str:
        verdict = "right after all" if self.equivalent else "wrong"
        return f"{super().__repr__()}\n  its backward is {verdict}: {self.mistake}"


FUNCTIONS: dict[str, Differentiable] = {}
MUTANTS: dict[str, Mutant] = {}


def family(name: str, forward: Callable, backward: Callable, inputs: Callable, wrong: dict[str, tuple],
           equivalent: dict[str, tuple] | None = None, constants: tuple[str, ...] = (),
           telling: Callable | None = None) -> None:
    """Register a function and its mutants.

    wrong: {name: (the mistake in a sentence, {part: its replacement})}; equivalent: the same, with a proof.
    `telling` draws the mutants' inputs, if some of them are right on those that `inputs` draws for the function.
    """
    statement = STATEMENTS.get(name, "")
    right = FUNCTIONS[name] = Differentiable(name, forward, backward, inputs, constants=constants, statement=statement)
    for key, (mistake, changes, *proof) in {**wrong, **(equivalent or {})}.items():
        title = f"{name}: {key}"
        MUTANTS[title] = Mutant(title, forward, backward, telling or inputs, changes, constants, statement=statement,
                                mistake=mistake, right=right, equivalent=proof[0] if proof else "")


def elementwise(name: str, function: Callable, slope: Callable, wrong: dict[str, tuple],
              inputs: Callable = lambda r: [r.normal(size=(3, 4))]) -> None:
    """A function of one number, applied to each element: dx = dout * slope(x, out).

    wrong: {name: (the mistake in a sentence, the wrong slope, or {part: its replacement})}.
    """

    def backward(dout, x, *, upstream=same, value=function, slope=slope, combine=np.multiply, finish=same):
        return finish(combine(upstream(dout), slope(x, value(x))))

    family(name, function, backward, inputs, replaced("slope", wrong))


def unary(name: str, forward: Callable, back: Callable, wrong: dict[str, tuple], inputs: Callable,
          equivalent: dict[str, tuple] | None = None) -> None:
    """A function of one array, whose backward is a single part: dx = back(dout, x)."""
    family(name, forward, lambda dout, x, *, back=back: back(dout, x).copy(), inputs, replaced("back", wrong), equivalent)


def replaced(part: str, wrong: dict[str, tuple]) -> dict[str, tuple]:
    """{name: (the mistake in a sentence, what replaces `part`, or {part: its replacement} for others)} for `family`."""
    return {name: (sentence, change if isinstance(change, dict) else {part: change})
            for name, (sentence, change) in wrong.items()}


def as_tuple(found: Any) -> tuple:
    """What a function of several results, or of one, returned."""
    return tuple(found) if isinstance(found, tuple) else (found,)


def same(a: np.ndarray) -> np.ndarray:
    return a


def mean(a: np.ndarray) -> np.ndarray:
    """The mean over the last axis, which is kept."""
    return a.mean(-1, keepdims=True)


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """NaN for a row of -inf."""
    e = np.exp(scores - scores.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def less_the_maximum(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """e^(scores - maximum); zeros for a row of -inf."""
    largest = scores.max(axis, keepdims=True)
    return np.exp(scores - np.where(largest == -np.inf, 0.0, largest))


def safe_softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Zeros for a row of -inf."""
    e = less_the_maximum(scores, axis)
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-300)


def last(a: np.ndarray) -> np.ndarray:
    """The sum over the last axis, which is kept."""
    return a.sum(-1, keepdims=True)


def turned(a: np.ndarray) -> np.ndarray:
    """The last two axes swapped."""
    return np.swapaxes(a, -1, -2)


def normal(*shapes: tuple[int, ...]) -> Callable:
    return lambda r: [r.normal(size=shape) for shape in shapes]


def positive(*shapes: tuple[int, ...]) -> Callable:
    return lambda r: [r.uniform(0.3, 2.0, size=shape) for shape in shapes]
