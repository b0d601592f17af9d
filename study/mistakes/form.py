"""Known functions as others write them: without a bias, along another axis, with the mask as an input, ...

A form is an expression of known functions. The tape differentiates it, with a mistake in one of them too, so a form has the
mistakes of the functions in it.
"""
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.extend import Op, apply

from .base import FUNCTIONS, Differentiable, as_tuple
from .doctor import Known, Routine, routine_of

Arrays = Sequence[np.ndarray]

CONSTANTS = "mask", "targets", "ids", "keep", "cos", "sin"  # inputs of forms that get no gradient
PARAMETERS = "weight", "bias"  # which a form may lack
STEPS = 12  # of the search for an option's number


class KnownFunction(Op):
    """A known function on the tape, with the parts of its backward that a mistake replaces."""

    def forward(self, *arrays, function, options, changes):
        self.function, self.parts = function, {**options, **changes}
        self.save(*arrays)
        return function.forward(*arrays, **options)

    def backward(self, dout, *arrays):
        found = as_tuple(self.function.backward(np.array(dout), *arrays, **self.parts))
        if any(g is not None and np.shape(g) != np.shape(a) for g, a in zip(found, arrays, strict=True)):
            raise ValueError(f"{self.function.name}: gradients in other shapes than the inputs")
        return found


class Calls:
    """The known functions as attributes: f.softmax(x), f.layer_norm(x, weight, bias, eps=1e-6); notes which are called."""

    def __init__(self, changes: dict[str, Any]):
        self.changes = changes  # {"softmax.total": ...}
        self.called: dict[str, None] = {}

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        self.called[name] = None
        changes = {part.removeprefix(f"{name}."): new for part, new in self.changes.items() if part.startswith(f"{name}.")}
        return lambda *inputs, **options: apply(KnownFunction, *inputs, function=FUNCTIONS[name], options=options,
                                                changes=changes)


@dataclass(frozen=True)
class Form:
    """expression(f, *inputs, **options), where f has the known functions.

    An option's default is a tuple of values to try, or a number from which its value is searched. `name` says what this is,
    with the options; `mistakes` replaces those of a known function: {"attention": {"no rowsum": (sentence, changes)}}.
    """

    name: str
    expression: Callable
    mistakes: dict[str, dict[str, tuple]] = field(default_factory=dict)

    @functools.cached_property
    def arguments(self) -> tuple[str, ...]:
        parameters = inspect.signature(self.expression).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)[1:]

    def choices(self) -> Iterator[dict[str, Any]]:
        """The options to try, with the start of what is searched."""
        options = self.expression.__kwdefaults__ or {}
        values = [default if isinstance(default, tuple) else (default,) for default in options.values()]
        return (dict(zip(options, chosen)) for chosen in itertools.product(*values))

    def value(self, arrays: Arrays, options: dict[str, Any]) -> np.ndarray:
        return self.expression(Calls({}), *map(Tensor, arrays), **options).array

    def recognised(self, arrays: Arrays, output: np.ndarray) -> Iterator[dict[str, Any]]:
        """The options with which this may be what gave the output."""
        searched = [name for name, default in (self.expression.__kwdefaults__ or {}).items() if isinstance(default, float)]
        for options in self.choices() if len(arrays) == len(self.arguments) else ():
            try:
                found = self.value(arrays, options)
                if found.shape == output.shape and searched and not is_same(found, output):
                    options = self.searched(arrays, output, options, searched[0])
                if is_same(self.value(arrays, options), output):
                    yield options
            except Exception:  # noqa: BLE001  the arguments do not fit
                continue

    def searched(self, arrays: Arrays, output: np.ndarray, options: dict[str, Any], name: str) -> dict[str, Any]:
        """The options with the number for which the form's value is nearest to the output: Gauss and Newton's way."""
        number = options[name]
        for _ in range(STEPS):
            near = 1e-6 * max(abs(number), 1e-3)
            here, there = (self.value(arrays, {**options, name: at}) for at in (number, number + near))
            slope, missing = np.nan_to_num((there - here) / near), np.nan_to_num(output - here)
            number += np.sum(slope * missing) / np.sum(slope * slope)
        rounded = [float(f"{number:.{digits}g}") for digits in (2, 6)]
        return next((one for one in ({**options, name: at} for at in rounded) if is_same(self.value(arrays, one), output)),
                    {**options, name: number})

    def known(self, options: dict[str, Any], arrays: Arrays) -> tuple[Differentiable, Routine]:
        """The form with these options, as a known function, and what is known about its backward."""
        def backward(dout, *arrays, **parts):
            leaves = [Tensor(a, requires_grad=name in learned) for name, a in zip(self.arguments, arrays)]
            out = self.expression(Calls(parts), *leaves, **options)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            return tuple(g.array for g in mg.grad(out, wanted, Tensor(dout), materialize_grads=True))

        learned = [name for name in self.arguments if name not in CONSTANTS]
        calls = Calls({})
        self.expression(calls, *map(Tensor, arrays), **options)
        left_out = [f"d{name}" for name in PARAMETERS if name not in self.arguments]
        known = [Known(mistake.name, mistake.sentence, {f"{name}.{part}": new for part, new in mistake.changes.items()})
                 for name in calls.called
                 for mistake in (known_of(self.mistakes[name]) if name in self.mistakes else routine_of(name).mistakes)
                 if not any(gradient in mistake.sentence for gradient in left_out)]
        function = Differentiable(self.name.format(**options), functools.partial(self.value_of, options), backward, list,
                                  constants=CONSTANTS, names=self.arguments)
        return function, Routine(function.name, backward, ("dout", *self.arguments), tuple(f"d{a}" for a in learned),
                                 tuple(known))

    def value_of(self, options: dict[str, Any], *arrays: np.ndarray) -> np.ndarray:
        return self.value(arrays, options)


def known_of(table: dict[str, tuple]) -> list[Known]:
    return [Known(name, sentence, changes) for name, (sentence, changes) in table.items()]


def is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """The same values, but for rounding."""
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
