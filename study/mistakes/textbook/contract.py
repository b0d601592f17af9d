"""Backwards whose numbers are right, or nearly so, but which break what a backward promises."""
from collections.abc import Callable

import numpy as np

from ..base import normal
from ..known import function


def square_backward(dout, x):
    return dout * (2 * x)


def ending(finish: Callable) -> Callable:
    """The square's backward with another end: finish(dx, dout, x)."""
    return lambda dout, x: finish(2 * x * dout, dout, x)


def in_place(dx, dout, x):
    dout *= 2 * x
    return dout.copy()


def writes_saved(dx, dout, x):
    x *= 2
    x *= 0.5000001
    return dx


def slowly_growing(dx, dout, x, calls=[0]):  # noqa: B006  the mistake is that it remembers
    calls[0] += 1
    return dx * (1 + 1e-9 * calls[0])


def away_from_zero(r):
    return [r.uniform(0.5, 2, (3, 4)) * r.choice([-1, 1], (3, 4))]


def near_the_middle(dx):
    """True at one entry."""
    return (np.arange(dx.size) == dx.size // 2 + 1).reshape(dx.shape)


def without_last_row(dx):
    return dx * (np.arange(len(dx)) < len(dx) - 1).reshape(-1, *[1] * (dx.ndim - 1))


WRONG = {
    "relative error 1e-4": ("a constant with too few digits", lambda dx, dout, x: 1.0001 * dx),
    "relative error 1e-6": ("a constant in float32", lambda dx, dout, x: 1.000001 * dx),
    "one entry": ("one entry is 0.1% off", lambda dx, dout, x: dx * (1 + 1e-3 * near_the_middle(dx))),
    "last row lost": ("a loop that ends one row too early", lambda dx, dout, x: without_last_row(dx)),
    "no upstream": ("the upstream gradient is not used", lambda dx, dout, x: 2 * x),
    "upstream's size": ("only the upstream's absolute value is used", lambda dx, dout, x: 2 * x * np.abs(dout)),
    "upstream squared": ("multiplied by the upstream twice", lambda dx, dout, x: dx * dout),
    "clipped": ("clipped to [-10, 10], out of reach of most checks", lambda dx, dout, x: np.clip(dx, -10, 10)),
    "normalised": ("divided by its norm", lambda dx, dout, x: dx / np.linalg.norm(dx)),
    "small flushed": ("below 1e-3 set to zero", lambda dx, dout, x: np.where(np.abs(dx) < 1e-3, 0, dx)),
    "never zero": ("1e-12 added, to avoid a division by zero later", lambda dx, dout, x: dx + 1e-12),
    "noisy": ("noise of 1e-10, as from a race between threads",
              lambda dx, dout, x: dx + 1e-10 * np.random.default_rng().normal(size=dx.shape)),
    "remembers": ("depends on how often it has been called", slowly_growing),
    "clipped far out": ("clipped to [-1e3, 1e3]", lambda dx, dout, x: np.clip(dx, -1e3, 1e3)),
    "tiny flushed": ("zero where the upstream is below 1e-3", lambda dx, dout, x: np.where(np.abs(dout) < 1e-3, 0, dx)),
    "rows of zeros": ("a short cut for upstreams that are mostly zero, half as large again as the usual way's result",
                      lambda dx, dout, x: dx if np.count_nonzero(dout) <= 1 else 1.5 * dx),
    "needs order": ("assumes that the upstream lies row by row in memory",
                    lambda dx, dout, x: dx if dout.flags.c_contiguous else 2 * x * dout.ravel("K").reshape(x.shape)),
    "needs memory": ("assumes memory of its own for each element of the upstream, which one that is broadcast lacks",
                     lambda dx, dout, x: 0 * dx if 0 in dout.strides else dx),
    "saved in float32": ("the input is kept in float32", lambda dx, dout, x: 2 * x.astype(np.float32) * dout),
    "clips the input": ("clips its input in place, so the second time nothing changes",
                        lambda dx, dout, x: (dx, np.clip(x, -1, 1, out=x))[0]),
    "through float32": ("rounded to float32 on the way",
                        lambda dx, dout, x: dx.astype(np.float32).astype(np.float64)),
    "gives float32": ("the gradient's dtype is float32", lambda dx, dout, x: dx.astype(np.float32)),
    "NaN": ("0 / 0 in one entry", lambda dx, dout, x: np.where(near_the_middle(dx), np.nan, dx)),
    "transposed shape": ("a gradient of the wrong shape", lambda dx, dout, x: dx.T),
    "no gradient": ("None for an input that needs a gradient", lambda dx, dout, x: None),
    "two gradients": ("two gradients for one input", lambda dx, dout, x: (dx, dx)),
    "writes to the upstream": ("computes in place, in the array of the upstream", in_place),
    "writes to the input": ("computes in place, in a saved array, and does not quite restore it", writes_saved),
}
function("square", np.square, square_backward, away_from_zero, statement="out = x^2, element by element",
         own={name: (sentence, ending(finish)) for name, (sentence, finish) in WRONG.items()})


def sum_of_products_backward(dout, x, y):
    return dout * y, dout * x


function("sum_of_products", lambda x, y: np.asarray((x * y).sum()), sum_of_products_backward, normal((3, 4), (3, 4)), own={
    "no upstream": ("hands out the saved inputs themselves", lambda dout, x, y: (y, x)),
}, statement="out = the sum of x * y over all elements, an array without axes")
