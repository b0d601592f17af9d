"""Mistakes in elementwise functions."""
from types import SimpleNamespace as Values

import numpy as np

from .base import FUNCTIONS, elementwise, family, normal, positive, replaced, same


def both_sides(r):
    """Numbers on both sides of every kink: on one side, some of the mistakes change nothing."""
    return [(r.permuted(np.linspace(-2, 2, 12)) + 0.1 * r.normal(size=12)).reshape(3, 4)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def upstream_mistakes(slope):
    """Mistakes with dout, whatever the function: parts of `elementwise`."""
    return {
        "no upstream": (f"dout is not used: the chain rule multiplies {slope} by it", dict(upstream=np.ones_like)),
        "upstream squared": ("multiplied by dout twice; the chain rule does it once", dict(upstream=lambda dout: dout**2)),
        "upstream added": (f"dout is added to {slope}; the chain rule multiplies", dict(combine=np.add)),
        "divided": (f"dout is divided by {slope} instead of multiplied by it", dict(combine=np.divide)),
        "sign": ("dx has the wrong sign", dict(finish=lambda dx: -dx)),
        "twice": ("dx is twice too large", dict(finish=lambda dx: 2 * dx)),
        "halved": ("dx is half as large as it should be", dict(finish=lambda dx: dx / 2)),
    }


elementwise("relu", lambda x: np.maximum(x, 0), lambda x, out: x > 0, {
    "passes everything": ("the upstream passes where x is negative too", lambda x, out: 1.0),
    "passes the negative": ("the comparison is the wrong way round", lambda x, out: x < 0),
    "leaks": ("leaky_relu's gradient", lambda x, out: np.where(x > 0, 1, 0.01)),
    "multiplies by out": ("out instead of its sign", lambda x, out: out),
}, both_sides)
elementwise("abs", np.abs, lambda x, out: np.sign(x), {
    "no sign": ("the gradient of x", lambda x, out: 1.0),
    "multiplies by x": ("x instead of its sign", lambda x, out: x),
}, both_sides)
elementwise("tanh", np.tanh, lambda x, out: 1 - out**2, {
    **upstream_mistakes("1 - out^2"),
    "of x": ("1 - x^2: the input replaces the output, 1 - tanh(x)^2", lambda x, out: 1 - x**2),
    "no square": ("1 - out: the square is missing", lambda x, out: 1 - out),
    "plus": ("1 + out^2: it should be 1 - out^2; with the plus it is the derivative of tan", lambda x, out: 1 + out**2),
    "again": ("1 - tanh(out)^2: tanh of what is a tanh already", lambda x, out: 1 - np.tanh(out) ** 2),
    "square alone": ("out^2: it should be 1 - out^2", lambda x, out: out**2),
    "cube": ("1 - out^3: the exponent is 2", lambda x, out: 1 - out**3),
    "square of all": ("(1 - out)^2: only out is squared, 1 - out^2", lambda x, out: (1 - out) ** 2),
    "square derived": ("1 - 2 out: out^2 has been differentiated once more", lambda x, out: 1 - 2 * out),
    "second derivative": ("-2 out (1 - out^2) is the second derivative", lambda x, out: -2 * out * (1 - out**2)),
    "output": ("tanh itself replaces its derivative", lambda x, out: out),
    "input": ("x replaces the derivative", lambda x, out: x),
    "times x": ("multiplied by x as well: the derivative is 1 - out^2 alone", lambda x, out: x * (1 - out**2)),
    "times out": ("multiplied by out as well: the derivative is 1 - out^2 alone", lambda x, out: out * (1 - out**2)),
    "sigmoid's": ("out (1 - out) is the form of sigmoid's derivative; tanh's is 1 - out^2", lambda x, out: out * (1 - out)),
    "of sigmoid": ("the derivative of sigmoid replaces that of tanh", lambda x, out: sigmoid(x) * (1 - sigmoid(x))),
    "relu's": ("the derivative of relu replaces that of tanh", lambda x, out: x > 0),
    "tan's": ("1 / cos(x)^2 is the derivative of tan; tanh's has cosh", lambda x, out: 1 / np.cos(x) ** 2),
    "arctan's": ("1 / (1 + x^2) is the derivative of arctan", lambda x, out: 1 / (1 + x**2)),
    "artanh's": ("1 / (1 - x^2) is the derivative of the inverse function", lambda x, out: 1 / (1 - x**2)),
    "cosh not squared": ("1 / cosh(x), the root of 1 - out^2, replaces 1 / cosh(x)^2: the square is missing",
                         lambda x, out: 1 / np.cosh(x)),
    "cosh": ("cosh(x)^2: it should be 1 / cosh(x)^2", lambda x, out: np.cosh(x) ** 2),
    "sinh": ("1 / sinh(x)^2: it should be 1 / cosh(x)^2", lambda x, out: 1 / np.sinh(x) ** 2),
    "square inside": ("1 - tanh(x^2): tanh is squared, not x", dict(value=lambda x: np.sqrt(np.tanh(x**2)))),
    "sigmoid of 2 x": ("1 - sigmoid(2 x)^2: tanh(x) is 2 sigmoid(2 x) - 1", dict(value=lambda x: sigmoid(2 * x))),
    "sigmoid for tanh": ("1 - sigmoid(x)^2: sigmoid replaces tanh", dict(value=sigmoid)),
    "half the argument": ("2 sigmoid(x) - 1 is tanh(x / 2); tanh(x) is 2 sigmoid(2 x) - 1",
                          dict(value=lambda x: np.tanh(x / 2))),
    "tan for tanh": ("1 - tan(x)^2: tan replaces tanh", dict(value=np.tan)),
    "sinh for tanh": ("1 - sinh(x)^2: sinh replaces tanh", dict(value=np.sinh)),
    "brackets": ("dout * 1 - out^2: brackets are missing around 1 - out^2",
                 dict(combine=lambda dout, slope: dout - (1 - slope))),
    "brackets, dout behind": ("1 - out^2 * dout: brackets are missing around 1 - out^2",
                              dict(combine=lambda dout, slope: 1 - (1 - slope) * dout)),
    "dout squared with out": ("1 - (dout * out)^2: dout multiplies the derivative, not tanh",
                              dict(combine=lambda dout, slope: 1 - dout**2 * (1 - slope))),
    "at dout": ("the derivative is taken at dout instead of x",
                dict(combine=lambda dout, slope: (1 - np.tanh(dout) ** 2) * dout)),
})
elementwise("sigmoid", sigmoid, lambda x, out: out * (1 - out), {
    "of x": ("x (1 - x), the input for the output", lambda x, out: x * (1 - x)),
    "half": ("only out", lambda x, out: out),
    "other half": ("only 1 - out", lambda x, out: 1 - out),
    "tanh's": ("1 - out^2", lambda x, out: 1 - out**2),
    "sign": ("the sign is wrong", lambda x, out: out * (out - 1)),
})
elementwise("silu", lambda x: x * sigmoid(x), lambda x, out: sigmoid(x) * (1 + x * (1 - sigmoid(x))), {
    **upstream_mistakes("the slope"),
    "gate is constant": ("the term through the sigmoid is missing: x sigmoid(x) (1 - sigmoid(x))",
                         lambda x, out: sigmoid(x)),
    "only the gate": ("the term of the factor x is missing: sigmoid(x)", lambda x, out: x * sigmoid(x) * (1 - sigmoid(x))),
    "no x": ("x is missing in the term through the sigmoid", lambda x, out: sigmoid(x) * (2 - sigmoid(x))),
    "sigmoid's": ("the derivative of sigmoid replaces that of x sigmoid(x)", lambda x, out: sigmoid(x) * (1 - sigmoid(x))),
    "out": ("silu itself replaces its derivative", lambda x, out: out),
    "subtracted": ("the term through the sigmoid is subtracted: it is added",
                   lambda x, out: sigmoid(x) * (1 - x * (1 - sigmoid(x)))),
    "of out": ("1 - out replaces 1 - sigmoid(x)", lambda x, out: sigmoid(x) * (1 + x * (1 - out))),
    "square": ("sigmoid(x)^2 is missing in sigmoid's derivative: sigmoid(x) (1 - sigmoid(x))",
               lambda x, out: sigmoid(x) * (1 + x)),
})
elementwise("softplus", lambda x: np.log1p(np.exp(x)), lambda x, out: sigmoid(x), {
    "of out": ("sigmoid of the output", lambda x, out: sigmoid(out)),
})
elementwise("exp", np.exp, lambda x, out: out, {
    "power rule": ("x e^(x-1)", lambda x, out: x * np.exp(x - 1)),
    "of out": ("e^out", lambda x, out: np.exp(out)),
})
elementwise("log", np.log, lambda x, out: 1 / x, {
    "of out": ("1 / out", lambda x, out: 1 / out),
    "base 2": ("the gradient of log2", lambda x, out: 1 / (x * np.log(2))),
    "eps": ("1 / (x + 1e-5), for safety", lambda x, out: 1 / (x + 1e-5)),
}, positive((3, 4)))
elementwise("sqrt", np.sqrt, lambda x, out: 0.5 / out, {
    "no half": ("1 / out", lambda x, out: 1 / out),
    "of x": ("1 / (2 x)", lambda x, out: 0.5 / x),
    "upside down": ("out / 2", lambda x, out: 0.5 * out),
}, positive((3, 4)))
elementwise("rsqrt", lambda x: x**-0.5, lambda x, out: -0.5 * out**3, {
    "sign": ("the sign is wrong", lambda x, out: 0.5 * out**3),
    "of 1/x": ("out^2 for out^3", lambda x, out: -0.5 * out**2),
}, positive((3, 4)))
elementwise("cube", lambda x: x**3, lambda x, out: 3 * x**2, {
    "exponent stays": ("3 x^3", lambda x, out: 3 * x**3),
    "no factor": ("x^2", lambda x, out: x**2),
    "factor lowered": ("2 x^2", lambda x, out: 2 * x**2),
})
elementwise("cos", np.cos, lambda x, out: -np.sin(x), {"sign": ("sin x", lambda x, out: np.sin(x))})
elementwise("clamp", lambda x: np.clip(x, -0.5, 0.8), lambda x, out: (x > -0.5) & (x < 0.8), {
    "passes outside": ("the upstream passes outside of the limits too", lambda x, out: 1.0),
    "one limit": ("only the upper limit counts", lambda x, out: x < 0.8),
}, both_sides)


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

DROPPED = 0.4


def dropout_backward(
    dout, x, keep, *, p=DROPPED, upstream=lambda dout, x: dout, passes=lambda keep, x: keep,
    scale=lambda p, keep: 1 / (1 - p), finish=same,
):
    return finish(upstream(dout, x) * passes(keep, x) * scale(p, keep)), None


family("dropout", lambda x, keep, p=DROPPED: x * keep / (1 - p), dropout_backward,
       lambda r: [r.normal(size=(4, 5)), r.permuted(np.arange(20) < 11).reshape(4, 5)], {
    **replaced("passes", {
        "new mask": ("backward draws a mask of its own; it should be forward's",
                     lambda keep, x: np.random.default_rng().random(keep.shape) < 1 - DROPPED),
        "no mask": ("the mask is missing: no gradient passes where forward dropped", lambda keep, x: 1.0),
        "inverted": ("the mask is the wrong way round: True keeps, so the gradient passes there", lambda keep, x: ~keep),
        "relu's mask": ("the gradient passes where x is positive; it passes where the mask keeps", lambda keep, x: x > 0),
        "mask and relu": ("the gradient passes where the mask keeps and x is positive; the sign of x plays no part",
                          lambda keep, x: keep & (x > 0)),
    }),
    **replaced("scale", {
        "no scale": ("1 / (1 - p) is missing: forward has scaled what it kept", lambda p, keep: 1.0),
        "scale twice": ("1 / (1 - p) is applied twice", lambda p, keep: 1 / (1 - p) ** 2),
        "multiplied": ("multiplied by 1 - p instead of divided by it", lambda p, keep: 1 - p),
        "p for 1 - p": ("divided by p, the share that is dropped; it should be 1 - p, the share that is kept",
                        lambda p, keep: np.divide(1, p)),
        "times p": ("multiplied by p; it should be divided by 1 - p", lambda p, keep: p),
        "1 + p": ("divided by 1 + p; it should be 1 - p", lambda p, keep: 1 / (1 + p)),
        "times 1 + p": ("multiplied by 1 + p; it should be divided by 1 - p", lambda p, keep: 1 + p),
        "counted": ("divided by the share that the mask happens to keep; it should be 1 - p",
                    lambda p, keep: 1 / keep.mean()),
        "root": ("divided by the root of 1 - p", lambda p, keep: (1 - p) ** -0.5),
    }),
    **replaced("upstream", {
        "no upstream": ("dout is not used: mask / (1 - p) should be multiplied by it", lambda dout, x: np.ones_like(dout)),
        "forward": ("x replaces dout: this is forward's output", lambda dout, x: x),
        "times x": ("multiplied by x as well: the derivative of x * mask / (1 - p) has no x", lambda dout, x: dout * x),
        "upstream squared": ("multiplied by dout twice; the chain rule does it once", lambda dout, x: dout**2),
    }),
    "sign": ("dx has the wrong sign", dict(finish=lambda dx: -dx)),
    "zero": ("dx is zero", dict(finish=lambda dx: 0 * dx)),
    "identity": ("dx is dout itself: neither the mask nor 1 / (1 - p) is there",
                 dict(passes=lambda keep, x: 1.0, scale=lambda p, keep: 1.0)),
    "inverted and p": ("the mask is the wrong way round, and p replaces 1 - p: True keeps, and p is the share that is "
                       "dropped", dict(passes=lambda keep, x: ~keep, scale=lambda p, keep: np.divide(1, p))),
    "dropped passes": ("what was dropped passes too, without 1 / (1 - p); no gradient passes there",
                       dict(passes=lambda keep, x: 1.0, scale=lambda p, keep: np.where(keep, 1 / (1 - p), 1.0))),
}, constants=("keep",))


def swiglu(x, gate):
    return x * FUNCTIONS["silu"].forward(gate)


def swiglu_backward(
    dout, x, gate, *, upstream=same, for_x=lambda h: h.dout * h.out, for_gate=lambda h: h.dout * h.x * h.slope,
    order=lambda dx, dgate: (dx, dgate),
):
    h = Values(dout=upstream(dout), x=x, gate=gate)
    h.out, h.slope = FUNCTIONS["silu"].forward(gate), FUNCTIONS["silu"].backward(np.ones_like(gate), gate)
    return order(for_x(h), for_gate(h))


family("swiglu", swiglu, swiglu_backward, normal((3, 4), (3, 4)), {
    "no activation in dx": ("dx is dout * gate: the other factor is the gate after its activation",
                            dict(for_x=lambda h: h.dout * h.gate)),
    "sigmoid in dx": ("dx is dout * sigmoid(gate): the other factor is gate * sigmoid(gate)",
                      dict(for_x=lambda h: h.dout * sigmoid(h.gate))),
    "dx from x": ("dx is made from x: in a product, the other factor is the gate after its activation",
                  dict(for_x=lambda h: h.dout * h.x)),
    "slope in dx": ("dx has the derivative of the activation, and should have its value",
                    dict(for_x=lambda h: h.dout * h.slope)),
    "no factor in dx": ("dx is dout: it should be multiplied by the gate after its activation",
                        dict(for_x=lambda h: h.dout)),
    "no slope": ("dgate is dout * x: the derivative of the activation is missing", dict(for_gate=lambda h: h.dout * h.x)),
    "no x": ("dgate lacks the factor x: in a product, the other factor stays", dict(for_gate=lambda h: h.dout * h.slope)),
    "value for slope": ("dgate has the value of the activation, and should have its derivative",
                        dict(for_gate=lambda h: h.dout * h.x * h.out)),
    "out in dgate": ("dgate is multiplied by the whole output: the other factor is x",
                     dict(for_gate=lambda h: h.dout * h.x * h.out * h.slope)),
    "sigmoid is constant": ("in silu's derivative, the term through the sigmoid is missing",
                            dict(for_gate=lambda h: h.dout * h.x * sigmoid(h.gate))),
    "sigmoid's slope": ("the derivative of sigmoid replaces that of silu",
                        dict(for_gate=lambda h: h.dout * h.x * sigmoid(h.gate) * (1 - sigmoid(h.gate)))),
    "only the gate": ("in silu's derivative, the term sigmoid(gate) is missing", dict(
        for_gate=lambda h: h.dout * h.x * h.gate * sigmoid(h.gate) * (1 - sigmoid(h.gate)))),
    "exchanged": ("dx and dgate are exchanged: the gradients come in the order of the arguments",
                  dict(order=lambda dx, dgate: (dgate, dx))),
    "gate is constant": ("dgate is zero: the gate gets a gradient too", dict(order=lambda dx, dgate: (dx, 0 * dgate))),
    "no upstream": ("dout is not used: the chain rule multiplies by it", dict(upstream=np.ones_like)),
    "upstream squared": ("multiplied by dout twice; the chain rule does it once", dict(upstream=lambda dout: dout**2)),
})


def squared_error(x, y):
    return np.asarray(((x - y)**2).mean())


def squared_error_backward(
    dout, x, y, *, upstream=same, slope=lambda e: 2 * e, error=np.subtract, count=lambda e: e.size, sign_y=-1.0,
):
    e = error(x, y)
    dx = upstream(dout) * slope(e) / count(e)
    return dx, sign_y * dx


family("squared_error", squared_error, squared_error_backward, normal((4, 3), (4, 3)), {
    "no 2": ("the factor 2 is missing: the derivative of e^2 is 2 e", dict(slope=lambda e: e)),
    "not differentiated": ("the square itself replaces its derivative 2 e", dict(slope=lambda e: e**2)),
    "sign of the error": ("the sign of the difference replaces it: that is the gradient of |e|", dict(slope=np.sign)),
    "no mean": ("not divided by the number of elements: the loss is a mean", dict(count=lambda e: 1)),
    "mean over rows": ("divided by the length of the first axis: the mean runs over all elements", dict(count=len)),
    "mean within rows": ("divided by the length of the last axis: the mean runs over all elements",
                         dict(count=lambda e: e.shape[-1])),
    "mean twice": ("divided by the number of elements twice", dict(count=lambda e: e.size**2)),
    "sign": ("the difference is the wrong way round", dict(error=lambda x, y: y - x)),
    "no target": ("y is not subtracted: 2 x replaces 2 (x - y)", dict(error=lambda x, y: x)),
    "target's sign": ("dy has the sign of dx: y is subtracted", dict(sign_y=1.0)),
    "target is constant": ("dy is zero: y gets a gradient too", dict(sign_y=0.0)),
    "no upstream": ("dout is not used: the loss may be followed by more, and then dout is not 1",
                    dict(upstream=np.ones_like)),
    "upstream squared": ("multiplied by dout twice; the chain rule does it once", dict(upstream=lambda dout: dout**2)),
})
