"""Drawing at random, in proportion to weights. Draws have no gradient."""
import functools

import numpy as np

from .. import random
from ..backend import in_order


def _drawn(weights: np.ndarray, num_samples: int, replacement: bool, own: random.Generator | None) -> np.ndarray:
    """Positions along the last axis, drawn in proportion to the weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = np.cumsum(weights, axis=-1, dtype=np.float64)
    if not (np.isfinite(ends).all() and (weights >= 0).all()):
        raise ValueError("multinomial: expected weights that are finite and not negative, got an inf, NaN or one below 0")
    needed = 1 if replacement else num_samples
    if (np.count_nonzero(weights, axis=-1) < needed).any():
        raise ValueError(f"multinomial: a row of weights has fewer than {needed} that are not zero")
    shape, generator = weights.shape[:-1] + (num_samples,), random.generator(own)
    if not replacement:  # the first to come, if these are the rates at which they come: waiting is exponential then
        with np.errstate(divide="ignore"):
            log_waiting = np.log(generator.standard_exponential(weights.shape)) - np.log(weights)
        return in_order(np.argsort(log_waiting, axis=-1)[..., :num_samples])
    points = generator.random(shape) * ends[..., -1:]
    rows = zip(ends.reshape(-1, weights.shape[-1]), points.reshape(-1, num_samples))
    found = [np.searchsorted(row, drawn, side="right") for row, drawn in rows]
    return np.array(found, np.int64).reshape(shape)


def _tossed(probabilities: np.ndarray, own: random.Generator | None) -> np.ndarray:
    is_float = probabilities.dtype.kind == "f"
    if not (is_float and probabilities.min(initial=0.0) == 0 and probabilities.max(initial=1.0) == 1):  # NaN is neither
        raise ValueError("bernoulli: expected probabilities, floats from 0 to 1")
    return (random.generator(own).random(probabilities.shape) < probabilities).astype(probabilities.dtype)


class MultinomialMethods:
    def multinomial(self, num_samples: int, replacement: bool = False, *, generator: random.Generator | None = None):
        """Positions drawn at random, with these weights: of a vector, or of each row of a matrix. They have no gradient.

        Without replacement no position is drawn twice, and an error says if too few have a weight. The weights need not
        sum to 1.
        """
        if self.dtype.kind != "f":
            raise TypeError(f"multinomial: expected weights of a floating dtype, got {self.dtype}")
        if self.ndim not in (1, 2):
            raise ValueError(f"multinomial: expected a vector or a matrix of weights, got shape {self.shape}")
        if num_samples < 1:
            raise ValueError(f"multinomial: expected at least one sample, got {num_samples}")
        if not replacement and num_samples > self.shape[-1]:
            raise ValueError(f"multinomial: cannot draw {num_samples} of {self.shape[-1]} without replacement")
        draw = functools.partial(_drawn, num_samples=num_samples, replacement=replacement, own=generator)
        return self.constant(draw, self)

    def bernoulli(self, *, generator: random.Generator | None = None):
        """1 with the probability that stands there, else 0, element by element. The draw has no gradient."""
        return self.constant(functools.partial(_tossed, own=generator), self)
