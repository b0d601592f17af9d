"""An op of the library with somebody's backward in place of the library's own."""
from collections.abc import Callable

import numpy as np

import minigrad as mg
from minigrad import Tensor
from minigrad.gradcheck.fit import UnfitGradients, fitted
from study.exercises.answer import RETURNED, Caller
from study.exercises.exercise import Exercise

Gradients = tuple[np.ndarray | None, ...]


class CannotTrain(Exception):
    """A backward gave no gradients; the message says why."""


def with_backward(op: Callable[..., Tensor], exercise: Exercise, caller: Caller) -> Callable[..., Tensor]:
    """The op, whose gradients are those that the caller's function returns for the arguments of the exercise."""
    answered = AnsweredBackward(exercise, caller)

    class Answered(mg.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.arrays = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]
            return op(*inputs)

        @staticmethod
        def backward(ctx, dout):
            gradients = answered(dout.numpy(), ctx.arrays)
            return tuple(None if gradient is None else mg.tensor(gradient) for gradient in gradients)

    return Answered.apply


class AnsweredBackward:
    """Somebody's backward. It need only handle arrays as in the exercise's statement: it gets a stack of them as a whole if
    that gave the same as one by one the first time."""

    def __init__(self, exercise: Exercise, caller: Caller):
        self.name, self.caller, self.names = exercise.function_name, caller, tuple(exercise.arguments)
        self.axes = [len(argument.shape.split()) for argument in exercise.arguments.values()]
        self.learned = [f"d{name}" in exercise.routine.results for name in self.names]
        self.takes_stacks: bool | None = None  # unknown

    def __call__(self, dout: np.ndarray, arrays: list) -> Gradients:
        stacked = [np.ndim(array) > n for array, n in zip(arrays, self.axes)]
        if self.takes_stacks or not any(stacked):
            return self.gradients(dout, arrays)
        leading = dout.shape[:max(np.ndim(array) - n for array, n in zip(arrays, self.axes))]
        parts = zip(*(self.gradients(dout[index], [array[index] if many else array for array, many in zip(arrays, stacked)])
                      for index in np.ndindex(leading)))
        found = tuple(np.reshape(each, np.shape(array)) if is_learned else None
                      for each, array, is_learned in zip(parts, arrays, self.learned))
        if self.takes_stacks is None:
            self.takes_stacks = self.gives(found, dout, arrays)
        return found

    def gives(self, expected: Gradients, dout: np.ndarray, arrays: list) -> bool:
        """Does it return these gradients for the whole stack?"""
        try:
            found = self.gradients(dout, arrays)
        except CannotTrain:
            return False
        return all(a is None or np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(expected, found))

    def gradients(self, dout: np.ndarray, arrays: list) -> Gradients:
        answer = self.caller.call([dout, *arrays])
        if answer.kind != RETURNED:
            raise CannotTrain(f"{self.name}: {answer.message}{answer.where}")
        results = tuple(None if result is None else result.astype(np.float64) for result in answer.results)
        try:
            return fitted(results, arrays, self.names, self.learned, self.learned)
        except UnfitGradients as error:
            raise CannotTrain(f"{self.name}: {error}") from None
