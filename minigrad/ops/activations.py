"""Activations: a table with a row for each, as in elementary.py, which has tanh and sigmoid; then gelu and swiglu.

At kinks the gradient is the left derivative, as in PyTorch: for relu at 0 it is 0. Terms such as x (1 - s) are exact up to
rounding at both ends, so none needs a special case there.
"""
from __future__ import annotations

import math
from typing import Generic

import numpy as np

from ..arrays.annotations import Tensor
from .kinds import Fused
from .comparison import select
from .elementary import Erfc, Sigmoid, elementary
from .operands import call, floating


def sigmoid(x):
    return call(Sigmoid, x)


def log_of_one_plus_exp(x):
    """log(1 + e^x) without overflow"""
    return np.logaddexp(x, 0.0)


def softplus(x, beta, threshold):
    return np.where(beta * x > threshold, x, log_of_one_plus_exp(beta * x) / beta)


def logsigmoid(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


Relu = elementary("out = max(x, 0):  dx = dout where x > 0, else 0. NaN stays NaN",
                  lambda x: np.maximum(x, 0), lambda dout, x: select(x > 0, dout, 0.0), name="relu")
LeakyRelu = elementary("out = x where x > 0, else slope * x:  dx = dout where x > 0, else slope * dout",
                       lambda x, slope: np.where(x > 0, x, slope * x),
                       lambda dout, x, slope: np.where(x > 0, dout, slope * dout), name="leaky_relu", slope=0.01)
Silu = elementary("out = x s, s = 1 / (1 + e^-x):  dx = dout * s (1 + x (1 - s))",
                  lambda x: x * sigmoid(x), lambda dout, x: dout * (sigmoid(x) * (1 + x * (1 - sigmoid(x)))), name="silu")
Softplus = elementary(
    "out = log(1 + e^(beta x)) / beta:  dx = dout * sigmoid(beta x). Where beta x > threshold, out = x",
    softplus, lambda dout, x, beta, threshold: dout * np.where(beta * x > threshold, 1.0, sigmoid(beta * x)),
    beta=1.0, threshold=20.0)
Logsigmoid = elementary("out = -log(1 + e^-x):  dx = dout * sigmoid(-x)", logsigmoid, lambda dout, x: dout * sigmoid(-x))


SQRT_2 = math.sqrt(2.0)
SQRT_2_PI = math.sqrt(2.0 * math.pi)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
FAR = 40.0  # beyond +-40 Phi is exactly 0 or 1, but 0 times an infinite x, or x^2, would be NaN


class Gelu(Fused):
    """out = x * Phi(x), Phi(x) = P(Z <= x) for a standard normal Z:  dx = dout * (Phi(x) + x * Phi'(x))

    That is the product rule (Hendrycks and Gimpel, arXiv:1606.08415). The approximation uses another Phi, with tanh.
    exact:  Phi = (1 + erf(t)) / 2 = erfc(-t) / 2,  t = x / sqrt 2
            Phi' = erf'(t) t' / 2 = e^(-x^2 / 2) / sqrt(2 pi), the density of Z, as erf'(t) = 2/sqrt(pi) e^(-t^2)
    tanh:   Phi = (1 + tanh u) / 2 = sigmoid(2 u),  u = sqrt(2/pi) (x + 0.044715 x^3)
            Phi' = 2 Phi (1 - Phi) u',  u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
    The forms without 1 + ... keep all digits of a small Phi.
    Saves x; recomputes Phi.
    """

    def forward(self, x, *, approximate="none"):
        self.approximate = approximate
        self.save(x)
        return np.maximum(x, -FAR) * gelu_probability(x, approximate)

    def backward(self, dout, x):
        return dout * gelu_slope(x, self.approximate)


def gelu_probability(x, approximate: str):
    """Phi(x)"""
    if approximate == "tanh":
        return sigmoid(2.0 * SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))
    return 0.5 * call(Erfc, -x / SQRT_2)


def gelu_slope(x, approximate: str):
    """Phi(x) + x * Phi'(x)"""
    x = np.clip(x, -FAR, FAR)
    probability = gelu_probability(x, approximate)
    if approximate == "tanh":
        slope = 2.0 * probability * (1.0 - probability)
        return probability + x * (slope * (SQRT_2_OVER_PI * (1.0 + 3 * 0.044715 * x * x)))
    return probability + x * (np.exp(-0.5 * x * x) / SQRT_2_PI)


class SwiGLU(Fused):
    """out = a * sigmoid(a) * b:
    da = dout * b * (sigmoid(a) + a * sigmoid(a) * (1 - sigmoid(a))),  db = dout * a * sigmoid(a)

    By the product rule, as sigmoid' = sigmoid (1 - sigmoid). a, b and out have one shape. Saves a and b; recomputes the
    sigmoid.
    """

    def forward(self, a, b):
        self.save(a, b)
        return a * sigmoid(a) * b

    def backward(self, dout, a, b):
        s = sigmoid(a)
        return dout * b * (s + a * s * (1 - s)), dout * a * s


class ActivationMethods(Generic[Tensor]):
    def relu(self: Tensor) -> Tensor:
        """max(x, 0); the gradient is 0 at 0."""
        return self.apply_op(Relu, self)

    def gelu(self: Tensor, approximate: str = "none") -> Tensor:
        """x * P(Z <= x) for a standard normal Z; 'tanh' is GPT-2's approximation."""
        if approximate not in ("none", "tanh"):
            raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
        return self.apply_op(Gelu, floating(self), approximate=approximate)
