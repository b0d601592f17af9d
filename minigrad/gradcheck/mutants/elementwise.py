"""Mistakes in functions that are applied to each element."""
import math

import numpy as np

from .base import family, normal, pointwise, positive

erf = np.vectorize(math.erf)
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def below(x):
    """P(Z <= x), Z standard normal"""
    return 0.5 * (1 + erf(x / math.sqrt(2)))


def both_sides(r):
    """Numbers on both sides of every kink: on one side only, some mistakes are none."""
    return [(r.permuted(np.linspace(-2, 2, 12)) + 0.1 * r.normal(size=12)).reshape(3, 4)]


def bent(x):
    """tanh's argument in gelu's approximation"""
    return ROOT * (x + CUBIC * x**3)


def gelu_tanh_slope(x, out=None, *, squash=lambda t: 1 - t * t, inner=lambda x: ROOT * (1 + 3 * CUBIC * x * x)):
    t = np.tanh(bent(x))
    return 0.5 * (1 + t) + 0.5 * x * squash(t) * inner(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


pointwise("relu", lambda x: np.maximum(x, 0), lambda x, out: x > 0, {
    "passes everything": ("the upstream passes where x is negative too", lambda x, out: 1.0),
    "passes the negative": ("the comparison is the wrong way round", lambda x, out: x < 0),
    "leaks": ("leaky_relu's gradient", lambda x, out: np.where(x > 0, 1, 0.01)),
    "multiplies by out": ("out instead of its sign", lambda x, out: out),
}, both_sides)
pointwise("abs", np.abs, lambda x, out: np.sign(x), {
    "no sign": ("the gradient of x", lambda x, out: 1.0),
    "multiplies by x": ("x instead of its sign", lambda x, out: x),
}, both_sides)
pointwise("tanh", np.tanh, lambda x, out: 1 - out**2, {
    "of x": ("1 - x^2, the input for the output", lambda x, out: 1 - x**2),
    "no square": ("1 - out", lambda x, out: 1 - out),
    "plus": ("1 + out^2", lambda x, out: 1 + out**2),
    "again": ("1 - tanh(out)^2: tanh of what is a tanh already", lambda x, out: 1 - np.tanh(out) ** 2),
})
pointwise("sigmoid", sigmoid, lambda x, out: out * (1 - out), {
    "of x": ("x (1 - x), the input for the output", lambda x, out: x * (1 - x)),
    "half": ("only out", lambda x, out: out),
    "other half": ("only 1 - out", lambda x, out: 1 - out),
    "tanh's": ("1 - out^2", lambda x, out: 1 - out**2),
    "sign": ("the sign is wrong", lambda x, out: out * (out - 1)),
})
pointwise("silu", lambda x: x * sigmoid(x), lambda x, out: sigmoid(x) * (1 + x * (1 - sigmoid(x))), {
    "gate is constant": ("the term through the gate is missing", lambda x, out: sigmoid(x)),
    "only the gate": ("the term of the factor x is missing", lambda x, out: x * sigmoid(x) * (1 - sigmoid(x))),
})
pointwise("softplus", lambda x: np.log1p(np.exp(x)), lambda x, out: sigmoid(x), {
    "of out": ("sigmoid of the output", lambda x, out: sigmoid(out)),
})
pointwise("exp", np.exp, lambda x, out: out, {
    "power rule": ("x e^(x-1)", lambda x, out: x * np.exp(x - 1)),
    "of out": ("e^out", lambda x, out: np.exp(out)),
})
pointwise("log", np.log, lambda x, out: 1 / x, {
    "of out": ("1 / out", lambda x, out: 1 / out),
    "base 2": ("the gradient of log2", lambda x, out: 1 / (x * np.log(2))),
    "eps": ("1 / (x + 1e-5), for safety", lambda x, out: 1 / (x + 1e-5)),
}, positive((3, 4)))
pointwise("sqrt", np.sqrt, lambda x, out: 0.5 / out, {
    "no half": ("1 / out", lambda x, out: 1 / out),
    "of x": ("1 / (2 x)", lambda x, out: 0.5 / x),
    "upside down": ("out / 2", lambda x, out: 0.5 * out),
}, positive((3, 4)))
pointwise("rsqrt", lambda x: x**-0.5, lambda x, out: -0.5 * out**3, {
    "sign": ("the sign is wrong", lambda x, out: 0.5 * out**3),
    "of 1/x": ("out^2 for out^3", lambda x, out: -0.5 * out**2),
}, positive((3, 4)))
pointwise("cube", lambda x: x**3, lambda x, out: 3 * x**2, {
    "exponent stays": ("3 x^3", lambda x, out: 3 * x**3),
    "no factor": ("x^2", lambda x, out: x**2),
    "factor lowered": ("2 x^2", lambda x, out: 2 * x**2),
})
pointwise("cos", np.cos, lambda x, out: -np.sin(x), {"sign": ("sin x", lambda x, out: np.sin(x))})
pointwise("clamp", lambda x: np.clip(x, -0.5, 0.8), lambda x, out: (x > -0.5) & (x < 0.8), {
    "passes outside": ("the upstream passes outside of the limits too", lambda x, out: 1.0),
    "one limit": ("only the upper limit counts", lambda x, out: x < 0.8),
}, both_sides)
pointwise("gelu", lambda x: x * below(x), lambda x, out: below(x) + x * density(x), {
    "no density": ("the term through P is missing", lambda x, out: below(x)),
    "no x": ("the density is not multiplied by x", lambda x, out: below(x) + density(x)),
    "no sqrt(2 pi)": ("the density is not normalised", lambda x, out: below(x) + x * np.exp(-x * x / 2)),
    "no half": ("e^(-x^2), erf's derivative in x, not in x / sqrt 2",
                lambda x, out: below(x) + x * np.exp(-x * x) / math.sqrt(2 * math.pi)),
    "tanh's": ("the derivative of the tanh form", gelu_tanh_slope),
    "sigmoid's": ("the derivative of the sigmoid form, x sigmoid(1.702 x)", lambda x, out: sigmoid(1.702 * x)
                  + 1.702 * x * sigmoid(1.702 * x) * (1 - sigmoid(1.702 * x))),
}, lambda r: [1.5 * r.normal(size=(3, 4))])
pointwise("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(bent(x))), gelu_tanh_slope, {
    "erf's": ("the derivative of the exact form", lambda x, out: below(x) + x * density(x)),
    "no inner": ("the derivative of tanh's argument is missing",
                 lambda x, out: gelu_tanh_slope(x, inner=lambda x: 1.0)),
    "cubic not derived": ("x^2 without its factor 3 in the argument's derivative",
                          lambda x, out: gelu_tanh_slope(x, inner=lambda x: ROOT * (1 + CUBIC * x * x))),
    "argument linear": ("the cubic term is missing in the argument's derivative",
                        lambda x, out: gelu_tanh_slope(x, inner=lambda x: ROOT)),
    "no root": ("sqrt(2 / pi) is missing in the argument's derivative",
                lambda x, out: gelu_tanh_slope(x, inner=lambda x: 1 + 3 * CUBIC * x * x)),
    "no square": ("1 - tanh instead of 1 - tanh^2", lambda x, out: gelu_tanh_slope(x, squash=lambda t: 1 - t)),
    "tanh is constant": ("the term through tanh is missing", lambda x, out: gelu_tanh_slope(x, squash=lambda t: 0)),
}, lambda r: [1.5 * r.normal(size=(3, 4))])


def div_backward(dout, a, b, *, down=lambda a, b: -a / b**2, up=lambda a, b: 1 / b):
    return dout * up(a, b), dout * down(a, b)


family("div", lambda a, b: a / b, div_backward, positive((3, 4), (3, 4)), {
    "sign": ("the denominator's sign is wrong", dict(down=lambda a, b: a / b**2)),
    "no square": ("-a / b", dict(down=lambda a, b: -a / b)),
    "no numerator": ("-1 / b^2", dict(down=lambda a, b: -1 / b**2)),
    "as a product": ("the numerator's gradient is multiplied by b", dict(up=lambda a, b: b)),
})


def pow_backward(dout, a, b, *, base=lambda a, b: b * a ** (b - 1), exponent=lambda a, b: a**b * np.log(a)):
    return dout * base(a, b), dout * exponent(a, b)


family("pow", lambda a, b: a**b, pow_backward, positive((3, 4), (3, 4)), {
    "exponent stays": ("b a^b", dict(base=lambda a, b: b * a**b)),
    "log of the exponent": ("a^b log b", dict(exponent=lambda a, b: a**b * np.log(b))),
    "no log": ("a^b for the exponent", dict(exponent=lambda a, b: a**b)),
    "exponent constant": ("the exponent gets zero", dict(exponent=lambda a, b: 0.0)),
})


def larger(a, b):
    return (a > b) + 0.5 * (a == b)


def maximum_backward(dout, a, b, *, to_a=larger, to_b=lambda a, b: larger(b, a)):
    return dout * to_a(a, b), dout * to_b(a, b)


def with_ties(r):
    a = r.normal(size=(3, 4))
    return [a, np.where(r.random(a.shape) < np.arange(12).reshape(3, 4) % 2, a, r.normal(size=a.shape))]


family("maximum", np.maximum, maximum_backward, with_ties, {
    "both": ("both inputs get the gradient", dict(to_a=lambda a, b: 1.0, to_b=lambda a, b: 1.0)),
    "the smaller": ("the smaller input gets it", dict(to_a=lambda a, b: a < b, to_b=lambda a, b: b < a)),
    "only the first": ("the second input gets nothing", dict(to_b=lambda a, b: 0.0)),
    "ties twice": ("where both are equal, both get the whole gradient",
                   dict(to_a=lambda a, b: a >= b, to_b=lambda a, b: b >= a)),
}, {
    "ties to the first": ("where both are equal, the first gets all",
                          dict(to_a=lambda a, b: a >= b, to_b=lambda a, b: b > a),
                          "at a tie every split of the gradient that sums to 1 is a subgradient"),
})


def where_backward(dout, keep, a, b, *, split=lambda keep: (keep, ~keep)):
    to_a, to_b = split(keep)
    return None, np.where(to_a, dout, 0.0), np.where(to_b, dout, 0.0)


family("where", np.where, where_backward, lambda r: [np.arange(12).reshape(3, 4) % 3 > 0, *normal((3, 4), (3, 4))(r)], {
    "both": ("both branches get everything", dict(split=lambda keep: (np.True_, np.True_))),
    "swapped": ("each branch gets the other's gradient", dict(split=lambda keep: (~keep, keep))),
    "one branch": ("the second branch gets nothing", dict(split=lambda keep: (keep, np.False_))),
}, constants=("keep",))

KEEP = 0.6


def dropout_backward(dout, x, keep, *, mask=lambda keep: keep, scale=1 / KEEP):
    return dout * mask(keep) * scale, None


family("dropout", lambda x, keep: x * keep / KEEP, dropout_backward,
       lambda r: [r.normal(size=(4, 5)), r.permuted(np.arange(20) < 12).reshape(4, 5)], {
    "new mask": ("backward draws a mask of its own",
                 dict(mask=lambda keep: np.random.default_rng().random(keep.shape) < KEEP)),
    "no mask": ("the gradient passes where forward dropped", dict(mask=lambda keep: 1.0)),
    "inverted": ("the gradient passes only where forward dropped", dict(mask=lambda keep: ~keep)),
    "no scale": ("1 / (1 - p) is missing", dict(scale=1.0)),
    "scale twice": ("1 / (1 - p) is applied twice", dict(scale=1 / KEEP**2)),
}, constants=("keep",))
