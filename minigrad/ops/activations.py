"""Activations: relu, softplus, gelu, swiglu. tanh and sigmoid stand in elementary.py, others in nn."""
import math

import numpy as np

from ..kernels import elementwise as kernels
from ..tape import Fused, Op
from .comparison import select
from .elementary import Erf, Sigmoid
from .operands import floating


class Relu(Op):
    """out = max(x, 0):  dx = dout where x > 0, else 0. NaN stays NaN"""

    def forward(self, x):
        self.save(x)
        return np.maximum(x, 0)

    def backward(self, dout, x):
        return select(x > 0, dout, 0.0)


class Softplus(Op):
    """out = log(1 + e^(beta x)) / beta:  dx = dout * sigmoid(beta x). Where beta x > threshold, out = x"""

    def forward(self, x, *, beta=1.0, threshold=20.0):
        self.beta, self.threshold = beta, threshold
        self.save(x)
        z = beta * x
        return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / beta)  # no overflow

    def backward(self, dout, x):
        z = self.beta * x
        return dout * np.where(z > self.threshold, 1.0, Sigmoid.call(z))


SQRT_2 = math.sqrt(2.0)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class Gelu(Fused):
    """out = x * Phi(x), Phi(x) = P(Z <= x) for a standard normal Z:  dx = dout * (Phi(x) + x * Phi'(x))

    That is the product rule (Hendrycks and Gimpel, arXiv:1606.08415). The approximation takes another Phi, with tanh.
    exact:  Phi = (1 + erf(t)) / 2,  t = x / sqrt 2
            Phi' = erf'(t) t' / 2 = e^(-x^2 / 2) / sqrt(2 pi), the density of Z, as erf'(t) = 2/sqrt(pi) e^(-t^2)
    tanh:   Phi = (1 + tanh u) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3)
            Phi' = (1 - tanh(u)^2) u' / 2,  u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
    Saves x; recomputes Phi.
    """

    by_kernels = True

    @staticmethod
    def definition(x, *, approximate="none"):
        if approximate == "tanh":
            u = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1.0 + np.tanh(u))
        return 0.5 * x * (1.0 + Erf.call(x / SQRT_2))

    def forward(self, x, *, approximate="none"):
        self.save(x)
        self.use_tanh = approximate == "tanh"
        out = kernels.empty_apart(x)
        kernels.gelu_forward(x.reshape(-1), out.reshape(-1), self.use_tanh)
        return out

    def backward(self, dout, x):
        dx = kernels.empty_apart(x)
        kernels.gelu_backward(dout.reshape(-1), x.reshape(-1), dx.reshape(-1), self.use_tanh)
        return dx


class SwiGLU(Fused):
    """out = a * sigmoid(a) * b:
    da = dout * b * (sigmoid(a) + a * sigmoid(a) * (1 - sigmoid(a))),  db = dout * a * sigmoid(a)

    By the product rule, as sigmoid' = sigmoid (1 - sigmoid). a, b and out have one shape. Saves a and b; recomputes the
    sigmoid.
    """

    by_kernels = True

    @staticmethod
    def definition(a, b):
        return a * Sigmoid.call(a) * b

    def forward(self, a, b):
        self.save(a, b)
        out = kernels.empty_apart(a)
        kernels.swiglu_forward(a.reshape(-1), b.reshape(-1), out.reshape(-1))
        return out

    def backward(self, dout, a, b):
        da, db = kernels.empty_apart(a), kernels.empty_apart(b)
        kernels.swiglu_backward(dout.reshape(-1), a.reshape(-1), b.reshape(-1), da.reshape(-1), db.reshape(-1))
        return da, db


class ActivationMethods:
    def relu(self): return self.apply_op(Relu, self)

    def gelu(self, approximate: str = "none"):
        """x * P(Z <= x) for standard normal Z; 'tanh' is GPT-2's approximation."""
        if approximate not in ("none", "tanh"):
            raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
        return self.apply_op(Gelu, floating(self), approximate=approximate)
