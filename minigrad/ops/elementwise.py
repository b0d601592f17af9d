"""Functions of single elements. For y = f(x), dx = dout * f'(x); inputs of different shapes are broadcast.

Broadcasting copies a value to many places, so its gradient is the sum over them: the tape does that (`unbroadcast`).
"""
import math
from typing import Callable

import numpy as np

from ..kernels import elementwise as kernels
from ..kernels.buffers import empty_like
from ..tape import Fused, Op, is_tensor


LARGE = 1 << 12  # elements, from which a kernel is faster


def select(condition, a, b):
    """np.where, for formulas on arrays and Tensors; but a kernel for large arrays, where NumPy takes 4 ns an element"""
    if type(condition) is not np.ndarray or condition.size < LARGE or is_tensor(a) or is_tensor(b):
        return np.where(condition, a, b)
    arrays = [x for x in (a, b) if isinstance(x, np.ndarray)]
    shape = np.broadcast_shapes(condition.shape, *(x.shape for x in arrays))
    if len({x.dtype for x in arrays}) != 1 or arrays[0].dtype.kind != "f":
        return np.where(condition, a, b)
    out = np.empty(shape, arrays[0].dtype)
    a, b = (
        np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else np.full(shape, x, out.dtype) for x in (a, b)
    )
    condition = np.broadcast_to(condition, shape)
    kernels.select_forward(condition.reshape(-1), a.reshape(-1), b.reshape(-1), out.reshape(-1))
    return out


class Add(Op):
    """out = a + b"""

    def forward(self, a, b):
        if not self.is_by_kernels((a, b)):
            return a + b
        out = empty_like(a)
        kernels.add_forward(a.reshape(-1), b.reshape(-1), out.reshape(-1))
        return out

    def backward(self, dout):
        return dout, dout

    def is_by_kernels(self, arrays):
        """Large arrays of one shape, as in a residual connection, are added on all threads."""
        a, b = arrays
        return (
            isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size >= LARGE and a.shape == b.shape
            and a.dtype == b.dtype and a.dtype.kind == "f" and a.flags.carray and b.flags.carray
        )


class Sub(Op):
    """out = a - b"""

    def forward(self, a, b):
        return a - b

    def backward(self, dout):
        return dout, (-dout if self.needs(1) else None)


class Mul(Op):
    """out = a * b"""

    fresh_gradients = True

    def forward(self, a, b):
        self.save(a, b)
        return a * b

    def backward(self, dout, a, b):
        return (dout * b if self.needs(0) else None), (dout * a if self.needs(1) else None)


class Div(Op):
    """out = a / b:  da = dout / b,  db = -dout * a / b^2"""

    fresh_gradients = True

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
        if isinstance(b, (int, float)) and b in (3, 4):  # np.power takes 50 times as long, but for exponents -1 to 2
            return a * a * (a if b == 3 else a * a)
        return a**b

    def backward(self, dout, a, b):
        da = db = None
        if self.needs(0):
            if isinstance(b, (int, float)):
                da = dout * (b * Pow.call(a, b - 1)) if b != 0 else dout * 0.0
            else:
                da = dout * np.where(b == 0, 0.0, b * a ** np.where(b == 0, 1.0, b - 1))
        if self.needs(1):
            a = np.asarray(a, dout.dtype) if isinstance(a, (int, float)) else a  # its logarithm in full precision
            at_zero = (a == 0) & (b >= 0)
            db = dout * np.where(at_zero, 0.0, a**b * np.log(np.where(at_zero, 1.0, a)))
        return da, db


class Exp(Op):
    """out = e^x:  dx = dout * out"""

    fresh_gradients = True

    def forward(self, x):
        out = np.exp(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * out


class Expm1(Op):
    """out = e^x - 1, exact near 0:  dx = dout * e^x"""

    def forward(self, x):
        self.save(x)
        return np.expm1(x)

    def backward(self, dout, x):
        return dout * np.exp(x)


class Log(Op):
    """out = log x:  dx = dout / x"""

    fresh_gradients = True

    def forward(self, x):
        self.save(x)
        return np.log(x)

    def backward(self, dout, x):
        return dout / x


class Log1p(Op):
    """out = log(1 + x), exact near 0:  dx = dout / (1 + x)"""

    def forward(self, x):
        self.save(x)
        return np.log1p(x)

    def backward(self, dout, x):
        return dout / (1 + x)


class Sqrt(Op):
    """out = sqrt(x):  dx = dout / (2 out)"""

    fresh_gradients = True

    def forward(self, x):
        out = np.sqrt(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * 0.5 / out


class Rsqrt(Op):
    """out = 1 / sqrt(x):  dx = -dout * out^3 / 2"""

    def forward(self, x):
        out = 1 / np.sqrt(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return -0.5 * dout * out * out * out


class Sin(Op):
    """out = sin x:  dx = dout * cos x"""

    def forward(self, x):
        self.save(x)
        return np.sin(x)

    def backward(self, dout, x):
        return dout * np.cos(x)


class Cos(Op):
    """out = cos x:  dx = -dout * sin x"""

    def forward(self, x):
        self.save(x)
        return np.cos(x)

    def backward(self, dout, x):
        return -dout * np.sin(x)


class Tanh(Op):
    """out = tanh x:  dx = dout * (1 - out^2)"""

    fresh_gradients = True

    def forward(self, x):
        out = np.tanh(x)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * (1 - out * out)


class Sigmoid(Op):
    """out = 1 / (1 + e^-x):  dx = dout * out * (1 - out)

    Where e^-x overflows, out is 0. (1 + tanh(x/2)) / 2 could not, but has no digits left long before that.
    """

    fresh_gradients = True

    def forward(self, x):
        out = np.negative(x, out=np.empty(x.shape, x.dtype))
        np.exp(out, out=out)
        out += 1
        np.reciprocal(out, out=out)
        self.save(out)
        return out

    def backward(self, dout, out):
        return dout * out * (1 - out)


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


class Erf(Op):
    """out = erf x = 2/sqrt(pi) * integral of e^(-t^2) from 0 to x:  dx = dout * 2/sqrt(pi) * e^(-x^2)"""

    def forward(self, x):
        self.save(x)
        out = kernels.empty_apart(x)
        kernels.erf_forward(x.reshape(-1), out.reshape(-1))
        return out

    def backward(self, dout, x):
        return dout * (2 / math.sqrt(math.pi)) * np.exp(-x * x)


def erfc(x):
    """1 - erf x, to the last digit also where erf x is nearly 1"""
    return np.vectorize(math.erfc, otypes=[x.dtype])(x)


DERIVATIVES: dict[Callable, Callable] = {  # 1 - x^2 as (1 - x) (1 + x) keeps its digits near 1
    np.exp2: lambda x: math.log(2) * np.exp2(x),
    np.log2: lambda x: 1 / (math.log(2) * x),
    np.log10: lambda x: 1 / (math.log(10) * x),
    np.tan: lambda x: 1 + np.square(np.tan(x)),
    np.sinh: np.cosh,
    np.cosh: np.sinh,
    np.arcsin: lambda x: 1 / np.sqrt((1 - x) * (1 + x)),
    np.arccos: lambda x: -1 / np.sqrt((1 - x) * (1 + x)),
    np.arctan: lambda x: 1 / (1 + x * x),
    np.arcsinh: lambda x: 1 / np.sqrt(1 + x * x),
    np.arccosh: lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    np.arctanh: lambda x: 1 / ((1 - x) * (1 + x)),
    erfc: lambda x: -2 / math.sqrt(math.pi) * np.exp(-x * x),
}


class Elementary(Op):
    """out = f(x), where `function` is an f of the table above:  dx = dout * f'(x)

    Outside of its domain, and at its poles, f is NaN or infinite without a warning.
    """

    fresh_gradients = True

    def forward(self, x, *, function):
        self.function = function
        self.save(x)
        return function(x)

    def backward(self, dout, x):
        return dout * DERIVATIVES[self.function](x)

    @property
    def title(self):
        return self.function.__name__.capitalize()


class Atan2(Op):
    """out = angle of the point (b, a), from -pi to pi:  da = dout * b / (a^2 + b^2),  db = -dout * a / (a^2 + b^2)

    At the origin, which has no angle, both are 0. The larger of |a| and |b| is taken out, as its square may overflow.
    """

    fresh_gradients = True

    def forward(self, a, b):
        self.save(a, b)
        return np.arctan2(a, b)

    def backward(self, dout, a, b):
        is_origin = (a == 0) & (b == 0)
        size = np.where(is_origin, 1.0, np.maximum(abs(a), abs(b)))
        a, b = a / size, b / size
        share = dout / (size * np.where(is_origin, 1.0, a * a + b * b))
        return share * b, -share * a


class LogAddExp(Op):
    """out = log(e^a + e^b):  da = dout * sigmoid(a - b),  db = dout * sigmoid(b - a); both 0 where a = b = -inf"""

    fresh_gradients = True

    def forward(self, a, b):
        self.save(a, b)
        return np.logaddexp(a, b)

    def backward(self, dout, a, b):
        is_nothing = (a == -math.inf) & (b == -math.inf)
        da, db = (np.where(is_nothing, -math.inf, apart) for apart in (a - b, b - a))
        return dout * Sigmoid.call(da), dout * Sigmoid.call(db)


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
        return select(x > 0, dout, 0.0)


def larger_takes(dout, a, b):
    """dout where a > b, half of it where they are equal; NaN, which is the result, takes all"""
    return select(a < b, 0.0, select(a == b, 0.5 * dout, dout))


class Maximum(Op):
    """out = max(a, b) elementwise: the larger input gets the gradient, equal inputs half each"""

    def forward(self, a, b):
        self.save(a, b)
        return np.maximum(a, b)

    def backward(self, dout, a, b):
        return larger_takes(dout, a, b), larger_takes(dout, b, a)


class Minimum(Op):
    """out = min(a, b) elementwise: the smaller input gets the gradient, equal inputs half each"""

    def forward(self, a, b):
        self.save(a, b)
        return np.minimum(a, b)

    def backward(self, dout, a, b):
        return larger_takes(dout, b, a), larger_takes(dout, a, b)


class Where(Op):
    """out = a where condition, else b: each element's gradient goes to the input it came from

    It selects; multiplying by a mask would turn an infinite gradient of the other branch into 0 * inf = NaN.
    """

    def forward(self, a, b, *, condition):
        self.condition = condition
        return select(condition, a, b)

    def backward(self, dout):
        da = select(self.condition, dout, 0.0) if self.needs(0) else None
        return da, (select(self.condition, 0.0, dout) if self.needs(1) else None)


class Step(Op):
    """out = floor, ceil, round, trunc or sign of x (`function`): constant between its jumps, so dx = 0"""

    fresh_gradients = True

    def forward(self, x, *, function):
        return function(x).astype(x.dtype, copy=False)  # integers stay integers

    def backward(self, dout):
        return np.zeros_like(dout)


class Clamp(Op):
    """out = min(max(x, low), high), low and high numbers:  dx = dout where low <= x <= high, the edges too"""

    def forward(self, x, *, low, high):
        self.low, self.high = low, high
        self.save(x)
        return np.minimum(np.maximum(x, low), high)

    def backward(self, dout, x):
        return select((x >= self.low) & (x <= self.high), dout, 0.0)


class FloorDivide(Op):
    """out = floor(a / b): constant between its jumps, so da = db = 0"""

    def forward(self, a, b):
        return np.floor_divide(a, b)

    def backward(self, dout):
        return np.zeros_like(dout), np.zeros_like(dout)


class Remainder(Op):
    """out = a - b * floor(a / b), with the sign of b:  da = dout,  db = -dout * floor(a / b)"""

    function, quotient = staticmethod(np.remainder), staticmethod(np.floor_divide)

    def forward(self, a, b):
        self.save(a, b)
        return self.function(a, b)

    def backward(self, dout, a, b):
        return dout, (-dout * self.quotient(a, b) if self.needs(1) else None)


class Fmod(Remainder):
    """out = a - b * trunc(a / b), with the sign of a:  da = dout,  db = -dout * trunc(a / b)"""

    function, quotient = staticmethod(np.fmod), staticmethod(lambda a, b: np.trunc(a / b))


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
