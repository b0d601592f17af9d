"""A Function's backward that is differentiated itself: what forward kept has to be on the tape, too.

Inputs and outputs have their places there again. Whatever else forward computed from its inputs, it computes once more,
there. What it computes with NumPy is on no tape: where a gradient depends on that, differentiating it is an error.
"""
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import random
from ..arrays.versions import check_unchanged
from ..ops.operands import data_of
from ..tape import Op
from ..tensor import Tensor, apply, wrap
from .grad_mode import no_grad

ULPS = 8  # by so many units of their last digit are inputs moved, to see what depends on them; zeros and signs stay
RANDOM = 1e-2  # a gradient that so small a move changes by more is drawn anew in each call, by a generator of NumPy's


class Lost(Op):
    """out = 0, for a part of a gradient that is not on the tape:  dx = an error of `check`, if there is such a part"""

    def forward(self, *x, like, check):
        self.check = check
        return np.zeros_like(like)

    def backward(self, dout):
        self.check()
        return (None,) * len(self.parents)


class Twice:
    """One backward on the tape, for `douts`, of a Function's application `op`."""

    def __init__(self, op: Any, douts: Sequence[Tensor | None]) -> None:
        self.op, self.run, self.douts = op, op.run, douts
        self.inputs: list[Tensor] = [wrap(array, node) for array, node in zip(op.arrays, op.parents)]
        places = {id(x.array): x for x in self.inputs}
        self.kept: dict[Any, Any] = {key: places.get(id(value.array), value) if isinstance(value, Tensor) else value
                                     for key, value in kept_on(self.run.ctx).items()}
        given = {id(x) for x in (*self.inputs, *self.run.inputs)}
        self.lost: list[Any] = [key for key, value in self.kept.items()  # floats that are not on the tape
                                if id(value) not in given and not all(map(is_on_tape, floats_in(value)))]

    def gradients(self) -> list[Tensor | None]:
        """One for each tensor among the inputs."""
        if self.lost:
            self._compute_again()
        found = self.run.backward(self.run.new_context(self.kept), self.douts)
        moving = [dout for dout in self.douts if is_on_tape(dout)]
        for i, gradient in enumerate(found):
            if gradient is None:
                continue
            if self.lost:
                found[i] = gradient - apply(Lost, *self.inputs, like=gradient.array, check=self._check_lost)
            elif moving and not gradient.requires_grad and gradient.array.any():
                found[i] = gradient - apply(Lost, *moving, like=gradient.array, check=self._refuse)
        return found

    def _compute_again(self) -> None:
        """Put on the tape what forward computes there, if it computes with Tensors, and the same numbers again."""
        try:
            again = self._kept_for(self.inputs)
        except Exception:  # noqa: BLE001  as numpy() raises for a tensor that requires a gradient
            return
        found = {key for key in self.lost if any(map(is_on_tape, floats_in(again.get(key))))
                 and equal(again[key], self.kept[key], 1e-3)}
        self.kept |= {key: again[key] for key in found}
        self.lost = [key for key in self.lost if key not in found]

    def _kept_for(self, inputs: Sequence[Tensor]) -> dict[Any, Any]:
        """What forward keeps of these inputs; outputs have their places on the tape. All calls draw the same numbers."""
        check_unchanged(self.op.title, self.op.arrays, self.op.order)
        ctx, state = self.run.new_context(), random.get_state()
        try:
            joined, outputs = self.run.forward(ctx, inputs)
        finally:
            random.set_state(state)
        places = {id(x): self.run.cut(wrap(joined, self.op), piece) for x, piece in outputs if piece}
        return {key: places.get(id(value), value) for key, value in kept_on(ctx).items()}

    def _check_lost(self) -> None:
        """RuntimeError if the gradients depend on the inputs through what is not on the tape."""
        here, again, moved = map(self._gradients_for, (0, 0, ULPS))
        if equal(here, again) and not equal(here, moved) and equal(here, moved, RANDOM):
            names = ", ".join(f"saved_tensors[{key}]" if isinstance(key, int) else f"ctx.{key}" for key in self.lost)
            self._refuse(f"uses {names}, which forward computed off the tape (with NumPy, detached, or at random)")

    def _gradients_for(self, ulps: int) -> list[Tensor | None]:
        with no_grad():
            inputs = [wrap(moved(x.array, ulps)) if x.requires_grad else x for x in self.inputs]
            again = self._kept_for(inputs)
            kept = {key: again.get(key) if key in self.lost else value for key, value in self.kept.items()}
            return self.run.backward(self.run.new_context(kept), self.douts)

    def _refuse(self, because: str = "computes with NumPy") -> None:
        name = self.run.function.__name__
        raise RuntimeError(f"{name}.backward {because}, so it cannot be differentiated: keep inputs and outputs only, and "
                           "compute the rest in backward, with Tensor operations")


def kept_on(ctx: Any) -> dict[Any, Any]:
    """Attributes by name, saved tensors by number."""
    return {**vars(ctx), "saved_tensors": (), **dict(enumerate(ctx.saved_tensors))}


def floats_in(value: Any) -> Iterator[Any]:
    """Python's floats, and Tensors and arrays of floats, in nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from floats_in(item)
    elif isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", None) == "f":
        yield value


def is_on_tape(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def equal(a: Any, b: Any, rtol: float = 0.0) -> bool:
    """Do these hold the same floats?"""
    a, b = ([np.asarray(data_of(x)) for x in floats_in(value)] for value in (a, b))
    are_alike = [x.shape for x in a] == [x.shape for x in b]
    return are_alike and all(np.allclose(x, y, rtol, 0.0, equal_nan=True) for x, y in zip(a, b))


def moved(array: np.ndarray, ulps: int) -> np.ndarray:
    return array * (1 + ulps * np.finfo(array.dtype).eps)
