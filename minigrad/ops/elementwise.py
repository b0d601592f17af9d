"""Functions of single elements. For y = f(x), dx = dout * f'(x); inputs of different shapes are broadcast.

Broadcasting copies a value to many places, so its gradient is the sum over them: the tape does that (`unbroadcast`).
"""
import math

import numpy as np

from ..kernels import elementwise as kernels
from ..tape import Fused, Op


class Add(Op):
    """out = a + b"""

    def forward(self, a, b):
        return a + b

    def backward(self, dout):
        return dout, dout


class Sub(Op):
    """out = a - b"""

    def forward(self, a, b):
        return a - b

    def backward(self, dout):
        return dout, -dout


class Mul(Op):
    """out = a * b"""

    def forward(self, a, b):
        self.save(a, b)
        return a * b

    def backward(self, dout, a, b):
        return dout * b, dout * a


class Div(Op):
    """out = a / b:  da = dout / b,  db = -dout * a / b^2"""

    def forward(self, a, b):
        self.save(a, b)
        return a / b

    def backward(self, dout, a, b):
        da = dout / b
        return da, (-da * a / b if self.needs(1) else None)


class Neg(Op):
    """out = -x"""

    def forward(self, x):
        return -x

    def backward(self, dout):
        return -dout


class Pow(Op):
    """out = a^b:  da = dout * b * a^(b-1),  db = dout * a^b * log a, taken as 0 where a = 0 and b >= 0

    At b = 0 the function is constant in a, so da is 0 there, also where a = 0 makes a^(b-1) infinite.
    """

    def forward(self, a, b):
        self.save(a, b)
        return a**b

    def backward(self, dout, a, b):
        da = db = None
        if self.needs(0):
            if isinstance(b, (int, float)):
                da = dout * (b * a ** (b - 1)) if b != 0 else dout * 0.0
            else:
                da = dout * np.where(b == 0, 0.0, b * a ** np.where(b == 0, 1.0, b - 1))
        if self.needs(1):
            at_zero = (a == 0) & (b >= 0)
            db = dout * np.where(at_zero, 0.0, a**b * np.log(np.where(at_zero, 1.0, a)))
        return da, db


class Exp(Op):
    """out = e^x:  dx = dout * out"""

    def forward(self, x):
        out = np.exp(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * out


class Log(Op):
    """out = log x:  dx = dout / x"""

    def forward(self, x):
        self.save(x)
        return np.log(x)

    def backward(self, dout, x):
        return dout / x


class Sqrt(Op):
    """out = sqrt(x):  dx = dout / (2 out)"""

    def forward(self, x):
        out = np.sqrt(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * 0.5 / out


class Tanh(Op):
    """out = tanh x:  dx = dout * (1 - out^2)"""

    def forward(self, x):
        out = np.tanh(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * (1 - out * out)


class Sigmoid(Op):
    """out = 1 / (1 + e^-x), computed as (1 + tanh(x/2)) / 2, which cannot overflow:  dx = dout * out * (1 - out)"""

    def forward(self, x):
        out = 0.5 * np.tanh(0.5 * x) + 0.5
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * out * (1 - out)


class Erf(Op):
    """out = erf x = 2/sqrt(pi) * integral of e^(-t^2) from 0 to x:  dx = dout * 2/sqrt(pi) * e^(-x^2)"""

    def forward(self, x):
        self.save(x)
        out = np.empty(x.shape, x.dtype)
        kernels.erf_forward(x.reshape(-1), out.reshape(-1))
        return out

    def backward(self, dout, x):
        return dout * (2 / math.sqrt(math.pi)) * np.exp(-x * x)


class Abs(Op):
    """out = |x|:  dx = dout * sign x, 0 at 0"""

    def forward(self, x):
        self.save(x)
        return np.abs(x)

    def backward(self, dout, x):
        return dout * np.sign(x)


class Relu(Op):
    """out = max(x, 0):  dx = dout where x > 0, and 0 at 0; NaN stays NaN"""

    def forward(self, x):
        self.save(x)
        return np.maximum(x, 0)

    def backward(self, dout, x):
        return np.where(x > 0, dout, 0.0)


class Maximum(Op):
    """out = max(a, b) elementwise: the larger input gets the gradient, equal inputs half each"""

    def forward(self, a, b):
        self.save(a, b)
        return np.maximum(a, b)

    def backward(self, dout, a, b):
        half = np.where(a == b, 0.5 * dout, 0.0)
        return np.where(a > b, dout, half), np.where(b > a, dout, half)


class Minimum(Op):
    """out = min(a, b) elementwise: the smaller input gets the gradient, equal inputs half each"""

    def forward(self, a, b):
        self.save(a, b)
        return np.minimum(a, b)

    def backward(self, dout, a, b):
        half = np.where(a == b, 0.5 * dout, 0.0)
        return np.where(a < b, dout, half), np.where(b < a, dout, half)


class Where(Op):
    """out = a where condition, else b: each element's gradient goes to the input it came from

    It selects; multiplying by a mask would turn an infinite gradient of the other branch into 0 * inf = NaN.
    """

    def forward(self, a, b, *, condition):
        self.condition = condition
        return np.where(condition, a, b)

    def backward(self, dout):
        return np.where(self.condition, dout, 0.0), np.where(self.condition, 0.0, dout)


class Cast(Op):
    """out = x in another floating dtype: the tape casts the gradient back"""

    def forward(self, x, *, dtype):
        return x.astype(dtype)

    def backward(self, dout):
        return dout


SQRT_2 = math.sqrt(2.0)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class Gelu(Fused):
    """out = x * P(Z <= x), Z standard normal; or its approximation with tanh (Hendrycks and Gimpel, arXiv:1606.08415)

    exact:  P = (1 + erf(x / sqrt 2)) / 2                          dx = dout * (P + x * density(x))
    tanh:   P ~ (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3)  dx = dout * (P + x/2 (1 - tanh(u)^2) u')

    Saves x; recomputes P.
    """

    @staticmethod
    def definition(x, *, approximate="none"):
        if approximate == "tanh":
            u = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1.0 + np.tanh(u))
        return 0.5 * x * (1.0 + Erf.call(x / SQRT_2))

    def forward(self, x, *, approximate="none"):
        self.save(x)
        self.use_tanh = approximate == "tanh"
        out = np.empty(x.shape, x.dtype)
        kernels.gelu_forward(x.reshape(-1), out.reshape(-1), self.use_tanh)
        return out

    def backward(self, dout, x):
        dx = np.empty(x.shape, x.dtype)
        kernels.gelu_backward(dout.reshape(-1), x.reshape(-1), dx.reshape(-1), self.use_tanh)
        return dx
