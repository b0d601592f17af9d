"""In-place forms: x.exp_() puts x.exp() into x's memory, on the tape, as `Tensor.write` says. And draws in place."""
import numpy as np

from .. import random
from .numpy_protocol import named


def in_place(name: str):
    """The method that computes another one of this name, and writes its result to the tensor itself."""

    def method(self, *arguments, **options):
        return self.write(getattr(self._before(), name)(*arguments, **options))

    return named(method, f"{name}_")


class InPlaceMethods:
    abs_, ceil_, floor_, frac_, neg_, pow_, reciprocal_, remainder_, round_, sign_, square_, trunc_ = map(in_place, (
        "abs", "ceil", "floor", "frac", "neg", "pow", "reciprocal", "remainder", "round", "sign", "square", "trunc"))
    cos_, exp_, log_, log1p_, rsqrt_, sigmoid_, sin_, sqrt_, tanh_ = map(in_place, (
        "cos", "exp", "log", "log1p", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"))
    addcdiv_, addcmul_, clamp_, clip_, lerp_, masked_fill_, nan_to_num_, relu_, tril_, triu_ = map(in_place, (
        "addcdiv", "addcmul", "clamp", "clip", "lerp", "masked_fill", "nan_to_num", "relu", "tril", "triu"))
    index_add_, scatter_, scatter_add_ = map(in_place, ("index_add", "scatter", "scatter_add"))

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: random.Generator | None = None):
        """Drawn anew: normal with this mean and standard deviation."""
        return self._drawn_anew("normal_", random.generator(generator).normal(mean, std, self.shape))

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: random.Generator | None = None):
        """Drawn anew: uniform between low and high."""
        return self._drawn_anew("uniform_", random.generator(generator).uniform(low, high, self.shape))

    def exponential_(self, lambd: float = 1.0, *, generator: random.Generator | None = None):
        """Drawn anew: waiting times for what happens `lambd` times per unit of time."""
        if not lambd > 0:
            raise ValueError(f"exponential_: lambd must be > 0, got {lambd!r}")
        return self._drawn_anew("exponential_", random.generator(generator).exponential(1 / lambd, self.shape))

    def bernoulli_(self, p: float = 0.5, *, generator: random.Generator | None = None):
        """Drawn anew: 1 with probability p, else 0, in any dtype."""
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli_: p must be a probability, from 0 to 1, got {p!r}")
        return self.write((random.generator(generator).random(self.shape) < p).astype(self.dtype))

    def _drawn_anew(self, name: str, values: np.ndarray):
        if self.dtype.kind != "f":
            raise TypeError(f"{name}: expected a tensor of floats, got {self.dtype}")
        return self.write(np.asarray(values).astype(self.dtype))
