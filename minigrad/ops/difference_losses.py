"""Losses of a difference: its square, its absolute value, and those that are the first near 0 and the second far from it.

Each is a row of the table below. The op includes the sum or mean of all elements, so that dout is a single number and
backward takes one pass.
"""
from typing import Callable, ClassVar

import numpy as np

from .. import backend
from ..tape import Op


class DifferenceLoss(Op):
    """out = loss(d) for d = x - target, or the sum or mean of all:  dx = dout [/ n] * slope(d),  dtarget = -dx"""

    fresh_gradients = True
    losses: Callable  # of x and target
    gradient: Callable  # dx, of dout, x and target
    numbers: ClassVar[dict[str, float]] = {}  # further arguments of both: options of the op, with defaults

    def forward(self, x, target, *, reduction="mean", **options):
        self.values = tuple((self.numbers | options).values())
        self.save(x, target)
        losses = backend.elementwise(self.losses, x, target, *self.values)
        self.divisor = losses.size if reduction == "mean" else 1
        if reduction == "none":
            return losses
        total = backend.sum(losses)
        return total / self.divisor if reduction == "mean" else total

    def backward(self, dout, x, target):
        share = dout if self.divisor == 1 else dout / max(self.divisor, 1)
        dx = backend.elementwise(self.gradient, share, x, target, *self.values)
        return dx, -dx if self.needs(1) else None


def difference_loss(formula: str, name: str, loss: Callable, slope: Callable, **numbers: float) -> type[DifferenceLoss]:
    """A row of the table: the formula is its docstring."""
    def losses(x, target, *values): return loss(x - target, *values)
    def gradient(dout, x, target, *values): return dout * slope(x - target, *values)

    row = dict(__doc__=formula, losses=staticmethod(losses), gradient=staticmethod(gradient), numbers=numbers)
    return type("".join(word.capitalize() for word in name.split("_")), (DifferenceLoss,), row)


def huber(d, delta):
    return np.where(np.abs(d) <= delta, 0.5 * d * d, delta * (np.abs(d) - 0.5 * delta))


def smooth_l1(d, beta):
    return np.where(np.abs(d) < beta, 0.5 * d * d / beta, np.abs(d) - 0.5 * beta)


SquaredError = difference_loss("out = d^2 for d = x - target:  dx = dout [/ n] * 2 d,  dtarget = -dx",
                               "squared_error", np.square, lambda d: 2 * d)
AbsoluteError = difference_loss("out = |d| for d = x - target:  dx = dout [/ n] * sign d,  dtarget = -dx",
                                "absolute_error", np.abs, np.sign)
Huber = difference_loss("out = d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), for d = x - target:  "
                        "dx = dout [/ n] * min(max(d, -delta), delta),  dtarget = -dx",
                        "huber", huber, lambda d, delta: np.clip(d, -delta, delta), delta=1.0)
SmoothL1 = difference_loss("out = d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, for d = x - target:  "
                           "dx = dout [/ n] * min(max(d / beta, -1), 1),  dtarget = -dx",
                           "smooth_l1", smooth_l1, lambda d, beta: np.clip(d / beta, -1.0, 1.0), beta=1.0)
